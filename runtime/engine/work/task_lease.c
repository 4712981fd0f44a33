/*
 * Leases. A task of a fleet may work only as long as its node holds the claim on it, and the process that renews the
 * claim may be killed or paused. So the engine itself ends the task when its lease is over (task_time.c).
 *
 * The end of a lease is a time of this host's boot clock, as computed by the process that renews it: a renewal that
 * arrives late grants no more than it would have in time. It is two thirds of the lease after the last renewal. Two
 * more sixths are for what can go wrong here, and the last is a margin:
 *
 * - After a restart of the runtime the last renewal is unknown, because renewals are not recorded. A task with a live
 *   process gets a sixth of its lease from then, once: the time is recorded, and further restarts keep it until the
 *   next renewal. The lease of any other is over: the daemon may have been away for longer than the lease.
 * - If the runtime is stopped or does not return, the guard ends the task's processes, by a timer that every renewal
 *   moves: it expires a sixth of the lease after the end of the lease. A restart does not move it.
 */

#include "runtime/engine/work/task_private.h"

#define RECOVERY_PART 6u     /* of the lease, after a restart */
#define RECOVERY_MS 1000u    /* if the lease is not recorded */
#define LEASE_MAX_MS 600000u /* also of bailiff-fleet */

struct task_lease {
	uint64_t until_ns;
	uint64_t limit_ns; /* for the guard; 0 = what it has */
};

static uint64_t recorded_lease_ms(const struct task *t, uint64_t otherwise)
{
	const uint64_t ms = jval_uint(jval_get(t->d.fleet, "leaseMs"), otherwise);

	return ms < LEASE_MAX_MS ? ms : LEASE_MAX_MS;
}

/* The part of a lease that a restart grants, and that the guard waits beyond the end. */
static uint64_t grace_ns(const struct task *t)
{
	return recorded_lease_ms(t, RECOVERY_MS * RECOVERY_PART) / RECOVERY_PART * 1000000;
}

/* The fleet computes the end from when it has sent its renewal, so it is never more than a lease in the future. */
static int check_until(struct engine *engine, const json_t *until, uint64_t lease_ms, struct err *e)
{
	const uint64_t now_ms = engine_now(engine) / 1000000;
	const json_int_t ms = json_integer_value(until);

	if (!json_is_integer(until) || ms <= 0)
		return err_field(e, "leaseUntil", "must be a time of the boot clock in milliseconds");
	if ((uint64_t)ms > now_ms + lease_ms)
		return err_field(e, "leaseUntil", "must be at most %llu ms (the lease) in the future: it is now %llu",
				 (unsigned long long)lease_ms, (unsigned long long)now_ms);
	if ((uint64_t)ms <= now_ms)
		return err_at(e, ERR_EXPIRED, "leaseUntil", "the lease is over already");
	return 0;
}

int task_lease_check(struct engine *engine, const json_t *params, struct err *e)
{
	const json_t *until = json_object_get(params, "leaseUntil"), *fleet = json_object_get(params, "fleet");
	const json_t *lease = json_object_get(fleet, "leaseMs");
	const json_int_t lease_ms = fleet ? json_integer_value(lease) : LEASE_MAX_MS;

	if (fleet && (lease_ms < 1 || lease_ms > LEASE_MAX_MS))
		return err_field(e, "fleet.leaseMs", "must be an integer from 1 to %u", LEASE_MAX_MS);
	if (!until && fleet)
		return err_field(e, "leaseUntil", "missing: a task of a fleet needs a lease");
	return until ? check_until(engine, until, (uint64_t)lease_ms, e) : 0;
}

static void set_lease(struct engine *engine, const char *task_id, uint64_t until_ns, uint64_t limit_ns)
{
	struct task_lease *l = mem_zalloc(1, sizeof *l);

	l->until_ns = until_ns;
	l->limit_ns = limit_ns;
	free(strmap_put(&engine->work->task_leases, task_id, l));
	if (until_ns < engine->work->lease_poll_ns)
		engine->work->lease_poll_ns = until_ns;
	engine_wake(engine, until_ns);
}

void task_lease_begin(struct engine *engine, const char *task_id, const json_t *params)
{
	const uint64_t until_ns = (uint64_t)json_integer_value(json_object_get(params, "leaseUntil")) * 1000000;
	const json_t *lease_ms = json_object_get(json_object_get(params, "fleet"), "leaseMs");

	if (until_ns)
		set_lease(engine, task_id, until_ns,
			  until_ns + (uint64_t)json_integer_value(lease_ms) / RECOVERY_PART * 1000000);
}

/* ---- the guard's limit ---- */

static void limit_process(struct engine *engine, const char *process_id, uint64_t limit_ns)
{
	if (limit_ns && engine->o.ports->limit)
		engine->o.ports->limit(engine->o.host, process_id, limit_ns);
}

struct limited_task {
	const char *id;
	uint64_t limit_ns;
};

static void limit_if_of_task(void *ctx, const char *id, void *value)
{
	const struct limited_task *t = ctx;
	const struct process *p = value;

	if (strcmp(p->task_id, t->id) == 0)
		limit_process(p->engine, id, t->limit_ns);
}

