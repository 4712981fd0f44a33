#ifndef BAILIFF_ENGINE_REF_H
#define BAILIFF_ENGINE_REF_H

/*
 * Texts that are too long for an event: kept whole behind an output ref, readable with read_output. The fact that tells
 * of it is output.spilled, in the same batch.
 */

#include "runtime/event/id.h"

#include <stddef.h>
#include <stdint.h>

struct jw;
struct store_batch;

/* Whose it is: uid and session are needed, the rest may be NULL. */
struct ref_owner {
	uint32_t uid;
	const char *session_id, *thread_id, *turn_id, *task_id, *tool_call_id;
	const char *kind, *id;  /* "channel" and its id: for the reader */
	const char *media_type; /* NULL = text/plain */
};
void ref_store(struct store_batch *b, const struct ref_owner *o, const void *p, size_t n, char ret_ref[ID_TEXT_MAX]);
void ref_store_as(struct store_batch *b, const struct ref_owner *o, const char *ref, const void *p,
		  size_t n); /* one that was made before */

#define REF_INLINE_MAX 2048u
/*
 * A text in an event: whole if it is at most REF_INLINE_MAX bytes; otherwise its beginning, and the whole behind a ref.
 * Bytes that are not UTF-8 are never shown.
 */
struct ref_text {
	char *shown;           /* or NULL */
	char ref[ID_TEXT_MAX]; /* or "" */
};
void ref_text_init(struct ref_text *t, struct store_batch *b, const struct ref_owner *o, const char *text, size_t n);
void ref_text_done(struct ref_text *t);
#define ref_text_auto __attribute__((cleanup(ref_text_done)))

#endif
