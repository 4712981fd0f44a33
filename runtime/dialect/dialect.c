#include "runtime/dialect/dialect.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"

#include <string.h>

static const struct {
	const char *name, *base_url;
} TABLE[DIALECT_COUNT] = {
	[DIALECT_ANTHROPIC] = { "anthropic", "https://api.anthropic.com/v1" },
	[DIALECT_OPENAI_RESPONSES] = { "openai-responses", "https://api.openai.com/v1" },
	[DIALECT_OPENAI_CHAT] = { "openai-chat", "https://api.openai.com/v1" },
	[DIALECT_GEMINI] = { "gemini", "https://generativelanguage.googleapis.com/v1beta" },
};

int dialect_find(const char *name)
{
	for (int d = 0; name && d < DIALECT_COUNT; d++)
		if (strcmp(TABLE[d].name, name) == 0)
			return d;
	return -1;
}

const char *dialect_name(enum dialect d) { return TABLE[d].name; }

const char *dialect_base_url(enum dialect d) { return TABLE[d].base_url; }

const char *dialect_stop_name(enum dialect_stop stop)
{
	static const char *const NAMES[] = {
		[DIALECT_STOP_DONE] = "done",
		[DIALECT_STOP_CALLS] = "calls",
		[DIALECT_STOP_MAX_TOKENS] = "max_tokens",
		[DIALECT_STOP_REFUSAL] = "refusal",
		[DIALECT_STOP_CONTEXT_FULL] = "context_full",
		[DIALECT_STOP_PAUSED] = "paused",
		[DIALECT_STOP_FILTERED] = "filtered",
	};

	return NAMES[stop];
}

int dialect_encode(enum dialect d, const struct dialect_request *r, struct dialect_http *ret, struct err *e)
{
	return err_set(e, ERR_UNAVAILABLE, "dialect %s: no codec", dialect_name(d));
}

void dialect_http_done(struct dialect_http *h)
{
	free(h->url);
	free(h->body);
	json_decref(h->headers);
	*h = (struct dialect_http){ 0 };
}

void dialect_answer_done(struct dialect_answer *a)
{
	json_decref(a->blocks);
	json_decref(a->limits);
	free(a->partial_text);
	*a = (struct dialect_answer){ 0 };
}

struct dialect_decoder {
	enum dialect d;
};

struct dialect_decoder *dialect_decoder_new(enum dialect d, const struct dialect_sink *sink_or_null, void *ctx)
{
	struct dialect_decoder *x = mem_zalloc(1, sizeof(*x));

	x->d = d;
	return x;
}

void dialect_decoder_head(struct dialect_decoder *x, int status, const json_t *headers) {}

void dialect_decoder_feed(struct dialect_decoder *x, const void *p, size_t n) {}

void dialect_decoder_finish(struct dialect_decoder *x, struct dialect_answer *ret)
{
	*ret = (struct dialect_answer){ .blocks = json_array(),
					.usage.cost_usd = -1,
					.failure = { .category = "protocol", .message = "no codec" } };
}

void dialect_decoder_free(struct dialect_decoder *x) { free(x); }