/* The command waits at its gate until this fact is durable: it never runs without the limit. */
void task_on_process_started(struct transaction *tx, const struct scope *s, const struct process_started *p)
{
	const struct task_lease *l = s->task ? strmap_get(&tx->engine->work->task_leases, s->task) : NULL;

	if (l)
		limit_process(tx->engine, s->process, l->limit_ns);
}

/* ---- renewals ---- */

/* A task of a fleet has a lease until it is over; then it is forgotten. */
int task_lease_holds(struct engine *engine, const struct task *t, struct err *e)
{
	const struct task_lease *l = strmap_get(&engine->work->task_leases, t->d.taskId);
	const bool holds = l ? l->until_ns > engine_now(engine) : t->d.fleet.type != JT_OBJECT;

	return holds ? 0 : err_set(e, ERR_EXPIRED, "the lease of task '%s' is over", t->d.taskId);
}

/* Renewals are not recorded: they would be most of the log. */
void engine_renew_lease(struct engine *engine, const json_t *params, const struct caller *c, engine_reply_fn fn,
			void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	task_auto struct task t = TASK_INIT;
	struct err e = ERR_INIT;

	if (task_get(engine, param_str(params, "taskId"), c, &t, &e) < 0 ||
	    (task_status_ended(t.status) &&
	     err_set(&e, ERR_STATE, "task '%s' is %s: there is nothing to renew", t.d.taskId, t.d.status)) ||
	    task_lease_holds(engine, &t, &e) < 0 ||
	    check_until(engine, json_object_get(params, "leaseUntil"), recorded_lease_ms(&t, LEASE_MAX_MS), &e) < 0)
		return transaction_reject(tx, &e);
	const uint64_t until_ns = (uint64_t)json_integer_value(json_object_get(params, "leaseUntil")) * 1000000;
	struct limited_task limited = { t.d.taskId, until_ns + grace_ns(&t) };
	set_lease(engine, t.d.taskId, until_ns, limited.limit_ns);
	strmap_visit(&engine->processes->live, limit_if_of_task, &limited);
	if (view_counted(t.d.leaseUntil)) /* the first one after a restart */
		EMIT(task_lease_updated, tx, task_scope(&t.d, c), .leaseUntil = 0, .bootId = engine->boot_id);
	jw_kstr(&tx->w, "taskId", t.d.taskId);
	transaction_commit(tx);
}

struct due_lease {
	uint64_t now, next;
	char id[ID_SIZE]; /* one that is over; "" = none */
};

static void find_due(void *ctx, const char *task_id, void *value)
{
	struct due_lease *d = ctx;
	const struct task_lease *l = value;

	if (l->until_ns <= d->now)
		snprintf(d->id, sizeof d->id, "%s", task_id);
	else if (l->until_ns < d->next)
		d->next = l->until_ns;
}

bool task_lease_take_due(struct engine *engine, uint64_t now, char ret[ID_SIZE])
{
	struct due_lease d = { .now = now, .next = UINT64_MAX };

	strmap_each(&engine->work->task_leases, find_due, &d);
	engine->work->lease_poll_ns = d.next;
	if (!d.id[0])
		return false;
	free(strmap_del(&engine->work->task_leases, d.id));
	memcpy(ret, d.id, ID_SIZE);
	return true;
}

/* What another boot has recorded is over: its processes are gone, and so is its clock. */
static uint64_t recorded_ns(struct engine *engine, const struct task *t)
{
	return strcmp(t->d.leaseBootId, engine->boot_id) == 0 ? t->d.leaseUntil * 1000000 : 0;
}

struct live_task {
	const char *id;
	bool lives;
};

static void find_process(void *ctx, const char *id, void *value)
{
	struct live_task *t = ctx;
	const struct process *p = value;

	t->lives |= strcmp(p->task_id, t->id) == 0;
}

void task_lease_recover(struct engine *engine, const struct task *t)
{
	struct live_task live = { .id = t->d.taskId };
	uint64_t until_ns = engine_now(engine);

	if (t->d.fleet.type != JT_OBJECT || task_status_ended(t->status))
		return;
	strmap_visit(&engine->processes->live, find_process, &live);
	if (!live.lives)
		return set_lease(engine, t->d.taskId, until_ns, until_ns);
	until_ns += grace_ns(t);
	if (view_counted(t->d.leaseUntil)) {
		until_ns = recorded_ns(engine, t);
	} else {
		struct transaction *tx = transaction_new_internal(engine);

		EMIT(task_lease_updated, tx, task_scope(&t->d, NULL), .leaseUntil = (int64_t)(until_ns / 1000000),
		     .bootId = engine->boot_id);
		transaction_commit(tx);
	}
	/* The limits of its processes stay; those that start now get no more than the lease. */
	set_lease(engine, t->d.taskId, until_ns, until_ns);
}

static void free_lease(void *ctx, const char *task_id, void *value) { free(value); }

void task_lease_done(struct engine *engine)
{
	strmap_each(&engine->work->task_leases, free_lease, NULL);
	strmap_done(&engine->work->task_leases);
}
