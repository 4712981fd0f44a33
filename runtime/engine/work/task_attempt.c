/*
 * Attempts. The start of an attempt is durable, with the id of its process, before that process is launched. When a
 * restart finds an attempt whose process was never recorded, it is certain that nothing ran (gates open only after
 * process.started is durable), and the launch is repeated. The end of an attempt is written in the same commit as the
 * end of its process.
 */

#include "runtime/engine/work/task_private.h"

#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/process/start_spec.h"
#include "runtime/engine/work/benchmark.h"
#include "runtime/view/view_documents.h"

#define PROGRESS_MS 1000u /* minimum interval between facts about a command's output */
#define RESOURCE_MS 1000u /* delay before a launch that lacked resources is retried */
#define DISPATCH_MOST 4096u
#define BACKOFF_MOST_MS 86400000ull

/* ---- the retry policy ---- */

/* A number of the retry policy, which is stored as the client gave it; absent members have defaults. */
static uint64_t policy_number(struct jval policy, const char *name, uint64_t otherwise)
{
	return jval_uint(jval_get(policy, name), otherwise);
}

/*
 * May the task be retried after this end? Decided by the policy's maxAttempts and nonRetryable (categories or
 * statuses).
 */
static bool policy_grants(const struct task *t, const struct attempt_end *end)
{
	uint64_t made = t->d.attemptCount == VIEW_ABSENT ? 0 : t->d.attemptCount;

	if (!end->may_retry || made >= policy_number(t->d.retryPolicy, "maxAttempts", 1))
		return false;
	for (struct jiter it = jiter_on(jval_get(t->d.retryPolicy, "nonRetryable")); jiter_next(&it);)
		if (jval_is_str(it.value, end->category) || jval_is_str(it.value, end->status))
			return false;
	return true;
}

/*
 * The delay before the next attempt: backoffMs, multiplied by backoffFactor for each further attempt, up to a limit.
 */
static uint64_t policy_backoff_ms(const struct task *t)
{
	struct jval policy = t->d.retryPolicy, factor = jval_get(policy, "backoffFactor");
	uint64_t made = t->d.attemptCount == VIEW_ABSENT ? 1 : t->d.attemptCount;
	uint64_t most = policy_number(policy, "maxBackoffMs", BACKOFF_MOST_MS);
	double ms = (double)policy_number(policy, "backoffMs", 0),
	       by = factor.type == JT_NUMBER ? strtod(factor.text, NULL) : 1;

	for (uint64_t i = 1; i < made && ms < (double)most && by > 1; i++)
		ms *= by;
	return ms > (double)most ? most : (uint64_t)ms;
}

/* ---- starting ---- */

static bool count_entry(void *ctx, const char *id, size_t id_len, const char *json, size_t len)
{
	++*(size_t *)ctx;
	return true;
}

/* Tasks with an attempt that the supervisor runs. The count includes starts that are not durable yet. */
static size_t slots_used(struct engine *g)
{
	struct err e = ERR_INIT;
	size_t n = 0;

	if (store_model_scan_speculative(g->o.store, VIEW_TASK_SLOT, NULL, count_entry, &n, &e) < 0)
		log_error("count running tasks: %s", e.message);
	return n;
}

static size_t queue_length(struct engine *g)
{
	struct err e = ERR_INIT;
	size_t n = 0;

	(void)store_model_scan_speculative(g->o.store, VIEW_TASK_QUEUE, NULL, count_entry, &n, &e);
	return n;
}

static void queued_fact(const struct task *t, struct transaction *tx, const struct caller *c, const char *reason,
			const char *why, uint64_t position, uint64_t due_us)
{
	EMIT(task_queued, tx, task_scope(&t->d, c), .envelope = { .status = "queued", .status_reason = why },
	     .reason = reason, .position = opt_int_if(position, position), .dueAt = due_us);
}

