/*
 * Responses of any bytes, in the dialect that the first byte selects: however they are cut, the answer is the same; a
 * complete answer has only calls that can run; and what was decoded can be sent back to every provider.
 */

#include "runtime/base/buf.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/dialect/dialect.h"
#include "tests/unit/runtime/dialect/pairing.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const int STATUSES[] = { 200, 200, 200, 200, 200, 400, 429, 0 };

static void add_text(void *ctx, const char *s, size_t n) { buf_append(ctx, s, n); }

static void add_name(void *ctx, const char *name) { buf_str(ctx, name); }

static char *decode(enum dialect d, int status, const uint8_t *data, size_t size, size_t piece,
		    struct dialect_answer *ret)
{
	static const struct dialect_sink SINK = { add_text, add_text, add_name };
	buf_auto struct buf sink = BUF_INIT;
	json_auto_t *headers = json_object();
	struct dialect_decoder *x = dialect_decoder_new(d, &SINK, &sink);

	if (status)
		dialect_decoder_head(x, status, headers);
	for (size_t at = 0; at < size; at += piece)
		dialect_decoder_feed(x, data + at, size - at < piece ? size - at : piece);
	dialect_decoder_finish(x, ret);
	dialect_decoder_free(x);
	mem_auto char *blocks = json_dumps(ret->blocks, JSON_COMPACT);
	return mem_printf("%d %d %s %s %s %s %lu %lu %d %s", ret->complete, ret->stop, blocks,
			  ret->partial_text ? ret->partial_text : "-", ret->failure.category, ret->failure.message,
			  (unsigned long)ret->usage.input, (unsigned long)ret->usage.output, ret->usage.estimated,
			  buf_cstr(&sink));
}

static void check_blocks(const struct dialect_answer *a)
{
	json_auto_t *used = json_object();
	const json_t *block;
	size_t i;

	if (a->complete == (a->failure.category[0] != '\0'))
		abort();
	json_array_foreach (a->blocks, i, block) {
		const char *id = json_get_text(block, "id");
		if (!json_text_is(block, "type", "tool_call"))
			continue;
		if (!*id || json_object_get(used, id) || !*json_get_text(block, "name") ||
		    !json_is_object(json_object_get(block, "arguments")))
			abort();
		json_object_set_new(used, id, json_true());
	}
}

static void send_back(enum dialect d, const json_t *blocks)
{
	json_auto_t *items = json_pack("[{s:s,s:s},{s:s,s:s,s:s,s:O}]", "type", "user", "text", "a", "type",
				       "assistant", "model", "p/m", "dialect", dialect_name(d), "blocks", blocks);

	for (int other = 0; other < DIALECT_COUNT; other++) {
		struct dialect_request r = { .model = "gemini-3", .identity = "p/m", .items = items };
		struct dialect_http http;
		if (dialect_encode((enum dialect)other, &r, &http, NULL) < 0)
			abort();
		const char *problem = pairing_check((enum dialect)other, http.body, http.body_len);
		if (problem) {
			fprintf(stderr, "%s: %s: %s\n", dialect_name((enum dialect)other), problem, http.body);
			abort();
		}
		dialect_http_done(&http);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct dialect_answer a, b;

	if (size < 1)
		return 0;
	enum dialect d = (enum dialect)(data[0] % DIALECT_COUNT);
	int status = STATUSES[data[0] / 4 % 8];
	data++, size--;
	mem_auto char *whole = decode(d, status, data, size, size ? size : 1, &a);
	for (size_t piece = 1; piece < 4; piece++) {
		mem_auto char *pieces = decode(d, status, data, size, piece * piece, &b);
		dialect_answer_done(&b);
		if (strcmp(whole, pieces) != 0) {
			fprintf(stderr, "%s\n%s\n", whole, pieces);
			abort();
		}
	}
	check_blocks(&a);
	send_back(d, a.blocks);
	dialect_answer_done(&a);
	return 0;
}
