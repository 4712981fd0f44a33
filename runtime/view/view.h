#ifndef BAILIFF_VIEW_VIEW_H
#define BAILIFF_VIEW_VIEW_H

/*
 * The read models: pure folds of the log into small JSON documents, kept in the same transaction as the events.
 * Dropping them all and folding again gives the same bytes (store_verify proves it).
 *
 * Each kind is one file (view_process.c …): a struct, its field table (member, type, offset) from which one codec
 * (view_codec.c, on jw and jscan) encodes and decodes it, and `static int on_<event>(…)` functions listed in a
 * table by event type. view.c only looks up that table.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;
struct event_view;
struct models;
struct store;

enum view_kind {
	VIEW_RUNTIME = 1,        /* id "runtime": the system session's ids, start counts, last reconstruction */
	VIEW_SESSION = 2,        /* sessionId */
	VIEW_THREAD = 3,         /* threadId */
	VIEW_TURN = 4,           /* turnId */
	VIEW_PROCESS = 5,        /* processId */
	VIEW_OUTPUT = 6,         /* outputRef: owner, mediaType, encoding, bytes, truncated, omitted range, expired */
	/* lists: id "<owner>/<member>", document {} */
	VIEW_SESSION_THREAD = 16,
	VIEW_THREAD_TURN = 17,
	VIEW_TURN_PROCESS = 18,
	VIEW_SESSION_PROCESS = 19,
	VIEW_LIVE_PROCESS = 20,  /* id processId, while it has no terminal event: what recovery looks at */
	VIEW_LIVE_TURN = 21,     /* id turnId, while it has not ended */
};

/* The fold given to store_open. */
int view_fold(struct models *m, const struct event_view *ev, struct err *e);

/*
 * Everybody below: uid is the asking peer's; 0 sees all, others only their own; what they may not see is ERR_NOT_FOUND.
 * Documents are appended to `out` as they are sent to clients.
 */
#define VIEW_ANY_UID 0u

int view_process(struct store *s, uint32_t uid, const char *process_id, struct buf *out, struct err *e);
struct view_process_query {
	const char *session_id, *task_id, *status; /* NULL = any */
	const char *match;                         /* NULL, or what a person typed: a prefix of the id, with or without "proc_", or its last ≥ 4 characters */
	bool live_only;
	unsigned limit;                            /* 1 … 1000 */
	const char *cursor;                        /* NULL = newest first from the start */
};
/* {"processes":[…],"nextCursor"?:…}, newest first */
int view_processes(struct store *s, uint32_t uid, const struct view_process_query *q, struct buf *out, struct err *e);

int view_sessions(struct store *s, uint32_t uid, unsigned limit, const char *cursor, struct buf *out, struct err *e);
/* The session snapshot of the specification (valid under the public and the stricter profile's schema). */
int view_session(struct store *s, uint32_t uid, const char *session_id, struct buf *out, struct err *e);
/* The thread element plus sessionId, runtimeId, schemaVersion, updatedAt. */
int view_thread(struct store *s, uint32_t uid, const char *thread_id, struct buf *out, struct err *e);

/* What the engine asks before it acts. 0 found, 1 not there (or not this uid's), −1 failure. */
struct view_session_brief { uint32_t uid; char first_thread[72]; };
int view_session_brief(struct store *s, uint32_t uid, const char *session_id, struct view_session_brief *ret, struct err *e);
struct view_thread_brief { uint32_t uid; char session_id[72]; char active_turn[72]; char status[16]; };
int view_thread_brief(struct store *s, uint32_t uid, const char *thread_id, struct view_thread_brief *ret, struct err *e);
struct view_turn_brief { uint32_t uid; char session_id[72]; char thread_id[72]; bool ended; };
int view_turn_brief(struct store *s, uint32_t uid, const char *turn_id, struct view_turn_brief *ret, struct err *e);
struct view_output_brief {
	uint32_t uid;
	char process_id[72];
	uint64_t bytes;              /* cited so far by committed events */
	uint64_t omitted_from, omitted_to; /* equal = nothing left out */
	bool expired, ended;         /* ended: the stream is complete */
};
int view_output_brief(struct store *s, uint32_t uid, const char *output_ref, struct view_output_brief *ret, struct err *e);

#endif
