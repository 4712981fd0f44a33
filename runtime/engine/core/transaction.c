#include "runtime/engine/core/transaction.h"

#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"

static struct transaction *make_transaction(struct engine *g)
{
	struct transaction *tx = mem_zalloc(1, sizeof *tx);

	tx->engine = g;
	tx->batch = store_batch_new(g->o.store);
	tx->w = jw_on(&tx->result);
	jw_obj(&tx->w);
	return tx;
}

struct transaction *transaction_new(struct engine *g, const struct caller *c, engine_reply_fn fn, void *ctx)
{
	struct transaction *tx = make_transaction(g);

	tx->caller = *c;
	reply_copy(&tx->reply, c, fn, ctx);
	return tx;
}

struct transaction *transaction_new_internal(struct engine *g)
{
	struct transaction *tx = make_transaction(g);

	tx->caller = (struct caller){ .uid = g->o.owner_uid, .role = ROLE_OPERATOR, .peer_fd = -1 };
	tx->flags = STORE_MUST;
	return tx;
}

static void transaction_free(struct transaction *tx)
{
	store_batch_free(tx->batch);
	reply_done(&tx->reply);
	buf_done(&tx->result);
	free(tx->then);
	free(tx);
}

void transaction_after_commit(struct transaction *tx, transaction_effect_fn fn, const char *id)
{
	tx->then = mem_realloc(tx->then, (tx->nthen + 1) * sizeof *tx->then);
	tx->then[tx->nthen].fn = fn;
	id_copy(tx->then[tx->nthen++].id, id);
}

void transaction_reject_data(struct transaction *tx, const struct err *e, const char *data, size_t len)
{
	if (!tx->reply.fn)
		log_error("%s", e->message);
	reply_err(&tx->reply, e, data, len);
	transaction_free(tx);
}

void transaction_reject(struct transaction *tx, const struct err *e) { transaction_reject_data(tx, e, NULL, 0); }

void transaction_take_reply(struct transaction *tx, struct pending_reply *ret)
{
	*ret = tx->reply;
	tx->reply = (struct pending_reply){ 0 };
}

static void on_decided(void *ctx, const struct store_result *r)
{
	struct transaction *tx = ctx;

	tx->batch = NULL;
	if (r->status < 0) {
		if (!tx->reply.fn)
			log_error("record: %s", r->err->message);
		reply_err(&tx->reply, r->err, NULL, 0);
		transaction_free(tx);
		return;
	}
	for (size_t i = 0; i < tx->nthen; i++)
		tx->then[i].fn(tx->engine, tx->then[i].id);
	if (r->last_sequence)
		jw_kuint(&tx->w, "sequence", r->last_sequence);
	jw_obj_end(&tx->w);
	reply_json(&tx->reply, tx->result.data, tx->result.len);
	transaction_free(tx);
}

void transaction_commit(struct transaction *tx)
{
	struct store_batch *b = tx->batch;
	const struct err *problem = store_batch_problem(b);

	/* A request whose facts cannot all be encoded has no effect. The engine's own reports are recorded as far as
	 * possible instead. */
	if (problem && tx->reply.fn) {
		struct err e = *problem;

		err_wrap(&e, "write it down");
		transaction_reject(tx, &e);
		return;
	}

	if (tx->reply.idem_key) {
		buf_auto struct buf kept = BUF_INIT;

		buf_append(&kept, tx->result.data, tx->result.len);
		buf_byte(&kept, '}');
		reply_store(&tx->reply, b, kept.data, kept.len);
	}
	tx->batch = NULL;
	store_submit(tx->engine->o.store, b, tx->flags, on_decided, tx);
}
