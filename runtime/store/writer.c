/*
 * The writer thread: group commit.
 *
 * Batches are queued in the order of submission and become durable in that order, without exception. The writer sleeps
 * until the queue is due: immediately if a batch is urgent, otherwise when the oldest one has waited long enough for
 * others. It takes as many as fit into a group, syncs the spool bytes that they cite, and makes the group durable
 * (durable.h): in the journal or in the database. After some idle milliseconds it settles the groups that are only in
 * the journal. It also settles before any job and at the end. If settling fails nothing is lost, but no further group
 * goes to the journal until a retry succeeds (settle_retry).
 *
 * If a group fails, everything that is queued is *deferred*: the group returns to the head of the queue, and the loop
 * thread decides which batches are rejected (writer_triage). What was submitted later may have been derived from an
 * earlier batch (speculative.h), so only the end of the queue can be rejected: the batches after the last one with
 * STORE_MUST. Those before it become STORE_MUST themselves, and the queue is retried after at most a quarter of a
 * second. The loop thread decides because it submits: no batch is derived from another one while that is rejected.
 *
 * LMDB does not recover from a failed commit: after a failed write of a meta page every later transaction fails too. So
 * after each error other than lack of space the environment is closed and reopened; the id of its last transaction then
 * shows whether the commit in doubt happened.
 *
 * All signals are blocked in this thread, because an interrupted fdatasync fails a commit.
 */

#include "runtime/store/writer.h"

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/store/chunk.h"
#include "runtime/store/durable.h"
#include "runtime/store/expired_files.h"
#include "runtime/store/layer.h"
#include "runtime/store/read_models.h"
#include "runtime/store/store_meta.h"
#include "runtime/store/store_private.h"

#include <signal.h>
#include <string.h>
#include <time.h>

#define PUTS_MAX 1000u /* in one group */
#define RETRY_NS (250ull * 1000 * 1000)

/* ---- the environment ---- */

int writer_reopen(struct store *store, int (*between)(struct store *store, struct err *e), struct err *e)
{
	bool empty = false;
	int rc = 0;

	/* long readers return when they see this; those of the loop thread are short */
	atomic_store(&store->cancel, true);
	pthread_rwlock_wrlock(&store->db_lock);
	atomic_store(&store->cancel, false);
	db_close(&store->db);
	if (between)
		rc = between(store, e);
	if (db_open(store->dir, store->map_bytes, 0, &store->db, &empty, rc == 0 ? e : NULL) != 0) {
		rc = -1;
	} else if (empty || store_meta_load(store, &store->db, rc == 0 ? e : NULL) != 0) {
		if (empty)
			err_set(e, ERR_CORRUPT, "the database has suddenly become empty");
		db_close(&store->db);
		rc = -1;
	}
	pthread_rwlock_unlock(&store->db_lock);
	return rc;
}

/* Reopens the environment after a failure. True if the commit in doubt did happen, and is durable. */
static bool reopen_after_error(struct store *store, bool in_doubt, const struct err *why)
{
	struct err e = ERR_INIT;
	size_t id = store->txn_id;
	MDB_envinfo info;

	if (why->code != ERR_EXHAUSTED) /* a full disk is already logged, and retried often */
		log_error("store: %s; reopening the database", why->message);
	if (writer_reopen(store, NULL, &e) != 0) {
		log_error("store: cannot reopen the database yet: %s", e.message);
		return false;
	}
	if (!in_doubt || mdb_env_info(store->db.env, &info) != 0 || info.me_last_txnid != id)
		return false;
	return mdb_env_sync(store->db.env, 1) == 0;
}

int writer_txn(struct store *store, int (*fn)(struct store *store, MDB_txn *txn, void *ctx, struct err *e), void *ctx,
	       struct err *e)
{
	uint64_t start = clock_mono_ns();
	bool in_doubt = false;

