#include "runtime/store/batch_outcome.h"

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/store/durable.h"
#include "runtime/store/layer.h"
#include "runtime/store/store_private.h"

void batch_complete(struct store *s, struct store_batch *group)
{
	struct layer *before;

	pthread_mutex_lock(&s->mutex);
	before = durable_publish_locked(s);
	while (group) {
		struct store_batch *b = group;

		group = b->next;
		s->undecided--;
		s->stats.batches++;
		if (b->status != 0)
			s->stats.refused++;
		completion_post_locked(s, &b->completion);
	}
	pthread_cond_broadcast(&s->decided);
	pthread_mutex_unlock(&s->mutex);
	layer_unref(before);
}

static void set_refused(struct store_batch *b, const struct err *why)
{
	b->status = -1;
	b->err = *why;
	if (why->code == ERR_SYS) {
		b->err.code = ERR_UNAVAILABLE;
		err_wrap(&b->err, "the store's medium failed");
	}
}

struct store_batch *batch_reject(struct store *s, struct store_batch *group, const struct err *why, bool also_must)
{
	struct store_batch *keep = NULL, **keep_tail = &keep, *gone = NULL, **gone_tail = &gone, *next;

	for (struct store_batch *b = group; b; b = next) {
		next = b->next;
		b->next = NULL;
		if (batch_is_must(b) && !also_must) {
			*keep_tail = b;
			keep_tail = &b->next;
		} else {
			set_refused(b, why);
			*gone_tail = b;
			gone_tail = &b->next;
		}
	}
	batch_complete(s, gone);
	return keep;
}

void batch_requeue(struct store *s, struct store_batch *group, bool deferred)
{
	struct store_batch *last = group;

	if (!group)
		return;
	pthread_mutex_lock(&s->mutex);
	for (struct store_batch *b = group; b; b = b->next) {
		b->deferred = deferred;
		s->ndeferred += deferred;
		last = b;
	}
	last->next = s->queue;
	if (!s->queue)
		s->queue_tail = &last->next;
	s->queue = group;
	if (!deferred)
		s->ready_ns = 0;
	pthread_cond_broadcast(&s->decided);
	pthread_mutex_unlock(&s->mutex);
}

void batch_fail(struct store *s, struct store_batch *group, const struct err *why)
{
	bool stop;

	pthread_mutex_lock(&s->mutex);
	stop = s->stop;
	pthread_mutex_unlock(&s->mutex);
	group = batch_reject(s, group, why, stop);
	if (!group)
		return;
	if (!s->retry_ns)
		log_warning("store: what must be written waits: %s", why->message);
	s->retry_ns = clock_mono_ns() + BATCH_RETRY_NS;
	batch_requeue(s, group, true);
}

void batch_triage(struct store *s)
{
	struct store_batch *all, *keep;
	struct err why = ERR_INIT;

	if (atomic_load(&s->full))
		err_set(&why, ERR_EXHAUSTED, "the store is full");
	else
		err_set(&why, ERR_UNAVAILABLE, "the store's medium has failed; it is tried again");
	pthread_mutex_lock(&s->mutex);
	all = s->queue;
	s->queue = NULL;
	s->queue_tail = &s->queue;
	s->ndeferred = 0;
	s->ready_ns = UINT64_MAX;
	pthread_mutex_unlock(&s->mutex);
	keep = batch_reject(s, all, &why, false);
	batch_requeue(s, keep, true);
}
