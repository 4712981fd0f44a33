#ifndef BAILIFF_SUPERVISOR_HOST_RETENTION_CLOCK_H
#define BAILIFF_SUPERVISOR_HOST_RETENTION_CLOCK_H

/*
 * The time by which retention judges age. The wall clock alone is not enough: one that jumps a year ahead makes
 * everything old, and what is pruned does not come back. So the time is counted from the newest event by the boot
 * clock, which cannot be set, and the count is kept in the store. The wall clock is followed while both agree, except
 * for a pause such as a long weekend. A larger difference (a wrong clock, or a machine that was off) has to
 * last for a week of the boot clock before it is accepted; until then retention uses the earlier of the two times. If
 * the difference changes meanwhile, only the smallest one has lasted. What is kept for less than a week waits as long
 * as it is kept.
 */

#include <stdbool.h>
#include <stdint.h>

struct config;
struct err;
struct store;

struct retention_clock {
	uint64_t real_us;   /* the time that was reached; 0 = unknown: the first reading is accepted */
	uint64_t boot_ns;   /* of the last reading */
	char boot_id[40];   /* of that boot; boot times are comparable only within one */
	uint64_t waited_ns; /* how long the wall clock has differed; 0 = it does not */
	int64_t ahead_us;   /* by how much the wall clock has been ahead at least; only while it differs */
};

struct retention_clock_reading {
	uint64_t real_us, boot_ns;
	const char *boot_id;
};

struct retention_clock_limits {
	uint64_t tolerance_us; /* a difference up to this is accepted at once */
	uint64_t wait_ns;      /* a larger one after this time */
};

struct retention_clock_limits retention_clock_limits_of(const struct config *c);
/* Takes the reading into account and returns the time to use. */
uint64_t retention_clock_read(struct retention_clock *c, const struct retention_clock_reading *now,
			      const struct retention_clock_limits *l);
static inline bool retention_clock_waits(const struct retention_clock *c) { return c->ahead_us != 0; }

/* As it was kept; without that, the time of the store's newest event. To be called before new events are written. */
int retention_clock_load(struct retention_clock *c, struct store *s, struct err *e);
void retention_clock_keep(const struct retention_clock *c, struct store *s);

#endif
