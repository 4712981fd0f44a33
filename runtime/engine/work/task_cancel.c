/*
 * Cancellation. First the intent is recorded, for the task and for all tasks below it; from then on nothing new may
 * start there. Then everything that works for the task is asked to end (parts). A task becomes cancelled
 * when all of that has provably ended, which is checked whenever something below it ends.
 */

#include "runtime/engine/work/task_private.h"

#define CANCEL_MOST 4000u /* tasks in one commit */

/* ---- what works for a task ---- */

struct of_task {
	const char *task_id;
	const char *end_reason; /* asks each to end; NULL = only counts them */
	size_t n;
};

static void process_of_task(void *ctx, const char *id, void *value)
{
	struct of_task *o = ctx;
	struct process *p = value;

	if (strcmp(p->task_id, o->task_id) != 0)
		return;
	o->n++;
	if (o->end_reason)
		process_enforce_end(p, PROCESS_END_USER, NULL, process_stop_signal(p), p->engine->o.stop_grace_ms,
				    o->end_reason);
}

static bool task_processes_open(struct engine *engine, const char *task_id)
{
	struct of_task o = { .task_id = task_id };

	strmap_each(&engine->processes->live, process_of_task, &o);
	return o.n > 0;
}

void task_processes_end(struct engine *engine, const char *task_id, const char *reason)
{
	struct of_task o = { .task_id = task_id, .end_reason = reason };

	/* strmap_visit: ending a process may remove it, and others, from the map. */
	strmap_visit(&engine->processes->live, process_of_task, &o);
}

static bool task_children_open(struct engine *engine, const char *task_id)
{
	char child[ID_SIZE];

	return task_has_open_child(engine, task_id, child);
}

/* Ends the children. Their intents were recorded together with the task's. */
struct child_end {
	struct engine *engine;
	const char *reason;
};

static bool end_child(void *ctx, const char *target, const char *status)
{
	struct child_end *c = ctx;
	task_auto struct task t = TASK_INIT;
	struct err e = ERR_INIT;

	if (strcmp(status, "active") != 0 || task_read(c->engine, target, &t, &e) != 0)
		return true;
	if (t.status == TASK_CANCELLING)
		task_cancel_resume(c->engine, target);
	else
		task_cancel_own(c->engine, target, c->reason); /* not in the same commit: there were too many */
	return true;
}

static void task_children_end(struct engine *engine, const char *task_id, const char *reason)
{
	struct child_end c = { engine, reason };

	task_each_edge(engine, task_id, "child", end_child, &c);
}

/* Everything that may work for a task, and so must have ended before the task is cancelled. */
static const struct task_part {
	bool (*open)(struct engine *engine, const char *task_id);                    /* some of it has not ended yet */
	void (*end)(struct engine *engine, const char *task_id, const char *reason); /* asks all of it to end */
} parts[] = {
	{ task_agent_open, task_agent_end },       { task_processes_open, task_processes_end },
	{ task_children_open, task_children_end }, { task_actions_open, task_actions_end },
	{ task_jobs_open, task_jobs_end },         { task_subagents_open, task_subagents_end },
};

/* ---- ending the work ---- */

/* Idempotent: repeated after a restart, and when a cancelled task is cancelled again. */
void task_cancel_resume(struct engine *engine, const char *task_id)
{
	task_auto struct task t = TASK_INIT;
	struct err e = ERR_INIT;

	if (task_read(engine, task_id, &t, &e) != 0 || t.status != TASK_CANCELLING)
		return;
	for (size_t i = 0; i < countof(parts); i++)
		parts[i].end(engine, task_id, "parent_cancelled");
	task_cancel_check(engine, task_id);
}

/* Children of a task that had (not) completed before its cancellation. */
struct children_list {
	struct engine *engine;
	const char *task_id;
	bool completed;
	struct jw *w;
};

static bool list_child(void *ctx, const char *target, const char *status)
{
	const struct children_list *l = ctx;

	if ((strcmp(status, "satisfied") == 0) == l->completed)
		jw_str(l->w, target);
	return true;
}

static void write_children(struct jw *w, const void *list, size_t n)
{
	struct children_list l = *(const struct children_list *)list;

	l.w = w;
	jw_arr(w);
	task_each_edge(l.engine, l.task_id, "child", list_child, &l);
	jw_arr_end(w);
}

void task_cancel_check(struct engine *engine, const char *task_id)
{
	task_auto struct task t = TASK_INIT;
	struct err e = ERR_INIT;

	if (task_read(engine, task_id, &t, &e) != 0 || t.status != TASK_CANCELLING)
		return;
	/* The proof that nothing works for the task: every part reports that nothing is open. */
	for (size_t i = 0; i < countof(parts); i++)
		if (parts[i].open(engine, task_id))
			return;
	struct transaction *tx = transaction_new_internal(engine);
	if (t.d.attemptOpen) {
		/* With status cancelling, task_attempt_failed only closes the attempt and adds no retry. */
		const struct attempt_end end = { .status = "cancelled",
						 .category = "cancelled",
						 .message = "the task was cancelled",
						 .exit_code = -1 };

		task_attempt_failed(engine, &t, tx, NULL, &end);
	}
	mem_auto char *why = jval_strdup(jval_get(t.d.cancellation, "reason"));
	const struct children_list ended = { .engine = engine, .task_id = task_id },
				   before = { .engine = engine, .task_id = task_id, .completed = true };
	const struct scope s = task_scope(&t.d, NULL);
	EMIT(task_cancelled, tx, s, .envelope = { .status = "cancelled", .status_reason = why },
	     .ended = json_from_writer(write_children, &ended, 0),
	     .finishedBefore = json_from_writer(write_children, &before, 0), .reason = why);
	fact_snapshot(tx, &s);
	transaction_commit(tx);
	task_worker_over(engine, task_id);
	task_notify_edges(engine, task_id);
	task_dispatch(engine);
}