static void blocked_fact(const struct task *t, struct transaction *tx, const struct caller *c, const char *kind,
			 const char *id, const char *reason)
{
	EMIT(task_blocked, tx, task_scope(&t->d, c), .envelope = { .status = "blocked", .status_reason = reason },
	     .blockerKind = kind, .blockerId = id, .blocker = JSON_OBJECT(blocker, .kind = kind, .id = id),
	     .reason = reason);
}

/* A task without a command is worked on by the client that started it. */
static struct worker_part worker_of(const struct caller *c, const struct task_begun *begun)
{
	if (begun->process_id[0])
		return (struct worker_part){ .kind = "supervisor", .processId = begun->process_id };
	return (struct worker_part){ .kind = "client",
				     .uid = opt_int_if(c, c ? c->uid : 0),
				     .pid = opt_int_if(c && c->pid > 0, c ? c->pid : 0) };
}

static void write_input_refs(struct jw *w, const void *task, size_t n)
{
	const struct task_doc *d = task;

	jw_arr(w);
	if (d->commandRef.type == JT_STRING) {
		jw_obj(w);
		jw_kraw(w, "outputRef", d->commandRef.text, d->commandRef.len);
		jw_obj_end(w);
	}
	jw_arr_end(w);
}

static void attempt_facts(const struct task *t, struct transaction *tx, const struct caller *c, const char *reason,
			  struct task_begun *begun)
{
	const struct worker_part worker = worker_of(c, begun);
	const struct json_value worker_json = json_from_writer(json_write_worker, &worker, 0);
	struct scope s = task_scope(&t->d, c);

	s.run = begun->run_id;
	s.attempt = begun->attempt_id;
	/* task.started is written once; each further attempt only adds task.attempt_started. */
	if (!t->d.startedAt)
		EMIT(task_started, tx, s, .worker = worker_json, .threadId = none_if_empty(t->d.threadId));
	s.process = begun->process_id;
	EMIT(task_attempt_started, tx, s, .envelope.status = begun->status, .attempt = begun->attempt,
	     .status = begun->status, .worker = worker_json, .inputRefs = json_from_writer(write_input_refs, &t->d, 0),
	     .retryPolicy = t->d.retryPolicy.type == JT_OBJECT ? json_from_jval(t->d.retryPolicy) : JSON_NONE,
	     .reason = reason);
}

void task_begin(struct engine *g, const struct task *t, struct transaction *tx, const struct caller *c,
		const char *reason, bool has_command, struct task_begun *ret)
{
	char blocker[ID_SIZE];

	*ret = (struct task_begun){ .attempt = (t->d.attemptCount == VIEW_ABSENT ? 0 : t->d.attemptCount) + 1 };
	switch (task_blockers(g, t->d.taskId, blocker)) {
	case TASK_WAIT_BROKEN:
		ret->how = TASK_BEGIN_BLOCKED;
		ret->status = "blocked";
		blocked_fact(t, tx, c, "task", blocker, "a task that it needs did not complete");
		return;
	case TASK_WAIT_UNFINISHED:
		ret->how = TASK_BEGIN_QUEUED;
		ret->status = "queued";
		queued_fact(t, tx, c, "blocked_by", "a task that it needs is not finished", 0, 0);
		return;
	case TASK_WAIT_NOTHING: break;
	}
	/* Only attempts that the supervisor runs use a slot (maxTasks). */
	if (has_command && slots_used(g) >= g->o.max_tasks) {
		ret->how = TASK_BEGIN_QUEUED;
		ret->status = "queued";
		queued_fact(t, tx, c, "parallel_limit", "as many tasks run as may at once (maxTasks)",
			    queue_length(g) + 1, 0);
		return;
	}
	ret->how = TASK_BEGUN;
	ret->status = has_command ? "preparing" : "running";
	id_make(ID_KIND_RUN, ret->run_id);
	id_make(ID_KIND_ATTEMPT, ret->attempt_id);
	if (has_command)
		id_make(ID_KIND_PROCESS, ret->process_id);
	attempt_facts(t, tx, c, reason, ret);
}

