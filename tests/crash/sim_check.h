#ifndef BAILIFF_TESTS_SIM_CHECK_H
#define BAILIFF_TESTS_SIM_CHECK_H

/*
 * Invariants of the log, checked for every event as it arrives: sequence numbers without a gap, exactly one end for
 * everything that begins, no event after it, one active turn per thread, no approval without an approver. Independent
 * of the engine: it only reads events.
 */

#include "runtime/base/jscan.h"
#include "runtime/base/mem.h"
#include "runtime/base/strmap.h"
#include "runtime/event/event.h"
#include "runtime/store/store.h"
#include "tests/crash/sim_host.h"

#define IDS 24u /* of each kind, the newest */

/* Ids that requests may name. */
struct pool {
	char id[IDS][80];
	unsigned count;
};

static inline void pool_add(struct pool *p, const char *id)
{
	if (*id)
		snprintf(p->id[p->count++ % IDS], sizeof p->id[0], "%s", id);
}

enum sim_life { LIFE_NONE, LIFE_BEGUN, LIFE_STARTED, LIFE_ENDED };

struct sim_check {
	uint64_t sequence;
	uint64_t real_us;                                                                  /* of that event … */
	uint16_t type;                                                                     /* … as it was read */
	struct strmap turns, processes, calls, actions, tasks, jobs, subagents, sandboxes; /* id → enum sim_life */
	struct strmap loops;   /* turns that the loop drives, likewise */
	struct strmap expired; /* outputs, likewise */
	struct strmap linked;  /* "CHANNEL REMOTE" of peers' tasks, likewise */
	struct strmap servers; /* "SESSION NAME" of MCP servers, likewise; SESSION "" = of all */
	struct strmap active;  /* threadId → turnId (owned) */
	struct pool asked;     /* actions, of clients and of the engine */
	uint64_t seen[EVENT_TYPE_COUNT];
	bool nobody_allows; /* a rule that does not hold, for the control of the shrinking */
	char wrong[300];    /* "" = nothing */
};

static inline void check_fail(struct sim_check *c, const struct event_view *ev, const char *what, const char *id)
{
	if (!c->wrong[0])
		snprintf(c->wrong, sizeof c->wrong, "event %llu %s: %s (%s)", (unsigned long long)ev->sequence,
			 event_info(ev->type)->name, what, id);
}

static inline enum sim_life life(const struct strmap *m, const char *id)
{
	return (enum sim_life)(intptr_t)strmap_get(m, id);
}

static inline void live(struct strmap *m, const char *id, enum sim_life to)
{
	(void)strmap_put(m, id, (void *)(intptr_t)to);
}

/* Begins once; every later event needs the beginning; ends once, and no event follows the end. */
enum sim_part { PART_BEGIN, PART_MIDDLE, PART_END };
static inline void check_life(struct sim_check *c, const struct event_view *ev, struct strmap *m, enum id_field field,
			      enum sim_part part)
{
	char id[80];

	event_id_copy(ev, field, id, sizeof id);
	if (!*id) {
		check_fail(c, ev, "has no id", id_field_member(field));
		return;
	}
	enum sim_life now = life(m, id);
	if (now == LIFE_ENDED)
		check_fail(c, ev, "comes after the end", id);
	else if (part == PART_BEGIN && now != LIFE_NONE)
		check_fail(c, ev, "begins twice", id);
	else if (part != PART_BEGIN && now == LIFE_NONE)
		check_fail(c, ev, "comes before the beginning", id);
	live(m, id, part == PART_END ? LIFE_ENDED : LIFE_BEGUN);
}

static inline void check_turn(struct sim_check *c, const struct event_view *ev)
{
	char turn[80], thread[80];
	char *active;

	event_id_copy(ev, ID_TURN, turn, sizeof turn);
	event_id_copy(ev, ID_THREAD, thread, sizeof thread);
	active = strmap_get(&c->active, thread);
	switch (ev->type) {
	case EVENT_TURN_SUBMITTED:
		if (!jval_is_str(jval_get(event_payload(ev), "source"), "system"))
			check_life(c, ev, &c->turns, ID_TURN, PART_BEGIN);
		return;
	case EVENT_TURN_STARTED:
		if (life(&c->turns, turn) != LIFE_BEGUN)
			check_fail(c, ev, "starts twice, or was not submitted", turn);
		if (active)
			check_fail(c, ev, "another turn is active on the thread", thread);
		live(&c->turns, turn, LIFE_STARTED);
		if (jval_is_str(jval_get(event_payload(ev), "driver"), "loop"))
			live(&c->loops, turn, LIFE_STARTED);
		free(strmap_put(&c->active, thread, mem_strdup(turn)));
		return;
	default:
		check_life(c, ev, &c->turns, ID_TURN, PART_END);
		(void)strmap_del(&c->loops, turn);
		if (active && strcmp(active, turn) == 0)
			free(strmap_del(&c->active, thread));
	}
}

