#ifndef BAILIFF_TESTS_FLEET_HOST_H
#define BAILIFF_TESTS_FLEET_HOST_H

/*
 * The simulated daemons, one for each node, and their commands. Like the real one, a daemon keeps what it has
 * acknowledged, ends a task whose lease is over, and after a restart of its runtime gives running tasks a sixth of
 * their lease. Commands end by themselves, with success or not. Each start is recorded for the checker, which also
 * checks at every start and every renewal whether another command of the same task runs anywhere.
 */

#include "runtime/base/mem.h"
#include "tests/crash/fleet_bus.h"

#define HOST_TASKS 512
#define HOST_KILL_MS 100u /* until a process that is to end has ended */
#define HOST_RECOVERY_PART 6u

enum host_state { HOST_CREATED, HOST_RUNNING, HOST_ENDED };

struct host_task {
	char id[FLEET_LOCAL_ID], task[FLEET_ID_MAX + 1], key[FLEET_KEY_TEXT];
	uint64_t token, attempt, lease_ms, lease_until; /* the latter by the node's boot clock */
	enum host_state state;
	bool started;
	uint64_t started_at, ends_at, cancel_at; /* true time; 0 = not */
	int exit_code;
	const char *status, *reason;
};

struct host {
	struct fleet_daemon daemon; /* first */
	struct bus *b;
	struct actor *a;
	struct host_task tasks[HOST_TASKS];
	size_t ntasks;
	uint64_t down_until, frozen_until;
};

struct fleet_sim {
	struct bus b; /* first */
	struct host hosts[FLEET_NODES];
};

static inline struct host *host_of(struct fleet_daemon *d) { return (struct host *)d; }

static void host_end(struct host_task *t, const char *status, const char *reason, int exit_code)
{
	t->state = HOST_ENDED;
	t->status = status;
	t->reason = reason;
	t->exit_code = exit_code;
}

/* Advances a task to the present. The earliest end applies. */
static void host_advance(struct host *h, struct host_task *t)
{
	uint64_t now = h->b->w.now, over = actor_true(h->a, t->lease_until) + HOST_KILL_MS;

	if (t->state == HOST_ENDED || now < h->frozen_until)
		return;
	if (over < h->frozen_until + HOST_KILL_MS)
		over = h->frozen_until + HOST_KILL_MS;
	if (over < h->down_until)
		over = h->down_until;
	if (h->b->w.fault == FAULT_NO_LEASE)
		over = UINT64_MAX;
	if (t->started && t->ends_at <= now && t->ends_at <= over && (!t->cancel_at || t->ends_at <= t->cancel_at))
		host_end(t, t->exit_code ? "failed" : "completed", "", t->exit_code);
	else if (t->cancel_at && t->cancel_at <= now)
		host_end(t, "cancelled", t->reason, -1);
	else if (over <= now)
		host_end(t, "cancelled", "lease_over", -1);
}

static struct host_task *host_find(struct host *h, const char *id)
{
	for (size_t i = 0; i < h->ntasks; i++)
		if (strcmp(h->tasks[i].id, id) == 0) {
			host_advance(h, &h->tasks[i]);
			return &h->tasks[i];
		}
	return NULL;
}

/* No other command of the task may run now. A command on a frozen host does not run; it is killed when the host
 * continues. */
static void host_check_alone(struct host *h, const struct host_task *mine)
{
	struct fleet_sim *s = (struct fleet_sim *)h->b;

	for (int i = 0; i < FLEET_NODES; i++)
		for (size_t k = 0; k < s->hosts[i].ntasks; k++) {
			struct host_task *t = &s->hosts[i].tasks[k];

			if (t == mine || strcmp(t->task, mine->task) != 0)
				continue;
			host_advance(&s->hosts[i], t);
			if (t->state == HOST_RUNNING && h->b->w.now >= s->hosts[i].frozen_until + HOST_KILL_MS)
				world_wrong(&h->b->w,
					    "task %s runs twice: token %llu on node %d and token %llu on node %d",
					    t->task, (unsigned long long)t->token, i, (unsigned long long)mine->token,
					    h->a->number);
		}
}

