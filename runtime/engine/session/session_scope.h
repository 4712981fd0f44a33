#ifndef BAILIFF_ENGINE_SESSION_SCOPE_H
#define BAILIFF_ENGINE_SESSION_SCOPE_H

/*
 * The session and thread that a request belongs to; they are created if the request names none. Finding them and
 * recording them are separate steps, so that a request can be rejected in between without leaving anything in the log.
 */

#include "runtime/engine/core/reply.h"

struct caller;
struct engine;
struct err;
struct transaction;

struct session_scope {
	uint32_t uid; /* owner of the session */
	char session_id[ID_SIZE], thread_id[ID_SIZE];
	bool makes_session, makes_thread;
};

enum place_thread {
	SCOPE_FIRST_THREAD, /* if only a session is named: its first thread */
	SCOPE_NEW_THREAD,   /* if only a session is named: a new thread */
};

/* ERR_NOT_FOUND for unknown ids and those of other users; ERR_INVALID if session and thread do not belong together. */
int session_scope_find(struct engine *engine, const char *session_id, const char *thread_id, enum place_thread want,
		       const struct caller *c, struct session_scope *ret, struct err *e);
/* Adds session.created and thread.started for what the scope creates. −1 if a fact is invalid. Call it once. */
int session_scope_facts(const struct session_scope *p, const char *origin, const char *parent_thread_id,
			const struct requester *by, struct transaction *tx);
/* Adds thread.updated unless the thread already has that status. The thread may be created in the same batch. */
void thread_status_fact(struct engine *engine, uint32_t uid, const char *session_id, const char *thread_id,
			const char *status, const char *reason, struct transaction *tx);

#endif