/* Every answer has a source: an approval only from a person, or as the declared default of its timeout. */
static inline void check_action(struct sim_check *c, const struct event_view *ev)
{
	struct jval payload = event_payload(ev), decision = jval_get(payload, "decision"),
		    source = jval_get(payload, "source");

	if (ev->type == EVENT_ACTION_REQUIRED) {
		char id[80];

		event_id_copy(ev, ID_ACTION, id, sizeof id);
		pool_add(&c->asked, id);
		check_life(c, ev, &c->actions, ID_ACTION, PART_BEGIN);
		return;
	}
	check_life(c, ev, &c->actions, ID_ACTION, PART_END);
	if (jval_is_str(decision, "allow") && !jval_is_str(source, "user") && !jval_is_str(source, "host"))
		check_fail(c, ev, "nobody said yes", "decision");
	if (c->nobody_allows && jval_is_str(decision, "allow"))
		check_fail(c, ev, "is allowed", "decision");
}

static inline void check_task(struct sim_check *c, const struct event_view *ev)
{
	char id[80];

	event_id_copy(ev, ID_TASK, id, sizeof id);
	enum sim_life now = life(&c->tasks, id);
	switch (ev->type) {
	case EVENT_TASK_CREATED: check_life(c, ev, &c->tasks, ID_TASK, PART_BEGIN); return;
	case EVENT_TASK_COMPLETED:
	case EVENT_TASK_FAILED:
	case EVENT_TASK_CANCELLED:
	case EVENT_TASK_TIMED_OUT:
		if (now == LIFE_ENDED)
			check_fail(c, ev, "ends twice", id);
		live(&c->tasks, id, LIFE_ENDED);
		return;
	case EVENT_TASK_LOST: /* not an end: it may be retried, cancelled, or settled by its owner */
		if (now == LIFE_ENDED)
			check_fail(c, ev, "is lost after its end", id);
		return;
	case EVENT_TASK_RETRYING: /* a failed one may be retried */ live(&c->tasks, id, LIFE_STARTED); return;
	case EVENT_TASK_PROGRESS:
	case EVENT_TASK_WAITING:
	case EVENT_TASK_PAUSED:
	case EVENT_TASK_RESUMED:
	case EVENT_TASK_STARTED:
	case EVENT_TASK_QUEUED:
		if (now == LIFE_ENDED || now == LIFE_NONE)
			check_fail(c, ev, now == LIFE_NONE ? "before the task was created" : "after the task's end",
				   id);
		return;
	default: return;
	}
}

/* Nothing starts in a session sandbox that is closed. */
static inline void check_process_start(struct sim_check *c, const struct event_view *ev)
{
	char sandbox[80];

	check_life(c, ev, &c->processes, ID_PROCESS, PART_BEGIN);
	event_id_copy(ev, ID_SANDBOX, sandbox, sizeof sandbox);
	if (*sandbox && life(&c->sandboxes, sandbox) == LIFE_ENDED)
		check_fail(c, ev, "starts in a closed sandbox", sandbox);
}

/* A process that could not be started, or was ended while it waited for hooks or a person, has no beginning. */
static inline void check_process_end(struct sim_check *c, const struct event_view *ev)
{
	const bool ran = ev->type == EVENT_PROCESS_TERMINATED &&
			 jval_uint(jval_get(event_payload(ev), "durationMs"), 0) > 0;
	char id[80];

	event_id_copy(ev, ID_PROCESS, id, sizeof id);
	const enum sim_life now = life(&c->processes, id);
	if (now == LIFE_ENDED)
		check_fail(c, ev, "ends twice", id);
	if (now == LIFE_NONE && ran)
		check_fail(c, ev, "comes before the beginning", id);
	live(&c->processes, id, LIFE_ENDED);
}