static bool has_command(const struct task *t)
{
	return t->d.command.type == JT_OBJECT || t->d.commandRef.type == JT_STRING;
}

void task_begin_now(struct engine *g, const char *task_id, const char *reason)
{
	task_auto struct task t = TASK_INIT;
	struct err e = ERR_INIT;
	struct task_begun begun;

	if (g->stopping || task_read(g, task_id, &t, &e) != 0 || t.d.attemptOpen || task_status_ended(t.status))
		return;
	struct transaction *tx = transaction_new_internal(g);
	task_begin(g, &t, tx, NULL, reason, has_command(&t), &begun);
	transaction_after_commit(tx, task_launch, task_id);
	transaction_commit(tx);
}

static bool first_queued(void *ctx, const char *id, size_t id_len, const char *json, size_t len)
{
	const char *slash = memrchr(id, '/', id_len);

	if (slash)
		snprintf(ctx, ID_SIZE, "%.*s", (int)(id_len - (size_t)(slash + 1 - id)), slash + 1);
	return false;
}

/*
 * Starts queued tasks in order while slots are free. task_begin_now takes a task out
 * of the queue, also if it becomes blocked instead, so the first entry is always the next one.
 */
void task_dispatch(struct engine *g)
{
	struct err e = ERR_INIT;

	for (unsigned i = 0; i < DISPATCH_MOST && !g->stopping && slots_used(g) < g->o.max_tasks; i++) {
		char id[ID_SIZE] = "";
		if (store_model_scan_speculative(g->o.store, VIEW_TASK_QUEUE, NULL, first_queued, id, &e) < 0 || !id[0])
			return;
		task_begin_now(g, id, "scheduler");
	}
}

/* ---- the process ---- */

/*
 * Applies the task's limits to the process: the limit per attempt, the idle limit, and what is left of the task's
 * total time. 0 is not a valid limit, so the minimum is 1 ms.
 */
static void launch_limits(struct engine *g, const struct task *t, struct process_limits *l)
{
	uint64_t now = engine_real(g), each = policy_number(t->d.retryPolicy, "timeoutMs", LIMIT_NONE);

	if (each < l->wall_ms)
		l->wall_ms = each ? each : 1;
	if (t->d.idleMs != VIEW_ABSENT && t->d.idleMs < l->idle_ms)
		l->idle_ms = t->d.idleMs ? t->d.idleMs : 1;
	if (t->d.timeoutMs == VIEW_ABSENT || !t->d.startedAt)
		return;
	uint64_t until = t->d.startedAt + t->d.timeoutMs * 1000, left = until > now ? (until - now) / 1000 : 0;
	if (left < l->wall_ms)
		l->wall_ms = left ? left : 1;
}

static void task_refused(struct engine *g, const char *task_id, const struct err *e, const char *data,
			 unsigned long len);

void task_launch(struct engine *g, const char *task_id)
{
	task_auto struct task t = TASK_INIT;
	struct process_doc known;
	buf_auto struct buf text = BUF_INIT;
	struct err e = ERR_INIT;
	struct start_spec s;
	char made[ID_TEXT_MAX];

	/* Harmless when repeated: nothing happens if the process exists, has been recorded, or must not run now. */
	if (g->stopping || task_read(g, task_id, &t, &e) != 0 || !t.d.attemptOpen || !t.d.currentProcessId[0] ||
	    t.status == TASK_CANCELLING || t.status == TASK_PAUSED || engine_process(g, t.d.currentProcessId) ||
	    view_read(g->o.store, &process_schema, t.d.currentProcessId, &text, &known, &e) == 0)
		return;
	json_auto_t *command = command_read(g, t.d.command, t.d.commandRef, &e);
	if (!command || start_spec_of(g, command, &s, &e) < 0) {
		task_refused(g, task_id, &e, NULL, 0);
		return;
	}
	const struct requester by = { .uid = (uint32_t)t.d.uid, .role = command_role(command) };
	s.request.session_id = t.d.sessionId;
	s.request.task_id = t.d.taskId;
	s.request.run_id = t.d.currentRunId;
	s.request.attempt_id = t.d.currentAttemptId;
	s.request.process_id = t.d.currentProcessId;
	s.request.end_with_client = false;
	launch_limits(g, &t, &s.request.limits);
	process_start_owned(g, &s.request, &by, OWNER_TASK, task_id, made);
	start_spec_done(&s);
}

