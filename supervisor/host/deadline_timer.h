#ifndef BAILIFF_SUPERVISOR_HOST_DEADLINE_TIMER_H
#define BAILIFF_SUPERVISOR_HOST_DEADLINE_TIMER_H

/*
 * A timer for everything that waits for a point in time. If the process was delayed (stopped, or without CPU), both
 * input and the expired deadline are there at once: input is read first, so that output waiting in a pipe does not
 * count as silence and an end waiting in its socket was in time.
 *
 * It keeps only the earliest deadline. `fn` handles whatever is due and arms it again for the next one. It may be
 * called for a deadline that no longer exists: there is no way to withdraw one.
 */

#include <stdint.h>

struct event;
struct event_base;

struct deadline_timer {
	struct event *timer;
	uint64_t at_ns;      /* UINT64_MAX = not armed */
	uint64_t due_ns;     /* when it should fire: at_ns, or at once if that is past */
	unsigned late_turns; /* turns of the loop since it fired late */
	void (*fn)(void *ctx);
	void *ctx;
};

void deadline_timer_init(struct deadline_timer *w, struct event_base *base, void (*fn)(void *ctx), void *ctx);
void deadline_timer_done(struct deadline_timer *w);
/* Boot time. An earlier deadline that was requested stays. */
void deadline_timer_arm(struct deadline_timer *w, uint64_t boot_ns);

#endif
