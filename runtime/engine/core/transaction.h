#ifndef BAILIFF_ENGINE_TRANSACTION_H
#define BAILIFF_ENGINE_TRANSACTION_H

/*
 * A transaction: everything that one request, or one report from the host, writes. Its facts are one batch, so they
 * commit together or not at all. The reply is sent once they are durable and has `sequence`, the number of the last of
 * them. With an idempotency key, the reply is stored in the same commit.
 *
 *	struct transaction *tx = transaction_new(g, caller, fn, ctx);   or transaction_new_internal(g) without a request
 *	... checks on documents read speculatively; transaction_reject(tx, &e) and return when one fails ...
 *	EMIT(task_delegated, tx->batch, scope, .delegateKind = …);
 *	jw_kstr(&tx->w, "taskId", id);                                  the result's members
 *	transaction_commit(tx);
 *
 * Effects on the host are queued with transaction_after_commit: they run after the commit and before the reply, and not
 * at all when the commit fails.
 */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/engine/core/reply.h"

struct caller;
struct engine;
struct store_batch;

typedef void (*transaction_effect_fn)(struct engine *g, const char *id);

struct transaction {
	struct engine *engine;
	struct caller caller; /* shallow copy: its strings are valid only until the request's function returns */
	struct store_batch *batch;
	struct pending_reply reply;
	struct buf result;
	struct jw w;    /* writes the result's members */
	unsigned flags; /* STORE_MUST for the engine's own transactions */
	struct transaction_effect {
		transaction_effect_fn fn;
		char id[ID_SIZE];
	} * then;
	size_t nthen;
};

struct transaction *transaction_new(struct engine *g, const struct caller *c, engine_reply_fn fn, void *ctx);
/* For the engine's own changes: no reply, acts as the daemon's owner. */
struct transaction *transaction_new_internal(struct engine *g);
void transaction_after_commit(struct transaction *tx, transaction_effect_fn fn, const char *id);
/* Replies with the error and writes nothing. Frees the transaction. */
void transaction_reject(struct transaction *tx, const struct err *e);
void transaction_reject_data(struct transaction *tx, const struct err *e, const char *data, size_t len);
/*
 * Submits the batch, replies after the commit and frees the transaction. A transaction without facts replies without
 * waiting.
 */
void transaction_commit(struct transaction *tx);
/* Moves the reply to *ret, for code that replies later than the commit. The transaction then commits without a reply.
 */
void transaction_take_reply(struct transaction *tx, struct pending_reply *ret);

#endif
