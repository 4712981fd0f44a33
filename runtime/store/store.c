/* Opening and closing, and the loop thread's side of writing: submit, dispatch, flush. */

#include "runtime/store/store.h"

#include "runtime/base/fd.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/store/durable.h"
#include "runtime/store/lmdb_check.h"
#include "runtime/store/reader.h"
#include "runtime/store/store_dirs.h"
#include "runtime/store/store_meta.h"
#include "runtime/store/store_private.h"
#include "runtime/store/upgrade.h"
#include "runtime/store/worker.h"
#include "runtime/store/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define MAP_DEFAULT (256ull << 30)
#define SOON_DEFAULT_MS 50
#define SETTLE_DEFAULT_MS 5
#define SCHEMA_DEFAULT "lime-profile-0.4.0"
#define CHECK_PAGES (64ull << 20) /* bytes of pages looked at when opening */

/* ---- open and close ---- */

static void store_init(struct store *s, const struct store_options *o)
{
	pthread_condattr_t attr;

	s->dir = mem_strdup(o->dir);
	s->spool_dir = mem_strdup(o->spool_dir);
	s->schema_version = mem_strdup(o->schema_version ? o->schema_version : SCHEMA_DEFAULT);
	s->env = (struct event_env){ .runtime_id = s->runtime_id, .schema_version = s->schema_version };
	s->project = o->project;
	s->project_speculative = o->project_speculative;
	s->real_us = o->real_us;
	s->clock = o->clock;
	speculative_init(&s->speculative);
	s->map_bytes = o->map_bytes ? o->map_bytes : MAP_DEFAULT;
	s->soon_ns = (o->soon_ms ? o->soon_ms : SOON_DEFAULT_MS) * 1000000ull;
	s->settle_ns = (o->settle_ms ? o->settle_ms : SETTLE_DEFAULT_MS) * 1000000ull;
	s->journal_bytes = o->no_journal ? 0 : space_journal_bytes(o->journal_bytes, o->quota_bytes);
	s->journal = JOURNAL_INIT;
	s->settling = SIZE_MAX;
	s->read_only = o->read_only;
	s->dir_fd = s->spool_fd = s->lock_fd = s->event_fd = -1;
	s->queue_tail = &s->queue;
	s->done_tail = &s->done;
	s->writer_jobs.tail = &s->writer_jobs.head;
	s->worker_jobs.tail = &s->worker_jobs.head;
	s->ready_ns = UINT64_MAX;
	pthread_mutex_init(&s->mutex, NULL);
	pthread_rwlock_init(&s->db_lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->wake, &attr);
	pthread_cond_init(&s->decided, &attr);
	pthread_condattr_destroy(&attr);
}

static void store_free(struct store *s)
{
	durable_abort(s);
	layer_unref(s->layers);
	journal_close(&s->journal);
	db_close(&s->db);
	speculative_done(&s->speculative);
	ring_done(&s->ring);
	fd_close(&s->event_fd);
	fd_close(&s->spool_fd);
	fd_close(&s->dir_fd);
	fd_close(&s->lock_fd); /* last: now another may open it */
	pthread_cond_destroy(&s->wake);
	pthread_cond_destroy(&s->decided);
	pthread_mutex_destroy(&s->mutex);
	pthread_rwlock_destroy(&s->db_lock);
	free(s->dir);
	free(s->spool_dir);
	free(s->schema_version);
	free(s);
}

static int open_database(struct store *s, struct err *e)
{
	unsigned flags = s->read_only ? MDB_RDONLY | MDB_NOLOCK : 0;
	bool empty = false;
	int rc;

	/* before LMDB follows a pointer that a bad disk wrote */
	rc = lmdb_check_file(s->dir_fd, CHECK_PAGES, e);
	if (rc < 0)
		return err_wrap(e, "check data.mdb");
	if (rc > 0 && s->read_only)
		return err_set(e, ERR_NOT_FOUND, "there is no store in '%s'", s->dir);
	if (rc > 0 && store_dirs_check_lost(s, e) != 0)
		return -1;
	if (rc > 0)
		unlinkat(s->dir_fd, STORE_DIRS_DATA, 0);
	if (db_open(s->dir, s->map_bytes, flags, &s->db, &empty, e) != 0)
		return -1;
	if (s->db.smaller)
		log_warning("store: the address space allows a map of only %llu MiB",
			    (unsigned long long)(s->db.map_bytes >> 20));
	if (empty && s->read_only)
		return err_set(e, ERR_NOT_FOUND, "there is no store in '%s'", s->dir);
	if (empty && store_meta_create(s, e) != 0)
		return -1;
	if (store_meta_load(s, &s->db, e) != 0 || upgrade_store(s, s->version, e) != 0)
		return -1;
	s->applied = s->applied_there;
	s->last = s->settled.sequence;
	s->journal.seed = hash64(s->runtime_id, strlen(s->runtime_id), 0);
	return 0;
}

