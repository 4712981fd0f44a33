#include "runtime/store/worker.h"

#include "runtime/store/durable.h"
#include "runtime/store/store_private.h"

#include <signal.h>

static void *worker_main(void *arg)
{
	struct store *s = arg;

	pthread_mutex_lock(&s->mutex);
	for (;;) {
		struct job *j;
		enum job_step r;

		while (!s->worker_end && (!s->worker_jobs.head || s->alone))
			pthread_cond_wait(&s->decided, &s->mutex);
		if (s->worker_end)
			break;
		j = s->worker_jobs.head;
		s->worker_jobs.busy = true;
		s->keep_files = j->keeps_files;
		pthread_mutex_unlock(&s->mutex);

		r = durable_wait(s, &j->err) == 0 ? j->step(s, j) : JOB_FAILED;

		pthread_mutex_lock(&s->mutex);
		s->worker_jobs.busy = s->keep_files = false;
		job_finish_locked(s, &s->worker_jobs, r);
		pthread_cond_signal(&s->wake); /* an exclusive job, or files to remove, may have waited */
	}
	pthread_mutex_unlock(&s->mutex);
	return NULL;
}

static int start_thread(struct store *s, struct err *e)
{
	sigset_t all, old;
	int rc;

	if (s->worker_up)
		return 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&s->worker_thread, NULL, worker_main, s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc != 0)
		return err_sys(e, rc, "start the store's worker thread");
	s->worker_up = true;
	return 0;
}

void worker_submit(struct store *s, struct job *j)
{
	bool usable = !atomic_load(&s->closing) && start_thread(s, &j->err) == 0;

	job_enqueue(s, &s->worker_jobs, j, usable);
}

void worker_stop(struct store *s)
{
	if (!s->worker_up)
		return;
	pthread_mutex_lock(&s->mutex);
	s->worker_end = true;
	pthread_cond_broadcast(&s->decided);
	pthread_mutex_unlock(&s->mutex);
	pthread_join(s->worker_thread, NULL);
	s->worker_up = false;
}
