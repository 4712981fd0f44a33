#ifndef BAILIFF_SUPERVISOR_HOST_DEADLINE_TIMER_H
#define BAILIFF_SUPERVISOR_HOST_DEADLINE_TIMER_H

/*
 * A timer for all that waits for a time. Who was held up (stopped, or without a processor) finds at once what came
 * meanwhile and that time has passed. What came is read first: output that waits in its pipe is no silence, and an end
 * that waits in its socket was in time.
 */

#include <stdint.h>

struct event;
struct event_base;

struct deadline_timer {
	struct event *timer;
	uint64_t at_ns;      /* UINT64_MAX = not armed */
	uint64_t due_ns;     /* when it should fire: then, or at once if that had passed */
	unsigned late_turns; /* of the loop since it fired late */
	void (*fn)(void *ctx);
	void *ctx;
};

void deadline_timer_init(struct deadline_timer *w, struct event_base *base, void (*fn)(void *ctx), void *ctx);
void deadline_timer_done(struct deadline_timer *w);
/* Boot time; an earlier one that was asked for stays. */
void deadline_timer_arm(struct deadline_timer *w, uint64_t boot_ns);

#endif
