#include "runtime/store/job.h"

#include "runtime/base/log.h"
#include "runtime/store/store_private.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* The eventfd is written only for the first completion; store_dispatch resets it when it takes the last one. */
void completion_post_locked(struct store *store, struct completion *c)
{
	uint64_t one = 1;

	c->next = NULL;
	if (!store->done && write(store->event_fd, &one, sizeof(one)) < 0)
		log_error("store: eventfd: %s", strerror(errno));
	*store->done_tail = c;
	store->done_tail = &c->next;
}

void completion_post(struct store *store, struct completion *c)
{
	pthread_mutex_lock(&store->mutex);
	completion_post_locked(store, c);
	pthread_mutex_unlock(&store->mutex);
}

/* A job that cannot run is completed as failed, so that its owner is called and freed in any case. */
void job_enqueue(struct store *store, struct job_queue *q, struct job *j, bool usable)
{
	j->next = NULL;
	if (!usable || atomic_load(&store->closing)) {
		j->failed = true;
		if (!j->err.code)
			err_set(&j->err, ERR_UNAVAILABLE,
				store->read_only ? "the store is open for reading only" : "the store is being closed");
		completion_post(store, &j->completion);
		return;
	}
	pthread_mutex_lock(&store->mutex);
	*q->tail = j;
	q->tail = &j->next;
	pthread_cond_signal(&store->wake);
	pthread_cond_broadcast(&store->decided);
	pthread_mutex_unlock(&store->mutex);
}

void job_finish_locked(struct store *store, struct job_queue *q, enum job_step result)
{
	struct job *j = q->head;

	q->head = j->next;
	if (!q->head)
		q->tail = &q->head;
	j->failed = result == JOB_FAILED;
	completion_post_locked(store, &j->completion);
}

/* Their owners still get a completion, from the last store_flush. */
void jobs_cancel(struct store *store, struct job_queue *q)
{
	if (q->head && q->head->cancel)
		q->head->cancel(store, q->head);
	pthread_mutex_lock(&store->mutex);
	while (q->head) {
		err_set(&q->head->err, ERR_UNAVAILABLE, "the store is being closed");
		job_finish_locked(store, q, JOB_FAILED);
	}
	pthread_mutex_unlock(&store->mutex);
}
