#include "supervisor/host/deadline_timer.h"

#include "runtime/base/clock.h"
#include "runtime/loop/loop.h"

#include <event2/event.h>

#define LATE_NS 20000000ull /* later than a timer fires on an idle machine */
#define LATE_TURNS 4u       /* each turn of the loop reads some of the input */

/* If it fires late, the loop runs LATE_TURNS more turns first, so that pending input is read before the deadline acts.
 */
static void on_timer(evutil_socket_t fd, short what, void *ctx)
{
	struct deadline_timer *w = ctx;
	const struct timeval next_turn = { 0 };

	if (clock_boot_ns() > w->due_ns + LATE_NS && w->late_turns++ < LATE_TURNS) {
		loop_add(w->timer, &next_turn);
		return;
	}
	w->late_turns = 0;
	w->at_ns = UINT64_MAX;
	w->fn(w->ctx);
}

void deadline_timer_init(struct deadline_timer *w, struct event_base *base, void (*fn)(void *ctx), void *ctx)
{
	*w = (struct deadline_timer){ .at_ns = UINT64_MAX, .fn = fn, .ctx = ctx };
	w->timer = evtimer_new(base, on_timer, w);
}

void deadline_timer_done(struct deadline_timer *w)
{
	if (w->timer)
		event_free(w->timer);
	w->timer = NULL;
}

/* One microsecond more than needed: a timer that fires early would arm itself again at once. */
void deadline_timer_arm(struct deadline_timer *w, uint64_t boot_ns)
{
	uint64_t now = clock_boot_ns();
	uint64_t wait = boot_ns > now ? boot_ns - now : 0;

	if (boot_ns >= w->at_ns)
		return;
	w->at_ns = boot_ns;
	w->due_ns = now + wait;
	const struct timeval tv = { .tv_sec = (time_t)(wait / 1000000000),
				    .tv_usec = (suseconds_t)(wait % 1000000000 / 1000) + (wait ? 1 : 0) };
	loop_add(w->timer, &tv);
}