	if (!store->db.env && writer_reopen(store, NULL, e) != 0)
		return -1;
	if (commit_txn(store, fn, ctx, &in_doubt, e) == 0) {
		commit_count(store, start);
		return 0;
	}
	if (space_failed(store, e)) {
		if (!space_release_ballast(store))
			return -1;
		*e = ERR_INIT;
		if (commit_txn(store, fn, ctx, &in_doubt, e) == 0)
			return 0;
	}
	if (e->code == ERR_SYS && reopen_after_error(store, in_doubt, e))
		return 0;
	return -1;
}

int writer_project_next(struct store *store, MDB_txn *txn, struct models *m, struct tip *tip,
			struct record_block *block, struct event_view *ret_ev, struct err *e)
{
	struct tip next = *tip;
	struct event_view ev;
	int rc;

	if (record_load(txn, &store->db, tip->sequence + 1, block, e) != 0)
		return -1;
	rc = record_event(block, tip->sequence + 1, &ev, e);
	if (rc == 0)
		rc = record_advance(block, &ev, &next, e);
	if (rc == 0 && store->project)
		rc = store->project(m, &ev, e);
	models_release(m);
	if (rc != 0)
		return err_wrap(e, "project event %llu", (unsigned long long)tip->sequence + 1);
	*tip = next;
	*ret_ev = ev;
	return 0;
}

/* ---- the end of batches ---- */

/* Groups are lists by `next`. */

/* Posts the batches, with their status, to the loop thread and lets readers see the new group: not earlier, so that a
 * reader never sees an event whose batch could still be rejected. */
static void complete_batches(struct store *store, struct store_batch *group)
{
	struct layer *before;

	pthread_mutex_lock(&store->mutex);
	before = durable_publish_locked(store);
	while (group) {
		struct store_batch *b = group;

		group = b->next;
		store->undecided--;
		store->stats.batches++;
		if (b->status != 0)
			store->stats.refused++;
		completion_post_locked(store, &b->completion);
	}
	pthread_cond_broadcast(&store->decided);
	pthread_mutex_unlock(&store->mutex);
	layer_unref(before);
}

/* Rejects batches here and not on the loop thread: one that is invalid, or all when the store is being stopped. */
static void reject_batches(struct store *store, struct store_batch *group, const struct err *why)
{
	for (struct store_batch *b = group; b; b = b->next)
		batch_reject(b, why);
	complete_batches(store, group);
}

static bool is_all_must(const struct store_batch *group)
{
	while (group && batch_is_must(group))
		group = group->next;
	return !group;
}

static struct store_batch **end_of(struct store_batch **group)
{
	while (*group)
		group = &(*group)->next;
	return group;
}

static void requeue_locked(struct store *store, struct store_batch *group)
{
	*end_of(&group) = store->queue;
	store->queue = group;
	store->queue_tail = end_of(&store->queue);
}

struct store_batch *writer_triage_locked(struct store *store)
{
	struct store_batch **end = &store->queue, *rejected;
	const bool again = store->triage.again;
	for (struct store_batch **at = end; *at; at = &(*at)->next)
		if (batch_is_must(*at))
			end = &(*at)->next;
	rejected = *end;
	*end = NULL;
	store->queue_tail = end;
	store->ndeferred = 0;
	for (struct store_batch *b = store->queue; b; b = b->next) {
		b->flags |= STORE_MUST;
		b->deferred &= !again;
		store->ndeferred += b->deferred;
	}
	if (again || !store->queue)
		store->ready_ns = store->queue ? 0 : UINT64_MAX;
	store->triage.posted = store->triage.again = false;
	return rejected;
}

/*
 * Defers the group and what is queued behind it, and lets the loop thread decide what is rejected. `again`: what is
 * left is written at once, with the ballast. While the store is being stopped nothing is submitted, so this thread
 * decides, and rejects all unless it can try again.
 */
