#ifndef BAILIFF_SUPERVISOR_HOST_RETENTION_H
#define BAILIFF_SUPERVISOR_HOST_RETENTION_H

/*
 * Retention removes old events and, with them, the outputs of processes that ended before. The removal of each output
 * is an event (output.expired, in the commit that removes the bytes), and so is that of a session that is inactive and
 * has no event left (session.expired, in the commit that removes its documents); then the events below the floor are
 * pruned. A run that a restart interrupts is simply repeated. Runs of a store wait for each other: two at once would
 * record the same removal twice.
 */

#include <stdint.h>

struct config;
struct err;
struct store;
struct store_verdict;

struct retention_result {
	uint64_t events;   /* removed */
	uint64_t outputs;  /* expired */
	uint64_t bytes;    /* of those */
	uint64_t sessions; /* inactive ones, removed with everything that belongs to them */
};
/* e == NULL: done. */
typedef void (*retention_done_fn)(void *ctx, const struct retention_result *r, const struct err *e);

/* All runs of a store; zeroes = none. */
struct retention_queue {
	struct retention *first; /* under way; the others follow it */
};

/* Removes events with sequence < floor (the newest event stays even if floor is past it), and idempotency records older
 * than idem_before_us. */
void retention_run(struct retention_queue *q, struct store *s, uint64_t floor, uint64_t idem_before_us,
		   retention_done_fn done, void *ctx);

/* The floor according to the configuration at this time; 0 = nothing is removed. */
int retention_floor(struct store *s, const struct config *c, uint64_t now_us, uint64_t *ret, struct err *e);
/* A rebuild found read models that differed from their events and replaced them: records that. */
void retention_record_repaired(struct store *s, const struct store_verdict *v);
/* Idempotency records older than this are removed. */
uint64_t retention_idem_before(const struct config *c, uint64_t now_us);

#endif
