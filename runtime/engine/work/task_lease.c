/*
 * Leases. A task of a fleet may work only as long as its node holds the claim on it, and the process that renews the
 * claim may be killed or paused. So the engine itself ends the task when its lease is over (task_time.c).
 *
 * The end of a lease is a time of this host's boot clock, as computed by the process that renews it: a renewal that
 * arrives late grants no more than it would have in time. It is kept in memory only. After a restart of the runtime the
 * last renewal is unknown, so a task gets a fraction of its lease to be renewed.
 */

#include "runtime/engine/work/task_private.h"

#define RECOVERY_PART 6u  /* of the lease, after a restart */
#define RECOVERY_MS 1000u /* if the lease is not recorded */

struct task_lease {
	uint64_t until_ns;
};

int task_lease_check(struct engine *engine, const json_t *params, struct err *e)
{
	const json_t *until = json_object_get(params, "leaseUntil");

	if (!until && json_object_get(params, "fleet"))
		return err_field(e, "leaseUntil", "missing: a task of a fleet needs a lease");
	if (until && (uint64_t)json_integer_value(until) * 1000000 <= engine_now(engine))
		return err_at(e, ERR_EXPIRED, "leaseUntil", "the lease is over already");
	return 0;
}

static void set_lease(struct engine *engine, const char *task_id, uint64_t until_ns)
{
	struct task_lease *l = mem_zalloc(1, sizeof *l);

	l->until_ns = until_ns;
	free(strmap_put(&engine->work->task_leases, task_id, l));
	if (until_ns < engine->work->lease_poll_ns)
		engine->work->lease_poll_ns = until_ns;
	engine_wake(engine, until_ns);
}

void task_lease_begin(struct engine *engine, const char *task_id, const json_t *params)
{
	const json_t *until = json_object_get(params, "leaseUntil");

	if (until)
		set_lease(engine, task_id, (uint64_t)json_integer_value(until) * 1000000);
}

/* A task of a fleet has a lease until it is over; then it is forgotten. */
int task_lease_holds(struct engine *engine, const struct task *t, struct err *e)
{
	const struct task_lease *l = strmap_get(&engine->work->task_leases, t->d.taskId);
	const bool holds = l ? l->until_ns > engine_now(engine) : t->d.fleet.type != JT_OBJECT;

	return holds ? 0 : err_set(e, ERR_EXPIRED, "the lease of task '%s' is over", t->d.taskId);
}

/* A renewal is not recorded: it would be most of the log, and a restart grants little anyway. */
void engine_renew_lease(struct engine *engine, const json_t *params, const struct caller *c, engine_reply_fn fn,
			void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	task_auto struct task t = TASK_INIT;
	struct err e = ERR_INIT;

	if (task_get(engine, param_str(params, "taskId"), c, &t, &e) < 0 ||
	    (task_status_ended(t.status) &&
	     err_set(&e, ERR_STATE, "task '%s' is %s: there is nothing to renew", t.d.taskId, t.d.status)) ||
	    task_lease_holds(engine, &t, &e) < 0 || task_lease_check(engine, params, &e) < 0)
		return transaction_reject(tx, &e);
	task_lease_begin(engine, t.d.taskId, params);
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

void task_lease_recover(struct engine *engine, const struct task *t)
{
	const uint64_t lease_ms = jval_uint(jval_get(t->d.fleet, "leaseMs"), RECOVERY_MS * RECOVERY_PART);

	if (t->d.fleet.type == JT_OBJECT && !task_status_ended(t->status))
		set_lease(engine, t->d.taskId, engine_now(engine) + lease_ms / RECOVERY_PART * 1000000);
}

static void free_lease(void *ctx, const char *task_id, void *value) { free(value); }

void task_lease_done(struct engine *engine)
{
	strmap_each(&engine->work->task_leases, free_lease, NULL);
	strmap_done(&engine->work->task_leases);
}
