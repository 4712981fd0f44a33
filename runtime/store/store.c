/* Open and close, and the part of writing that runs on the loop thread: submit, dispatch, flush. */

#include "runtime/store/store.h"

#include "runtime/base/fd.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/store/durable.h"
#include "runtime/store/idempotency_records.h"
#include "runtime/store/layer.h"
#include "runtime/store/lmdb_check.h"
#include "runtime/store/read_models.h"
#include "runtime/store/reader.h"
#include "runtime/store/store_dirs.h"
#include "runtime/store/store_meta.h"
#include "runtime/store/store_private.h"
#include "runtime/store/upkeep.h"
#include "runtime/store/worker.h"
#include "runtime/store/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define MAP_DEFAULT (256ull << 30)
#define SOON_DEFAULT_MS 50
#define SETTLE_DEFAULT_MS 200
#define SCHEMA_DEFAULT "lime-profile-0.4.0"
#define CHECK_PAGES (64ull << 20) /* bytes of pages to check when a store is opened */

/* ---- open and close ---- */

static void reject_queued(struct store *store, struct completion *c);

static void store_init(struct store *store, const struct store_options *o)
{
	pthread_condattr_t attr;

	store->dir = mem_strdup(o->dir);
	store->spool_dir = mem_strdup(o->spool_dir);
	store->schema_version = mem_strdup(o->schema_version ? o->schema_version : SCHEMA_DEFAULT);
	store->env = (struct event_env){ .runtime_id = store->runtime_id, .schema_version = store->schema_version };
	store->project = o->project;
	store->growing_models = o->growing_models;
	store->project_speculative = o->project_speculative;
	store->real_us = o->real_us;
	store->clock = o->clock;
	speculative_init(&store->speculative);
	store->map_bytes = o->map_bytes ? o->map_bytes : MAP_DEFAULT;
	store->soon_ns = (o->soon_ms ? o->soon_ms : SOON_DEFAULT_MS) * 1000000ull;
	store->settle_ns = (o->settle_ms ? o->settle_ms : SETTLE_DEFAULT_MS) * 1000000ull;
	store->journal_bytes = o->no_journal ? 0 : space_journal_bytes(o->journal_bytes, o->quota_bytes);
	store->journal = JOURNAL_INIT;
	store->settling = SIZE_MAX;
	store->read_only = o->read_only;
	store->dir_fd = store->spool_fd = store->lock_fd = store->event_fd = -1;
	store->queue_tail = &store->queue;
	store->done_tail = &store->done;
	store->triage.completion.run = reject_queued;
	store->writer_jobs.tail = &store->writer_jobs.head;
	store->worker_jobs.tail = &store->worker_jobs.head;
	store->ready_ns = UINT64_MAX;
	pthread_mutex_init(&store->mutex, NULL);
	pthread_rwlock_init(&store->db_lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&store->wake, &attr);
	pthread_cond_init(&store->decided, &attr);
	pthread_condattr_destroy(&attr);
}

static void store_free(struct store *store)
{
	durable_abort(store);
	layer_unref(store->layers);
	journal_close(&store->journal);
	db_close(&store->db);
	speculative_done(&store->speculative);
	ring_done(&store->ring);
	fd_close(&store->event_fd);
	fd_close(&store->spool_fd);
	fd_close(&store->dir_fd);
	fd_close(&store->lock_fd); /* last: now another process may open the store */
	pthread_cond_destroy(&store->wake);
	pthread_cond_destroy(&store->decided);
	pthread_mutex_destroy(&store->mutex);
	pthread_rwlock_destroy(&store->db_lock);
	strmap_done(&store->findings);
	free(store->dir);
	free(store->spool_dir);
	free(store->schema_version);
	free(store->chunk_buffer);
	free(store);
}

/*
 * Under another name until it is complete: a power cut could leave a part of the file, which would be neither a store
 * nor its absence. Nothing else exists before the name is durable (store_dirs_check_lost).
 */