/* ---- the end of an attempt ---- */

static struct last_error_part error_of(const struct attempt_end *end, bool retryable)
{
	return (struct last_error_part){ .category = end->category,
					 .message = end->message,
					 .limit = end->limit,
					 .exitCode = opt_int_if(end->exit_code >= 0, end->exit_code),
					 .retryable = opt_bool(retryable) };
}

void task_attempt_completed(struct engine *g, const struct task *t, struct transaction *tx, const struct caller *c,
			    const struct process *p, const char *summary)
{
	struct scope s = task_scope(&t->d, c);

	s.process = p ? p->id : NULL;
	EMIT(task_attempt_completed, tx, s, .envelope.status = "completed", .attempt = t->d.attemptCount,
	     .status = "completed", .outputRefs = p ? json_stream_names(p) : JSON_EMPTY_ARRAY,
	     .checkpointRefs = JSON_EMPTY_ARRAY, .summary = summary);
	benchmark_run_ended(g, tx, t->d.currentRunId, &(struct run_end){ 0 });
}

static void attempt_failed_fact(const struct task *t, struct transaction *tx, const struct caller *c,
				const struct attempt_end *end, bool again)
{
	const struct last_error_part error = error_of(end, end->may_retry);
	struct scope s = task_scope(&t->d, c);

	s.process = end->process ? end->process->id : NULL;
	EMIT(task_attempt_failed, tx, s, .envelope = { .status = end->status, .status_reason = end->message },
	     .attempt = t->d.attemptCount, .status = end->status, .failureCategory = end->category,
	     .retryable = end->may_retry, .nextAttemptPolicy = json_from_string(again ? "retry_policy" : "manual"),
	     .lastError = json_from_writer(json_write_last_error, &error, 0),
	     .outputRefs = end->process ? json_stream_names(end->process) : JSON_NONE);
}

/* The final event of a task that is not retried. */
static void ended_fact(struct engine *g, const struct task *t, struct transaction *tx, const struct caller *c,
		       const struct attempt_end *end)
{
	const struct last_error_part error = error_of(end, false);
	const struct json_value error_json = json_from_writer(json_write_last_error, &error, 0);
	const struct opt_int attempts = opt_int(t->d.attemptCount == VIEW_ABSENT ? 0 : t->d.attemptCount);
	const struct scope s = task_scope(&t->d, c);
	struct envelope envelope = { .status = end->status, .status_reason = end->message };

	if (strcmp(end->status, "timed_out") == 0) {
		EMIT(task_timed_out, tx, s, .envelope = envelope, .lastError = error_json,
		     .limit = end->limit ? end->limit : "wall", .attempts = attempts);
	} else if (strcmp(end->status, "lost") == 0) {
		EMIT(task_lost, tx, s, .envelope = envelope, .lastError = error_json, .lastSeenAt = t->d.lastSeenAt,
		     .worker = t->d.worker.type == JT_OBJECT ? json_from_jval(t->d.worker) : JSON_NONE);
	} else {
		envelope.status = "failed";
		EMIT(task_failed, tx, s, .envelope = envelope, .lastError = error_json, .attempts = attempts);
	}
	fact_snapshot(tx, &s);
}

static void retry_facts(struct engine *g, const struct task *t, struct transaction *tx, const struct attempt_end *end)
{
	uint64_t wait_ms = policy_backoff_ms(t), due = engine_real(g) + wait_ms * 1000;

	EMIT(task_retrying, tx, task_scope(&t->d, NULL),
	     .envelope = { .status = "retrying", .status_reason = end->category }, .attempt = t->d.attemptCount + 1,
	     .notBefore = wait_ms ? due : 0, .reason = end->category);
	if (wait_ms) {
		queued_fact(t, tx, NULL, "backoff", "the next attempt waits out its delay", 0, due);
		task_wake(g, due);
	}
}

