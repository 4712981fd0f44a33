#include "runtime/store/worker.h"

#include "runtime/store/durable.h"
#include "runtime/store/store_private.h"

#include <signal.h>

static void *worker_main(void *arg)
{
	struct store *store = arg;

	pthread_mutex_lock(&store->mutex);
	for (;;) {
		struct job *j;
		enum job_step r;

		while (!store->worker_end && (!store->worker_jobs.head || store->alone))
			pthread_cond_wait(&store->decided, &store->mutex);
		if (store->worker_end)
			break;
		j = store->worker_jobs.head;
		store->worker_jobs.busy = true;
		store->keep_files = j->keeps_files;
		pthread_mutex_unlock(&store->mutex);

		/*
		 * Background reads and backups read only the database, so everything acknowledged must be settled
		 * first.
		 */
		r = durable_wait(store, &j->err) == 0 ? j->step(store, j) : JOB_FAILED;

		pthread_mutex_lock(&store->mutex);
		store->worker_jobs.busy = store->keep_files = false;
		job_finish_locked(store, &store->worker_jobs, r);
		pthread_cond_signal(&store->wake); /* an exclusive job, or files to remove, may have waited */
	}
	pthread_mutex_unlock(&store->mutex);
	return NULL;
}

static int start_thread(struct store *store, struct err *e)
{
	sigset_t all, old;
	int rc;

	if (store->worker_up)
		return 0;
	sigfillset(&all);
	sigdelset(&all, SIGSYS); /* a call that the process's sandbox denies must fail, not kill */
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&store->worker_thread, NULL, worker_main, store);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc != 0)
		return err_sys(e, rc, "start the store's worker thread");
	store->worker_up = true;
	return 0;
}

void worker_submit(struct store *store, struct job *j)
{
	bool usable = !atomic_load(&store->closing) && start_thread(store, &j->err) == 0;

	job_enqueue(store, &store->worker_jobs, j, usable);
}

/* store->closing is set by now: the running job sees it and returns early (store_cancelled). */
void worker_stop(struct store *store)
{
	if (!store->worker_up)
		return;
	pthread_mutex_lock(&store->mutex);
	store->worker_end = true;
	pthread_cond_broadcast(&store->decided);
	pthread_mutex_unlock(&store->mutex);
	pthread_join(store->worker_thread, NULL);
	store->worker_up = false;
}
