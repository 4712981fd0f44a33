/*
 * What a client of `bailiff serve` sends: head, body in chunks or not, Host, Origin and token, MCP's headers against
 * the body, and the id that a stream is resumed after. In pieces and whole, the result must be the same.
 */

#include "runtime/base/buf.h"
#include "supervisor/gateway/http/http_access.h"
#include "supervisor/gateway/http/http_request.h"
#include "supervisor/gateway/http/http_tokens.h"
#include "supervisor/gateway/http/mcp_headers.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BODY_MAX 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum http_request_state feed(struct http_request *r, const char *p, size_t n, size_t step, size_t *used)
{
	enum http_request_state s = HTTP_REQUEST_MORE;

	http_request_init(r, BODY_MAX);
	for (*used = 0; *used < n && s == HTTP_REQUEST_MORE;) {
		size_t k = 0, part = step < n - *used ? step : n - *used;
		char *copy = malloc(part); /* just as long: nothing beyond may be read */
		if (!copy)
			abort();
		memcpy(copy, p + *used, part);
		s = http_request_feed(r, copy, part, &k);
		free(copy);
		if (k > part || (s == HTTP_REQUEST_MORE && k != part))
			abort();
		*used += k;
	}
	return s;
}

static void read_nested(const struct http_request *r)
{
	static const char schema_text[] =
		"{\"properties\":{\"a\":{\"x-mcp-header\":\"A\"},\"b\":{\"x-mcp-header\":\"B\"}}}";
	struct http_token token = { .text = (char[]){ "0123456789abcdef" } };
	struct http_access access = { .tokens = &token, .ntokens = 1 };
	const struct http_token *who = NULL;
	struct http_refusal no = { 0 };
	buf_auto struct buf v = BUF_INIT;
	uint64_t stream, number;
	char why[MCP_WHY_MAX];

	/* A request that is accepted has the token. */
	if (http_access_allows(&access, r, &who, &no)
		    ? who != &token || !memmem(r->head.data, r->head.len, token.text, strlen(token.text))
		    : !no.status || !no.why)
		abort();
	if (http_request_header(r, "Last-Event-ID", &v) && mcp_event_id_parse(buf_cstr(&v), &stream, &number)) {
		char id[MCP_EVENT_ID_MAX];
		uint64_t s2, n2;
		mcp_event_id_format(stream, number, id);
		if (!mcp_event_id_parse(id, &s2, &n2) || s2 != stream || n2 != number)
			abort();
	}
	http_request_lists(r, "Accept", "text/event-stream");
	http_request_wants_close(r);
	mcp_headers_legacy_version(r);
	json_auto_t *schema = json_loads(schema_text, 0, NULL);
	json_auto_t *message = json_loadb(r->body.data ? r->body.data : "", r->body.len, JSON_REJECT_DUPLICATES, NULL);
	mcp_headers_envelope(r, message);
	mcp_headers_agree(r, message, schema, why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http_request whole, pieces;
	size_t n, k;
	enum http_request_state a = feed(&whole, (const char *)data, size, size ? size : 1, &n);
	enum http_request_state b = feed(&pieces, (const char *)data, size, 7, &k);

	/* An invalid request may be detected earlier or later, depending on the pieces. */
	if ((a == HTTP_REQUEST_DONE) != (b == HTTP_REQUEST_DONE) ||
	    (a == HTTP_REQUEST_DONE &&
	     (n != k || whole.body.len != pieces.body.len || strcmp(whole.path, pieces.path) != 0)))
		abort();
	if (a == HTTP_REQUEST_DONE)
		read_nested(&whole);
	if (a == HTTP_REQUEST_BAD && (whole.status < 400 || !whole.why))
		abort();
	http_request_done(&whole);
	http_request_done(&pieces);
	return 0;
}
