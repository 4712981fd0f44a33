/*
 * The writer thread: group commit.
 *
 * Batches stand in a queue in the order of submission and become durable in that order, whatever happens. The writer
 * sleeps until the queue is due: at once when a batch must commit now, otherwise when the oldest one has waited long
 * enough for company. It then takes as many as make a group, makes the spool bytes they cite durable first, and then
 * the group (durable.h): it is in the journal, or committed to the database. When nothing has come for some
 * milliseconds, what only the journal has is settled. That is also tried before any upkeep, and at the end; when it
 * fails it is *owed*: nothing is lost, but no new group goes to the journal until it has succeeded.
 *
 * When a group fails, batches that may be refused are refused. Those that must be written are *held*: they go
 * back to the head of the queue and are tried again, at the latest after a quarter of a second. While any is held
 * nothing may overtake it, so new batches join the held ones or are refused (batch_triage).
 *
 * LMDB keeps a failed commit's damage: after a failed meta write every later transaction fails too. So after each
 * failure that is not just lack of room the environment is closed and opened again; the id of its last transaction
 * then tells whether the commit in doubt happened after all.
 *
 * All signals are blocked here: an interrupted fdatasync fails a commit.
 */

#include "runtime/store/writer.h"

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/store/batch_outcome.h"
#include "runtime/store/chunk.h"
#include "runtime/store/durable.h"
#include "runtime/store/spool.h"
#include "runtime/store/store_meta.h"
#include "runtime/store/store_private.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#define PUTS_MAX 1000u

/* ---- the environment ---- */

int writer_reopen(struct store *s, int (*between)(struct store *s, struct err *e), struct err *e)
{
	bool empty = false;
	int rc = 0;

	/* a long reader leaves when it sees this; the loop's are short */
	atomic_store(&s->cancel, true);
	pthread_rwlock_wrlock(&s->db_lock);
	atomic_store(&s->cancel, false);
	db_close(&s->db);
	if (between)
		rc = between(s, e);
	if (db_open(s->dir, s->map_bytes, 0, &s->db, &empty, rc == 0 ? e : NULL) != 0) {
		rc = -1;
	} else if (empty || store_meta_load(s, &s->db, rc == 0 ? e : NULL) != 0) {
		if (empty)
			err_set(e, ERR_CORRUPT, "the database is empty all of a sudden");
		db_close(&s->db);
		rc = -1;
	}
	pthread_rwlock_unlock(&s->db_lock);
	return rc;
}

/* After a failure: a fresh environment. True when the transaction in doubt is there, and durable, after all. */
static bool recover(struct store *s, bool in_doubt, const struct err *why)
{
	struct err e = ERR_INIT;
	size_t id = s->txn_id;
	MDB_envinfo info;

	if (why->code != ERR_EXHAUSTED) /* a full disk has been told of, and is tried again often */
		log_error("store: %s; opening the database again", why->message);
	if (writer_reopen(s, NULL, &e) != 0) {
		log_error("store: the database cannot be opened again yet: %s", e.message);
		return false;
	}
	if (!in_doubt || mdb_env_info(s->db.env, &info) != 0 || info.me_last_txnid != id)
		return false;
	return mdb_env_sync(s->db.env, 1) == 0;
}

int writer_txn(struct store *s, int (*fn)(struct store *s, MDB_txn *txn, void *ctx, struct err *e), void *ctx,
	       struct err *e)
{
	uint64_t start = clock_mono_ns();
	bool in_doubt = false;

	if (!s->db.env && writer_reopen(s, NULL, e) != 0)
		return -1;
	if (commit_txn(s, fn, ctx, &in_doubt, e) == 0) {
		commit_count(s, start);
		return 0;
	}
	if (space_failed(s, e)) {
		if (!space_release_ballast(s))
			return -1;
		*e = ERR_INIT;
		if (commit_txn(s, fn, ctx, &in_doubt, e) == 0)
			return 0;
	}
	if (e->code == ERR_SYS && recover(s, in_doubt, e))
		return 0;
	return -1;
}

/* ---- groups ---- */

static void finish_group(struct store *s, struct store_batch *group)
{
	s->retry_ns = 0;
	batch_complete(s, group);
}