static void defer_batches(struct store *store, struct store_batch *group, bool again, const struct err *why)
{
	struct store_batch *rejected = NULL;
	pthread_mutex_lock(&store->mutex);
	requeue_locked(store, group);
	store->ndeferred = 0;
	for (struct store_batch *b = store->queue; b; b = b->next)
		store->ndeferred += b->deferred = true;
	store->ready_ns = UINT64_MAX;
	store->triage.why = *why;
	store->triage.again |= again;
	if (store->stop && again) {
		rejected = writer_triage_locked(store);
	} else if (store->stop) {
		rejected = store->queue;
		store->queue = NULL;
		store->queue_tail = &store->queue;
		store->ndeferred = 0;
	} else if (!store->triage.posted && !is_all_must(store->queue)) {
		store->triage.posted = true;
		completion_post_locked(store, &store->triage.completion);
	}
	pthread_cond_broadcast(&store->decided);
	pthread_mutex_unlock(&store->mutex);
	reject_batches(store, rejected, why);
}

/* Without space, what must not be rejected is written anyway, once the loop thread has decided. */
static void fail_batches(struct store *store, struct store_batch *group, const struct err *why)
{
	if (!group)
		return;
	if (why->code == ERR_EXHAUSTED && !is_all_must(group)) {
		defer_batches(store, group, true, why);
		return;
	}
	if (!store->retry_ns)
		log_warning("store: deferring events: %s", why->message);
	store->retry_ns = clock_mono_ns() + RETRY_NS;
	defer_batches(store, group, false, why);
}

/* While batches are deferred: defers those that were submitted since. */
static void triage_queue(struct store *store)
{
	struct err why = ERR_INIT;
	if (atomic_load(&store->full))
		err_set(&why, ERR_EXHAUSTED, "the store is full");
	else
		err_set(&why, ERR_UNAVAILABLE, "the store's disk has failed; the daemon keeps retrying");
	defer_batches(store, NULL, false, &why);
}

/* ---- groups ---- */

/* Whether a failed commit did happen. It leaves the environment unusable, so this reopens it. */
static bool did_commit(struct store *store, struct store_batch *group, bool in_doubt, const struct err *e)
{
	if (!in_doubt)
		return false;
	if ((e->code == ERR_EXHAUSTED && e->sys == 0) || !reopen_after_error(store, true, e)) {
		durable_abort(store);
		return false;
	}
	durable_confirm(store, group);
	return true;
}

/* Releases the ballast for batches that must not be rejected, and tries once more. */
static struct store_batch *commit_without_space(struct store *store, struct store_batch *group, struct err *e)
{
	bool in_doubt = false;

	if (!is_all_must(group) || !store->db.env || !store->space.disk_full || !space_release_ballast(store))
		return group;
	*e = ERR_INIT;
	if (durable_group(store, group, &in_doubt, e) == 0 || did_commit(store, group, in_doubt, e)) {
		store->retry_ns = 0;
		complete_batches(store, group);
		return NULL;
	}
	space_failed(store, e);
	return group;
}

/* Returns what could not be written, with e, or NULL. */
static struct store_batch *commit_group(struct store *store, struct store_batch *group, struct err *e)
{
	bool in_doubt = false;

	if (!group)
		return NULL;
	if (durable_group(store, group, &in_doubt, e) == 0 || did_commit(store, group, in_doubt, e)) {
		store->retry_ns = 0;
		complete_batches(store, group);
		return NULL;
	}
	if (space_failed(store, e))
		return commit_without_space(store, group, e);
	if (in_doubt || e->code == ERR_SYS) {
		if (!in_doubt)
			reopen_after_error(store, false, e);
		return group;
	}
	if (!group->next) {
		log_error("store: a batch was rejected: %s", e->message);
		reject_batches(store, group, e);
		return NULL;
	}
	/* one batch is invalid, and a retry would not help: find it, and commit the others */
	for (struct store_batch *rest, *left; group; group = rest) {
		rest = group->next;
		group->next = NULL;
		*e = ERR_INIT;
		left = commit_group(store, group, e);
		if (left) {
			*end_of(&left) = rest;
			return left;
		}
	}
	return NULL;
}

/* ---- settling ---- */