static int create_database(struct store *store, struct err *e)
{
	mem_auto char *path = mem_printf("%s/" STORE_DIRS_DATA_NEW, store->dir);
	bool empty;
	int rc;

	if (db_open(path, store->map_bytes, MDB_NOSUBDIR | MDB_NOLOCK, &store->db, &empty, e) != 0)
		return -1;
	rc = store_meta_create(store, e);
	db_close(&store->db);
	if (rc == 0 && renameat(store->dir_fd, STORE_DIRS_DATA_NEW, store->dir_fd, STORE_DIRS_DATA) != 0)
		rc = err_sys(e, errno, "name the new database");
	return rc == 0 ? store_dirs_sync_new(store, e) : -1;
}

/*
 * The order protects the data: pages are checked before LMDB maps them, and an empty or missing file is replaced only
 * if nothing shows that a store was here.
 */
static int open_database(struct store *store, struct err *e)
{
	unsigned flags = store->read_only ? MDB_RDONLY | MDB_NOLOCK : 0;
	bool empty = false;
	int rc;

	/* before LMDB follows a damaged pointer */
	rc = lmdb_check_file(store->dir_fd, CHECK_PAGES, e);
	if (rc < 0)
		return -1;
	if (rc > 0 && store->read_only)
		return err_set(e, ERR_NOT_FOUND, "there is no store in '%s'", store->dir);
	if (rc > 0 && store_dirs_check_lost(store, e) != 0)
		return -1;
	if (rc > 0 && create_database(store, e) != 0)
		return -1;
	if (db_open(store->dir, store->map_bytes, flags, &store->db, &empty, e) != 0)
		return -1;
	if (store->db.smaller)
		log_warning("store: the address space is too small; the map has only %llu MiB",
			    (unsigned long long)(store->db.map_bytes >> 20));
	if (empty && store->read_only)
		return err_set(e, ERR_NOT_FOUND, "there is no store in '%s'", store->dir);
	/* an earlier version wrote the first pages and was interrupted */
	if (empty && (store_meta_create(store, e) != 0 || store_dirs_sync_new(store, e) != 0))
		return -1;
	if (store_meta_load(store, &store->db, e) != 0 || upkeep_upgrade(store, store->version, e) != 0)
		return -1;
	store->applied = store->applied_there;
	store->last = store->settled.sequence;
	/* Records of another store's journal do not match this seed and are ignored. */
	store->journal.seed = hash64(store->runtime_id, strlen(store->runtime_id), 0);
	return 0;
}

int store_check_backup(int dir_fd, struct err *e)
{
	const int rc = lmdb_check_file(dir_fd, UINT64_MAX, e);

	return rc > 0 ? err_set(e, ERR_CORRUPT, "it is empty") : rc;
}

int store_open(const struct store_options *o, struct store **ret, struct err *e)
{
	struct store *store = mem_zalloc(1, sizeof(*store));
	bool database = false;

	store_init(store, o);
	store->loop = pthread_self();
	store->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (store->event_fd < 0) {
		err_sys(e, errno, "create an eventfd");
		goto fail;
	}
	if (store_dirs_open(store, e) != 0)
		goto fail;
	database = true;
	if (open_database(store, e) != 0)
		goto fail;
	database = false;
	space_init(store, o->quota_bytes, o->ballast_bytes);
	if (durable_recover(store, e) != 0 || store_dirs_count_spool(store, e) != 0)
		goto fail;
	if (!store->read_only)
		space_check(store);
	if (!store->read_only && writer_start(store, e) != 0)
		goto fail;
	*ret = store;
	return 0;
fail:
	store_dirs_explain(store, database, e);
	store_free(store);
	return -1;
}

/*
 * The worker ends first, because its jobs wait for the writer to settle; then the writer, which commits the queue. Jobs
 * that never ran are failed, and the last flush runs all callbacks.
 */
void store_stop(struct store *store)
{
	atomic_store(&store->closing, true);
	worker_stop(store);
	writer_stop(store);
	jobs_cancel(store, &store->writer_jobs);
	jobs_cancel(store, &store->worker_jobs);
	store_flush(store);
}