/* The runtime is killed: what it has acknowledged is kept, leases are not. */
static void host_crash_runtime(struct host *h)
{
	uint64_t down = 100 + world_pick(&h->b->w, 900);

	h->b->w.counts[COUNT_RUNTIME]++;
	world_tell(&h->b->w, "the runtime of node %d is killed", h->a->number);
	for (size_t i = 0; i < h->ntasks; i++) {
		struct host_task *t = &h->tasks[i];

		host_advance(h, t);
		t->lease_until = actor_boot(h->a);
		if (t->state == HOST_RUNNING)
			t->lease_until += down + t->lease_ms / HOST_RECOVERY_PART;
		if (h->b->w.fault == FAULT_FORGETFUL)
			t->id[0] = '\0';
	}
	h->down_until = h->b->w.now + down;
}

/* The whole machine stops for a while, as a virtual machine may; its clocks do not. */
static void host_freeze(struct host *h, uint64_t ms)
{
	h->b->w.counts[COUNT_FROZEN]++;
	world_tell(&h->b->w, "node %d is frozen for %llu ms", h->a->number, (unsigned long long)ms);
	for (size_t i = 0; i < h->ntasks; i++) {
		host_advance(h, &h->tasks[i]);
		h->tasks[i].ends_at += ms;
		if (h->tasks[i].cancel_at)
			h->tasks[i].cancel_at += ms;
	}
	h->frozen_until = h->b->w.now + ms;
	if (h->a->stopped_until < h->frozen_until)
		h->a->stopped_until = h->frozen_until;
}

/* The whole machine crashes and restarts: its commands are lost. */
static void host_crash(struct host *h)
{
	for (size_t i = 0; i < h->ntasks; i++) {
		host_advance(h, &h->tasks[i]);
		if (h->tasks[i].state != HOST_ENDED)
			host_end(&h->tasks[i], "lost", "the daemon was killed", -1);
	}
	h->down_until = h->b->w.now + 500 + world_pick(&h->b->w, 60000);
	world_tell(&h->b->w, "node %d is gone until %llu", h->a->number, (unsigned long long)h->down_until);
	actor_kill(h->a);
}

/* ---- the interface ---- */

/* Whether the call reaches the runtime. */
static bool host_reach(struct host *h, struct err *e)
{
	h->b->w.steps++;
	actor_mishap(h->a);
	actor_wait(h->a, world_pick(&h->b->w, 5));
	if (!h->a->killed && h->b->w.now >= h->down_until)
		return true;
	err_set(e, ERR_UNAVAILABLE, "simulated: the runtime does not run");
	return false;
}

/* Replies; sometimes the runtime is killed before the reply is sent. */
static int host_answer(struct host *h, int r, struct err *e)
{
	if (world_fault(&h->b->w, 15)) {
		host_crash_runtime(h);
		return err_set(e, ERR_UNAVAILABLE, "simulated: the runtime was killed");
	}
	actor_wait(h->a, world_pick(&h->b->w, 5));
	actor_mishap(h->a);
	return h->a->killed ? err_set(e, ERR_UNAVAILABLE, "simulated: killed") : r;
}

static int host_prepare(struct fleet_daemon *d, const struct fleet_start *s, struct err *e)
{
	struct host *h = host_of(d);

	if (!host_reach(h, e))
		return -1;
	return world_pick(&h->b->w, 10) == 0 ? 1 : 0;
}

static int host_create(struct fleet_daemon *d, const struct fleet_start *s, struct err *e)
{
	struct host *h = host_of(d);
	struct fleet_world *w = &h->b->w;

	if (!host_reach(h, e))
		return -1;
	if (s->lease_until <= actor_boot(h->a))
		return err_set(e, ERR_EXPIRED, "simulated: the lease is over already");
	if (!host_find(h, s->local_id)) {
		if (h->ntasks == HOST_TASKS)
			return err_set(e, ERR_EXHAUSTED, "simulated: full");
		struct host_task *t = &h->tasks[h->ntasks++];
		*t = (struct host_task){ .token = s->token,
					 .attempt = s->task->attempt,
					 .lease_ms = s->task->spec.lease_ms,
					 .lease_until = s->lease_until,
					 .exit_code = world_pick(w, 6) ? 0 : 1,
					 .reason = "" };
		snprintf(t->id, sizeof(t->id), "%s", s->local_id);
		snprintf(t->task, sizeof(t->task), "%s", s->task->spec.id);
		snprintf(t->key, sizeof(t->key), "%s", s->task->spec_text.key);
	}
	return host_answer(h, 0, e);
}

