#ifndef BAILIFF_STORE_RING_H
#define BAILIFF_STORE_RING_H

/*
 * The newest committed records, in memory (internal to runtime/store, loop thread): nearly all reads of subscribers are
 * served from here. Always a range of sequences without gaps that ends at the newest. An event stays at least until it
 * is settled: readers find it nowhere else.
 */

#include "runtime/store/batch.h"

#define RING_BYTES_MAX (2u << 20) /* of settled events: those of some 70 short commands */

struct ring_part {
	uint64_t first;
	size_t count;
	struct batch_event *events;
	struct buf records;
};

struct ring {
	struct ring_part *parts; /* circular, with `cap` parts */
	size_t head, count, cap;
	size_t bytes;
};

void ring_done(struct ring *r);
/* Takes the records of a committed batch. `settled`: the newest event in the database. */
void ring_push(struct ring *r, struct store_batch *b, uint64_t settled);
/* The first sequence in it; 0 if it is empty. */
uint64_t ring_first(const struct ring *r);
/* The event record; NULL if it is not in the ring. */
const void *ring_get(const struct ring *r, uint64_t sequence, size_t *ret_len);

#endif
