#ifndef BAILIFF_TESTS_FLEET_WORLD_H
#define BAILIFF_TESTS_FLEET_WORLD_H

/*
 * The world of the simulated fleet: a clock, actors (nodes and a client) that are coroutines, and the faults of their
 * calls. Everything random comes from one seed.
 *
 * A call takes time, and the other actors continue meanwhile. It may be slow, its request or its reply may be lost, it
 * may take effect only after the caller has given up, and its caller may be killed or stopped before or after it. A
 * killed actor returns from every call immediately and without effects until its coroutine ends.
 */

#include "runtime/base/err.h"
#include "supervisor/fleet/fleet_node.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define FLEET_NODES 3
#define FLEET_ACTORS (FLEET_NODES + 1) /* the last one is the client */
#define ACTOR_STACK (512u << 10)
#define CALL_MS 2000u    /* the port gives up */
#define NOTICED_MS 4000u /* until a cut connection is noticed */

struct fleet_world;

struct actor {
	struct fleet_world *w;
	int number;
	bool alive, killed, done; /* done: its coroutine has ended */
	ucontext_t context;
	char *stack;
	uint64_t wake_at, stopped_until, cut_since, cut_until;
	uint64_t offset; /* of its boot clock */
	int64_t ppm, skew;
	struct fleet_port port;
	bool woken;
	struct fleet_node node;
	struct fleet_node_config config;
	struct fleet_submitter submitter;
};

/* Intended defects, for the controls. */
enum fleet_fault { FAULT_NONE, FAULT_NO_LEASE, FAULT_NO_CAS, FAULT_FORGETFUL, FAULT_NO_RECORDS, FAULTS };

struct fleet_world {
	uint64_t seed, now, faults_until, steps;
	enum fleet_fault fault;
	ucontext_t scheduler;
	struct actor actors[FLEET_ACTORS];
	uint64_t server_down_until;
	char wrong[256];
	uint64_t counts[16];
	bool tell;
	bool hostile; /* a client writes arbitrary documents … */
	bool flips;   /* … and restores what each node wrote last */
};

enum {
	COUNT_KILLED,
	COUNT_STOPPED,
	COUNT_CUT,
	COUNT_LOST_CALLS,
	COUNT_SERVER,
	COUNT_RUNTIME,
	COUNT_FROZEN,
	COUNT_STARTS,
	COUNT_COMPLETED,
	COUNT_LOST,
	COUNT_FAILED,
	COUNT_CANCELLED,
	COUNT_LATE,
	COUNT_HOSTILE
};

static inline uint64_t world_random(struct fleet_world *w)
{
	/* splitmix64 */
	uint64_t z = (w->seed += 0x9e3779b97f4a7c15ull);
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static inline uint64_t world_pick(struct fleet_world *w, uint64_t n) { return n ? world_random(w) % n : 0; }

/* Probability in 10,000. No faults occur after faults_until. */
static inline bool world_fault(struct fleet_world *w, unsigned n)
{
	return w->now < w->faults_until && world_pick(w, 10000) < n;
}

__attribute__((format(printf, 2, 3))) static inline void world_wrong(struct fleet_world *w, const char *fmt, ...)
{
	va_list ap;

	if (w->wrong[0])
		return;
	va_start(ap, fmt);
	vsnprintf(w->wrong, sizeof(w->wrong), fmt, ap);
	va_end(ap);
}

#define world_tell(w, fmt, ...) \
	((w)->tell ? fprintf(stderr, "%8llu " fmt "\n", (unsigned long long)(w)->now, ##__VA_ARGS__) : 0)

/* ---- actors ---- */

static inline uint64_t actor_boot(const struct actor *a)
{
	return a->offset + a->w->now + (uint64_t)((int64_t)a->w->now * a->ppm / 1000000);
}

static inline uint64_t actor_real(const struct actor *a)
{
	return (uint64_t)(1800000000000 + (int64_t)a->w->now + a->skew);
}

/* The true time of a time of the actor's boot clock, a little late. */
static inline uint64_t actor_true(const struct actor *a, uint64_t boot)
{
	int64_t since = (int64_t)(boot - a->offset);

	return since < 0 ? 0 : (uint64_t)(since - since * a->ppm / 1000000 + 1);
}

static inline void actor_wait(struct actor *a, uint64_t ms)
{
	if (a->killed)
		return;
	a->wake_at = a->w->now + ms;
	swapcontext(&a->context, &a->w->scheduler);
}

static inline void actor_kill(struct actor *a)
{
	if (a->killed || !a->alive)
		return;
	world_tell(a->w, "actor %d is killed", a->number);
	a->killed = true;
	a->wake_at = a->stopped_until = a->w->now;
}

/* SIGSTOP, sometimes for longer than every lease; SIGKILL. */
static inline void actor_mishap(struct actor *a)
{
	struct fleet_world *w = a->w;

	if (a->killed)
		return;
	if (world_fault(w, 5)) {
		w->counts[COUNT_KILLED]++;
		actor_kill(a);
	} else if (world_fault(w, 8)) {
		uint64_t ms = world_pick(w, world_pick(w, 3) ? 8000 : 90000);

		w->counts[COUNT_STOPPED]++;
		world_tell(w, "actor %d is stopped for %llu ms", a->number, (unsigned long long)ms);
		actor_wait(a, ms);
	}
}

/* ---- calls of the bus ---- */

enum call_fate { CALL_DONE, CALL_NOT_SENT, CALL_UNANSWERED, CALL_LATE };

static inline bool actor_cut(const struct actor *a)
{
	return a->w->now < a->cut_until || a->w->now < a->w->server_down_until;
}

static inline bool actor_connected(const struct actor *a)
{
	if (a->w->now < a->w->server_down_until)
		return false;
	return a->w->now >= a->cut_until || a->w->now < a->cut_since + NOTICED_MS;
}

/* Called before the effect: decides what happens to the call. The effect takes place unless it was not sent or is late.
 */
static inline enum call_fate call_begin(struct actor *a)
{
	struct fleet_world *w = a->w;

	w->steps++;
	actor_mishap(a);
	if (a->killed || !actor_connected(a))
		return CALL_NOT_SENT;
	actor_wait(a, world_fault(w, 100) ? world_pick(w, CALL_MS - 100) : world_pick(w, 4));
	if (a->killed)
		return CALL_NOT_SENT;
	if (actor_cut(a) || world_fault(w, 30)) {
		w->counts[COUNT_LOST_CALLS]++;
		actor_wait(a, CALL_MS);
		return CALL_NOT_SENT;
	}
	if (world_fault(w, 15)) {
		w->counts[COUNT_LATE]++;
		actor_wait(a, CALL_MS);
		return CALL_LATE;
	}
	return world_fault(w, 30) ? CALL_UNANSWERED : CALL_DONE;
}

/* Called after the effect: 0, or −1 if the caller does not get the reply. */
static inline int call_end(struct actor *a, enum call_fate fate, struct err *e)
{
	if (fate == CALL_UNANSWERED)
		actor_wait(a, CALL_MS);
	if (fate == CALL_DONE) {
		actor_wait(a, world_pick(a->w, 4));
		actor_mishap(a);
	}
	if (fate == CALL_DONE && !a->killed)
		return 0;
	return err_set(e, ERR_UNAVAILABLE, "simulated: no answer");
}

#endif
