#include "supervisor/common/earlier_use.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void earlier_use_format(const struct earlier_use *u, const char *role, char ret_title[EARLIER_USE_MAX])
{
	snprintf(ret_title, EARLIER_USE_MAX,
		 "bailiffd: %.16s (earlier: cpu %" PRIu64 " us, read %" PRIu64 ", written %" PRIu64 ")", role,
		 u->cpu_us, u->read_bytes, u->write_bytes);
}

struct earlier_use earlier_use_parse(const char *title, size_t len)
{
	struct earlier_use u = { 0 };
	char text[EARLIER_USE_MAX], end = 0;
	size_t n = strnlen(title, len < sizeof text ? len : sizeof text - 1);
	memcpy(text, title, n);
	text[n] = 0;
	const char *p = strchr(text, '(');
	if (!p ||
	    sscanf(p, "(earlier: cpu %" SCNu64 " us, read %" SCNu64 ", written %" SCNu64 "%c", &u.cpu_us, &u.read_bytes,
		   &u.write_bytes, &end) != 4 ||
	    end != ')')
		return (struct earlier_use){ 0 };
	return u;
}
