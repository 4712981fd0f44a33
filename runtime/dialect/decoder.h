#ifndef BAILIFF_DIALECT_DECODER_H
#define BAILIFF_DIALECT_DECODER_H

/*
 * What the four dialects share: the decoder's state, which their event functions change, and the table entry of a
 * dialect. Private to this folder; dialect.h is the interface.
 *
 * An answer is a list of units (text, reasoning, a tool call) that grow while events arrive and become canonical blocks
 * at the end. A unit counts only when it has ended; the first failure is kept.
 */

#include "runtime/base/buf.h"
#include "runtime/dialect/dialect.h"
#include "runtime/dialect/sse.h"

#include <jansson.h>

struct conversation;
struct jw;

enum unit_kind { UNIT_TEXT, UNIT_REASONING, UNIT_CALL, UNIT_OTHER /* of a type that is skipped */ };

struct unit {
	enum unit_kind kind;
	int64_t key; /* the dialect's index */
	bool ended;
	struct buf text;       /* or the arguments of a call, as JSON text */
	size_t scanned, depth; /* unit_is_whole: what it has read of the text, and where it is there */
	bool inside, escaped;
	char *id, *name; /* of a call, or NULL */
	json_t *raw;     /* object, or NULL */
};

struct dialect_decoder {
	const struct dialect_codec *codec;
	struct dialect_sink sink;
	void *ctx;
	int status; /* 0 = no response */
	json_t *headers;
	struct sse sse;
	struct buf body; /* what arrived before the first event, or of a failed request: its beginning */
	size_t events;
	bool ending; /* the stream has ended: the last event may be truncated */
	struct unit **units;
	size_t nunits, units_cap;
	size_t received; /* bytes of all units */
	bool terminal;   /* the terminal event arrived */
	bool reported;   /* the provider reported the final output tokens */
	bool refused;
	enum dialect_stop stop;
	char native_stop[64];
	struct dialect_usage usage;
	struct dialect_failure failure;
	char request_id[128];
};

struct dialect_codec {
	const char *name, *base_url;
	const char *key_header, *key_prefix;
	const char *version_header, *version; /* or NULL */
	const char *ending;                   /* what a complete stream ends with, for messages */
	bool array;                           /* the events may also be one JSON array */
	/* Appends "/path" to the base URL. */
	void (*path)(const struct dialect_request *r, struct buf *url);
	/* Writes the body. */
	void (*encode)(const struct dialect_request *r, const struct conversation *c, struct jw *w);
	/* One event that is a JSON object and not an error. */
	void (*event)(struct dialect_decoder *x, const json_t *event);
	/* End of the stream, before blocks are made; or NULL. */
	void (*end)(struct dialect_decoder *x);
};

extern const struct dialect_codec dialect_anthropic, dialect_responses, dialect_chat, dialect_gemini;

struct dialect_decoder *decoder_new(const struct dialect_codec *codec, const struct dialect_sink *sink_or_null,
				    void *ctx);

/* ---- for event functions ---- */

struct unit *unit_new(struct dialect_decoder *x, enum unit_kind kind, int64_t key);
/* The newest unit with this key (and kind) that has not ended, or NULL. */
struct unit *unit_find(struct dialect_decoder *x, int64_t key);
struct unit *unit_find_kind(struct dialect_decoder *x, enum unit_kind kind, int64_t key);
/* Adds to a unit and reports it to the sink; s may be NULL. */
void unit_add(struct dialect_decoder *x, struct unit *u, const char *s, size_t n);
void unit_add_string(struct dialect_decoder *x, struct unit *u, const json_t *string_or_other);
/* The whole text of a unit, which may have been streamed already; an empty text leaves what was streamed. */
void unit_set_text(struct dialect_decoder *x, struct unit *u, const char *s, size_t n);
/* Sets the name of a call, and reports the call, if it has none yet. */
void unit_set_name(struct dialect_decoder *x, struct unit *u, const char *name_or_null);
void unit_set_id(struct unit *u, const char *id_or_null);
/* raw[key] = value, if the value is a non-empty string or container. */
void unit_set_raw(struct unit *u, const char *key, const json_t *value_or_null);
/* Whether the text is one JSON object, by its brackets. Each byte is read once, however often this is asked. */
bool unit_is_whole(struct unit *u);
void units_end(struct dialect_decoder *x); /* all of them */
/* Text that never ended is text all the same, once the answer has. */
void units_end_text(struct dialect_decoder *x);

struct stop_word {
	const char *word;
	enum dialect_stop stop;
};
/* Sets the reason why the answer ended; a word that is not in the table means DONE. */
void decoder_stop(struct dialect_decoder *x, const struct stop_word *words, size_t n, const char *word);
/* Records a failure, unless there is one already. */
void decoder_fail(struct dialect_decoder *x, const char *category, bool retryable, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* The same with the provider's own description of it. */
void decoder_fail_error(struct dialect_decoder *x, const json_t *error);
/* Appends the arguments of a call as JSON text, which is what most servers send; some send the object. */
void decoder_arguments(const json_t *string_or_object, struct buf *out);
/* Sets *ret if object[key] is a non-negative number. */
bool decoder_count(const json_t *object, const char *key, uint64_t *ret);

#endif