/* Also for a hook's process: it works for the task as well, and may be the last that does. */
void task_on_process_over(struct engine *engine, const struct process_over *x)
{
	if (x->task_id[0])
		task_cancel_check(engine, x->task_id);
}

/* Starts with an owner are the engine's own and were checked by it. */
int task_may_start(struct engine *engine, const struct start_request *r, struct err *e)
{
	return r->task_id && !r->owner ? task_may_run(engine, r->task_id, e) : 0;
}

/* ---- the intent ---- */

struct cancel_intent {
	struct engine *engine;
	struct transaction *tx;
	const struct caller *caller;
	struct requester by;
	const char *reason;
	bool propagate;
	unsigned count;
};

/* From this fact on nothing new may start for the task (task_may_run). */
static void intent_fact(struct cancel_intent *in, const struct task *t, const char *propagation)
{
	EMIT(task_cancel_requested, in->tx, task_scope(&t->d, in->caller),
	     .envelope = { .status = "cancelling", .status_reason = in->reason },
	     .requestedBy = json_requester(&in->by), .propagation = propagation,
	     .cancellation = JSON_OBJECT(cancellation, .reason = in->reason, .requestedBy = json_requester(&in->by),
					 .requestedAt = engine_real(in->engine)),
	     .reason = in->reason);
	in->count++;
}

/*
 * Records the intent for a whole subtree. A child that is already in cancellation gets no second intent, but its own
 * children are visited.
 */
static bool intend_child(void *ctx, const char *target, const char *status)
{
	struct cancel_intent *in = ctx;
	task_auto struct task t = TASK_INIT;
	struct err e = ERR_INIT;

	/* The remaining children are cancelled in their own transactions (end_child). */
	if (in->count >= CANCEL_MOST)
		return false;
	if (strcmp(status, "active") != 0 || task_read(in->engine, target, &t, &e) != 0 || task_status_ended(t.status))
		return true;
	if (t.status != TASK_CANCELLING)
		intent_fact(in, &t, "parent");
	task_each_edge(in->engine, target, "child", intend_child, in);
	return true;
}

static void record_intent(struct cancel_intent *in, const struct task *t)
{
	intent_fact(in, t, in->propagate ? "all" : "none");
	if (in->propagate)
		task_each_edge(in->engine, t->d.taskId, "child", intend_child, in);
}

/* Without propagation the children continue, without a parent. */
static bool detach_child(void *ctx, const char *target, const char *status)
{
	struct cancel_intent *in = ctx;
	task_auto struct task t = TASK_INIT, parent = TASK_INIT;
	struct err e = ERR_INIT;

	if (strcmp(status, "active") != 0 || task_read(in->engine, target, &t, &e) != 0 ||
	    task_read(in->engine, t.d.parentTaskId, &parent, &e) != 0)
		return true;
	task_link_facts(&t, &parent, in->tx, in->caller, "parent", parent.d.taskId, "removed",
			"the parent was cancelled without its children");
	return true;
}

/* The reply follows the intent. task.cancelled follows when everything has provably ended. */
void engine_cancel_task(struct engine *engine, const json_t *params, const struct caller *c, engine_reply_fn fn,
			void *ctx)
{
	const json_t *propagate = json_object_get(params, "propagate");
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	task_auto struct task t = TASK_INIT;
	struct err e = ERR_INIT;

	if (task_get(engine, param_str(params, "taskId"), c, &t, &e) < 0 || task_may(&t, TASK_VERB_CANCEL, &e) < 0 ||
	    param_text(params, "reason", TASK_REASON_MAX, &e) < 0)
		return transaction_reject(tx, &e);
	jw_kstr(&tx->w, "taskId", t.d.taskId);
	jw_kstr(&tx->w, "status", "cancelling");
	if (t.status != TASK_CANCELLING) {
		struct cancel_intent in = { .engine = engine,
					    .tx = tx,
					    .caller = c,
					    .by = requester_of(c),
					    .reason = param_str(params, "reason"),
					    .propagate = !propagate || json_is_true(propagate) };
		record_intent(&in, &t);
		if (!in.propagate)
			task_each_edge(engine, t.d.taskId, "child", detach_child, &in);
	}
	transaction_after_commit(tx, task_cancel_resume, t.d.taskId);
	transaction_commit(tx);
}

/* For a child that did not fit into the transaction of its parent's cancellation. */
void task_cancel_own(struct engine *engine, const char *task_id, const char *reason)
{
	task_auto struct task t = TASK_INIT;
	struct err e = ERR_INIT;

	if (task_read(engine, task_id, &t, &e) != 0 || task_status_ended(t.status) || t.status == TASK_CANCELLING)
		return;
	struct transaction *tx = transaction_new_internal(engine);
	struct cancel_intent in = {
		.engine = engine, .tx = tx, .by = requester_of(&tx->caller), .reason = reason, .propagate = true
	};
	record_intent(&in, &t);
	transaction_after_commit(tx, task_cancel_resume, task_id);
	transaction_commit(tx);
}
