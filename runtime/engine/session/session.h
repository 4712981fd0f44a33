#ifndef BAILIFF_ENGINE_SESSION_H
#define BAILIFF_ENGINE_SESSION_H

/*
 * Sessions, their threads, and which turn is active on a thread.
 *
 * Functions that take a transaction add facts to it and commit nothing; they return −1 if a fact is invalid, for
 * example too long. Ids that they generate may be used for further facts of the same transaction. A session belongs to
 * one uid: requests of other users do not find it, except those of root.
 */

#include "runtime/base/err.h"
#include "runtime/engine/core/fact.h"
#include "runtime/engine/core/reply.h"

struct engine;
struct err;
struct session_request;
struct transaction;

void session_init(struct engine *engine);
void session_done(struct engine *engine);

/* `kind` is user or system. `r` may be NULL: a session without title, workspace and scope. */
int session_created_fact(struct transaction *tx, struct scope s, const char *kind, const struct session_request *r,
			 const struct requester *by);
/* Creates the system session of a new store, with its thread and turn. */
int session_system_facts(struct engine *engine, struct transaction *tx);
/* Creates a session with its first thread, for a request that names none. */
int session_make(struct transaction *tx, const struct caller *c, const char *origin, const char *title,
		 char ret_session[ID_SIZE]);
/* The session's system turn (created on first use) and its thread, for facts that have no turn of their own. */
int session_system_turn(struct engine *engine, struct transaction *tx, uint32_t uid, const char *session,
			char ret_thread[ID_SIZE], char ret_turn[ID_SIZE], struct err *e);
/* Sets e to "FIELD 'ID' WHAT" and returns −1. */
int session_field_err(struct err *e, enum err_code code, const char *field, const char *what, const char *id);

/*
 * A session was created (row SESSION_CREATED). The reaction calls `then`, if not NULL, when its work for the new
 * session is done. Borrowed.
 */
struct session_created_notice {
	const char *session_id;
	uint32_t uid;
	const struct requester *by;
	const char *cwd; /* or NULL */
	void (*then)(void *ctx);
	void *ctx;
};

/*
 * A turn that is about to become active on a thread claims the thread until its facts are durable. `owner` identifies
 * the claim and is only compared. A new claim replaces an older one; a release by the older owner then has no effect.
 */
void thread_claim(struct engine *engine, const char *thread_id, const char *turn_id, const void *owner);
void thread_release(struct engine *engine, const char *thread_id, const void *owner);
/* 1 = a turn is active on the thread or about to be, with its id; 0 = none; −1 with e. */
int thread_busy(struct engine *engine, const char *thread_id, char ret_turn[ID_SIZE], struct err *e);

/* The turn ends: records model.failed for its open model requests. Call it before adding the turn's end to `b`. */
void turn_close_requests(struct engine *engine, uint32_t uid, const char *session_id, const char *thread_id,
			 const char *turn_id, struct transaction *tx);

#endif
