/* HTTP from a sandbox to the proxy: the head, its forwarded form, and the end of the body. */

#include "runtime/base/buf.h"
#include "supervisor/proxy/http_head.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The forwarded head must parse as the same request. */
static void forwarded(const char *p, const struct http_head *h)
{
	struct http_head again;
	const char *why = "";
	buf_auto struct buf out = BUF_INIT;

	if (!h->has_host)
		return; /* one is added, which may be one too many */
	http_head_forward(p, h, false, NULL, &out);
	if (http_head_parse(out.data, out.len, &again, &why) != PARSED_OK || again.form != HTTP_ORIGIN ||
	    again.body != h->body || again.length != h->length || again.len != out.len ||
	    strcmp(again.host.host, h->host.host) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *p = malloc(size ? size : 1); /* just as long: nothing beyond may be read */
	const char *why = "";
	struct http_head h;

	if (!p)
		abort();
	memcpy(p, data, size);
	if (http_head_parse(p, size, &h, &why) == PARSED_OK) {
		struct http_body whole, single;
		if (h.len > size || (h.form != HTTP_ORIGIN && !h.target.port))
			abort();
		if (h.form != HTTP_CONNECT)
			forwarded(p, &h);
		http_body_begin(&whole, &h);
		size_t n = http_body_take(&whole, p + h.len, size - h.len), k = 0;
		http_body_begin(&single, &h);
		while (h.len + k < size && !single.done && !single.bad)
			k += http_body_take(&single, p + h.len + k, 1);
		if (n != k || whole.done != single.done || whole.bad != single.bad)
			abort();
	}
	free(p);
	return 0;
}
