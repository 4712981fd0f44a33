#ifndef BAILIFF_TESTS_DIALECT_RIG_H
#define BAILIFF_TESTS_DIALECT_RIG_H

/*
 * Decodes invented streams. rig_decode feeds the body as a whole, byte by byte and in two pieces cut at every position,
 * and checks that the answer is the same each time; it also sends the answer back in a request of the same and of all
 * other dialects and checks that no provider would reject it.
 */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/dialect/dialect.h"
#include "tests/unit/runtime/dialect/pairing.h"
#include "tests/unit/suite.h"

#include <string.h>

#define RIG_IDENTITY "acme/model-1"

/* Several strings as one (static); the list ends with NULL. */
static inline const char *rig_join(const char *before, const char *between, const char *const *strings,
				   const char *after)
{
	static struct buf joined;

	buf_reset(&joined);
	buf_str(&joined, before);
	for (const char *const *s = strings; *s; s++)
		buf_printf(&joined, "%s%s", s > strings ? between : "", *s);
	buf_str(&joined, after);
	return joined.data;
}

#define STREAM(...) rig_join("", "", (const char *const[]){ __VA_ARGS__, NULL }, "")
#define ITEMS(...) rig_join("[", ",", (const char *const[]){ __VA_ARGS__, NULL }, "]")

static void rig_text(void *ctx, const char *s, size_t n) { buf_append(ctx, s, n); }

static void rig_reasoning(void *ctx, const char *s, size_t n) { buf_printf(ctx, "<%.*s>", (int)n, s); }

static void rig_call(void *ctx, const char *name) { buf_printf(ctx, "{%s}", name); }

/* Feeds n bytes in two pieces (cut < n), in one (cut = n) or byte by byte (cut > n). */
static inline void rig_feed(enum dialect d, int status, const json_t *headers, const char *body, size_t cut,
			    struct buf *ret_sink, struct dialect_answer *ret)
{
	static const struct dialect_sink SINK = { rig_text, rig_reasoning, rig_call };
	struct dialect_decoder *x = dialect_decoder_new(d, &SINK, ret_sink);
	size_t n = strlen(body);

	if (status)
		dialect_decoder_head(x, status, headers);
	for (size_t i = 0; cut > n && i < n; i++)
		dialect_decoder_feed(x, body + i, 1);
	if (cut <= n) {
		dialect_decoder_feed(x, body, cut);
		dialect_decoder_feed(x, body + cut, n - cut);
	}
	dialect_decoder_finish(x, ret);
	dialect_decoder_free(x);
}

static inline char *rig_describe(const struct dialect_answer *a, const struct buf *sink)
{
	mem_auto char *blocks = json_dumps(a->blocks, JSON_COMPACT);
	const struct dialect_usage *u = &a->usage;

	return mem_printf("%d %s %s %s partial=%s usage=%lu/%lu/%lu/%lu/%lu %d%d %g failure=%s/%s/%s/%d/%lu sink=%s",
			  a->complete, dialect_stop_name(a->stop), a->native_stop, blocks,
			  a->partial_text ? a->partial_text : "-", (unsigned long)u->input, (unsigned long)u->output,
			  (unsigned long)u->cached, (unsigned long)u->cache_write, (unsigned long)u->reasoning,
			  u->known, u->estimated, u->cost_usd, a->failure.category, a->failure.message, a->failure.code,
			  a->failure.retryable, (unsigned long)a->failure.retry_after_ms, buf_cstr(sink));
}

static inline json_t *rig_json(const char *text)
{
	json_error_t error;
	json_t *v = json_loads(text, 0, &error);

	ck_assert_msg(v != NULL, "%s: %s", error.text, text);
	return v;
}

/* The body of a request with these items; checked. */
static inline char *rig_encode(enum dialect d, const char *model, const json_t *items)
{
	json_auto_t *tools = rig_json("[{\"name\":\"shell\",\"description\":\"Runs a command\",\"schema\":{\"type\":"
				      "\"object\",\"properties\":{\"command\":{\"type\":\"string\"}}}}]");
	struct dialect_request r = { .model = model,
				     .identity = RIG_IDENTITY,
				     .instructions = "Be brief.",
				     .tools = tools,
				     .items = items,
				     .cache_key = "thr_1" };
	struct dialect_http http;
	struct err e = ERR_INIT;

	ck_assert_msg(dialect_encode(d, &r, &http, &e) == 0, "%s", e.message);
	const char *problem = pairing_check(d, http.body, http.body_len);
	ck_assert_msg(!problem, "%s: %s in %s", dialect_name(d), problem, http.body);
	char *body = mem_take(&http.body);
	dialect_http_done(&http);
	return body;
}

/* Items of a conversation that ends with this answer. */
static inline json_t *rig_items(enum dialect d, const json_t *blocks)
{
	return json_pack("[{s:s,s:s},{s:s,s:s,s:s,s:O}]", "type", "user", "text", "Hello", "type", "assistant", "model",
			 RIG_IDENTITY, "dialect", dialect_name(d), "blocks", blocks);
}

static inline void rig_decode_with(enum dialect d, int status, const char *headers_text, const char *body,
				   struct buf *ret_sink, struct dialect_answer *ret)
{
	json_auto_t *headers = rig_json(headers_text);
	size_t n = strlen(body);

	rig_feed(d, status, headers, body, n, ret_sink, ret);
	mem_auto char *whole = rig_describe(ret, ret_sink);
	for (size_t cut = 0; cut <= n + 1; cut++) {
		buf_auto struct buf sink = BUF_INIT;
		struct dialect_answer a;
		rig_feed(d, status, headers, body, cut, &sink, &a);
		mem_auto char *pieces = rig_describe(&a, &sink);
		ck_assert_msg(strcmp(whole, pieces) == 0, "cut at %zu: %s\nwhole: %s", cut, pieces, whole);
		dialect_answer_done(&a);
	}
	json_auto_t *items = rig_items(d, ret->blocks);
	for (int other = 0; other < DIALECT_COUNT; other++)
		free(rig_encode((enum dialect)other, "model-1", items));
}

/* A successful response; returns what the sink received (static). */
static inline const char *rig_decode(enum dialect d, const char *body, struct dialect_answer *ret)
{
	static char seen[4096];
	buf_auto struct buf sink = BUF_INIT;

	rig_decode_with(d, 200, "{\"content-type\":\"text/event-stream\"}", body, &sink, ret);
	snprintf(seen, sizeof(seen), "%s", buf_cstr(&sink));
	return seen;
}

/* Compares JSON with expected text that is written with ' for ". */
static inline void rig_assert_json(const json_t *got, const char *quoted)
{
	mem_auto char *text = mem_strdup(quoted);

	for (char *c = text; *c; c++)
		*c = *c == '\'' ? '"' : *c;
	json_auto_t *want = rig_json(text);
	mem_auto char *shown = json_dumps(got, JSON_COMPACT);
	ck_assert_msg(json_equal(want, got), "got %s\nwant %s", shown, text);
}

#endif