void store_close(struct store *store)
{
	if (!store)
		return;
	store_stop(store);
	store_free(store);
}

/* ---- properties ---- */

const char *store_runtime_id(const struct store *store) { return store->runtime_id; }

const struct event_env *store_env(const struct store *store) { return &store->env; }

bool store_is_new(const struct store *store) { return store->is_new; }

uint64_t store_last_sequence(const struct store *store) { return store->last; }

uint64_t store_first_sequence(const struct store *store) { return atomic_load(&store->first); }

size_t store_queued(const struct store *store) { return store->pending; }

bool store_undispatched(const struct store *store, enum id_field field, const char *id)
{
	return speculative_has_id(store, field, id);
}

bool store_full(const struct store *store) { return atomic_load(&store->full); }

bool store_disk_full(const struct store *store) { return atomic_load(&store->disk_full); }

/* ---- submit and dispatch ---- */

static void batch_run(struct store *store, struct completion *c)
{
	struct store_batch *b = (struct store_batch *)c;
	struct store_result r = {
		.status = b->status,
		.err = b->status ? &b->err : NULL,
		.first_sequence = b->first_sequence,
		.last_sequence = b->last_sequence,
	};

	store->pending--;
	if (b->status == 0 && b->nevents) {
		store->last = b->last_sequence;
		ring_push(&store->ring, b, atomic_load(&store->settled_until));
	}
	speculative_resolve(store, b);
	if (b->done)
		b->done(b->ctx, &r);
	store_batch_free(b);
}

/*
 * The writer could not write. All rejected batches leave the speculative models before the first callback runs, which
 * may read them and submit another batch.
 */
static void reject_queued(struct store *store, struct completion *c)
{
	struct store_batch *rejected, *next;
	struct err why;

	pthread_mutex_lock(&store->mutex);
	why = store->triage.why;
	rejected = writer_triage_locked(store);
	for (struct store_batch *b = rejected; b; b = b->next) {
		store->undecided--;
		store->stats.batches++;
		store->stats.refused++;
	}
	pthread_cond_signal(&store->wake);
	pthread_mutex_unlock(&store->mutex);
	for (struct store_batch *b = rejected; b; b = b->next) {
		batch_reject(b, &why);
		speculative_resolve(store, b);
	}
	for (struct store_batch *b = rejected; b; b = next) {
		next = b->next;
		batch_run(store, &b->completion);
	}
}

/* `done` is always called, also for a store that cannot write. */
void store_submit(struct store *store, struct store_batch *b, unsigned flags, store_done_fn done, void *ctx)
{
	b->flags = flags;
	b->now |= (flags & STORE_NOW) != 0;
	b->done = done;
	b->ctx = ctx;
	b->completion.run = batch_run;
	store->pending++;
	speculative_add(store, b);
	if (store->writer_up) {
		writer_enqueue(store, b);
	} else {
		b->status = err_set(&b->err, ERR_UNAVAILABLE,
				    store->read_only ? "the store is open for reading only"
						     : "the store is being closed");
		completion_post(store, &b->completion);
	}
}

void store_prepare(struct store *store)
{
	if (store->writer_up)
		writer_prepare(store);
}

int store_dispatch_fd(const struct store *store) { return store->event_fd; }