static int host_start(struct fleet_daemon *d, const char *local_id, struct err *e)
{
	struct host *h = host_of(d);
	struct fleet_world *w = &h->b->w;

	if (!host_reach(h, e))
		return -1;
	struct host_task *t = host_find(h, local_id);
	if (!t)
		return err_set(e, ERR_NOT_FOUND, "simulated: no such task");
	if (t->lease_until <= actor_boot(h->a))
		return err_set(e, ERR_EXPIRED, "simulated: the lease is over");
	if (t->state != HOST_CREATED || t->cancel_at)
		return err_set(e, ERR_STATE, "simulated: it was started already, or has ended");
	t->state = HOST_RUNNING;
	t->started = true;
	t->started_at = w->now;
	t->ends_at = w->now + 20 + world_pick(w, world_pick(w, 3) ? 2000 : 60000);
	w->counts[COUNT_STARTS]++;
	world_tell(w, "node %d starts %s attempt %llu token %llu", h->a->number, t->task,
		   (unsigned long long)t->attempt, (unsigned long long)t->token);
	host_check_alone(h, t);
	return host_answer(h, 0, e);
}

static int host_renew(struct fleet_daemon *d, const char *local_id, uint64_t until, struct err *e)
{
	struct host *h = host_of(d);

	if (!host_reach(h, e))
		return -1;
	struct host_task *t = host_find(h, local_id);
	uint64_t now = actor_boot(h->a);
	if (!t || t->state == HOST_ENDED || t->lease_until <= now || until <= now)
		return err_set(e, ERR_EXPIRED, "simulated: it has ended, or its lease is over");
	t->lease_until = until;
	if (t->state == HOST_RUNNING)
		host_check_alone(h, t);
	return host_answer(h, 0, e);
}

static int host_cancel(struct fleet_daemon *d, const char *local_id, const char *reason, struct err *e)
{
	struct host *h = host_of(d);

	if (!host_reach(h, e))
		return -1;
	struct host_task *t = host_find(h, local_id);
	if (!t)
		return err_set(e, ERR_NOT_FOUND, "simulated: no such task");
	if (t->state != HOST_ENDED && !t->cancel_at) {
		t->cancel_at = h->b->w.now + world_pick(&h->b->w, 300);
		t->reason = strcmp(reason, "lease_over") == 0 ? "lease_over" : "cancelled";
	}
	return host_answer(h, 0, e);
}

static void host_local(const struct host_task *t, struct fleet_local *ret)
{
	*ret = (struct fleet_local){
		.started = t->started, .ended = t->state == HOST_ENDED, .exit_code = -1, .token = t->token
	};
	snprintf(ret->fleet_id, sizeof(ret->fleet_id), "%s", t->task);
	snprintf(ret->submitter_key, sizeof(ret->submitter_key), "%s", t->key);
	snprintf(ret->status, sizeof(ret->status), "%s", ret->ended ? t->status : "running");
	snprintf(ret->reason, sizeof(ret->reason), "%s", t->reason);
	if (ret->ended)
		ret->exit_code = t->exit_code;
}

static int host_status(struct fleet_daemon *d, const char *local_id, struct fleet_local *ret, struct err *e)
{
	struct host *h = host_of(d);
	struct fleet_local l = { 0 };

	if (!host_reach(h, e))
		return -1;
	struct host_task *t = host_find(h, local_id);
	if (t)
		host_local(t, &l);
	int r = host_answer(h, t ? 0 : 1, e);
	if (r == 0) {
		if (l.ended)
			l.result = mem_strdup("{}");
		*ret = l;
	}
	return r;
}

static int host_list(struct fleet_daemon *d, fleet_local_fn fn, void *ctx, struct err *e)
{
	struct host *h = host_of(d);

	if (!host_reach(h, e))
		return -1;
	for (size_t i = 0; i < h->ntasks && !h->a->killed; i++) {
		struct fleet_local l;

		host_advance(h, &h->tasks[i]);
		if (h->tasks[i].state == HOST_ENDED)
			continue;
		host_local(&h->tasks[i], &l);
		fn(ctx, h->tasks[i].id, &l);
	}
	return host_answer(h, 0, e);
}

static bool host_draining(struct fleet_daemon *d) { return false; }
static void host_forget(struct fleet_daemon *d, const char *local_id) {}

static const struct fleet_daemon_ops host_ops = { .prepare = host_prepare,
						  .create = host_create,
						  .start = host_start,
						  .renew = host_renew,
						  .cancel = host_cancel,
						  .status = host_status,
						  .list = host_list,
						  .draining = host_draining,
						  .forget = host_forget };

#endif
