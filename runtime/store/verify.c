/*
 * Verify: checks everything that can be proved about a store, over one snapshot, while the writer continues.
 *
 * First the pages (lmdb_check.h), so that LMDB cannot crash on them. Then the log: checksums and chain of all records,
 * all index entries, and a projection of the log on top of the base models, which must equal the stored models byte for
 * byte. Then the sealed values. The transaction ends before the spool files are read, which may take long: chunks are
 * looked up in portions, and a mismatch is a problem only if the row still exists afterwards (the output may have
 * expired meanwhile). Groups that were acknowledged before are settled first (worker.c); later ones, and those of a
 * store that is open read-only, must be in the journal.
 */

#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/store/chunk.h"
#include "runtime/store/event_index.h"
#include "runtime/store/group.h"
#include "runtime/store/journal.h"
#include "runtime/store/lmdb_check.h"
#include "runtime/store/reader.h"
#include "runtime/store/record.h"
#include "runtime/store/scratch.h"
#include "runtime/store/store_private.h"
#include "runtime/store/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#define SNAPSHOT_TRIES 1000
#define CHUNKS_A_TXN 256

struct verify {
	struct job job;
	struct store *store;
	struct reader r;
	struct scratch scratch;
	struct store_verdict v;
	struct record_block block; /* of the event at hand */
	uint64_t index_entries;
	bool log_ok;
	void (*done)(void *ctx, const struct store_verdict *v, const struct err *e);
	void *ctx;
};

