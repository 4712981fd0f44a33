#ifndef BAILIFF_EVENT_ID_H
#define BAILIFF_EVENT_ID_H

/*
 * Ids: a prefix for the kind ("proc_") and 26 characters (Crockford base 32, lower case). The first ten are the time in
 * milliseconds, the rest is random and counts up within a millisecond. Ids of one runtime therefore sort by the time of
 * their creation, even within a millisecond.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

enum id_kind {
	ID_KIND_RUNTIME,
	ID_KIND_SESSION,
	ID_KIND_THREAD,
	ID_KIND_TURN,
	ID_KIND_TASK,
	ID_KIND_RUN,
	ID_KIND_ATTEMPT,
	ID_KIND_STEP,
	ID_KIND_TOOL_CALL,
	ID_KIND_ACTION,
	ID_KIND_SUBAGENT,
	ID_KIND_PROCESS,
	ID_KIND_OUTPUT,
	ID_KIND_JOB,
	ID_KIND_JOB_ITEM,
	ID_KIND_CHANNEL,
	ID_KIND_EVENT,
	ID_KIND_EVIDENCE,
	ID_KIND_ARTIFACT,
	ID_KIND_SANDBOX,
	ID_KIND_CHECKPOINT,
	ID_KIND_MODEL_REQUEST,
	ID_KIND_COUNT
};

#define ID_TEXT_MAX 40  /* a generated id with its NUL fits */
#define ID_GIVEN_MAX 64 /* the longest id a caller may give, without NUL */
#define ID_SIZE 72      /* of a buffer for any id with its NUL, generated or given by a caller */

void id_make(enum id_kind kind, char out[ID_TEXT_MAX]);
/* The smallest id that could be made in this millisecond: earlier ids sort before it. */
void id_floor(enum id_kind kind, uint64_t ms, char out[ID_TEXT_MAX]);
/* Copies an id or a short word; NULL becomes "", and what does not fit is cut. */
void id_copy(char dst[ID_SIZE], const char *src);
const char *id_prefix(enum id_kind kind); /* "proc_" */
/* An id that a caller may choose: 1 to 64 of A–Z a–z 0–9 _ - . : */
bool id_valid(const char *s, size_t n);

#endif
