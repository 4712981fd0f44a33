#include "runtime/store/job.h"

#include "runtime/base/log.h"
#include "runtime/store/store_private.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

void completion_post_locked(struct store *s, struct completion *c)
{
	uint64_t one = 1;

	c->next = NULL;
	if (!s->done && write(s->event_fd, &one, sizeof(one)) < 0)
		log_error("store: eventfd: %s", strerror(errno));
	*s->done_tail = c;
	s->done_tail = &c->next;
}

void completion_post(struct store *s, struct completion *c)
{
	pthread_mutex_lock(&s->mutex);
	completion_post_locked(s, c);
	pthread_mutex_unlock(&s->mutex);
}

void job_enqueue(struct store *s, struct job_queue *q, struct job *j, bool usable)
{
	j->next = NULL;
	if (!usable || atomic_load(&s->closing)) {
		j->failed = true;
		if (!j->err.code)
			err_set(&j->err, ERR_UNAVAILABLE,
				s->read_only ? "the store is open for reading only" : "the store is being closed");
		completion_post(s, &j->completion);
		return;
	}
	pthread_mutex_lock(&s->mutex);
	*q->tail = j;
	q->tail = &j->next;
	pthread_cond_signal(&s->wake);
	pthread_cond_broadcast(&s->decided);
	pthread_mutex_unlock(&s->mutex);
}

void job_finish_locked(struct store *s, struct job_queue *q, enum job_step result)
{
	struct job *j = q->head;

	q->head = j->next;
	if (!q->head)
		q->tail = &q->head;
	j->failed = result == JOB_FAILED;
	completion_post_locked(s, &j->completion);
}

void jobs_cancel(struct store *s, struct job_queue *q)
{
	pthread_mutex_lock(&s->mutex);
	while (q->head) {
		err_set(&q->head->err, ERR_UNAVAILABLE, "the store is being closed");
		job_finish_locked(s, q, JOB_FAILED);
	}
	pthread_mutex_unlock(&s->mutex);
}