static void add_problem(struct verify *y, uint64_t sequence, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void add_problem(struct verify *y, uint64_t sequence, const char *fmt, ...)
{
	va_list ap;

	y->v.ok = false;
	if (y->v.nproblems < countof(y->v.problems)) {
		struct store_problem *p = &y->v.problems[y->v.nproblems];

		p->sequence = sequence;
		va_start(ap, fmt);
		vsnprintf(p->what, sizeof(p->what), fmt, ap);
		va_end(ap);
	}
	y->v.nproblems++;
}

static int check_cancelled(struct verify *y, struct err *e)
{
	return store_cancelled(y->store) ? err_set(e, ERR_UNAVAILABLE, "verify was interrupted") : 0;
}

/* Begins a reader whose pages are valid: 0; 1 = they are not, which was added as a problem; −1. */
static int begin_snapshot(struct verify *y, struct err *e)
{
	for (int i = 0; i < SNAPSHOT_TRIES; i++) {
		struct err pe = ERR_INIT;
		int fd, rc;

		if (check_cancelled(y, e) || reader_begin(y->store, &y->r, e) != 0)
			return -1;
		if (mdb_env_get_fd(y->r.db->env, &fd) != 0)
			return err_set(e, ERR_INTERNAL, "the environment has no descriptor");
		rc = lmdb_check_fd(fd, mdb_txn_id(y->r.txn), UINT64_MAX, &pe);
		if (rc == 0)
			return 0;
		if (rc < 0 && pe.code != ERR_CORRUPT) {
			*e = pe;
			return -1;
		}
		if (rc < 0) {
			add_problem(y, 0, "data.mdb: %s", pe.message);
			return 1;
		}
		reader_end(&y->r); /* two commits have replaced its meta page */
	}
	return err_set(e, ERR_UNAVAILABLE, "the store is too busy to be verified; try again later");
}

/* ---- the log ---- */

static int check_index(struct verify *y, const struct event_view *ev, struct err *e)
{
	for (int f = 0; f < ID_FIELD_COUNT; f++) {
		index_scan_auto struct index_scan s = INDEX_SCAN_INIT;
		const struct id_text *id = &ev->ids[f];
		struct err bad = ERR_INIT;
		uint64_t found = 0;

		if (!id->text || !id_field_indexed((enum id_field)f))
			continue;
		y->index_entries++;
		if (index_scan_begin(y->r.db, y->r.txn, f, id->text, id->len, ev->sequence, &s, e) != 0)
			return -1;
		if (index_scan_next(&s, &found, &bad) < 0 && bad.code != ERR_CORRUPT) {
			*e = bad;
			return -1;
		}
		if (found != ev->sequence)
			add_problem(y, ev->sequence, "event %llu is not in the index of %s",
				    (unsigned long long)ev->sequence, id_field_member((enum id_field)f));
	}
	return 0;
}

/* The log has found all its entries: there must be no others. */
static int check_index_size(struct verify *y, struct err *e)
{
	struct err bad = ERR_INIT;
	uint64_t entries = 0;

	if (event_index_count(y->r.db, y->r.txn, &entries, &bad) != 0) {
		if (bad.code != ERR_CORRUPT) {
			*e = bad;
			return -1;
		}
		add_problem(y, 0, "%s", bad.message);
	} else if (entries != y->index_entries) {
		add_problem(y, 0, "the indexes have %llu entries; the log accounts for %llu",
			    (unsigned long long)entries, (unsigned long long)y->index_entries);
	}
	return 0;
}

static int check_event(struct verify *y, uint64_t sequence, struct err *e)
{
	struct err bad = ERR_INIT;
	struct event_view ev;

	if (record_event(&y->block, sequence, &ev, &bad) != 0) {
		add_problem(y, sequence, "%s", bad.message);
		y->log_ok = false;
		return 0;
	}
	y->v.events++;
	if (check_index(y, &ev, e) != 0)
		return -1;
	if (!y->log_ok || !y->store->project)
		return 0;
	int rc = y->store->project(&y->scratch.models, &ev, &bad);
	models_release(&y->scratch.models);
	if (rc != 0) {
		if (bad.code == ERR_EXHAUSTED || bad.code == ERR_SYS) {
			*e = bad;
			return -1;
		}
		add_problem(y, sequence, "project event %llu: %s", (unsigned long long)sequence, bad.message);
		y->log_ok = false;
	}
	return scratch_yield(&y->scratch, e);
}

/* A damaged record is reported and skipped; the models are not compared afterwards. */
static int check_record(struct verify *y, const MDB_val *kv, const MDB_val *v, struct tip *tip, struct err *e)
{
	uint64_t first = kv->mv_size == 8 ? db_u64_at(kv->mv_data) : 0, next = tip->sequence + 1;
	struct err bad = ERR_INIT;
	struct record_head h = { 0 };

	if (record_follow(v->mv_data, v->mv_size, first, tip, &bad) != 0 ||
	    record_open(v->mv_data, v->mv_size, first, &y->block, &bad) != 0) {
		y->log_ok = false;
		/* continue after it: the next record contains its checksum */
		if (v->mv_size >= sizeof(h))
			memcpy(&h, v->mv_data, sizeof(h));
		if (h.more >= RECORD_EVENTS_MAX)
			h.more = 0;
		for (uint64_t lost = first; lost <= first + h.more; lost++)
			add_problem(y, lost, "%s", bad.message);
		*tip = (struct tip){ .sequence = first + h.more, .checksum = h.checksum, .max_us = h.max_us };
		return 0;
	}
	for (; next <= y->block.last; next++)
		if (check_event(y, next, e) != 0)
			return -1;
	return 0;
}

static int copy_base(struct verify *y, struct err *e)
{
	db_cursor_auto MDB_cursor *cur = NULL;
	MDB_val kv, v;
	int rc = mdb_cursor_open(y->r.txn, y->r.db->t[DB_BASE], &cur);

	while (rc == 0 && (rc = mdb_cursor_get(cur, &kv, &v, MDB_NEXT)) == 0) {
		rc = mdb_put(y->scratch.models.txn, y->scratch.models.dbi, &kv, &v, MDB_APPEND);
		y->scratch.models.puts++;
		if (rc == 0 && scratch_yield(&y->scratch, e) != 0)
			return -1;
	}
	return rc == MDB_NOTFOUND ? 0 : db_err(e, rc, "copy the base models");
}

static int check_log(struct verify *y, struct err *e)
{
	db_cursor_auto MDB_cursor *cur = NULL;
	struct tip tip;
	MDB_val kv, v;
	int rc;

	if (reader_floor(&y->r, &tip, e) != 0)
		return -1;
	y->v.first_sequence = tip.sequence + 1;
	y->log_ok = true;
	if (y->store->project && (scratch_open(y->store, &y->scratch, e) != 0 || copy_base(y, e) != 0))
		return -1;
	rc = mdb_cursor_open(y->r.txn, y->r.db->t[DB_EVENTS], &cur);
	if (rc != 0)
		return db_err(e, rc, "read the log");
	while ((rc = mdb_cursor_get(cur, &kv, &v, MDB_NEXT)) == 0)
		if (check_cancelled(y, e) || check_record(y, &kv, &v, &tip, e) != 0)
			return -1;
	if (rc != MDB_NOTFOUND)
		return db_err(e, rc, "read the log");
	y->v.last_sequence = tip.sequence;
	return y->log_ok ? check_index_size(y, e) : 0;
}

/* ---- the models ---- */

static void add_model_problem(struct verify *y, const MDB_val *key, const char *what)
{
	const char *k = key->mv_data;
	int n = key->mv_size > 81 ? 80 : (int)key->mv_size - 1;

	add_problem(y, 0, "model %u '%.*s' %s", (unsigned)(unsigned char)k[0], n, k + 1, what);
}

static int compare_keys(const MDB_val *a, const MDB_val *b)
{
	size_t n = a->mv_size < b->mv_size ? a->mv_size : b->mv_size;
	int cmp = memcmp(a->mv_data, b->mv_data, n);

	return cmp ? cmp : a->mv_size < b->mv_size ? -1 : a->mv_size > b->mv_size;
}

/* By their texts: a program of an earlier version may have stored one that is not compressed. */
static bool same_doc(const MDB_val *key, const MDB_val *stored, const MDB_val *fresh)
{
	buf_auto struct buf a_space = BUF_INIT, b_space = BUF_INIT;
	struct err bad = ERR_INIT;
	const char *a, *b;
	size_t a_len, b_len;

	if (stored->mv_size == fresh->mv_size && memcmp(stored->mv_data, fresh->mv_data, stored->mv_size) == 0)
		return true;
	return stored_doc_open(key, stored, &a_space, &a, &a_len, &bad) == 0 &&
	       stored_doc_open(key, fresh, &b_space, &b, &b_len, &bad) == 0 && a_len == b_len &&
	       memcmp(a, b, a_len) == 0;
}

static int next_stored(MDB_cursor *cur, MDB_val *key, MDB_val *value)
{
	int rc;

	do
		rc = mdb_cursor_get(cur, key, value, MDB_NEXT);
	while (rc == 0 && model_is_fence(key));
	return rc;
}

/* Walks both tables in key order. */
static int compare_models(struct verify *y, MDB_cursor *stored, MDB_cursor *fresh, struct err *e)
{
	MDB_val sk, sv, fk, fv;
	int src = next_stored(stored, &sk, &sv), frc = mdb_cursor_get(fresh, &fk, &fv, MDB_NEXT);

	while (src == 0 || frc == 0) {
		int cmp = src != 0 ? 1 : frc != 0 ? -1 : compare_keys(&sk, &fk);

		if (check_cancelled(y, e))
			return -1;
		if (cmp < 0)
			add_model_problem(y, &sk, "is stored, but does not follow from the log");
		else if (cmp > 0)
			add_model_problem(y, &fk, "is missing");
		else if (!same_doc(&sk, &sv, &fv))
			add_model_problem(y, &sk, "differs from the projection of the log");
		if (cmp <= 0)
			src = next_stored(stored, &sk, &sv);
		if (cmp >= 0)
			frc = mdb_cursor_get(fresh, &fk, &fv, MDB_NEXT);
	}
	if (src != MDB_NOTFOUND || frc != MDB_NOTFOUND)
		return db_err(e, src != MDB_NOTFOUND ? src : frc, "compare the models");
	return 0;
}

static int check_models(struct verify *y, struct err *e)
{
	db_cursor_auto MDB_cursor *stored = NULL, *fresh = NULL;
	MDB_dbi dbi;
	int rc;

	if (!y->store->project)
		return 0;
	if (!y->log_ok) {
		add_problem(y, 0, "the models were not compared, because the log is damaged");
		return 0;
	}
	if (reader_models(&y->r, &dbi, e) != 0 || scratch_flush(&y->scratch, e) != 0)
		return -1;
	rc = mdb_cursor_open(y->r.txn, dbi, &stored);
	if (rc == 0)
		rc = mdb_cursor_open(y->scratch.models.txn, y->scratch.models.dbi, &fresh);
	return rc == 0 ? compare_models(y, stored, fresh, e) : db_err(e, rc, "compare the models");
}

/* ---- the rest ---- */

/* Models are not in this list: the comparison with the projection covers them. */
static int check_sealed(struct verify *y, enum db_table table, const char *what, struct err *e)
{
	db_cursor_auto MDB_cursor *cur = NULL;
	MDB_val kv, v;
	int rc = mdb_cursor_open(y->r.txn, y->r.db->t[table], &cur);

	while (rc == 0 && (rc = mdb_cursor_get(cur, &kv, &v, MDB_NEXT)) == 0) {
		struct err bad = ERR_INIT;
		const void *p;
		size_t n;

		if (db_seal_open(&kv, &v, &p, &n, &bad) != 0)
			add_problem(y, 0, "%s: %s", what, bad.message);
	}
	return rc == MDB_NOTFOUND ? 0 : db_err(e, rc, what);
}

static int check_tables(struct verify *y, struct err *e)
{
	uint64_t idem = db_entries(y->r.txn, y->r.db->t[DB_IDEM]),
		 times = db_entries(y->r.txn, y->r.db->t[DB_IDEM_TIME]);

	if (check_sealed(y, DB_META, "meta value", e) != 0 || check_sealed(y, DB_BASE, "base model", e) != 0 ||
	    check_sealed(y, DB_BLOBS, "inline output", e) != 0 ||
	    check_sealed(y, DB_IDEM, "idempotency record", e) != 0)
		return -1;
	if (idem != times)
		add_problem(y, 0, "there are %llu idempotency records, but %llu entries in their index by time",
			    (unsigned long long)idem, (unsigned long long)times);
	return 0;
}

struct portion {
	struct db_key after; /* the last key of the previous portion */
	size_t count;
	struct {
		char ref[BATCH_REF_MAX];
		struct chunk chunk;
	} rows[CHUNKS_A_TXN];
};

static int next_portion(struct verify *y, struct portion *p, struct err *e)
{
	reader_auto struct reader r = READER_INIT;
	db_cursor_auto MDB_cursor *cur = NULL;
	struct db_key from = p->after;
	MDB_val kv = db_key_val(&from), v;
	int rc;

	p->count = 0;
	if (reader_begin(y->store, &r, e) != 0)
		return -1;
	rc = mdb_cursor_open(r.txn, r.db->t[DB_CHUNKS], &cur);
	if (rc != 0)
		return db_err(e, rc, "read chunks");
	rc = mdb_cursor_get(cur, &kv, &v, from.len ? MDB_SET_RANGE : MDB_FIRST);
	if (rc == 0 && kv.mv_size == from.len && memcmp(kv.mv_data, from.bytes, from.len) == 0)
		rc = mdb_cursor_get(cur, &kv, &v, MDB_NEXT);
	for (; rc == 0 && p->count < CHUNKS_A_TXN; rc = mdb_cursor_get(cur, &kv, &v, MDB_NEXT)) {
		struct err bad = ERR_INIT;

		if (chunk_parse(&kv, &v, p->rows[p->count].ref, &p->rows[p->count].chunk, &bad) == 0)
			p->count++;
		else
			add_problem(y, 0, "%s", bad.message);
		db_key_reset(&p->after);
		db_key_add(&p->after, kv.mv_data, kv.mv_size);
	}
	return rc == 0 || rc == MDB_NOTFOUND ? 0 : db_err(e, rc, "read chunks");
}

/* In a new transaction: the output may have expired since the portion was read. */
static bool chunk_still_exists(struct verify *y, const char *ref, const struct chunk *c)
{
	reader_auto struct reader r = READER_INIT;
	struct db_key k;
	MDB_val kv, v;

	chunk_key(&k, ref, c->offset);
	kv = db_key_val(&k);
	return reader_begin(y->store, &r, NULL) == 0 && mdb_get(r.txn, r.db->t[DB_CHUNKS], &kv, &v) == 0;
}

/* No transaction is open while files are read, since reading every output byte may take long. */
static int check_spool(struct verify *y, struct err *e)
{
	mem_auto struct portion *p = mem_zalloc(1, sizeof(*p));
	mem_auto char *tmp = mem_alloc(CHUNK_MAX);
	char open_ref[BATCH_REF_MAX] = "", missing[BATCH_REF_MAX] = "";
	fd_auto int fd = -1;

	do {
		if (next_portion(y, p, e) != 0)
			return -1;
		for (size_t i = 0; i < p->count; i++) {
			const char *ref = p->rows[i].ref;
			struct err bad = ERR_INIT;

			if (check_cancelled(y, e))
				return -1;
			if (strcmp(ref, missing) == 0)
				continue;
			if (strcmp(ref, open_ref) != 0) {
				fd_close(&fd);
				fd = openat(y->store->spool_fd, ref, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
				memcpy(open_ref, ref, sizeof(open_ref));
			}
			if (fd < 0) {
				memcpy(missing, ref, sizeof(missing));
				if (chunk_still_exists(y, ref, &p->rows[i].chunk))
					add_problem(y, 0, "spool file '%s': %s", ref, strerror(errno));
			} else if (chunk_read(fd, ref, &p->rows[i].chunk, tmp, &bad) != 0 &&
				   chunk_still_exists(y, ref, &p->rows[i].chunk)) {
				add_problem(y, 0, "%s", bad.message);
			}
		}
	} while (p->count == CHUNKS_A_TXN);
	return 0;
}

/* ---- the journal ---- */

static void check_group(struct verify *y, const struct journal_cursor *c)
{
	struct err bad = ERR_INIT;
	struct group_entry n;
	size_t at = 0;
	int rc;

	while ((rc = group_next(c->payload, c->head.length, &at, &n, &bad)) > 0) {
		struct event_view ev;

		if (n.tag == GROUP_EVENT && event_view_of(n.data, n.len, 0, &ev, &bad) != 0)
			rc = -1;
		if (rc < 0)
			break;
	}
	if (rc < 0)
		add_problem(y, 0, "group %llu of the journal: %s", (unsigned long long)c->head.ordinal, bad.message);
}

/* The journal must contain every acknowledged group that is not settled; the writer may settle some meanwhile. */
static void check_journal(struct verify *y)
{
	buf_auto struct buf file = BUF_INIT;
	struct journal_cursor c = { .seed = y->store->journal.seed };
	struct err bad = ERR_INIT;
	uint64_t want, settles;
	bool same;

	pthread_mutex_lock(&y->store->mutex);
	want = y->store->layers ? y->store->layers->ordinal : 0;
	settles = y->store->stats.settles;
	pthread_mutex_unlock(&y->store->mutex);
	if (journal_read(y->store->dir_fd, &file, &bad) < 0)
		add_problem(y, 0, "%s", bad.message);
	while (journal_next(&c, file.data, file.len))
		check_group(y, &c);
	pthread_mutex_lock(&y->store->mutex);
	same = settles == y->store->stats.settles;
	pthread_mutex_unlock(&y->store->mutex);
	if (same && c.head.ordinal < want)
		add_problem(y, 0, "the journal ends with group %llu, but group %llu is not in the database yet",
			    (unsigned long long)c.head.ordinal, (unsigned long long)want);
}

static enum job_step verify_step(struct store *store, struct job *j)
{
	struct verify *y = (struct verify *)j;
	int rc;

	y->v.ok = true;
	rc = begin_snapshot(y, &j->err);
	if (rc == 0 && (check_log(y, &j->err) != 0 || check_models(y, &j->err) != 0 || check_tables(y, &j->err) != 0))
		rc = -1;
	scratch_done(&y->scratch);
	record_block_done(&y->block);
	reader_end(&y->r);
	if (rc == 0 && check_spool(y, &j->err) != 0)
		rc = -1;
	if (rc >= 0)
		check_journal(y);
	return rc < 0 ? JOB_FAILED : JOB_FINISHED;
}

static void verify_run(struct store *store, struct completion *c)
{
	struct verify *y = (struct verify *)c;

	if (y->done)
		y->done(y->ctx, &y->v, y->job.failed ? &y->job.err : NULL);
	free(y);
}

void store_verify(struct store *store, void (*done)(void *ctx, const struct store_verdict *v, const struct err *e),
		  void *ctx)
{
	struct verify *y = mem_zalloc(1, sizeof(*y));

	y->job.completion.run = verify_run;
	y->job.step = verify_step;
	y->store = store;
	y->scratch = SCRATCH_INIT;
	y->done = done;
	y->ctx = ctx;
	worker_submit(store, &y->job);
}
