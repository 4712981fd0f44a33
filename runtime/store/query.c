/* Reads events: recent ones from the ring, older ones from the database. */

#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/store/damage.h"
#include "runtime/store/event_index.h"
#include "runtime/store/layer.h"
#include "runtime/store/reader.h"
#include "runtime/store/record.h"
#include "runtime/store/scratch.h"
#include "runtime/store/spool.h"
#include "runtime/store/store_dirs.h"
#include "runtime/store/store_private.h"
#include "runtime/store/worker.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Most events read in one transaction: while it is open LMDB cannot reuse any page that it can see. */
#define EVENTS_A_TXN 512

struct event_scan {
	struct store *store;
	const struct store_query *q;
	size_t id_len;
	uint64_t next, last; /* still to be delivered: [next, last] */
	bool (*fn)(void *ctx, const struct event_view *ev);
	void *ctx;
	bool stopped;
	struct record_block block; /* of the event at hand */
};

static int set_expired(struct err *e, uint64_t after, uint64_t first)
{
	return err_set(e, ERR_EXPIRED, "events after %llu were requested, but the first that is kept is %llu",
		       (unsigned long long)after, (unsigned long long)first);
}

/* Retention may have removed more events since the last transaction of this scan. */
static int check_floor(const struct reader *r, struct event_scan *c, struct err *e)
{
	struct tip floor;

	if (reader_floor(r, &floor, e) != 0)
		return -1;
	if (c->next > floor.sequence)
		return 0;
	if (!c->q->kept)
		return set_expired(e, c->next - 1, floor.sequence + 1);
	c->next = floor.sequence + 1;
	return 0;
}

static bool matches_index(const struct event_scan *c, const struct event_view *ev)
{
	const struct id_text *id;

	if (c->q->index < 0)
		return true;
	id = &ev->ids[c->q->index];
	return id->text && id->len == c->id_len && memcmp(id->text, c->q->id, id->len) == 0;
}

static int deliver_event(struct event_scan *c, const struct reader *r, uint64_t sequence, struct err *e)
{
	struct event_view ev;

	if (record_load(r->txn, r->db, sequence, &c->block, e) != 0 || record_event(&c->block, sequence, &ev, e) != 0)
		return -1;
	if (!matches_index(c, &ev))
		return err_set(e, ERR_CORRUPT, "event %llu: an index entry is wrong", (unsigned long long)sequence);
	c->next = sequence + 1;
	c->stopped = !c->fn(c->ctx, &ev);
	return 0;
}

/* Delivers events up to `last`, as many as one transaction may read. */
static int scan_log(struct event_scan *c, uint64_t last, struct err *e)
{
	reader_auto struct reader r = READER_INIT;
	unsigned budget = EVENTS_A_TXN;

	if (reader_begin(c->store, &r, e) != 0 || check_floor(&r, c, e) != 0)
		return -1;
	while (c->next <= last && !c->stopped && budget--)
		if (deliver_event(c, &r, c->next, e) != 0)
			return -1;
	return 0;
}

static int scan_index(struct event_scan *c, uint64_t last, struct err *e)
{
	reader_auto struct reader r = READER_INIT;
	index_scan_auto struct index_scan s = INDEX_SCAN_INIT;
	unsigned budget = EVENTS_A_TXN;
	uint64_t sequence;
	int rc = 0;

	if (reader_begin(c->store, &r, e) != 0 || check_floor(&r, c, e) != 0 ||
	    index_scan_begin(r.db, r.txn, c->q->index, c->q->id, c->id_len, c->next, &s, e) != 0)
		return -1;
	while (!c->stopped && (rc = index_scan_next(&s, &sequence, e)) > 0 && sequence <= last) {
		if (budget-- == 0)
			return 0; /* the next transaction continues at c->next */
		if (deliver_event(c, &r, sequence, e) != 0)
			return -1;
	}
	if (rc < 0)
		return -1;
	if (!c->stopped)
		c->next = last + 1;
	return 0;
}

