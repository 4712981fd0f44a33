#include "supervisor/common/earlier_use.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static char *add_text(char *to, const char *text)
{
	size_t n = strlen(text);
	memcpy(to, text, n);
	return to + n;
}

static char *add_number(char *to, uint64_t n)
{
	char digits[20], *p = digits + sizeof digits;
	do
		*--p = (char)('0' + n % 10);
	while (n /= 10);
	size_t len = (size_t)(digits + sizeof digits - p);
	memcpy(to, p, len);
	return to + len;
}

/* Each command of an init or leader pays for this: without snprintf it takes a sixth of the time. */
void earlier_use_format(const struct earlier_use *u, const char *role, char ret_title[EARLIER_USE_MAX])
{
	char *p = add_text(ret_title, "bailiffd: ");
	size_t n = strnlen(role, 16);
	memcpy(p, role, n);
	p = add_text(p + n, " (earlier: cpu ");
	p = add_number(p, u->cpu_us);
	p = add_text(p, " us, read ");
	p = add_number(p, u->read_bytes);
	p = add_text(p, ", written ");
	p = add_number(p, u->write_bytes);
	memcpy(p, ")", 2);
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