void store_dispatch(struct store *store)
{
	uint64_t before = store->last, count;

	for (bool first = true;; first = false) {
		struct completion *c;

		/* one at a time: a callback may call store_flush and so this function, and the order must stay the same
		 */
		pthread_mutex_lock(&store->mutex);
		c = store->done;
		if (c)
			store->done = c->next;
		if (!store->done && (c || first)) { /* once, when the last one was taken */
			store->done_tail = &store->done;
			if (read(store->event_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
				log_error("store: eventfd: %s", strerror(errno));
		}
		pthread_mutex_unlock(&store->mutex);
		if (!c)
			break;
		c->run(store, c);
	}
	if (store->last != before && store->listener)
		store->listener(store->listener_ctx, store->last);
}

void store_listen(struct store *store, void (*fn)(void *ctx, uint64_t last_sequence), void *ctx)
{
	store->listener = fn;
	store->listener_ctx = ctx;
}

/* Deferred batches are not waited for: they may need space that only the caller can make. */
void store_flush(struct store *store)
{
	bool more = true;

	while (more && store->writer_up) {
		pthread_mutex_lock(&store->mutex);
		store->flushing = true;
		pthread_cond_signal(&store->wake);
		while (store->undecided > store->ndeferred)
			pthread_cond_wait(&store->decided, &store->mutex);
		store->flushing = false;
		pthread_mutex_unlock(&store->mutex);
		store_dispatch(store);
		pthread_mutex_lock(&store->mutex);
		more = store->undecided > store->ndeferred || store->done;
		pthread_mutex_unlock(&store->mutex);
	}
	while (!store->writer_up && store->done) /* stopped: batches have been rejected by store_submit */
		store_dispatch(store);
}

/* ---- statistics ---- */

/* By how many documents the layers change the number in the table. */
static int64_t count_new_models(const struct reader *r, MDB_dbi dbi)
{
	docs_list_auto struct docs_list list = DOCS_LIST_INIT;
	struct models m = { .txn = r->txn, .dbi = dbi };
	int64_t more = 0;

	layer_docs(r->over, &list, -1, NULL);
	for (size_t i = 0; i < list.count; i++) {
		const struct doc *n = list.all[i];
		const char *p;
		size_t len;
		bool there = models_get(&m, n->kind, n->id, n->id_len, &p, &len, NULL) == 0;

		more += !n->gone - there;
	}
	models_release(&m);
	return more;
}

/* By how many idempotency records. */
static uint64_t count_new_keys(const struct reader *r)
{
	uint64_t more = 0;

	for (const struct layer *l = r->over; l; l = l->older)
		for (size_t i = 0; i < l->nnotes; i++) {
			const struct group_entry *n = &l->notes[i];

			more += n->tag == GROUP_IDEM && layer_note(r->over, 1u << GROUP_IDEM, n->uid, n->key) == n &&
				!idempotency_record_exists(r->txn, r->db, n->uid, n->key);
		}
	return more;
}

/* Counts include the groups that are not settled yet. */
int store_stats_get(struct store *store, struct store_stats *ret, struct err *e)
{
	reader_auto struct reader r = READER_INIT;
	char journal_note[sizeof(store->journal_note)];
	struct store_stats st;
	struct tip floor;
	uint64_t last;
	MDB_dbi models;

	if (reader_begin(store, &r, e) != 0 || reader_floor(&r, &floor, e) != 0 || reader_models(&r, &models, e) != 0)
		return -1;
	pthread_mutex_lock(&store->mutex);
	st = store->stats;
	snprintf(journal_note, sizeof(journal_note), "%s", store->journal_note);
	pthread_mutex_unlock(&store->mutex);
	if (reader_last(&r, &last, e) != 0)
		return -1;
	st.events = last - floor.sequence;
	st.first_sequence = floor.sequence + 1;
	st.last_sequence = store->last;
	st.models = db_entries(r.txn, models) + (uint64_t)count_new_models(&r, models);
	st.idem_records = db_entries(r.txn, r.db->t[DB_IDEM]) + count_new_keys(&r);
	st.map_bytes = r.db->map_bytes;
	if (r.db->smaller)
		snprintf(st.note, sizeof(st.note), "the address space is too small: the map has only %llu MiB",
			 (unsigned long long)(r.db->map_bytes >> 20));
	reader_end(&r);
	st.db_bytes = space_db_bytes(store);
	st.quota_bytes = store->space.quota;
	st.full = atomic_load(&store->full);
	if (faccessat(store->dir_fd, "ballast", F_OK, 0) != 0 && !store->read_only && !st.note[0])
		snprintf(st.note, sizeof(st.note),
			 "there is no ballast file; a full disk may prevent ends from being recorded");
	if (journal_note[0] && !st.note[0])
		snprintf(st.note, sizeof(st.note), "no journal, so commits take longer: %.110s", journal_note);
	*ret = st;
	return 0;
}
