#ifndef BAILIFF_ENGINE_TRANSACTION_H
#define BAILIFF_ENGINE_TRANSACTION_H

/*
 * A transaction: everything that one request, or one report from the host, writes. Every state change of the engine is
 * one. Its facts commit together or not at all. A reply is sent once they are durable and has `sequence`, the number of
 * the last of them. With an idempotency key, the reply is stored in the same commit.
 *
 *	struct transaction *tx = transaction_new(engine, caller, fn, ctx);
 *	... checks on documents read speculatively; transaction_reject(tx, &e) and return when one fails ...
 *	EMIT(task_delegated, tx, scope, .delegateKind = …);             may add facts of other modules (module.h)
 *	jw_kstr(&tx->w, "taskId", id);                                  the result's members
 *	transaction_after_commit(tx, task_launch, id);                  effects on the host
 *	transaction_commit(tx);
 *
 * Changes without a request, or whose reply belongs to an object that lives longer (a process, a waiter), use
 * transaction_new_internal. Effects run after the commit and before the reply, and not at all when the commit fails.
 *
 * Loop thread only. A transaction is owned by the code that created it until it is committed, rejected or freed.
 */

#include "runtime/base/buf.h"
#include "runtime/base/jw.h"
#include "runtime/engine/core/reply.h"
#include "runtime/store/store.h"

struct engine;
struct event_draft;

typedef void (*transaction_effect_fn)(struct engine *engine, const char *id);

struct transaction {
	struct engine *engine;
	struct caller caller;      /* shallow copy: its strings are valid only until the request's function returns */
	struct store_batch *batch; /* the encoded facts; only for transaction.c */
	struct pending_reply reply;
	struct buf result;
	struct jw w;    /* writes the result's members; discarded if there is no reply at the commit */
	unsigned flags; /* STORE_MUST for the engine's own transactions */
	struct transaction_effect {
		transaction_effect_fn fn;
		char id[ID_SIZE];
	} * effects;
	size_t neffects;
	store_done_fn decided; /* of transaction_commit_then, or NULL */
	void *decided_ctx;
};

struct transaction *transaction_new(struct engine *engine, const struct caller *c, engine_reply_fn fn, void *ctx);
/* For the engine's own changes: no reply, acts as the daemon's owner. */
struct transaction *transaction_new_internal(struct engine *engine);
/* Writes nothing and sends no reply. Ignores NULL. */
void transaction_free(struct transaction *tx);

/* ---- what it writes ---- */

/* Adds an event that is already a draft. Facts of the engine use their emitters (fact.h). −1 with e if it is invalid.
 */
int transaction_add_event(struct transaction *tx, const struct event_draft *draft, struct err *e);
/* The first error of the above, or NULL. */
const struct err *transaction_problem(const struct transaction *tx);
/* The bytes of an output: in the database, or a range of its spool file `fd`, which is synced before the commit. */
void transaction_add_output(struct transaction *tx, const char *output_ref, const void *p, size_t n);
void transaction_add_spool(struct transaction *tx, const char *output_ref, int fd, uint64_t offset, uint64_t length);
/* A value that is not a read model; n = 0 removes it. retention.c removes those whose names have an id in them. */
void transaction_set_meta(struct transaction *tx, const char *key, const void *p, size_t n);
/*
 * Stores the result of an idempotent request whose reply is not the transaction's own, so that a retry gets it again.
 * No effect without an idempotency key. Send the reply after the commit.
 */
void transaction_store_reply(struct transaction *tx, const struct pending_reply *r, const char *json, size_t len);

/* ---- its end ---- */

void transaction_after_commit(struct transaction *tx, transaction_effect_fn fn, const char *id);
/* Replies with the error and writes nothing. Frees the transaction. */
void transaction_reject(struct transaction *tx, const struct err *e);
void transaction_reject_data(struct transaction *tx, const struct err *e, const char *data, size_t len);
/*
 * Submits the facts, replies after the commit and frees the transaction. A transaction without facts replies without
 * waiting.
 */
void transaction_commit(struct transaction *tx);
/*
 * The same for an internal transaction with other STORE_ flags. `fn` (or NULL) is called once: after the commit and the
 * effects, or with the error if the commit failed.
 */
void transaction_commit_then(struct transaction *tx, unsigned flags, store_done_fn fn, void *ctx);
/* Moves the reply to *ret, for code that replies later than the commit. The transaction then commits without a reply.
 */
void transaction_take_reply(struct transaction *tx, struct pending_reply *ret);
/* The opposite: an internal transaction sends this reply after its commit. Takes *reply. */
void transaction_give_reply(struct transaction *tx, struct pending_reply *reply);

#endif
