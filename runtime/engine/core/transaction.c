#include "runtime/engine/core/transaction.h"

#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"

struct transaction *transaction_new_internal(struct engine *engine)
{
	struct transaction *tx = mem_zalloc(1, sizeof *tx);

	tx->engine = engine;
	tx->batch = store_batch_new(engine->o.store);
	tx->w = jw_on(&tx->result);
	jw_obj(&tx->w);
	tx->caller = (struct caller){ .uid = engine->o.owner_uid, .role = ROLE_OPERATOR, .peer_fd = -1 };
	tx->flags = STORE_MUST;
	return tx;
}

struct transaction *transaction_new(struct engine *engine, const struct caller *c, engine_reply_fn fn, void *ctx)
{
	struct transaction *tx = transaction_new_internal(engine);

	tx->caller = *c;
	tx->flags = 0;
	reply_copy(&tx->reply, c, fn, ctx);
	return tx;
}

void transaction_free(struct transaction *tx)
{
	if (!tx)
		return;
	store_batch_free(tx->batch);
	reply_done(&tx->reply);
	buf_done(&tx->result);
	free(tx->effects);
	free(tx);
}

int transaction_add_event(struct transaction *tx, const struct event_draft *draft, struct err *e)
{
	tx->engine->model_requested |= draft->type == EVENT_MODEL_REQUESTED;
	return store_batch_event(tx->batch, draft, e);
}

const struct err *transaction_problem(const struct transaction *tx) { return store_batch_problem(tx->batch); }

void transaction_add_output(struct transaction *tx, const char *output_ref, const void *p, size_t n)
{
	store_batch_inline(tx->batch, output_ref, p, n);
}

void transaction_add_spool(struct transaction *tx, const char *output_ref, int fd, uint64_t offset, uint64_t length)
{
	store_batch_spool(tx->batch, output_ref, fd, offset, length);
}

void transaction_set_meta(struct transaction *tx, const char *key, const void *p, size_t n)
{
	store_batch_meta(tx->batch, key, p, n);
}

void transaction_store_reply(struct transaction *tx, const struct pending_reply *r, const char *json, size_t len)
{
	if (r->idem_key)
		store_batch_idempotency(tx->batch, r->uid, r->idem_key, r->idem_method, r->idem_hash, json, len);
}

void transaction_after_commit(struct transaction *tx, transaction_effect_fn fn, const char *id)
{
	tx->effects = mem_realloc(tx->effects, (tx->neffects + 1) * sizeof *tx->effects);
	tx->effects[tx->neffects].fn = fn;
	id_copy(tx->effects[tx->neffects++].id, id);
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

void transaction_give_reply(struct transaction *tx, struct pending_reply *reply)
{
	tx->reply = *reply;
	*reply = (struct pending_reply){ 0 };
}

static void on_decided(void *ctx, const struct store_result *r)
{
	struct transaction *tx = ctx;

	tx->batch = NULL; /* the store has freed it */
	for (size_t i = 0; r->status >= 0 && i < tx->neffects; i++)
		tx->effects[i].fn(tx->engine, tx->effects[i].id);
	if (tx->decided) {
		tx->decided(tx->decided_ctx, r);
	} else if (r->status < 0) {
		if (!tx->reply.fn)
			log_error("record: %s", r->err->message);
		reply_err(&tx->reply, r->err, NULL, 0);
	} else if (tx->reply.fn) {
		if (r->last_sequence)
			jw_kuint(&tx->w, "sequence", r->last_sequence);
		jw_obj_end(&tx->w);
		reply_json(&tx->reply, tx->result.data, tx->result.len);
	}
	transaction_free(tx);
}

void transaction_commit(struct transaction *tx)
{
	const struct err *problem = transaction_problem(tx);

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
		transaction_store_reply(tx, &tx->reply, kept.data, kept.len);
	}
	struct store_batch *batch = tx->batch;
	tx->batch = NULL; /* the store owns it now, and may decide before store_submit returns */
	store_submit(tx->engine->o.store, batch, tx->flags, on_decided, tx);
}

void transaction_commit_then(struct transaction *tx, unsigned flags, store_done_fn fn, void *ctx)
{
	tx->flags = flags;
	tx->decided = fn;
	tx->decided_ctx = ctx;
	transaction_commit(tx);
}