static int scan_ring(struct event_scan *c, struct err *e)
{
	while (c->next <= c->last && !c->stopped) {
		struct event_view ev;
		size_t len;
		const void *p = ring_get(&c->store->ring, c->next, &len);

		if (!p)
			return err_set(e, ERR_INTERNAL, "event %llu is not in memory", (unsigned long long)c->next);
		if (event_view_of(p, len, c->next, &ev, e) != 0)
			return -1;
		c->next++;
		if (matches_index(c, &ev))
			c->stopped = !c->fn(c->ctx, &ev);
	}
	return 0;
}

/* A subscriber that is up to date reads from the ring alone, without a transaction. */
int store_events(struct store *store, const struct store_query *q, bool (*fn)(void *ctx, const struct event_view *ev),
		 void *ctx, struct err *e)
{
	struct event_scan c = {
		.store = store, .q = q, .next = q->after + 1, .last = store->last, .fn = fn, .ctx = ctx
	};
	uint64_t first = atomic_load(&store->first), in_ring = ring_first(&store->ring);
	int rc = 0;

	if (q->index >= ID_FIELD_COUNT || (q->index >= 0 && (!id_field_indexed((enum id_field)q->index) || !q->id)))
		return err_field(e, "index", "events are not indexed by this field");
	c.id_len = q->index >= 0 ? strlen(q->id) : 0;
	if (q->before && q->before - 1 < c.last)
		c.last = q->before - 1;
	if (q->after == UINT64_MAX)
		return 0;
	if (c.next < first && !q->kept)
		return set_expired(e, q->after, first);
	if (c.next < first)
		c.next = first;
	if (q->index >= 0 && (c.id_len == 0 || c.id_len > ID_GIVEN_MAX))
		return 0;
	while (rc == 0 && !c.stopped && c.next <= c.last && (!in_ring || c.next < in_ring)) {
		uint64_t last = in_ring && in_ring - 1 < c.last ? in_ring - 1 : c.last;

		rc = q->index >= 0 ? scan_index(&c, last, e) : scan_log(&c, last, e);
	}
	if (rc == 0 && !c.stopped)
		rc = scan_ring(&c, e);
	record_block_done(&c.block);
	return damage_note(store, rc, e);
}

/* Any thread: reads committed events from the database only. Both bounds are required. */
static int query_committed(struct store *store, const struct store_query *q,
			   bool (*fn)(void *ctx, const struct event_view *ev), void *ctx, struct err *e)
{
	struct event_scan c = {
		.store = store, .q = q, .next = q->after + 1, .last = q->before - 1, .fn = fn, .ctx = ctx
	};
	int rc = 0;

	c.id_len = q->index >= 0 ? strlen(q->id) : 0;
	while (rc == 0 && !c.stopped && c.next <= c.last)
		rc = q->index >= 0 ? scan_index(&c, c.last, e) : scan_log(&c, c.last, e);
	record_block_done(&c.block);
	return rc;
}

/*
 * The first event in [lo, hi) that is not older than real_us, or hi: a binary search for its record by max_us, because
 * the clock may have been set back between two events.
 */
static int find_time(const struct reader *r, uint64_t real_us, uint64_t lo, uint64_t hi, uint64_t *ret, struct err *e)
{
	record_block_auto struct record_block block = RECORD_BLOCK_INIT;
	const uint64_t end = hi;
	struct event_view ev;

	/* max_us never decreases, and it reaches real_us in the record of the first event that is not older */
	while (lo < hi) {
		uint64_t mid = lo + (hi - lo) / 2, first;
		struct record_head h;
		MDB_val v;

		if (db_event_get(r->txn, r->db, mid, &first, &v, e) != 0 ||
		    record_check(v.mv_data, v.mv_size, first, &h, e) != 0)
			return -1;
		if (mid > first + h.more)
			return db_event_missing(mid, e);
		if (h.max_us < real_us)
			lo = first + h.more + 1;
		else
			hi = first > lo ? first : lo;
	}
	for (; lo < end; lo++) {
		if (record_load(r->txn, r->db, lo, &block, e) != 0 || record_event(&block, lo, &ev, e) != 0)
			return -1;
		if (ev.real_us >= real_us)
			break;
	}
	*ret = lo;
	return 0;
}