/* No retry in the last second before the deadline: the attempt would time out immediately. */
static bool past_deadline(struct engine *g, const struct task *t)
{
	return t->d.timeoutMs != VIEW_ABSENT && t->d.startedAt &&
	       engine_real(g) + 1000 >= t->d.startedAt + t->d.timeoutMs * 1000;
}

void task_attempt_failed(struct engine *g, const struct task *t, struct transaction *tx, const struct caller *c,
			 const struct attempt_end *end)
{
	bool again = t->d.attemptOpen && t->status != TASK_CANCELLING && !past_deadline(g, t) && policy_grants(t, end);

	if (t->d.attemptOpen) {
		attempt_failed_fact(t, tx, c, end, again);
		benchmark_run_ended(g, tx, t->d.currentRunId,
				    &(struct run_end){ end->status, end->category, end->message });
	}
	if (t->status == TASK_CANCELLING)
		return;
	if (again) {
		/* The loss stays visible in the log even though the task is retried. */
		if (strcmp(end->status, "lost") == 0)
			ended_fact(g, t, tx, c, end);
		retry_facts(g, t, tx, end);
	} else if (strcmp(end->category, "permission") == 0) {
		/* A denial does not fail the task: it can be retried or resumed after a change of the policy. */
		blocked_fact(t, tx, c, "permission", NULL, end->message);
	} else {
		ended_fact(g, t, tx, c, end);
	}
}

/* ---- callbacks as the owner of a process ---- */

static void task_refused(struct engine *g, const char *task_id, const struct err *e, const char *data,
			 unsigned long len)
{
	task_auto struct task t = TASK_INIT;
	struct err e2 = ERR_INIT;

	if (task_read(g, task_id, &t, &e2) != 0 || !t.d.attemptOpen)
		return;
	if (task_can_wait(e->code) && t.status != TASK_CANCELLING) {
		uint64_t due = engine_real(g) + RESOURCE_MS * 1000;
		g->work->waits = true;
		task_wake(g, due);
		/* Already waiting: do not repeat the event on every try. */
		if (t.status == TASK_WAITING_RESOURCE)
			return;
		struct transaction *tx = transaction_new_internal(g);
		EMIT(task_waiting, tx, task_scope(&t.d, NULL),
		     .envelope = { .status = "waiting_resource", .status_reason = e->message },
		     .status = "waiting_resource", .waitingFor = "worker", .dueAt = due, .reason = e->message);
		transaction_commit(tx);
		return;
	}
	struct transaction *tx = transaction_new_internal(g);
	const char *category = e->code == ERR_PERMISSION ? "permission" : e->code == ERR_INVALID ? "invalid" : "spawn";
	const struct attempt_end end = { .status = "failed",
					 .category = category,
					 .message = e->message,
					 .exit_code = -1,
					 .may_retry = e->code != ERR_PERMISSION && e->code != ERR_INVALID };
	task_attempt_failed(g, &t, tx, NULL, &end);
	transaction_after_commit(tx, task_next, task_id);
	transaction_commit(tx);
}

/* Loads the attempt that this process was started for, if it is still open. */
static int owned_attempt(const struct process *p, struct task *t)
{
	struct err e = ERR_INIT;

	return task_read(p->engine, p->owner_id, t, &e) == 0 && t->d.attemptOpen &&
			       strcmp(t->d.currentAttemptId, p->attempt_id) == 0
		       ? 0
		       : -1;
}

static void task_started(struct process *p, struct transaction *tx)
{
	task_auto struct task t = TASK_INIT;

	if (owned_attempt(p, &t) < 0)
		return;
	EMIT(run_status, tx, process_scope(p), .envelope = { .status = "running", .phase = "running" },
	     .phase = "running", .attempt = opt_int(t.d.attemptCount));
}

