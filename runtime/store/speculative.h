#ifndef BAILIFF_STORE_SPECULATIVE_H
#define BAILIFF_STORE_SPECULATIVE_H

/*
 * What the models will be once everything submitted is durable (internal to runtime/store; readers use store.h).
 *
 * A batch takes effect when it is durable, on another thread, a little later. Whoever decides the next step on the loop
 * thread must already reckon with it: two requests in one loop turn must not both start the same task. So submitted
 * batches are folded, by the same pure folds, into a small map of documents that lies over the committed ones; their
 * entries go when their batch is decided. When a batch is refused the map is made again from the batches that are left.
 *
 * Folding waits until somebody asks (speculative_refresh), because most batches are decided before anybody does. The
 * writer commits in the order of submission, so the batches that a reader's snapshot holds already are the first ones,
 * as many as have the events by which its log is ahead of the last one dispatched: those are not folded again.
 *
 * Sequence numbers are not known yet: folds see 0.
 */

#include "runtime/store/docs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct err;
struct store;
struct store_batch;

struct speculative {
	struct docs docs;
	TAILQ_HEAD(, store_batch) undecided;
	uint64_t ordinal;
	size_t unfolded; /* of the undecided ones */
};

void speculative_init(struct speculative *a);
void speculative_done(struct speculative *a);
void speculative_add(struct store *store, struct store_batch *b);
/* Before anything is read from the map. */
int speculative_refresh(struct store *store, struct err *e);
void speculative_resolve(struct store *store, struct store_batch *b);

#endif
