/*
 * The dialects as a filter, for tests that speak HTTP themselves: reads one JSON object per line and writes one for
 * each.
 *
 *   {"encode": DIALECT, "model", "identity", "items", "tools"?, "instructions"?, "baseUrl"?, "effort"?, "cacheKey"?,
 *    "maxOutputTokens"?, "noTools"?}                    → {"url","headers","keyHeader","keyPrefix","body"} or {"error"}
 *   {"decode": DIALECT, "status", "headers", "body": base64, "piece"?}
 *        → {"complete","stop","blocks","partialText"?,"usage","failure"?,"limits"?,"requestId","sink"}
 */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/dialect/dialect.h"

#include <stdio.h>
#include <string.h>

static void add_text(void *ctx, const char *s, size_t n) { buf_append(ctx, s, n); }

static json_t *encode(enum dialect d, const json_t *in)
{
	const struct dialect_request r = { .base_url = json_get_string(in, "baseUrl"),
					   .model = json_get_string(in, "model"),
					   .identity = json_get_string(in, "identity"),
					   .instructions = json_get_string(in, "instructions"),
					   .tools = json_object_get(in, "tools"),
					   .items = json_object_get(in, "items"),
					   .max_output_tokens = json_get_uint(in, "maxOutputTokens"),
					   .cache_key = json_get_string(in, "cacheKey"),
					   .effort = json_get_string(in, "effort"),
					   .no_tools = json_get_flag(in, "noTools") };
	struct dialect_http http;
	struct err e = ERR_INIT;

	if (dialect_encode(d, &r, &http, &e) < 0)
		return json_pack("{s:s, s:s}", "error", e.message, "field", e.field);
	json_t *out = json_pack("{s:s, s:O, s:s, s:s, s:s}", "url", http.url, "headers", http.headers, "keyHeader",
				http.key_header, "keyPrefix", http.key_prefix, "body", http.body);
	dialect_http_done(&http);
	return out;
}

static json_t *describe(const struct dialect_answer *a, const struct buf *sink)
{
	const struct dialect_usage *u = &a->usage;
	json_t *out = json_pack("{s:b, s:s, s:s, s:O, s:s, s:s}", "complete", a->complete, "stop",
				dialect_stop_name(a->stop), "nativeStop", a->native_stop, "blocks", a->blocks,
				"requestId", a->request_id, "sink", buf_cstr(sink));

	json_object_set_new(out, "usage",
			    json_pack("{s:I, s:I, s:I, s:I, s:I, s:b, s:b, s:f}", "input", (json_int_t)u->input,
				      "output", (json_int_t)u->output, "cached", (json_int_t)u->cached, "written",
				      (json_int_t)u->cache_write, "reasoning", (json_int_t)u->reasoning, "known",
				      u->known, "estimated", u->estimated, "costUsd", u->cost_usd));
	if (a->partial_text)
		json_object_set_new(out, "partialText", json_string(a->partial_text));
	if (a->limits)
		json_object_set(out, "limits", a->limits);
	if (a->failure.category[0])
		json_object_set_new(out, "failure",
				    json_pack("{s:s, s:s, s:s, s:b, s:I}", "category", a->failure.category, "message",
					      a->failure.message, "code", a->failure.code, "retryable",
					      a->failure.retryable, "retryAfterMs",
					      (json_int_t)a->failure.retry_after_ms));
	return out;
}

static json_t *decode(enum dialect d, const json_t *in)
{
	static const struct dialect_sink SINK = { .text = add_text };
	buf_auto struct buf body = BUF_INIT, sink = BUF_INIT;
	const char *base64 = json_get_text(in, "body");
	size_t piece = json_get_uint(in, "piece");
	struct dialect_answer a;

	if (text_base64_decode(base64, strlen(base64), &body) < 0)
		return json_pack("{s:s}", "error", "body is not base64");
	struct dialect_decoder *x = dialect_decoder_new(d, &SINK, &sink);
	if (json_get_uint(in, "status"))
		dialect_decoder_head(x, (int)json_get_uint(in, "status"), json_object_get(in, "headers"));
	for (size_t at = 0, n; at < body.len; at += n) {
		n = piece && piece < body.len - at ? piece : body.len - at;
		dialect_decoder_feed(x, body.data + at, n);
	}
	dialect_decoder_finish(x, &a);
	dialect_decoder_free(x);
	json_t *out = describe(&a, &sink);
	dialect_answer_done(&a);
	return out;
}

int main(void)
{
	mem_auto char *line = NULL;
	size_t cap = 0;

	while (getline(&line, &cap, stdin) > 0) {
		json_auto_t *in = json_loads(line, 0, NULL);
		const char *name = json_get_string(in, "encode");
		int d = dialect_find(name ? name : json_get_string(in, "decode"));
		json_auto_t *out = d < 0  ? json_pack("{s:s}", "error", "unknown dialect")
				   : name ? encode((enum dialect)d, in)
					  : decode((enum dialect)d, in);
		if (!out || json_dumpf(out, stdout, JSON_COMPACT) < 0 || fputc('\n', stdout) == EOF ||
		    fflush(stdout) != 0)
			return 1;
	}
	return 0;
}
