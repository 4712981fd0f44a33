#include "runtime/store/batch_outcome.h"

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/store/durable.h"
#include "runtime/store/layer.h"
#include "runtime/store/store_private.h"

void batch_complete(struct store *store, struct store_batch *group)
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

static void set_rejected(struct store_batch *b, const struct err *why)
{
	b->status = -1;
	b->err = *why;
	if (why->code == ERR_SYS) {
		b->err.code = ERR_UNAVAILABLE;
		err_wrap(&b->err, "the store's disk failed");
	}
}

struct store_batch *batch_reject(struct store *store, struct store_batch *group, const struct err *why, bool also_must)
{
	struct store_batch *keep = NULL, **keep_tail = &keep, *rejected = NULL, **rejected_tail = &rejected, *next;

	for (struct store_batch *b = group; b; b = next) {
		next = b->next;
		b->next = NULL;
		if (batch_is_must(b) && !also_must) {
			*keep_tail = b;
			keep_tail = &b->next;
		} else {
			set_rejected(b, why);
			*rejected_tail = b;
			rejected_tail = &b->next;
		}
	}
	batch_complete(store, rejected);
	return keep;
}

void batch_requeue(struct store *store, struct store_batch *group, bool deferred)
{
	struct store_batch *last = group;

	if (!group)
		return;
	pthread_mutex_lock(&store->mutex);
	for (struct store_batch *b = group; b; b = b->next) {
		b->deferred = deferred;
		store->ndeferred += deferred;
		last = b;
	}
	last->next = store->queue;
	if (!store->queue)
		store->queue_tail = &last->next;
	store->queue = group;
	if (!deferred)
		store->ready_ns = 0;
	pthread_cond_broadcast(&store->decided);
	pthread_mutex_unlock(&store->mutex);
}

void batch_fail(struct store *store, struct store_batch *group, const struct err *why)
{
	bool stop;

	pthread_mutex_lock(&store->mutex);
	stop = store->stop;
	pthread_mutex_unlock(&store->mutex);
	group = batch_reject(store, group, why, stop);
	if (!group)
		return;
	if (!store->retry_ns)
		log_warning("store: deferring events that must not be lost: %s", why->message);
	store->retry_ns = clock_mono_ns() + BATCH_RETRY_NS;
	batch_requeue(store, group, true);
}

void batch_triage(struct store *store)
{
	struct store_batch *all, *keep;
	struct err why = ERR_INIT;

	if (atomic_load(&store->full))
		err_set(&why, ERR_EXHAUSTED, "the store is full");
	else
		err_set(&why, ERR_UNAVAILABLE, "the store's disk has failed; the daemon keeps retrying");
	pthread_mutex_lock(&store->mutex);
	all = store->queue;
	store->queue = NULL;
	store->queue_tail = &store->queue;
	store->ndeferred = 0;
	store->ready_ns = UINT64_MAX;
	pthread_mutex_unlock(&store->mutex);
	keep = batch_reject(store, all, &why, false);
	batch_requeue(store, keep, true);
}