static void remove_expired(struct store *s)
{
	bool keep;

	if (s->nunlinks == 0)
		return;
	pthread_mutex_lock(&s->mutex);
	keep = s->keep_files;
	pthread_mutex_unlock(&s->mutex);
	if (keep)
		return;
	for (size_t i = 0; i < s->nunlinks; i++) {
		if (spool_unlink(s->spool_fd, s->unlinks[i]) != 0 && errno != ENOENT)
			log_warning("store: remove spool file '%s': %s", s->unlinks[i], strerror(errno));
		free(s->unlinks[i]);
	}
	free(s->unlinks);
	s->unlinks = NULL;
	s->nunlinks = 0;
}

/* Whether a failed commit is there after all. It leaves the environment unusable, so that is renewed. */
static bool happened_anyway(struct store *s, struct store_batch *group, bool in_doubt, const struct err *e)
{
	if (!in_doubt)
		return false;
	if ((e->code == ERR_EXHAUSTED && e->sys == 0) || !recover(s, true, e)) {
		durable_abort(s);
		return false;
	}
	durable_confirm(s, group);
	return true;
}

/* No room: refuse what may be refused, give the ballast for the rest and try once more. */
static void group_without_room(struct store *s, struct store_batch *group, const struct err *why)
{
	struct err e = *why;
	bool in_doubt = false;

	group = batch_reject(s, group, why, false);
	if (group && s->db.env && s->space.disk_full && space_release_ballast(s)) {
		e = ERR_INIT;
		if (durable_group(s, group, &in_doubt, &e) == 0 || happened_anyway(s, group, in_doubt, &e)) {
			finish_group(s, group);
			return;
		}
		space_failed(s, &e);
	}
	if (group)
		batch_fail(s, group, &e);
}

static void commit_or_fail(struct store *s, struct store_batch *group)
{
	struct err e = ERR_INIT;
	bool in_doubt = false;

	if (!group)
		return;
	if (durable_group(s, group, &in_doubt, &e) == 0 || happened_anyway(s, group, in_doubt, &e)) {
		finish_group(s, group);
		return;
	}
	if (space_failed(s, &e)) {
		group_without_room(s, group, &e);
		return;
	}
	if (!in_doubt && e.code != ERR_SYS) {
		/* one batch is at fault, and trying it again would not help: find it, and let the others through */
		struct store_batch *rest = group->next;

		if (!rest) {
			log_error("store: a batch was refused: %s", e.message);
			batch_reject(s, group, &e, true);
			return;
		}
		group->next = NULL;
		batch_requeue(s, rest, false);
		commit_or_fail(s, group);
		return;
	}
	if (!in_doubt)
		recover(s, false, &e);
	batch_fail(s, group, &e);
}

/* ---- settling ---- */

static void owe(struct store *s, const struct err *why)
{
	if (!s->settle_retry)
		log_warning("store: what is in the journal cannot be put into the database yet: %s", why->message);
	pthread_mutex_lock(&s->mutex);
	s->settle_retry = true;
	s->settle_error = *why;
	s->settle_failures++;
	s->settle_asked = false;
	pthread_cond_broadcast(&s->decided);
	pthread_mutex_unlock(&s->mutex);
}

/* `must`: with the ballast as last resort. */
static int settle(struct store *s, bool must, struct err *e)
{
	bool in_doubt = false;

	if (!s->layers)
		return 0;
	if (!s->db.env && writer_reopen(s, NULL, e) != 0) {
		owe(s, e);
		return -1;
	}
	if (durable_settle(s, &in_doubt, e) == 0 || happened_anyway(s, NULL, in_doubt, e))
		return 0;
	if (space_failed(s, e)) {
		if (must && s->db.env && s->space.disk_full && space_release_ballast(s)) {
			*e = ERR_INIT;
			return settle(s, false, e);
		}
	} else if (!in_doubt && e->code == ERR_SYS) {
		recover(s, false, e);
	}
	owe(s, e);
	return -1;
}

static void settle_if_due(struct store *s, bool due)
{
	struct err e = ERR_INIT;

	if (due)
		(void)settle(s, false, &e);
}

/* Makes cited bytes durable; the group is cut before a batch where that fails. */
static struct store_batch *prepare(struct store *s, struct store_batch *group, struct store_batch **ret_failed,
				   struct err *e)
{
	struct chunk_syncs syncs = { 0 };
	struct store_batch **at = &group;

	*ret_failed = NULL;
	while (*at && chunk_prepare(s, *at, &syncs, e) == 0)
		at = &(*at)->next;
	*ret_failed = *at;
	*at = NULL;
	chunk_syncs_done(&syncs);
	return group;
}