/* Waiting worker jobs fail with this error; layers and journal stay, so nothing acknowledged is lost. */
static void schedule_settle_retry(struct store *store, const struct err *why)
{
	if (!store->settle_retry)
		log_warning("store: cannot settle the journal yet; retrying: %s", why->message);
	pthread_mutex_lock(&store->mutex);
	store->settle_retry = true;
	store->settle_error = *why;
	store->settle_failures++;
	store->settle_asked = false;
	pthread_cond_broadcast(&store->decided);
	pthread_mutex_unlock(&store->mutex);
}

/* Writes the journal's groups to the database. `must`: with the ballast as last resort. */
static int settle_journal(struct store *store, bool must, struct err *e)
{
	bool in_doubt = false;

	if (!store->layers)
		return 0;
	if (!store->db.env && writer_reopen(store, NULL, e) != 0) {
		schedule_settle_retry(store, e);
		return -1;
	}
	if (durable_settle(store, &in_doubt, e) == 0 || did_commit(store, NULL, in_doubt, e))
		return 0;
	if (space_failed(store, e)) {
		if (must && store->db.env && store->space.disk_full && space_release_ballast(store)) {
			*e = ERR_INIT;
			return settle_journal(store, false, e);
		}
	} else if (!in_doubt && e->code == ERR_SYS) {
		reopen_after_error(store, false, e);
	}
	schedule_settle_retry(store, e);
	return -1;
}

static void settle_if_due(struct store *store, bool due)
{
	struct err e = ERR_INIT;

	if (due)
		(void)settle_journal(store, false, &e);
}

/* Syncs the cited output bytes; cuts the group before the first batch for which that fails. */
static struct store_batch *prepare_ranges(struct store *store, struct store_batch *group,
					  struct store_batch **ret_failed, struct err *e)
{
	struct chunk_syncs syncs = { 0 };
	struct store_batch **at = &group;

	while (*at && chunk_prepare(store, *at, &syncs, e) == 0)
		at = &(*at)->next;
	*ret_failed = *at;
	*at = NULL;
	chunk_syncs_done(&syncs);
	return group;
}

/* The output of the first of these batches cannot be synced. */
static void fail_unprepared(struct store *store, struct store_batch *failed, struct err *why)
{
	if (why->code == ERR_CORRUPT) {
		pthread_mutex_lock(&store->mutex);
		requeue_locked(store, failed->next);
		store->ready_ns = store->queue ? 0 : UINT64_MAX;
		pthread_mutex_unlock(&store->mutex);
		failed->next = NULL;
		reject_batches(store, failed, why);
		return;
	}
	if (space_failed(store, why) && batch_is_must(failed))
		space_release_ballast(store);
	fail_batches(store, failed, why);
}

/* Prepares the outputs, commits what could be prepared, and defers the rest. */
static void write_group(struct store *store, struct store_batch *group)
{
	struct store_batch *failed = NULL, *left;
	struct err e = ERR_INIT, unprepared = ERR_INIT;

	if (!store->db.env && writer_reopen(store, NULL, &e) != 0) {
		if (e.code != ERR_EXHAUSTED)
			e.code = ERR_UNAVAILABLE;
		fail_batches(store, group, &e);
		return;
	}
	if (space_check(store) && (!is_all_must(group) || store->space.map_tight)) {
		err_set(&e, ERR_EXHAUSTED, "the store is full");
		fail_batches(store, group, &e);
		return;
	}
	group = prepare_ranges(store, group, &failed, &unprepared);
	left = commit_group(store, group, &e);
	if (left) {
		*end_of(&left) = failed;
		fail_batches(store, left, &e);
	} else if (failed) {
		fail_unprepared(store, failed, &unprepared);
	}
}

/* In queue order, up to PUTS_MAX; a single larger batch is a group of its own. */
static struct store_batch *take_group(struct store *store)
{
	struct store_batch *group = store->queue, **at = &group;
	unsigned weight = 0;

	while (*at && (at == &group || weight + (*at)->weight <= PUTS_MAX)) {
		weight += (*at)->weight;
		if ((*at)->deferred)
			store->ndeferred--;
		(*at)->deferred = false;
		at = &(*at)->next;
	}
	store->queue = *at;
	*at = NULL;
	if (!store->queue)
		store->queue_tail = &store->queue;
	store->ready_ns = store->queue ? 0 : UINT64_MAX;
	return group;
}

