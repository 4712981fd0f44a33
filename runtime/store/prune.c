/*
 * Retention. Each step is one transaction that projects the oldest events into the `base` table, removes them and their
 * index entries, and moves the floor: models = base + kept log holds at any time.
 */

#include "runtime/base/mem.h"
#include "runtime/store/event_index.h"
#include "runtime/store/idempotency_records.h"
#include "runtime/store/read_models.h"
#include "runtime/store/store_meta.h"
#include "runtime/store/store_private.h"
#include "runtime/store/writer.h"

#include <string.h>

#define STEP_EVENTS 64
#define STEP_PUTS 900
#define STEP_IDEM 200

struct prune {
	struct job job;
	uint64_t floor, idem_before_us, removed;
	unsigned step_events; /* fewer if there is hardly space to copy pages */
	unsigned idem_removed;
	struct tip next_floor;
	uint64_t next_removed;
	void (*done)(void *ctx, uint64_t removed, const struct err *e);
	void *ctx;
};

static int remove_event(struct store *store, MDB_txn *txn, struct models *m, struct tip *floor, struct err *e)
{
	mem_auto void *copy = NULL;
	struct event_view ev;
	struct db_key k;
	MDB_val kv;
	int rc;

	if (writer_project_next(store, txn, m, floor, &copy, &ev, e) != 0)
		return -1;
	kv = db_key_sequence(&k, ev.sequence);
	rc = mdb_del(txn, store->db.t[DB_EVENTS], &kv, NULL);
	for (int f = 0; f < ID_FIELD_COUNT && rc == 0; f++) {
		if (!event_index_key(&ev, f, &k))
			continue;
		kv = db_key_val(&k);
		rc = mdb_del(txn, store->db.t[DB_INDEX], &kv, NULL);
		m->puts++;
		if (rc == MDB_NOTFOUND)
			rc = 0;
	}
	m->puts++;
	return rc == 0 ? 0 : db_err(e, rc, "remove an event");
}

static int prune_txn(struct store *store, MDB_txn *txn, void *ctx, struct err *e)
{
	struct prune *p = ctx;
	struct models m = { .txn = txn, .dbi = store->db.t[DB_BASE] };
	struct tip floor = { 0 };
	uint64_t end = p->floor < store->settled.sequence ? p->floor : store->settled.sequence; /* the newest stays */

	if (db_meta_get(txn, &store->db, META_FLOOR, &floor, sizeof(floor), e) < 0)
		return -1;
	p->next_removed = p->idem_removed = 0;
	for (unsigned i = 0; i < p->step_events && m.puts < STEP_PUTS && floor.sequence + 1 < end; i++) {
		if (remove_event(store, txn, &m, &floor, e) != 0)
			return -1;
		p->next_removed++;
	}
	p->next_floor = floor;
	if (p->next_removed)
		return db_meta_put(txn, &store->db, META_FLOOR, &floor, sizeof(floor), e);
	return idempotency_records_prune(txn, &store->db, p->idem_before_us,
					 p->step_events < STEP_EVENTS ? p->step_events : STEP_IDEM, &p->idem_removed,
					 e);
}

static enum job_step prune_step(struct store *store, struct job *j)
{
	struct prune *p = (struct prune *)j;

	if (writer_txn(store, prune_txn, p, &j->err) != 0) {
		if (j->err.code != ERR_EXHAUSTED || p->step_events == 1)
			return JOB_FAILED;
		p->step_events /= 8;
		if (p->step_events == 0)
			p->step_events = 1;
		j->err = ERR_INIT;
		return JOB_MORE;
	}
	p->removed += p->next_removed;
	atomic_store(&store->first, p->next_floor.sequence + 1);
	if (p->next_removed || p->idem_removed)
		return JOB_MORE;
	return JOB_FINISHED;
}

static void prune_run(struct store *store, struct completion *c)
{
	struct prune *p = (struct prune *)c;

	if (p->done)
		p->done(p->ctx, p->removed, p->job.failed ? &p->job.err : NULL);
	free(p);
}

void store_prune(struct store *store, uint64_t floor, uint64_t idem_before_us,
		 void (*done)(void *ctx, uint64_t removed, const struct err *e), void *ctx)
{
	struct prune *p = mem_zalloc(1, sizeof(*p));

	p->job.completion.run = prune_run;
	p->job.step = prune_step;
	p->job.makes_room = true;
	p->floor = floor;
	p->idem_before_us = idem_before_us;
	p->step_events = STEP_EVENTS;
	p->done = done;
	p->ctx = ctx;
	writer_submit(store, &p->job);
}