int store_open(const struct store_options *o, struct store **ret, struct err *e)
{
	struct store *s = mem_zalloc(1, sizeof(*s));

	store_init(s, o);
	s->loop = pthread_self();
	s->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->event_fd < 0) {
		err_sys(e, errno, "make an eventfd");
		goto fail;
	}
	if (store_dirs_open(s, e) != 0 || open_database(s, e) != 0)
		goto fail;
	space_init(s, o->quota_bytes, o->ballast_bytes);
	if (durable_recover(s, e) != 0 || store_dirs_count_spool(s, e) != 0)
		goto fail;
	if (!s->read_only)
		space_check(s);
	if (!s->read_only && writer_start(s, e) != 0)
		goto fail;
	*ret = s;
	return 0;
fail:
	err_wrap(e, "open the store in '%s'", o->dir);
	store_free(s);
	return -1;
}

void store_stop(struct store *s)
{
	atomic_store(&s->closing, true);
	worker_stop(s);
	writer_stop(s);
	jobs_cancel(s, &s->writer_jobs);
	jobs_cancel(s, &s->worker_jobs);
	store_flush(s);
}

void store_close(struct store *s)
{
	if (!s)
		return;
	store_stop(s);
	store_free(s);
}

/* ---- what it is ---- */

const char *store_runtime_id(const struct store *s) { return s->runtime_id; }

const struct event_env *store_env(const struct store *s) { return &s->env; }

bool store_is_new(const struct store *s) { return s->is_new; }

uint64_t store_last_sequence(const struct store *s) { return s->last; }

uint64_t store_first_sequence(const struct store *s) { return atomic_load(&s->first); }

size_t store_queued(const struct store *s) { return s->pending; }

bool store_full(const struct store *s) { return atomic_load(&s->full); }

/* ---- submit and dispatch ---- */

static void batch_run(struct store *s, struct completion *c)
{
	struct store_batch *b = (struct store_batch *)c;
	struct store_result r = {
		.status = b->status,
		.err = b->status ? &b->err : NULL,
		.first_sequence = b->first_sequence,
		.last_sequence = b->last_sequence,
	};

	s->pending--;
	if (b->status == 0 && b->nevents) {
		s->last = b->last_sequence;
		ring_push(&s->ring, b);
	}
	speculative_resolve(s, b);
	if (b->done)
		b->done(b->ctx, &r);
	store_batch_free(b);
}

void store_submit(struct store *s, struct store_batch *b, unsigned flags, store_done_fn done, void *ctx)
{
	b->flags = flags;
	b->now |= (flags & STORE_NOW) != 0;
	b->done = done;
	b->ctx = ctx;
	b->completion.run = batch_run;
	s->pending++;
	speculative_add(s, b);
	if (s->writer_up) {
		writer_enqueue(s, b);
	} else {
		b->status = err_set(&b->err, ERR_UNAVAILABLE,
				    s->read_only ? "the store is open for reading only" : "the store is being closed");
		completion_post(s, &b->completion);
	}
}

void store_prepare(struct store *s)
{
	if (s->writer_up)
		writer_prepare(s);
}

int store_dispatch_fd(const struct store *s) { return s->event_fd; }

void store_dispatch(struct store *s)
{
	uint64_t before = s->last, count;

	for (;;) {
		struct completion *c;

		/* one at a time: a callback may come back here through store_flush, and order must hold */
		pthread_mutex_lock(&s->mutex);
		c = s->done;
		if (c)
			s->done = c->next;
		if (!s->done) {
			s->done_tail = &s->done;
			if (read(s->event_fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
				log_error("store: eventfd: %s", strerror(errno));
		}
		pthread_mutex_unlock(&s->mutex);
		if (!c)
			break;
		c->run(s, c);
	}
	if (s->last != before && s->listener)
		s->listener(s->listener_ctx, s->last);
}

void store_listen(struct store *s, void (*fn)(void *ctx, uint64_t last_sequence), void *ctx)
{
	s->listener = fn;
	s->listener_ctx = ctx;
}

void store_flush(struct store *s)
{
	bool more = true;

	while (more && s->writer_up) {
		pthread_mutex_lock(&s->mutex);
		s->flushing = true;
		pthread_cond_signal(&s->wake);
		while (s->undecided > s->ndeferred)
			pthread_cond_wait(&s->decided, &s->mutex);
		s->flushing = false;
		pthread_mutex_unlock(&s->mutex);
		store_dispatch(s);
		pthread_mutex_lock(&s->mutex);
		more = s->undecided > s->ndeferred || s->done;
		pthread_mutex_unlock(&s->mutex);
	}
	while (!s->writer_up && s->done) /* stopped: what is submitted is refused at once */
		store_dispatch(s);
}
