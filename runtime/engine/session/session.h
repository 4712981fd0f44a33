#ifndef BAILIFF_ENGINE_SESSION_H
#define BAILIFF_ENGINE_SESSION_H

/* Sessions, their threads, and which turn has a thread. */

#include "runtime/base/err.h"
#include "runtime/engine/core/fact.h"
#include "runtime/engine/core/reply.h"

struct engine;
struct err;
struct session_request;
struct store_batch;

void session_init(struct engine *g);
void session_done(struct engine *g);

/* `r` may be NULL. */
int session_created_fact(struct store_batch *b, struct scope s, const char *kind, const struct session_request *r,
			 const struct requester *by);
int session_system_facts(struct engine *g, struct store_batch *b);
/* A session with its first thread, made because a request names none. */
int session_make(struct engine *g, struct store_batch *b, const struct caller *c, const char *origin, const char *title,
		 char ret_session[ID_ROOM]);
/* The session's system turn (made on its first use) and its thread, for facts without a turn. */
int session_system_turn(struct engine *g, struct store_batch *b, uint32_t uid, const char *session,
			char ret_thread[ID_ROOM], char ret_turn[ID_ROOM], struct err *e);
/* −1, and e says that this id `what`. */
int session_field_err(struct err *e, enum err_code code, const char *field, const char *what, const char *id);

/* session.created is durable (subject of its reactions). `then`, if given, is to be called when they are done. */
struct session_created_notice {
	const char *session_id;
	uint32_t uid;
	const struct requester *by;
	const char *cwd; /* or NULL */
	void (*then)(void *ctx);
	void *ctx;
};

/*
 * A turn that is about to be active on a thread claims it until its facts are durable. `owner` identifies the claim;
 * releasing one that has passed to another owner does nothing.
 */
void thread_claim(struct engine *g, const char *thread_id, const char *turn_id, const void *owner);
void thread_release(struct engine *g, const char *thread_id, const void *owner);
/* Is a turn active there, or about to be? 1 with its id, 0, −1. */
int thread_busy(struct engine *g, const char *thread_id, char ret_turn[ID_ROOM], struct err *e);

/* The turn ends: model requests of it that were not answered are. Before the fact of its end. */
void turn_close_requests(struct engine *g, uint32_t uid, const char *session_id, const char *thread_id,
			 const char *turn_id, struct store_batch *b);

#endif
