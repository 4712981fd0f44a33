/*
 * Computes the read models again while the store is in use: projects the log into the inactive table of models, in
 * transactions of bounded size. The one that reaches the end of the log also makes that table the active one; a crash
 * before that leaves the old models.
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
	struct db_key base_at, next_base_at; /* last copied entry of the `base` table */
	struct tip at, next_at;              /* last projected event */
	struct store_verdict verdict;
	void (*done)(void *ctx, const struct store_verdict *v, const struct err *e);
	void *ctx;
};

static int copy_base(struct rebuild *b, struct store *store, MDB_txn *txn, struct err *e)
{
	MDB_val kv = db_key_val(&b->base_at), v;
	struct db_key last = b->base_at;
	db_cursor_auto MDB_cursor *cur = NULL;
	unsigned n = 0;
	int rc = mdb_cursor_open(txn, store->db.t[DB_BASE], &cur);

	if (rc != 0)
		return db_err(e, rc, "read the base models");
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
	if (rc != 0 && rc != MDB_NOTFOUND)
		return db_err(e, rc, "copy the base models");
	b->next_base_at = last;
	if (rc == MDB_NOTFOUND)
		b->next_phase = PHASE_LOG;
	return 0;
}

static int project_log(struct rebuild *b, struct store *store, MDB_txn *txn, struct err *e)
{
	struct models m = { .txn = txn, .dbi = store->db.t[b->target] };
	uint8_t which = b->target == DB_MODELS_B;

	for (unsigned i = 0; i < STEP_EVENTS && m.puts < STEP_PUTS && b->next_at.sequence < store->settled.sequence;
	     i++) {
		mem_auto void *copy = NULL;
		struct event_view ev;

		if (writer_project_next(store, txn, &m, &b->next_at, &copy, &ev, e) != 0)
			return -1;
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
	default: return project_log(b, store, txn, e);
	}
}

static enum job_step rebuild_step(struct store *store, struct job *j)
{
	struct rebuild *b = (struct rebuild *)j;

	/* Meanwhile readers look the active table up. */
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
