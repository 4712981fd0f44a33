#include "supervisor/otlp/env_setting.h"

#include "runtime/base/err.h"

#include <errno.h>
#include <stdlib.h>

int env_setting_ms(const char *variable, uint64_t otherwise, uint64_t most, uint64_t *ret, struct err *e)
{
	const char *text = getenv(variable);
	char *end;

	if (!text || !text[0]) {
		*ret = otherwise;
		return 0;
	}
	errno = 0;
	uint64_t n = text[0] >= '0' && text[0] <= '9' ? strtoull(text, &end, 10) : 0;
	if (!n || *end || errno || n > most)
		return err_set(e, ERR_INVALID, "%s: '%.50s' is not a number of milliseconds from 1 to %llu", variable,
			       text, (unsigned long long)most);
	*ret = n;
	return 0;
}
