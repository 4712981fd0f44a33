#ifndef BAILIFF_ENGINE_REF_H
#define BAILIFF_ENGINE_REF_H

/*
 * Texts that are too long for an event: stored whole under an output ref and readable with read_output. Each is
 * recorded with output.spilled in the same batch.
 */

#include "runtime/event/id.h"

#include <stddef.h>
#include <stdint.h>

struct jw;
struct transaction;

/* The owner of a text: uid and session are required, the rest may be NULL. */
struct ref_owner {
	uint32_t uid;
	const char *session_id, *thread_id, *turn_id, *task_id, *tool_call_id;
	const char *kind, *id;  /* the payload's `owner`, for people: "channel" and its id */
	const char *media_type; /* NULL = text/plain */
};
void ref_store(struct transaction *tx, const struct ref_owner *o, const void *p, size_t n, char ret_ref[ID_TEXT_MAX]);
/* The same with a ref that the caller generated. */
void ref_store_as(struct transaction *tx, const struct ref_owner *o, const char *ref, const void *p, size_t n);

#define REF_INLINE_MAX 2048u
/*
 * A text in an event: whole up to REF_INLINE_MAX bytes; otherwise its beginning, with the whole text under a ref. A
 * text that is not valid UTF-8 is only stored under a ref.
 */
struct ref_text {
	char *shown;           /* or NULL */
	char ref[ID_TEXT_MAX]; /* or "" */
};
void ref_text_init(struct ref_text *t, struct transaction *tx, const struct ref_owner *o, const char *text, size_t n);
void ref_text_done(struct ref_text *t);
#define ref_text_auto __attribute__((cleanup(ref_text_done)))

#endif
