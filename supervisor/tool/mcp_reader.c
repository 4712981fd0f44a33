#include "supervisor/tool/mcp_reader.h"

#include "runtime/base/err.h"
#include "runtime/base/text.h"

#include <string.h>

#define SHOWN 80

void mcp_reader_feed(struct mcp_reader *r, const void *p, size_t n) { buf_append(&r->bytes, p, n); }

void mcp_reader_done(struct mcp_reader *r) { buf_done(&r->bytes); }

static int parse(const char *line, size_t n, struct mcp_message *ret, struct err *e)
{
	struct jval v = jval_of(line, n);
	buf_auto struct buf shown = BUF_INIT;

	*ret = (struct mcp_message){ .id = jval_get(v, "id"),
				     .method = jval_get(v, "method"),
				     .result = jval_get(v, "result"),
				     .error = jval_get(v, "error") };
	const bool id = ret->id.type == JT_NUMBER || ret->id.type == JT_STRING;
	if (v.type == JT_OBJECT && text_utf8_valid(line, n) && jval_is_str(jval_get(v, "jsonrpc"), "2.0")) {
		if (ret->method.type == JT_STRING)
			ret->kind = id ? MCP_REQUEST : MCP_NOTIFICATION;
		else if (id && (ret->result.type == JT_OBJECT) != (ret->error.type == JT_OBJECT))
			ret->kind = MCP_RESPONSE;
	}
	if (ret->kind != MCP_NONE)
		return 1;
	text_sanitize_line(line, n < SHOWN ? n : text_utf8_cut(line, SHOWN), &shown);
	return err_set(e, ERR_UNAVAILABLE, "the server wrote a line that is not a JSON-RPC message: %s",
		       buf_cstr(&shown));
}

int mcp_reader_next(struct mcp_reader *r, struct mcp_message *ret, struct err *e)
{
	buf_consume(&r->bytes, r->taken);
	r->taken = 0;
	for (;;) {
		char *end = r->bytes.len > r->searched
				    ? memchr(r->bytes.data + r->searched, '\n', r->bytes.len - r->searched)
				    : NULL;
		size_t n = end ? (size_t)(end - r->bytes.data) : r->bytes.len;

		if (n > MCP_LINE_MAX)
			return err_set(e, ERR_EXHAUSTED, "the server wrote a message of more than %u bytes",
				       MCP_LINE_MAX);
		r->searched = end ? 0 : n;
		if (!end)
			return 0;
		if (n > 0 && !(n == 1 && r->bytes.data[0] == '\r')) {
			r->taken = n + 1;
			return parse(r->bytes.data, n, ret, e);
		}
		buf_consume(&r->bytes, n + 1);
	}
}