/* ---- the thread ---- */

enum work { WORK_GROUP, WORK_JOB, WORK_SETTLE, WORK_CHECK, WORK_PREPARE, WORK_END };

/* A stop or a flush makes everything due; deferred batches only their retry time or a stop (ready_ns is UINT64_MAX). */
static bool queue_due(const struct store *store, uint64_t now)
{
	if (!store->queue)
		return false;
	return store->stop || store->ready_ns <= now || (store->flushing && store->ready_ns != UINT64_MAX) ||
	       (store->retry_ns && store->retry_ns <= now);
}

/* Compaction replaces the file under every reader, so it waits until the worker is idle (`exclusive`). */
static bool job_due(const struct store *store)
{
	const struct job *j = store->writer_jobs.head;

	return j && !j->asleep && !(j->exclusive && store->worker_jobs.busy);
}

static bool may_settle(const struct store *store) { return store->layers && !store->settle_retry && !store->held; }

/* Called and returns with the mutex held. */
static enum work wait_for_work(struct store *store, bool after_group)
{
	uint64_t check_ns = 0;

	for (;;) {
		uint64_t now = clock_mono_ns(), until = UINT64_MAX;

		if (!store->stop && after_group && store->settle_asked)
			return WORK_SETTLE;
		if (!store->stop && after_group && job_due(store))
			return WORK_JOB; /* alternate, or a busy queue would starve it */
		if (queue_due(store, now))
			return WORK_GROUP;
		if (store->stop)
			return WORK_END;
		if (store->batch_announced && !store->settle_asked)
			return WORK_PREPARE;
		if (store->settle_asked || (may_settle(store) && store->settle_at_ns <= now))
			return WORK_SETTLE;
		if (job_due(store))
			return WORK_JOB;
		if (may_settle(store))
			until = store->settle_at_ns;
		if (atomic_load(&store->full) || !store->db.env || store->nunlinks || store->settle_retry) {
			if (!check_ns)
				check_ns = now + RETRY_NS;
			else if (check_ns <= now)
				return WORK_CHECK;
			if (check_ns < until)
				until = check_ns;
		}
		if (store->queue && store->ready_ns < until)
			until = store->ready_ns;
		if (store->queue && store->retry_ns && store->retry_ns < until)
			until = store->retry_ns;
		if (until == UINT64_MAX) {
			pthread_cond_wait(&store->wake, &store->mutex);
		} else {
			struct timespec ts = { .tv_sec = (time_t)(until / 1000000000u),
					       .tv_nsec = (long)(until % 1000000000u) };
			pthread_cond_timedwait(&store->wake, &store->mutex, &ts);
		}
	}
}

static void run_group(struct store *store, bool stopping)
{
	struct store_batch *group;

	pthread_mutex_lock(&store->mutex);
	if (!store->ndeferred)
		store->retry_ns = 0; /* all of them were rejected */
	pthread_mutex_unlock(&store->mutex);
	/* deferred batches wait for their retry, unless there is space already */
	if (store->retry_ns && clock_mono_ns() < store->retry_ns && !stopping &&
	    (!atomic_load(&store->full) || space_check(store))) {
		triage_queue(store);
		return;
	}
	pthread_mutex_lock(&store->mutex);
	group = take_group(store);
	pthread_mutex_unlock(&store->mutex);
	write_group(store, group);
	settle_if_due(store, durable_settle_due(store) && !store->settle_retry);
	expired_files_remove(store);
}