int store_sequence_at(struct store *store, uint64_t real_us, uint64_t *ret, struct err *e)
{
	reader_auto struct reader r = READER_INIT;
	uint64_t lo = 0, settled;
	struct tip floor;

	if (reader_begin(store, &r, e) != 0 || reader_floor(&r, &floor, e) != 0)
		return -1;
	settled = layer_settled(r.over, store->last);
	if (settled > store->last)
		settled = store->last;
	if (find_time(&r, real_us, floor.sequence + 1, settled + 1, &lo, e) != 0)
		return -1;
	/* events that are not settled yet are in memory */
	for (; lo > settled && lo <= store->last; lo++) {
		struct event_view ev;
		size_t len;
		const void *p = ring_get(&store->ring, lo, &len);

		if (!p || event_view_of(p, len, lo, &ev, e) != 0)
			return p ? -1 : err_set(e, ERR_INTERNAL, "event %llu is not in memory", (unsigned long long)lo);
		if (ev.real_us >= real_us)
			break;
	}
	*ret = lo;
	return 0;
}

/* ---- long reads, on the worker thread, and the spool files that they write (store.h, "long reading") ---- */

/*
 * Long reads. The work runs on the worker thread and sees only settled data: worker.c waits for that, and the bound of
 * the query excludes what was committed later. Its temporary models are created at the first projection, so that a read
 * that needs none costs no environment.
 */
struct background_read {
	struct job job;
	struct store *store;
	struct scratch scratch;
	background_read_fn work;
	void (*done)(void *ctx, const struct err *e);
	void *ctx;
};

static enum job_step background_read_step(struct store *store, struct job *j)
{
	struct background_read *a = (struct background_read *)j;
	int rc = a->work(a, a->ctx, &j->err);

	scratch_done(&a->scratch);
	return rc < 0 ? JOB_FAILED : JOB_FINISHED;
}

static void background_read_run(struct store *store, struct completion *c)
{
	struct background_read *a = (struct background_read *)c;

	a->done(a->ctx, a->job.failed ? &a->job.err : NULL);
	free(a);
}

void store_background_read(struct store *store, background_read_fn work, void (*done)(void *ctx, const struct err *e),
			   void *ctx)
{
	struct background_read *a = mem_zalloc(1, sizeof(*a));

	a->job.completion.run = background_read_run;
	a->job.step = background_read_step;
	a->store = store;
	a->scratch = SCRATCH_INIT;
	a->work = work;
	a->done = done;
	a->ctx = ctx;
	worker_submit(store, &a->job);
}

struct store *background_read_store(struct background_read *a) { return a->store; }

uint64_t background_read_first(struct background_read *a) { return atomic_load(&a->store->first); }

int background_read_stopped(struct background_read *a, struct err *e)
{
	return store_cancelled(a->store) ? err_set(e, ERR_UNAVAILABLE, "the store is being closed") : 0;
}

int background_read_events(struct background_read *a, const struct store_query *q,
			   bool (*fn)(void *ctx, const struct event_view *ev), void *ctx, struct err *e)
{
	return damage_note(a->store, query_committed(a->store, q, fn, ctx, e), e);
}

static int open_scratch(struct background_read *a, struct err *e)
{
	return a->scratch.env ? 0 : scratch_open(a->store, &a->scratch, e);
}