/* Only the output of a process that has ended expires, and once. */
static inline void check_expired(struct sim_check *c, const struct event_view *ev)
{
	char process[80], output[80];

	event_id_copy(ev, ID_PROCESS, process, sizeof process);
	event_id_copy(ev, ID_OUTPUT, output, sizeof output);
	if (life(&c->processes, process) != LIFE_ENDED)
		check_fail(c, ev, "its process has not ended", process);
	if (life(&c->expired, output) == LIFE_ENDED)
		check_fail(c, ev, "expires twice", output);
	live(&c->expired, output, LIFE_ENDED);
}

/* A call that was rejected, or not approved, has no beginning. */
static inline void check_tool_failed(struct sim_check *c, const struct event_view *ev)
{
	const struct jval stage = jval_get(event_payload(ev), "stage");
	char id[80];

	event_id_copy(ev, ID_TOOL_CALL, id, sizeof id);
	if (jval_is_str(stage, "check") || (jval_is_str(stage, "permission") && life(&c->calls, id) == LIFE_NONE))
		check_life(c, ev, &c->calls, ID_TOOL_CALL, PART_BEGIN);
	check_life(c, ev, &c->calls, ID_TOOL_CALL, PART_END);
}

/* A peer's task is linked once, and reports follow the link. */
static inline void check_peer_task(struct sim_check *c, const struct event_view *ev)
{
	char channel[80], remote[80], key[sizeof channel + sizeof remote + 1];

	event_id_copy(ev, ID_CHANNEL, channel, sizeof channel);
	jval_str(jval_get(event_payload(ev), "remoteTaskId"), remote, sizeof remote);
	snprintf(key, sizeof key, "%s %s", channel, remote);
	const bool known = life(&c->linked, key) != LIFE_NONE, links = ev->type == EVENT_CHANNEL_PEER_TASK_LINKED;
	if (known == links)
		check_fail(c, ev, links ? "is linked twice" : "is not linked", key);
	live(&c->linked, key, LIFE_BEGUN);
}

/* Only a server that was added is removed. Those of sessions do not survive the runtime (check_restarted). */
static inline void check_mcp_server(struct sim_check *c, const struct event_view *ev)
{
	char session[80], name[80], key[sizeof session + sizeof name + 1];

	jval_str(jval_get(event_payload(ev), "sessionId"), session, sizeof session);
	jval_str(jval_get(event_payload(ev), "name"), name, sizeof name);
	snprintf(key, sizeof key, "%s %s", session, name);
	if (ev->type == EVENT_MCP_SERVER_REMOVED && life(&c->servers, key) != LIFE_BEGUN)
		check_fail(c, ev, "is removed, but was not added", key);
	live(&c->servers, key, ev->type == EVENT_MCP_SERVER_ADDED ? LIFE_BEGUN : LIFE_ENDED);
}

static inline void forget_session_server(void *ctx, const char *key, void *value)
{
	if (key[0] != ' ')
		live(ctx, key, LIFE_ENDED);
}

static inline void check_restarted(struct sim_check *c)
{
	strmap_visit(&c->servers, forget_session_server, &c->servers);
}