static void task_output(struct process *p, struct transaction *tx)
{
	uint64_t now = engine_now(p->engine);
	task_auto struct task t = TASK_INIT;

	/* owner_told_ns limits the rate of progress events. */
	if ((p->owner_told_ns && now - p->owner_told_ns < PROGRESS_MS * 1000000ull) || owned_attempt(p, &t) < 0)
		return;
	p->owner_told_ns = now;
	EMIT(task_progress, tx, process_scope(p), .phase = "working", .outputRefs = json_stream_names(p));
}

static void waits_fact(const struct task *t, struct transaction *tx, const struct buf *missing)
{
	const char *reason = missing ? "the command ended well; what the task is to meet is not reported yet"
				     : "the command ended well; complete_task or fail_task says what that means";

	EMIT(task_waiting, tx, task_scope(&t->d, NULL),
	     .envelope = { .status = "waiting_input", .status_reason = reason }, .status = "waiting_input",
	     .waitingFor = missing ? "acceptance" : "complete_task",
	     .missing = missing ? json_from_buf(missing) : JSON_NONE, .reason = reason);
}

static void task_ended(struct process *p, const struct process_outcome *o, struct transaction *tx)
{
	buf_auto struct buf missing = BUF_INIT;
	task_auto struct task t = TASK_INIT;

	if (owned_attempt(p, &t) < 0)
		return;
	if (!o->clean) {
		/* A process that ended with the daemon did not fail: the attempt may be repeated after the restart. */
		bool shutdown = p->end == PROCESS_END_SHUTDOWN;
		const struct attempt_end end = { .status = o->status,
						 .category = shutdown ? "shutdown" : o->category,
						 .message = o->message,
						 .limit = o->limit,
						 .exit_code = o->exit_code,
						 .may_retry = shutdown || strcmp(o->status, "cancelled") != 0,
						 .process = p };
		task_attempt_failed(p->engine, &t, tx, NULL, &end);
		return;
	}
	task_attempt_completed(p->engine, &t, tx, NULL, p, NULL);
	/* task_next lets the cancellation finish. */
	if (t.status == TASK_CANCELLING)
		return;
	if (!t.d.autoComplete)
		waits_fact(&t, tx, NULL);
	else if (task_missing(p->engine, &t, t.d.acceptance, t.d.deliveryState, true, &missing) > 0)
		waits_fact(&t, tx, &missing);
	else
		task_completed_fact(p->engine, &t, tx, NULL, NULL, NULL, "auto_complete");
}

void task_next(struct engine *g, const char *task_id)
{
	task_auto struct task t = TASK_INIT;
	struct err e = ERR_INIT;

	if (task_read(g, task_id, &t, &e) != 0)
		return;
	if (t.status == TASK_CANCELLING)
		task_cancel_due(g, task_id);
	else if (t.status == TASK_RETRYING)
		task_begin_now(g, task_id, "retry_policy");
	if (!t.d.attemptOpen)
		task_worker_over(g, task_id);
	if (task_status_ended(t.status)) {
		task_jobs_end(g, task_id, "task_ended");
		task_actions_end(g, task_id, "the task has ended");
		task_notify_edges(g, task_id);
	}
	task_dispatch(g);
}

/* A start that waited for policy or hooks is dropped if its attempt is no longer the current one. */
static bool task_wanted(struct engine *g, const char *task_id, const char *process_id)
{
	task_auto struct task t = TASK_INIT;
	struct err e = ERR_INIT;

	return task_read(g, task_id, &t, &e) == 0 && t.d.attemptOpen && strcmp(t.d.currentProcessId, process_id) == 0 &&
	       t.status != TASK_CANCELLING && t.status != TASK_PAUSED;
}

extern const struct process_owner_ops task_owner;
const struct process_owner_ops task_owner = {
	.refused = task_refused,
	.wanted = task_wanted,
	.started = task_started,
	.output = task_output,
	.ended = task_ended,
	.over = task_next,
};

/* ---- start_task and retry_task ---- */

