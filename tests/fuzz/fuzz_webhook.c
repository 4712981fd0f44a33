/* Headers of an HTTP hook, with (after the first NUL) the variable that they may contain: rejected, or lines of one
 * header each. */

#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "supervisor/webhook/webhook.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *value;

static const char *variable(const char *name)
{
	if (strcmp(name, "TOKEN") != 0)
		abort(); /* no other variable may be requested */
	return value;
}

static void check(void *ctx, const char *line)
{
	if (strpbrk(line, "\r\n") || !strpbrk(line, ":;"))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	mem_auto char *text = mem_strndup((const char *)data, size);
	size_t n = strlen(text);
	mem_auto char *rest = n < size ? mem_strndup((const char *)data + n + 1, size - n - 1) : NULL;
	struct err e = ERR_INIT;

	value = rest;
	(void)webhook_headers(text, "TOKEN,", variable, check, NULL, &e);
	value = NULL;
	return 0;
}
