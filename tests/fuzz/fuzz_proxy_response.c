/* Responses of servers through the proxy: heads, and their forwarded form. */

#include "runtime/base/buf.h"
#include "supervisor/proxy/http_head.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The forwarded form must be a head of the same kind, and forwarding it again must not change it. */
static void forwarded(const char *p, size_t len, bool interim)
{
	buf_auto struct buf once = BUF_INIT, twice = BUF_INIT;
	size_t again = 0;
	bool same = false;

	http_response_forward(p, len, &once);
	if (http_response_parse(once.data, once.len, &again, &same) != PARSED_OK || again != once.len ||
	    same != interim)
		abort();
	http_response_forward(once.data, once.len, &twice);
	if (twice.len != once.len || memcmp(twice.data, once.data, once.len) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *p = malloc(size ? size : 1); /* just as long: nothing beyond may be read */
	bool interim = true;
	size_t at = 0, len = 0;

	if (!p)
		abort();
	memcpy(p, data, size);
	while (interim && http_response_parse(p + at, size - at, &len, &interim) == PARSED_OK) {
		if (len == 0 || len > size - at)
			abort();
		if (len < 16 * 1024) /* a longer one may pass the bound */
			forwarded(p + at, len, interim);
		at += len;
	}
	free(p);
	return 0;
}