int background_read_project(struct background_read *a, const struct event_view *ev, struct err *e)
{
	int rc;

	if (open_scratch(a, e) != 0)
		return -1;
	rc = a->store->project(&a->scratch.models, ev, e);
	models_release(&a->scratch.models);
	return rc != 0 ? -1 : scratch_yield(&a->scratch, e);
}

int background_read_model(struct background_read *a, uint8_t kind, const char *id, const char **ret, size_t *ret_len,
			  struct err *e)
{
	if (open_scratch(a, e) != 0)
		return -1;
	return models_get(&a->scratch.models, kind, id, strlen(id), ret, ret_len, e);
}

int background_read_models(struct background_read *a, uint8_t kind,
			   bool (*fn)(void *ctx, const char *id, size_t id_len, const char *json, size_t len),
			   void *ctx, struct err *e)
{
	MDB_val kv = { .mv_size = 1, .mv_data = &kind }, v;
	db_cursor_auto MDB_cursor *cur = NULL;
	buf_auto struct buf space = BUF_INIT;
	int rc;

	if (open_scratch(a, e) != 0 || scratch_flush(&a->scratch, e) != 0)
		return -1;
	rc = mdb_cursor_open(a->scratch.models.txn, a->scratch.models.dbi, &cur);
	if (rc != 0)
		return db_err(e, rc, "read temporary models");
	for (rc = mdb_cursor_get(cur, &kv, &v, MDB_SET_RANGE); rc == 0; rc = mdb_cursor_get(cur, &kv, &v, MDB_NEXT)) {
		const char *json;
		size_t len;

		if (kv.mv_size < 2 || *(const uint8_t *)kv.mv_data != kind)
			break;
		if (stored_doc_open(&kv, &v, &space, &json, &len, e) != 0)
			return -1;
		if (!fn(ctx, (const char *)kv.mv_data + 1, kv.mv_size - 1, json, len))
			break;
	}
	return rc == 0 || rc == MDB_NOTFOUND ? 0 : db_err(e, rc, "read temporary models");
}

static void temporary_name(const char *output_ref, char ret[BATCH_REF_MAX])
{
	snprintf(ret, BATCH_REF_MAX, STORE_DIRS_NEW_SPOOL "%s", output_ref);
}

int background_read_spool(struct background_read *a, const char *output_ref, int *ret_fd, struct err *e)
{
	struct spool_file f = SPOOL_FILE_INIT;
	char name[BATCH_REF_MAX];

	temporary_name(output_ref, name);
	if (spool_open(a->store->spool_fd, name, 0, &f, e) != 0)
		return -1;
	*ret_fd = f.fd;
	return 0;
}

/*
 * A link and not a rename: until store_spool_committed the temporary name shows the next open that the file may belong
 * to no event. It then removes the real name, too, unless a batch cites it (sweep_new in store_dirs.c).
 */
int store_spool_ref(struct store *store, const char *output_ref, struct err *e)
{
	char name[BATCH_REF_MAX];

	temporary_name(output_ref, name);
	if (linkat(store->spool_fd, name, store->spool_fd, output_ref, 0) == 0)
		return 0;
	/* Some file systems have no links; there a crash before the commit leaves a file that no event cites. */
	if ((errno != EPERM && errno != EOPNOTSUPP && errno != EMLINK) ||
	    renameat(store->spool_fd, name, store->spool_fd, output_ref) != 0)
		return err_sys(e, errno, "name the spool file '%s'", output_ref);
	return 0;
}

void store_spool_committed(struct store *store, const char *output_ref)
{
	char name[BATCH_REF_MAX];

	temporary_name(output_ref, name);
	(void)spool_unlink(store->spool_fd, name);
}

void store_spool_unref(struct store *store, const char *output_ref)
{
	char name[BATCH_REF_MAX];

	temporary_name(output_ref, name);
	(void)spool_unlink(store->spool_fd, name);
	(void)spool_unlink(store->spool_fd, output_ref);
}
