/*
 * Folding the log again, while the store goes on: into the table of models that is not in use, a bounded transaction
 * at a time; the one that reaches the end of the log also makes that table the one in use. A crash before it leaves
 * the old models.
 */

#include "runtime/base/mem.h"
#include "runtime/store/read_models.h"
#include "runtime/store/store_meta.h"
#include "runtime/store/store_private.h"
#include "runtime/store/writer.h"

#include <string.h>

#define STEP_PUTS 900
#define STEP_EVENTS 2000

enum phase { PHASE_CLEAR, PHASE_BASE, PHASE_LOG, PHASE_DONE };

struct rebuild {
	struct job job;
	enum phase phase, next_phase;
	int target;                          /* the table that is filled */
	struct db_key base_at, next_base_at; /* last copied entry of the snapshot */
	struct tip at, next_at;              /* last folded event */
	struct store_verdict verdict;
	void (*done)(void *ctx, const struct store_verdict *v, const struct err *e);
	void *ctx;
};

static int copy_base(struct rebuild *b, struct store *store, MDB_txn *txn, struct err *e)
{
	MDB_val kv = db_key_val(&b->base_at), v;
	struct db_key last = b->base_at;
	MDB_cursor *cur;
	unsigned n = 0;
	int rc = mdb_cursor_open(txn, store->db.t[DB_BASE], &cur);

	if (rc != 0)
		return db_err(e, rc, "read the snapshot");
	rc = mdb_cursor_get(cur, &kv, &v, last.len ? MDB_SET_RANGE : MDB_FIRST);
	if (rc == 0 && last.len && kv.mv_size == last.len && memcmp(kv.mv_data, last.bytes, last.len) == 0)
		rc = mdb_cursor_get(cur, &kv, &v, MDB_NEXT);
	for (; rc == 0 && n < STEP_PUTS; rc = mdb_cursor_get(cur, &kv, &v, MDB_NEXT), n++) {
		rc = mdb_put(txn, store->db.t[b->target], &kv, &v, 0);
		if (rc != 0)
			break;
		db_key_reset(&last);
		db_key_add(&last, kv.mv_data, kv.mv_size);
	}
	mdb_cursor_close(cur);
	if (rc != 0 && rc != MDB_NOTFOUND)
		return db_err(e, rc, "copy the snapshot");
	b->next_base_at = last;
	if (rc == MDB_NOTFOUND)
		b->next_phase = PHASE_LOG;
	return 0;
}

static int fold_log(struct rebuild *b, struct store *store, MDB_txn *txn, struct err *e)
{
	struct models m = { .txn = txn, .dbi = store->db.t[b->target] };
	uint8_t which = b->target == DB_MODELS_B;

	for (unsigned i = 0; i < STEP_EVENTS && m.puts < STEP_PUTS && b->next_at.sequence < store->settled.sequence;
	     i++) {
		struct db_key k = { .len = 0 };
		struct event_view ev;
		const void *event;
		MDB_val kv, v;
		size_t len;
		int rc;

		db_key_u64(&k, b->next_at.sequence + 1);
		kv = db_key_val(&k);
		rc = mdb_get(txn, store->db.t[DB_EVENTS], &kv, &v);
		if (rc == MDB_NOTFOUND)
			return err_set(e, ERR_CORRUPT, "event %llu is missing",
				       (unsigned long long)b->next_at.sequence + 1);
		if (rc != 0)
			return db_err(e, rc, "read an event");
		if (record_follow(v.mv_data, v.mv_size, b->next_at.sequence + 1, &b->next_at, &event, &len, e) != 0)
			return -1;
		mem_auto void *copy = mem_dup(event, len);
		if (event_view_of(copy, len, b->next_at.sequence, &ev, e) != 0 ||
		    (store->project && store->project(&m, &ev, e) != 0))
			return err_wrap(e, "fold event %llu", (unsigned long long)b->next_at.sequence);
	}
	if (b->next_at.sequence < store->settled.sequence)
		return 0;
	b->next_phase = PHASE_DONE;
	return db_meta_put(txn, &store->db, META_MODELS, &which, sizeof(which), e);
}

static int rebuild_txn(struct store *store, MDB_txn *txn, void *ctx, struct err *e)
{
	struct rebuild *b = ctx;
	int rc;

	b->next_phase = b->phase;
	b->next_base_at = b->base_at;
	b->next_at = b->at;
	switch (b->phase) {
	case PHASE_CLEAR:
		if (db_meta_get(txn, &store->db, META_FLOOR, &b->at, sizeof(b->at), e) < 0)
			return -1;
		b->target = store->models == DB_MODELS_A ? DB_MODELS_B : DB_MODELS_A;
		b->verdict.first_sequence = b->at.sequence + 1;
		b->next_at = b->at;
		rc = mdb_drop(txn, store->db.t[b->target], 0);
		b->next_phase = PHASE_BASE;
		return rc == 0 ? 0 : db_err(e, rc, "clear the models");
	case PHASE_BASE: return copy_base(b, store, txn, e);
	default: return fold_log(b, store, txn, e);
	}
}

static enum job_step rebuild_step(struct store *store, struct job *j)
{
	struct rebuild *b = (struct rebuild *)j;

	/* Readers find out for themselves while it changes. */
	pthread_mutex_lock(&store->mutex);
	store->models_since = SIZE_MAX;
	pthread_mutex_unlock(&store->mutex);
	if (writer_txn(store, rebuild_txn, b, &j->err) != 0)
		return JOB_FAILED;
	b->phase = b->next_phase;
	b->at = b->next_at;
	b->base_at = b->next_base_at;
	if (b->phase != PHASE_DONE)
		return JOB_MORE;
	pthread_mutex_lock(&store->mutex);
	store->models = b->target;
	store->models_since = store->txn_id;
	pthread_mutex_unlock(&store->mutex);
	b->verdict.ok = true;
	b->verdict.last_sequence = b->at.sequence;
	b->verdict.events = b->at.sequence + 1 - b->verdict.first_sequence;
	return JOB_FINISHED;
}

static void rebuild_run(struct store *store, struct completion *c)
{
	struct rebuild *b = (struct rebuild *)c;

	if (b->done)
		b->done(b->ctx, &b->verdict, b->job.failed ? &b->job.err : NULL);
	free(b);
}

void store_rebuild(struct store *store, void (*done)(void *ctx, const struct store_verdict *v, const struct err *e),
		   void *ctx)
{
	struct rebuild *b = mem_zalloc(1, sizeof(*b));

	b->job.completion.run = rebuild_run;
	b->job.step = rebuild_step;
	b->done = done;
	b->ctx = ctx;
	writer_submit(store, &b->job);
}
