#ifndef BAILIFF_STORE_BATCH_H
#define BAILIFF_STORE_BATCH_H

/* A batch (internal to runtime/store): the encoded changes of one transaction, committed as a whole. */

#include "runtime/base/buf.h"
#include "runtime/store/job.h"
#include "runtime/store/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#define BATCH_EVENTS_MAX 4096
#define BATCH_REF_MAX 72

struct batch_event {
	uint32_t offset; /* in records */
	uint32_t length;
	uint32_t payload; /* offset in the record; 0 = not known */
};

struct chunk {
	uint64_t offset;
	uint32_t length;
	uint64_t checksum;
};

/* A range of a spool file; the writer computes its chunks (chunk.c). */
struct batch_range {
	char ref[BATCH_REF_MAX];
	int fd;
	uint64_t offset, length;
	struct chunk *chunks;
	size_t nchunks;
	bool first_cited; /* the first committed range of this output */
};

enum batch_item_kind { ITEM_INLINE, ITEM_IDEM, ITEM_META, ITEM_EXPIRE };

struct batch_item {
	enum batch_item_kind kind;
	uint32_t uid;
	uint64_t real_us;
	char *key; /* output ref, idempotency key or meta name */
	struct buf value;
};

struct store_batch {
	struct completion completion;
	struct store_batch *next;
	struct store *store;

	struct buf records;
	struct batch_event *events;
	size_t nevents, events_cap;
	struct batch_range *ranges;
	size_t nranges, ranges_cap;
	struct batch_item *items;
	size_t nitems, items_cap;
	unsigned weight;    /* estimated number of puts */
	struct err problem; /* of the first event that could not be added; code 0 = none */
	bool now;           /* urgent */

	unsigned flags;
	bool prepared; /* the ranges are synced and checksummed */
	bool deferred; /* waits for space or a working disk */
	store_done_fn done;
	void *ctx;
	int status;
	struct err err;
	uint64_t first_sequence, last_sequence;

	/* owned by the loop thread, between submission and dispatch (speculative.h) */
	TAILQ_ENTRY(store_batch) undecided;
	uint64_t ordinal; /* 0 = never projected speculatively */
	bool projected;
};

void batch_reject(struct store_batch *b, const struct err *why); /* sets its status */
static inline bool batch_is_must(const struct store_batch *b) { return b->flags & STORE_MUST; }

#endif
