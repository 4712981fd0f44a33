#ifndef BAILIFF_STORE_RING_H
#define BAILIFF_STORE_RING_H

/*
 * The newest committed records, in memory (internal to runtime/store): what subscribers ask for is nearly always
 * here. Owned by the loop thread. Always an unbroken range of sequences that ends at the newest.
 */

#include "runtime/store/batch.h"

#define RING_BYTES_MAX (8u << 20)

struct ring_part {
	uint64_t first;
	size_t count;
	struct batch_event *events;
	struct buf records;
};

struct ring {
	struct ring_part *parts; /* a circle of `cap` parts */
	size_t head, count, cap;
	size_t bytes;
};

void ring_done(struct ring *r);
/* Takes the records of a committed batch. */
void ring_push(struct ring *r, struct store_batch *b);
/* First sequence here; 0 when empty. */
uint64_t ring_first(const struct ring *r);
/* The event record; NULL when it is not here. */
const void *ring_get(const struct ring *r, uint64_t sequence, size_t *ret_len);

#endif