static void write_group(struct store *s, struct store_batch *group)
{
	struct store_batch *failed = NULL, *rest;
	struct err e = ERR_INIT;

	if (!s->db.env && writer_reopen(s, NULL, &e) != 0) {
		if (e.code != ERR_EXHAUSTED)
			e.code = ERR_UNAVAILABLE;
		batch_fail(s, group, &e);
		return;
	}
	if (space_check(s)) {
		err_set(&e, ERR_EXHAUSTED, "the store is full");
		group = batch_reject(s, group, &e, false);
		if (group && s->space.map_tight) {
			batch_fail(s, group, &e);
			return;
		}
		e = ERR_INIT;
	}
	group = prepare(s, group, &failed, &e);
	if (failed) {
		rest = failed->next;
		failed->next = NULL;
		batch_requeue(s, rest, false);
	}
	commit_or_fail(s, group);
	if (!failed)
		return;
	if (s->retry_ns) { /* something before it is held now: it must stand behind that */
		pthread_mutex_lock(&s->mutex);
		struct store_batch **at = &s->queue;
		while (*at && (*at)->deferred)
			at = &(*at)->next;
		failed->next = *at;
		if (!*at)
			s->queue_tail = &failed->next;
		*at = failed;
		pthread_mutex_unlock(&s->mutex);
		return;
	}
	if (space_failed(s, &e) && batch_is_must(failed))
		space_release_ballast(s);
	if (e.code == ERR_CORRUPT)
		batch_reject(s, failed, &e, true);
	else
		batch_fail(s, failed, &e);
}

static struct store_batch *take_group(struct store *s)
{
	struct store_batch *group = s->queue, **at = &group;
	unsigned weight = 0;

	while (*at && (at == &group || weight + (*at)->weight <= PUTS_MAX)) {
		weight += (*at)->weight;
		if ((*at)->deferred)
			s->ndeferred--;
		(*at)->deferred = false;
		at = &(*at)->next;
	}
	s->queue = *at;
	*at = NULL;
	if (!s->queue)
		s->queue_tail = &s->queue;
	s->ready_ns = s->queue ? 0 : UINT64_MAX;
	return group;
}

/* ---- the thread ---- */

enum work { WORK_GROUP, WORK_JOB, WORK_SETTLE, WORK_CHECK, WORK_EXPECT, WORK_END };

static bool queue_due(const struct store *s, uint64_t now)
{
	if (!s->queue)
		return false;
	return s->stop || s->ready_ns <= now || (s->flushing && s->ready_ns != UINT64_MAX) ||
	       (s->retry_ns && s->retry_ns <= now);
}

static bool job_due(const struct store *s)
{
	return s->writer_jobs.head && !(s->writer_jobs.head->exclusive && s->worker_jobs.busy);
}

/* Called and returns with the mutex held. */
static enum work wait_for_work(struct store *s, bool after_group)
{
	uint64_t check_ns = 0;

	for (;;) {
		uint64_t now = clock_mono_ns(), until = UINT64_MAX;

		if (!s->stop && after_group && s->settle_asked)
			return WORK_SETTLE;
		if (!s->stop && after_group && job_due(s))
			return WORK_JOB; /* in turn, or a busy queue would starve it */
		if (queue_due(s, now))
			return WORK_GROUP;
		if (s->stop)
			return WORK_END;
		if (s->batch_announced && !s->settle_asked) {
			s->settle_at_ns = now + s->settle_ns; /* it would stand in the group's way */
			return WORK_EXPECT;
		}
		if (s->settle_asked || (s->layers && !s->settle_retry && s->settle_at_ns <= now))
			return WORK_SETTLE;
		if (job_due(s))
			return WORK_JOB;
		if (s->layers && !s->settle_retry)
			until = s->settle_at_ns;
		if (atomic_load(&s->full) || !s->db.env || s->nunlinks || s->settle_retry) {
			if (!check_ns)
				check_ns = now + BATCH_RETRY_NS;
			else if (check_ns <= now)
				return WORK_CHECK;
			if (check_ns < until)
				until = check_ns;
		}
		if (s->queue && s->ready_ns < until)
			until = s->ready_ns;
		if (s->queue && s->retry_ns && s->retry_ns < until)
			until = s->retry_ns;
		if (until == UINT64_MAX) {
			pthread_cond_wait(&s->wake, &s->mutex);
		} else {
			struct timespec ts = { .tv_sec = (time_t)(until / 1000000000u),
					       .tv_nsec = (long)(until % 1000000000u) };
			pthread_cond_timedwait(&s->wake, &s->mutex, &ts);
		}
	}
}

