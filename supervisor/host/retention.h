#ifndef BAILIFF_SUPERVISOR_HOST_RETENTION_H
#define BAILIFF_SUPERVISOR_HOST_RETENTION_H

/*
 * Retention: old events go, and with them the outputs of processes that ended before. Each output's end is a fact
 * (output.expired, in the commit that removes the bytes), and so is that of a session of which nothing goes on and
 * which has no event left (session.expired, in the commit that removes its documents); then the events below the floor
 * are pruned. A run that is cut short by a restart is simply run again.
 */

#include <stdint.h>

struct config;
struct err;
struct store;

struct retention_result {
	uint64_t events;   /* removed */
	uint64_t outputs;  /* expired */
	uint64_t bytes;    /* of those */
	uint64_t sessions; /* of which nothing went on: removed with all that belongs to them */
};
/* e == NULL: done. */
typedef void (*retention_done_fn)(void *ctx, const struct retention_result *r, const struct err *e);

/* Removes events with sequence < floor (the newest event stays even if floor is past it), and idempotency records older
 * than idem_before_us. */
void retention_run(struct store *s, uint64_t floor, uint64_t idem_before_us, retention_done_fn done, void *ctx);

/* The floor that the configuration asks for at this time; 0 = nothing is to be removed. */
int retention_floor(struct store *s, const struct config *c, uint64_t now_us, uint64_t *ret, struct err *e);
/* Idempotency records older than this are not kept. */
uint64_t retention_idem_before(const struct config *c, uint64_t now_us);

#endif