static inline bool check_event(void *ctx, const struct event_view *ev)
{
	struct sim_check *c = ctx;

	if (ev->sequence != c->sequence + 1)
		check_fail(c, ev, "the sequence has a gap", "sequence");
	c->sequence = ev->sequence;
	c->real_us = ev->real_us;
	c->type = (uint16_t)ev->type;
	c->seen[ev->type]++;
	switch (ev->type) {
	case EVENT_TURN_SUBMITTED:
	case EVENT_TURN_STARTED:
	case EVENT_TURN_COMPLETED:
	case EVENT_TURN_FAILED: check_turn(c, ev); break;
	case EVENT_PROCESS_STARTED: check_process_start(c, ev); break;
	case EVENT_PROCESS_OUTPUT:
	case EVENT_PROCESS_COMMAND_EXITED:
	case EVENT_PROCESS_INPUT: check_life(c, ev, &c->processes, ID_PROCESS, PART_MIDDLE); break;
	case EVENT_PROCESS_COMPLETED: check_life(c, ev, &c->processes, ID_PROCESS, PART_END); break;
	case EVENT_PROCESS_TERMINATED:
	case EVENT_PROCESS_FAILED: check_process_end(c, ev); break;
	case EVENT_TOOL_STARTED: check_life(c, ev, &c->calls, ID_TOOL_CALL, PART_BEGIN); break;
	case EVENT_TOOL_ARGS:
	case EVENT_TOOL_PROGRESS: check_life(c, ev, &c->calls, ID_TOOL_CALL, PART_MIDDLE); break;
	case EVENT_TOOL_FAILED: check_tool_failed(c, ev); break;
	case EVENT_TOOL_RESULT: check_life(c, ev, &c->calls, ID_TOOL_CALL, PART_END); break;
	case EVENT_OUTPUT_EXPIRED: check_expired(c, ev); break;
	case EVENT_CHANNEL_PEER_TASK_LINKED:
	case EVENT_CHANNEL_PEER_TASK_UPDATED: check_peer_task(c, ev); break;
	case EVENT_MCP_SERVER_ADDED:
	case EVENT_MCP_SERVER_REMOVED: check_mcp_server(c, ev); break;
	case EVENT_HISTORY_RECONSTRUCTED: check_restarted(c); break;
	case EVENT_ACTION_REQUIRED:
	case EVENT_ACTION_RESOLVED: check_action(c, ev); break;
	case EVENT_SANDBOX_CREATED: check_life(c, ev, &c->sandboxes, ID_SANDBOX, PART_BEGIN); break;
	case EVENT_SANDBOX_RESTORED: check_life(c, ev, &c->sandboxes, ID_SANDBOX, PART_MIDDLE); break;
	case EVENT_SANDBOX_CLOSED: check_life(c, ev, &c->sandboxes, ID_SANDBOX, PART_END); break;
	case EVENT_JOB_CREATED: check_life(c, ev, &c->jobs, ID_JOB, PART_BEGIN); break;
	case EVENT_JOB_COMPLETED:
	case EVENT_JOB_CANCELLED: check_life(c, ev, &c->jobs, ID_JOB, PART_END); break;
	default:
		if (strncmp(event_info(ev->type)->name, "task.", 5) == 0)
			check_task(c, ev);
	}
	return !c->wrong[0];
}

/* Checks all new events. −1: an invariant is violated, described in `wrong`. */
static inline int check_log(struct sim_check *c, struct store *s)
{
	const struct store_query q = { .after = c->sequence, .index = -1 };
	struct err e = ERR_INIT;

	if (store_events(s, &q, check_event, c, &e) < 0)
		snprintf(c->wrong, sizeof c->wrong, "read the log: %.200s", e.message);
	return c->wrong[0] ? -1 : 0;
}

static inline bool check_same_event(void *ctx, const struct event_view *ev)
{
	struct sim_check *c = ctx;

	if (ev->sequence != c->sequence || ev->real_us != c->real_us || (uint16_t)ev->type != c->type)
		check_fail(c, ev, "is another event than before the crash", "sequence");
	return false;
}

/* After a crash: everything that was read before is still there. */
static inline void check_survived(struct sim_check *c, struct store *s)
{
	const struct store_query q = { .after = c->sequence - 1, .index = -1 };
	struct err e = ERR_INIT;

	if (c->wrong[0] || !c->sequence)
		return;
	if (store_last_sequence(s) < c->sequence)
		snprintf(c->wrong, sizeof c->wrong, "a crash lost events: %llu were read, %llu are there",
			 (unsigned long long)c->sequence, (unsigned long long)store_last_sequence(s));
	else if (store_events(s, &q, check_same_event, c, &e) < 0)
		snprintf(c->wrong, sizeof c->wrong, "read the log after a crash: %.200s", e.message);
}

static inline void check_free_value(void *ctx, const char *key, void *value) { free(value); }

static inline void check_done(struct sim_check *c)
{
	struct strmap *const all[] = {
		&c->turns,     &c->processes, &c->calls,     &c->actions, &c->tasks,  &c->jobs,
		&c->subagents, &c->loops,     &c->sandboxes, &c->expired, &c->linked, &c->servers
	};

	strmap_each(&c->active, check_free_value, NULL);
	strmap_done(&c->active);
	for (size_t i = 0; i < countof(all); i++)
		strmap_done(all[i]);
}

#endif