static void begun_result(struct transaction *tx, const struct task *t, const struct task_begun *begun)
{
	jw_kstr(&tx->w, "taskId", t->d.taskId);
	jw_kstr(&tx->w, "status", begun->status);
	if (begun->how != TASK_BEGUN)
		return;
	jw_kstr(&tx->w, "runId", begun->run_id);
	jw_kstr(&tx->w, "attemptId", begun->attempt_id);
	jw_kuint(&tx->w, "attempt", begun->attempt);
	if (begun->process_id[0])
		jw_kstr(&tx->w, "processId", begun->process_id);
}

/* The command and options given with the start replace those of the task. */
static int take_start(struct engine *g, const struct task *t, const json_t *params, struct transaction *tx,
		      const struct caller *c, bool *ret_command, struct err *e)
{
	json_auto_t *command = command_of(params, c);
	const struct scope s = task_scope(&t->d, c);

	*ret_command = command || has_command(t);
	if (command && command_check(g, command, c, e) < 0)
		return -1;
	if (!command && !json_object_get(params, "heartbeatMs"))
		return 0;
	command_fact_auto struct command_fact run;
	command_fact_init(&run, command, &s, tx);
	return EMIT(task_updated, tx, s,
		    .changes = JSON_OBJECT(task_changes, .run = command_part(&run),
					   .limits.heartbeatMs = param_int(params, "heartbeatMs")));
}

void engine_start_task(struct engine *g, const json_t *params, const struct caller *c, engine_reply_fn fn, void *ctx)
{
	struct transaction *tx = transaction_new(g, c, fn, ctx);
	task_auto struct task t = TASK_INIT;
	struct err e = ERR_INIT;
	struct task_begun begun;
	bool command;

	if (task_get(g, param_str(params, "taskId"), c, &t, &e) < 0 || task_may(&t, TASK_VERB_START, &e) < 0 ||
	    take_start(g, &t, params, tx, c, &command, &e) < 0) {
		transaction_reject(tx, &e);
		return;
	}
	task_begin(g, &t, tx, c, "start_task", command, &begun);
	if (begun.how == TASK_BEGUN && !command)
		task_set_worker(g, t.d.taskId, c);
	transaction_after_commit(tx, task_launch, t.d.taskId);
	begun_result(tx, &t, &begun);
	transaction_commit(tx);
}

void engine_retry_task(struct engine *g, const json_t *params, const struct caller *c, engine_reply_fn fn, void *ctx)
{
	struct transaction *tx = transaction_new(g, c, fn, ctx);
	const char *reason = param_str(params, "reason");
	task_auto struct task t = TASK_INIT;
	struct err e = ERR_INIT;
	struct task_begun begun;

	if (task_get(g, param_str(params, "taskId"), c, &t, &e) == 0 && task_may(&t, TASK_VERB_RETRY, &e) == 0 &&
	    t.d.attemptOpen)
		err_set(&e, ERR_STATE, "task '%s' has an attempt under way; fail_task ends it", t.d.taskId);
	if (e.code || param_text(params, "reason", TASK_REASON_MAX, &e) < 0) {
		transaction_reject(tx, &e);
		return;
	}
	if (!reason)
		reason = "retry_task";
	const struct scope s = task_scope(&t.d, c);
	EMIT(task_retrying, tx, s, .envelope = { .status = "retrying", .status_reason = reason },
	     .attempt = (t.d.attemptCount == VIEW_ABSENT ? 0 : t.d.attemptCount) + 1, .reason = reason);
	task_begin(g, &t, tx, c, reason, has_command(&t), &begun);
	if (begun.how == TASK_BEGUN && !has_command(&t))
		task_set_worker(g, t.d.taskId, c);
	transaction_after_commit(tx, task_launch, t.d.taskId);
	begun_result(tx, &t, &begun);
	transaction_commit(tx);
}

void task_on_dependencies_met(struct engine *g, const char *task_id) { task_begin_now(g, task_id, "dependencies_met"); }
