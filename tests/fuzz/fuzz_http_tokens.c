/* The file with the tokens of HTTP clients: whatever is in it, each token has a text that a header can carry, and a
 * name of its own. */

#include "runtime/base/err.h"
#include "supervisor/gateway/http/http_tokens.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http_tokens *t = NULL;
	struct err e = ERR_INIT;
	size_t n;

	if (http_tokens_parse((const char *)data, size, &t, &e) < 0) {
		if (!e.message[0])
			abort();
		return 0;
	}
	const struct http_token *all = http_tokens_all(t, &n);
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(all[i].text);

		if (len < HTTP_TOKEN_MIN || len > HTTP_TOKEN_MAX || strpbrk(all[i].text, " \t\r\n") ||
		    !memmem(data, size, all[i].text, len))
			abort();
		if ((all[i].name[0] && !http_tokens_is_name(all[i].name)) ||
		    http_tokens_named(t, all[i].name) != &all[i])
			abort();
	}
	http_tokens_free(t);
	return 0;
}
