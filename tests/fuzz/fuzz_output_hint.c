/* Output of commands that may mention denials: any bytes. */

#include "sandbox/output_hint.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_hint(void *ctx, const struct output_hint *h)
{
	if (!h->kind || !h->operation || h->npaths > OUTPUT_HINT_PATHS || h->port < -1 || h->port > 65535)
		abort();
	if (strcmp(h->kind, "filesystem") == 0 && (!h->npaths || !h->paths[0][0]))
		abort();
	if (strlen(h->line) >= sizeof h->line || strlen(h->host) >= sizeof h->host ||
	    strlen(h->address) >= sizeof h->address)
		abort();
	for (const char *p = h->line; *p; p++)
		if ((unsigned char)*p < ' ')
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	output_hints((const char *)data, size, on_hint, NULL);
	return 0;
}