static void run_group(struct store *s, bool stopping)
{
	struct store_batch *group;

	/* held ones wait for their time, unless there is room already */
	if (s->retry_ns && clock_mono_ns() < s->retry_ns && !stopping && (!atomic_load(&s->full) || space_check(s))) {
		batch_triage(s);
		return;
	}
	pthread_mutex_lock(&s->mutex);
	group = take_group(s);
	pthread_mutex_unlock(&s->mutex);
	write_group(s, group);
	settle_if_due(s, durable_settle_due(s) && !s->settle_retry);
	remove_expired(s);
}

static void run_job(struct store *s, struct job *j)
{
	enum job_step r = settle(s, true, &j->err) == 0 || j->makes_room ? JOB_MORE : JOB_FAILED;

	if (r == JOB_MORE) {
		j->err = ERR_INIT;
		r = j->step(s, j);
	}

	pthread_mutex_lock(&s->mutex);
	if (r != JOB_MORE) {
		s->alone = false;
		job_finish_locked(s, &s->writer_jobs, r);
		pthread_cond_broadcast(&s->decided);
	}
	pthread_mutex_unlock(&s->mutex);
	space_check(s);
}

static void *writer_main(void *arg)
{
	struct store *s = arg;
	bool after_group = false;

	for (;;) {
		struct job *j;
		enum work w;
		bool stop;

		pthread_mutex_lock(&s->mutex);
		w = wait_for_work(s, after_group);
		j = w == WORK_JOB ? s->writer_jobs.head : NULL;
		if (j && j->exclusive)
			s->alone = true;
		stop = s->stop;
		s->batch_announced = false;
		pthread_mutex_unlock(&s->mutex);
		after_group = w == WORK_GROUP;
		if (w == WORK_END)
			break;
		if (w == WORK_GROUP) {
			run_group(s, stop);
		} else if (w == WORK_JOB) {
			run_job(s, j);
		} else if (w == WORK_EXPECT) {
			durable_prepare(s);
		} else {
			if (!s->db.env)
				writer_reopen(s, NULL, NULL);
			settle_if_due(s, w == WORK_SETTLE || s->settle_retry);
			if (w == WORK_CHECK)
				space_check(s);
			remove_expired(s);
		}
	}
	settle_if_due(s, true);
	if (s->layers)
		log_warning("store: %u groups stay in the journal; the next start puts them into the database",
			    s->layers->depth);
	remove_expired(s);
	return NULL;
}

int writer_start(struct store *s, struct err *e)
{
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&s->writer, NULL, writer_main, s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc != 0)
		return err_sys(e, rc, "start the store's writer");
	s->writer_up = true;
	return 0;
}

void writer_stop(struct store *s)
{
	if (!s->writer_up)
		return;
	pthread_mutex_lock(&s->mutex);
	s->stop = true;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->mutex);
	pthread_join(s->writer, NULL);
	s->writer_up = false;
}

/* So many batches share one sync well enough: callers that wait for them are not kept waiting for more. */
#define COMPANY_ENOUGH 64
#define SHORTLY_NS (2ull * 1000 * 1000)

static uint64_t due_time(const struct store *s, const struct store_batch *b)
{
	if (b->nevents && b->flags & STORE_SHORTLY)
		return clock_mono_ns() + SHORTLY_NS;
	return b->now || b->nevents == 0 ? 0 : clock_mono_ns() + s->soon_ns;
}

void writer_enqueue(struct store *s, struct store_batch *b)
{
	uint64_t due = due_time(s, b);
	bool wake = false;

	pthread_mutex_lock(&s->mutex);
	b->next = NULL;
	*s->queue_tail = b;
	s->queue_tail = &b->next;
	s->undecided++;
	if (s->undecided >= COMPANY_ENOUGH)
		due = 0; /* nobody gains by waiting longer */
	if (due < s->ready_ns) {
		s->ready_ns = due;
		wake = true;
	}
	pthread_mutex_unlock(&s->mutex);
	if (wake)
		pthread_cond_signal(&s->wake); /* after: it would wake up only to wait for the mutex */
}

void writer_prepare(struct store *s)
{
	pthread_mutex_lock(&s->mutex);
	s->batch_announced = true;
	pthread_mutex_unlock(&s->mutex);
	pthread_cond_signal(&s->wake);
}

void writer_submit(struct store *s, struct job *j) { job_enqueue(s, &s->writer_jobs, j, s->writer_up); }