static void *writer_main(void *arg)
{
	struct store *store = arg;
	bool after_group = false;

	for (;;) {
		struct job *j;
		enum work w;
		bool stop;

		pthread_mutex_lock(&store->mutex);
		w = wait_for_work(store, after_group);
		j = w == WORK_JOB ? store->writer_jobs.head : NULL;
		if (j && j->exclusive)
			store->alone = true;
		stop = store->stop;
		store->batch_announced = false;
		pthread_mutex_unlock(&store->mutex);
		after_group = w == WORK_GROUP;
		if (w == WORK_END)
			break;
		if (w == WORK_GROUP) {
			run_group(store, stop);
		} else if (w == WORK_JOB) {
			/*
			 * Jobs read and rewrite the database, so it must be complete; retention runs anyway, because it
			 * may free the space that settling needs.
			 */
			bool ready = store->held || settle_journal(store, true, &j->err) == 0 || j->makes_room;
			enum job_step r = ready ? JOB_MORE : JOB_FAILED;

			if (r == JOB_MORE) {
				j->err = ERR_INIT;
				r = j->step(store, j);
			}

			pthread_mutex_lock(&store->mutex);
			if (r != JOB_MORE) {
				store->alone = false;
				job_finish_locked(store, &store->writer_jobs, r);
				pthread_cond_broadcast(&store->decided);
			}
			pthread_mutex_unlock(&store->mutex);
			space_check(store);
		} else if (w == WORK_PREPARE) {
			durable_prepare(store);
		} else {
			if (!store->db.env)
				writer_reopen(store, NULL, NULL);
			settle_if_due(store, w == WORK_SETTLE || store->settle_retry);
			if (w == WORK_CHECK)
				space_check(store);
			expired_files_remove(store);
		}
	}
	settle_if_due(store, true);
	if (store->layers)
		log_warning("store: %u groups stay in the journal; the next start settles them", store->layers->depth);
	expired_files_remove(store);
	return NULL;
}

int writer_start(struct store *store, struct err *e)
{
	sigset_t all, old;
	int rc;

	sigfillset(&all);
	sigdelset(&all, SIGSYS); /* a call that the process's sandbox denies must fail, not kill */
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&store->writer, NULL, writer_main, store);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc != 0)
		return err_sys(e, rc, "start the store's writer");
	store->writer_up = true;
	return 0;
}

void writer_stop(struct store *store)
{
	if (!store->writer_up)
		return;
	pthread_mutex_lock(&store->mutex);
	store->stop = true;
	pthread_cond_signal(&store->wake);
	pthread_mutex_unlock(&store->mutex);
	pthread_join(store->writer, NULL);
	store->writer_up = false;
}

/* This many batches share one sync well enough: waiting for more would only add latency. */
#define BATCHES_ENOUGH 64
#define SHORTLY_NS (2ull * 1000 * 1000)

/* 0 = immediately. Batches without events (outputs, idempotency records) have no class and are treated as urgent. */
static uint64_t due_time(const struct store *store, const struct store_batch *b)
{
	if (b->nevents && b->flags & STORE_SHORTLY)
		return clock_mono_ns() + SHORTLY_NS;
	return b->now || b->nevents == 0 ? 0 : clock_mono_ns() + store->soon_ns;
}

void writer_enqueue(struct store *store, struct store_batch *b)
{
	uint64_t due = due_time(store, b);
	bool wake = false;

	pthread_mutex_lock(&store->mutex);
	b->next = NULL;
	*store->queue_tail = b;
	store->queue_tail = &b->next;
	store->undecided++;
	if (store->undecided >= BATCHES_ENOUGH)
		due = 0;
	if (due < store->ready_ns) {
		store->ready_ns = due;
		wake = true;
	}
	pthread_mutex_unlock(&store->mutex);
	if (wake)
		pthread_cond_signal(
			&store->wake); /* after the unlock, or it would wake up only to wait for the mutex */
}

void writer_prepare(struct store *store)
{
	bool wake = durable_warm_up_pays(store);

	pthread_mutex_lock(&store->mutex);
	store->settle_at_ns = clock_mono_ns() + store->settle_ns; /* settling would delay that batch */
	store->batch_announced |= wake;
	pthread_mutex_unlock(&store->mutex);
	if (wake)
		pthread_cond_signal(&store->wake);
}

void writer_submit(struct store *store, struct job *j) { job_enqueue(store, &store->writer_jobs, j, store->writer_up); }
