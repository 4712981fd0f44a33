#ifndef BAILIFF_DIALECT_DIALECT_H
#define BAILIFF_DIALECT_DIALECT_H

/*
 * The wire formats of model providers. A dialect turns the canonical conversation (conversation.h) into the one HTTP
 * request of a model call (dialect_encode) and the bytes of the response into one answer (struct dialect_decoder).
 *
 * Pure functions of their input: no I/O, no clock, no randomness. The same items always become the same bytes, and
 * items that are appended leave the bytes before them unchanged, so that the provider's prompt cache matches; only
 * Anthropic's cache breakpoints move. Any thread; a decoder belongs to one thread at a time.
 *
 * What a request must satisfy (every tool call followed by its result, no empty message, no foreign reasoning) holds
 * for any items: conversation.h says how. What a response may look like is accepted liberally (docs/dialects.md), but
 * an answer is complete only if the dialect's terminal event arrived and every tool call in it parsed.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

enum dialect { DIALECT_ANTHROPIC, DIALECT_OPENAI_RESPONSES, DIALECT_OPENAI_CHAT, DIALECT_GEMINI, DIALECT_COUNT };

int dialect_find(const char *name); /* −1 if unknown */
const char *dialect_name(enum dialect d);
const char *dialect_base_url(enum dialect d); /* "https://api.anthropic.com/v1": what base_url is by default */

struct dialect_request {
	const char *base_url;       /* without a trailing slash; NULL = the dialect's default */
	const char *model;          /* the provider's id of the model */
	const char *identity;       /* "PROVIDER/MODEL": reasoning of other models is dropped */
	const char *instructions;   /* system prompt; NULL or "" = none */
	const json_t *tools;        /* [{"name","description","schema"}]; NULL = none */
	const json_t *items;        /* canonical conversation (conversation.h) */
	uint64_t max_output_tokens; /* 0 = the dialect's default */
	const char *cache_key;      /* thread id, or NULL */
	const char *effort;         /* reasoning effort, or NULL */
	bool no_tools;              /* tools are declared but must not be called (last request at a limit) */
};

struct dialect_http {
	char *url;
	json_t *headers;                     /* {"content-type": …}; without the key */
	const char *key_header, *key_prefix; /* "authorization", "Bearer "; static */
	char *body;
	size_t body_len;
};

/* Fails only on invalid parameters (ERR_INVALID names the field). */
int dialect_encode(enum dialect d, const struct dialect_request *r, struct dialect_http *ret, struct err *e);
void dialect_http_done(struct dialect_http *h);

enum dialect_stop {
	DIALECT_STOP_DONE,         /* the model ended its turn */
	DIALECT_STOP_CALLS,        /* it waits for the results of the tool calls in blocks */
	DIALECT_STOP_MAX_TOKENS,   /* truncated; a tool call that was cut is not in blocks */
	DIALECT_STOP_REFUSAL,      /* the model declined */
	DIALECT_STOP_CONTEXT_FULL, /* truncated by the model's context window */
	DIALECT_STOP_PAUSED,       /* send the conversation again to continue */
	DIALECT_STOP_FILTERED,     /* the provider's content filter cut the answer */
};
const char *dialect_stop_name(enum dialect_stop stop); /* "done", "calls", "max_tokens" … */

/*
 * `input` is everything that was sent, cached and written to the cache included; `output` includes `reasoning`.
 * `known`: the provider reported the input. `estimated`: `output` is bytes/4 of what arrived, because the stream broke
 * or the provider reports no usage; if the input is not known either, the caller estimates it from the request.
 */
struct dialect_usage {
	uint64_t input, output, cached, cache_write, cache_write_1h,
		reasoning; /* cache_write includes cache_write_1h */
	bool known, estimated;
	double cost_usd; /* −1 = not given */
};

/*
 * category "" = no failure; else one of authentication, permission, billing, rate_limit, overloaded, server, timeout,
 * invalid_request, context_too_long, not_found, protocol, content_filter. `retryable`: the same request may succeed
 * later, not before retry_after_ms (0 = the provider did not say).
 */
struct dialect_failure {
	char category[32];
	char message[512]; /* one line, safe for a terminal */
	char code[64];     /* the provider's own */
	bool retryable;
	uint64_t retry_after_ms;
};

struct dialect_answer {
	bool complete; /* the terminal event arrived and nothing is malformed */
	enum dialect_stop stop;
	char native_stop[64]; /* the provider's word for it */
	json_t *blocks;       /* canonical blocks, whole units only; never NULL */
	char *partial_text;   /* text of a unit that did not end, or NULL */
	struct dialect_usage usage;
	struct dialect_failure failure;
	json_t *limits;       /* [{"kind":"requests|tokens|…","limit","remaining","resetMs"}], or NULL */
	char request_id[128]; /* the provider's */
};
void dialect_answer_done(struct dialect_answer *a);

/* Called while feeding, with complete UTF-8 sequences only. Each member may be NULL. `call`: a tool call began. */
struct dialect_sink {
	void (*text)(void *ctx, const char *s, size_t n);
	void (*reasoning)(void *ctx, const char *s, size_t n);
	void (*call)(void *ctx, const char *name);
};

struct dialect_decoder;
/* The sink's functions are copied. */
struct dialect_decoder *dialect_decoder_new(enum dialect d, const struct dialect_sink *sink_or_null, void *ctx);
/* Before the first byte; header names in lower case. Without it the answer is a failure (no response). */
void dialect_decoder_head(struct dialect_decoder *x, int status, const json_t *headers);
/* Bytes of the body, split anywhere. */
void dialect_decoder_feed(struct dialect_decoder *x, const void *p, size_t n);
/* End of the body, once; fills ret, which the caller passes to dialect_answer_done. */
void dialect_decoder_finish(struct dialect_decoder *x, struct dialect_answer *ret);
void dialect_decoder_free(struct dialect_decoder *x);

#endif
