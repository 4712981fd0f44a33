#ifndef BAILIFF_ENGINE_SESSION_SCOPE_H
#define BAILIFF_ENGINE_SESSION_SCOPE_H

/* Where work belongs: a session and a thread, which are made when the request names none. */

#include "runtime/engine/core/reply.h"

struct caller;
struct engine;
struct err;
struct store_batch;

struct session_scope {
	uint32_t uid; /* whose session it is */
	char session_id[ID_ROOM], thread_id[ID_ROOM];
	bool makes_session, makes_thread;
};

enum place_thread {
	SCOPE_FIRST_THREAD, /* of a session that is named without a thread: its first one */
	SCOPE_NEW_THREAD,   /* a thread of its own */
};

/* Ids that are not the caller's are ERR_NOT_FOUND; ids that do not belong together ERR_INVALID. */
int session_scope_find(struct engine *g, const char *session_id, const char *thread_id, enum place_thread want,
		       const struct caller *c, struct session_scope *ret, struct err *e);
/* session.created and thread.started, as far as it makes them. */
int session_scope_facts(const struct session_scope *p, const char *origin, const char *parent_thread_id,
			const struct requester *by, struct store_batch *b);
/* thread.updated, unless the thread has that status already. The thread may be one that the same batch makes. */
void thread_status_fact(struct engine *g, uint32_t uid, const char *session_id, const char *thread_id,
			const char *status, const char *reason, struct store_batch *b);

#endif
