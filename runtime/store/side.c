#include "runtime/store/side.h"

#include "runtime/store/durable.h"
#include "runtime/store/state.h"

#include <signal.h>

static void *side_main(void *arg)
{
	struct store *s = arg;

	pthread_mutex_lock(&s->mutex);
	for (;;) {
		struct job *j;
		enum job_step r;

		while (!s->side_end && (!s->side.head || s->alone))
			pthread_cond_wait(&s->decided, &s->mutex);
		if (s->side_end)
			break;
		j = s->side.head;
		s->side.busy = true;
		s->keep_files = j->keeps_files;
		pthread_mutex_unlock(&s->mutex);

		r = durable_wait(s, &j->err) == 0 ? j->step(s, j) : JOB_FAILED;

		pthread_mutex_lock(&s->mutex);
		s->side.busy = s->keep_files = false;
		s->side.head = j->next;
		if (!s->side.head)
			s->side.tail = &s->side.head;
		j->failed = r == JOB_FAILED;
		store_post_locked(s, &j->completion);
		pthread_cond_signal(&s->wake); /* an exclusive job, or files to remove, may have waited */
	}
	pthread_mutex_unlock(&s->mutex);
	return NULL;
}

int side_start(struct store *s, struct err *e)
{
	sigset_t all, old;
	int rc;

	if (s->side_up)
		return 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&s->side_thread, NULL, side_main, s);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc != 0)
		return err_sys(e, rc, "start the store's side thread");
	s->side_up = true;
	return 0;
}

void side_stop(struct store *s)
{
	if (!s->side_up)
		return;
	pthread_mutex_lock(&s->mutex);
	s->side_end = true;
	pthread_cond_broadcast(&s->decided);
	pthread_mutex_unlock(&s->mutex);
	pthread_join(s->side_thread, NULL);
	s->side_up = false;
}
