/* The first message of a TLS client, as the proxy reads it. */

#include "supervisor/proxy/client_hello.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *p = malloc(size ? size : 1); /* just as long: nothing beyond may be read */
	struct client_hello h;

	if (!p)
		abort();
	memcpy(p, data, size);
	if (client_hello_parse(p, size, &h) == PARSED_OK) {
		char name[HOST_NAME_MAX_LEN + 1];
		if (h.name[0] && (!host_name_clean(h.name, strlen(h.name), name) || strcmp(name, h.name) != 0))
			abort();
		/* Bytes after it do not change the result. */
		struct client_hello again;
		uint8_t *more = malloc(size + 3);
		if (!more)
			abort();
		memcpy(more, data, size);
		memset(more + size, 0xff, 3);
		if (client_hello_parse(more, size + 3, &again) != PARSED_OK || strcmp(again.name, h.name) != 0)
			abort();
		free(more);
	}
	free(p);
	return 0;
}
