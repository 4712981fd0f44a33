/*
 * Attempts. The start of an attempt is durable, with the id of its process, before that process is launched. When a
 * restart finds an attempt whose process was never recorded, it is certain that nothing ran (gates open only after
 * process.started is durable), and the launch is repeated. The end of an attempt is written in the same commit as the
 * end of its process.
 */

#include "runtime/engine/process/start_spec.h"
#include "runtime/engine/session/turn_read.h"
#include "runtime/engine/work/agent_turn.h"
#include "runtime/view/view_documents.h"

#define PROGRESS_MS 1000u /* minimum interval between facts about a command's output */
#define RESOURCE_MS 1000u /* delay before a launch that lacked resources is retried */
#define DISPATCH_MOST 4096u

/* ---- starting ---- */

/* Tasks with an attempt that the supervisor runs. The count includes starts that are not durable yet. */
static size_t slots_used(struct engine *engine)
{
	view_ids_auto struct view_ids running = VIEW_IDS_INIT;

	id_list_read(engine, VIEW_TASK_SLOT, NULL, ID_LIST_ALL, &running);
	return running.n;
}

/* `reason` is for programs, `why` for people. due_us 0 = an event releases the task, not the time. */
static void queued_fact(const struct task *t, struct transaction *tx, const struct caller *c, const char *reason,
			const char *why, uint64_t position, uint64_t due_us)
{
	EMIT(task_queued, tx, task_scope(&t->d, c), .envelope = { .status = "queued", .status_reason = why },
	     .reason = reason, .position = opt_int_if(position, position), .dueAt = due_us);
}

/* Blocked tasks wait for a person or a client, unlike queued ones. */
static void blocked_fact(const struct task *t, struct transaction *tx, const struct caller *c, const char *kind,
			 const char *id, const char *reason)
{
	EMIT(task_blocked, tx, task_scope(&t->d, c), .envelope = { .status = "blocked", .status_reason = reason },
	     .blockerKind = kind, .blockerId = id, .blocker = JSON_OBJECT(blocker, .kind = kind, .id = id),
	     .reason = reason);
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

/* A task without a command is worked on by an agent's turn or by the client that started it. */
static void attempt_facts(const struct task *t, struct transaction *tx, const struct caller *c,
			  const struct task_begun *b, enum task_work work, const char *reason)
{
	const bool client = work == TASK_WORK_CLIENT && c;
	char turn[ID_SIZE] = "";

	if (work == TASK_WORK_AGENT)
		agent_id(ID_KIND_TURN, b->attempt_id, turn);
	const struct worker_part worker = { .kind = work == TASK_WORK_COMMAND  ? "supervisor"
						    : work == TASK_WORK_CLIENT ? "client"
									       : "agent",
					    .processId = none_if_empty(b->process_id),
					    .turnId = none_if_empty(turn),
					    .uid = opt_int_if(client, client ? c->uid : 0),
					    .pid = opt_int_if(client && c->pid > 0, client ? c->pid : 0) };
	const struct json_value worker_json = json_from_writer(json_write_worker, &worker, 0);
	struct scope s = task_scope(&t->d, c);
	s.run = b->run_id;
	s.attempt = b->attempt_id;
	/* task.started is written once; each further attempt only adds task.attempt_started. */
	if (!t->d.startedAt)
		EMIT(task_started, tx, s, .worker = worker_json, .threadId = none_if_empty(t->d.threadId));
	s.process = b->process_id;
	EMIT(task_attempt_started, tx, s, .envelope.status = b->status, .attempt = b->attempt, .status = b->status,
	     .worker = worker_json, .inputRefs = json_from_writer(write_input_refs, &t->d, 0),
	     .retryPolicy = t->d.retryPolicy.type == JT_OBJECT ? json_from_jval(t->d.retryPolicy) : JSON_NONE,
	     .reason = reason);
}

void task_begin(struct engine *engine, const struct task *t, struct transaction *tx, const struct caller *c,
		const char *reason, enum task_work work, struct task_begun *ret)
{
	const bool has_command = work == TASK_WORK_COMMAND, client = work == TASK_WORK_CLIENT;
	char blocker[ID_SIZE];
	enum task_wait wait = task_blockers(engine, t->d.taskId, blocker);

	*ret = (struct task_begun){ .how = TASK_BEGIN_QUEUED,
				    .status = "queued",
				    .attempt = view_counted(t->d.attemptCount) + 1 };
	if (wait == TASK_WAIT_BROKEN) {
		ret->how = TASK_BEGIN_BLOCKED;
		ret->status = "blocked";
		return blocked_fact(t, tx, c, "task", blocker, "a task that it needs did not complete");
	}
	if (wait == TASK_WAIT_UNFINISHED)
		return queued_fact(t, tx, c, "blocked_by", "a task that it needs is not finished", 0, 0);
	/* Only attempts that the supervisor runs use a slot (maxTasks). */
	if (!client && slots_used(engine) >= engine->o.max_tasks) {
		view_ids_auto struct view_ids queue = VIEW_IDS_INIT;

		id_list_read(engine, VIEW_TASK_QUEUE, NULL, ID_LIST_ALL, &queue);
		return queued_fact(t, tx, c, "parallel_limit", "the limit of running tasks is reached (maxTasks)",
				   queue.n + 1, 0);
	}
	ret->how = TASK_BEGUN;
	ret->status = has_command ? "preparing" : "running";
	id_make(ID_KIND_RUN, ret->run_id);
	id_make(ID_KIND_ATTEMPT, ret->attempt_id);
	if (has_command)
		id_make(ID_KIND_PROCESS, ret->process_id);
	attempt_facts(t, tx, c, ret, work, reason);
	if (client && c)
		task_set_worker(engine, t->d.taskId, c);
}

/* For the engine itself: the scheduler, a retry, or dependencies that are met. */
void task_begin_now(struct engine *engine, const char *task_id, const char *reason)
{
	task_auto struct task t = TASK_INIT;
	struct err e = ERR_INIT;
	struct task_begun begun;

	if (engine->stopping || task_read(engine, task_id, &t, &e) != 0 || t.d.attemptOpen ||
	    task_status_ended(t.status))
		return;
	struct transaction *tx = transaction_new_internal(engine);
	task_begin(engine, &t, tx, NULL, reason, task_work_of(engine, &t, NULL), &begun);
	transaction_after_commit(tx, task_launch, task_id);
	transaction_commit(tx);
}

/*
 * Starts queued tasks in order while slots are free. task_begin_now takes a task out of the queue, also if it becomes
 * blocked instead, so the first entry is always the next one.
 */
void task_dispatch(struct engine *engine)
{
	char id[ID_SIZE];

	for (unsigned i = 0; i < DISPATCH_MOST && !engine->stopping && slots_used(engine) < engine->o.max_tasks; i++) {
		if (!id_list_first(engine, VIEW_TASK_QUEUE, NULL, NULL, id))
			return;
		task_begin_now(engine, id, "scheduler");
	}
}

/* ---- the process ---- */

void task_launch(struct engine *engine, const char *task_id)
{
	task_auto struct task t = TASK_INIT;
	struct process_doc known;
	buf_auto struct buf text = BUF_INIT;
	struct err e = ERR_INIT;
	struct start_spec s;
	char made[ID_TEXT_MAX];

	/* Harmless when repeated: nothing happens if the process exists, has been recorded, or must not run now. */
	if (engine->stopping || task_read(engine, task_id, &t, &e) != 0 || !t.d.attemptOpen ||
	    t.status == TASK_CANCELLING || t.status == TASK_PAUSED || task_lease_holds(engine, &t, &e) < 0)
		return;
	if (strcmp(t.d.workerKind, "agent") == 0)
		return task_agent_launch(engine, &t);
	if (!t.d.currentProcessId[0] || engine_process(engine, t.d.currentProcessId) ||
	    view_read(engine->o.store, &process_schema, t.d.currentProcessId, &text, &known, &e) == 0)
		return;
	json_auto_t *command = command_read(engine, t.d.command, t.d.commandRef, &e);
	if (command && json_object_get(command, "agent"))
		err_set(&e, ERR_CORRUPT, "the stored command could not be read when the attempt began");
	if (!command || e.code || start_spec_of(engine, command, &s, &e) < 0) {
		process_owner(engine, OWNER_TASK)->refused(engine, task_id, &e, NULL, 0);
		return;
	}
	const struct requester by = { .uid = (uint32_t)t.d.uid, .role = command_role(command) };
	s.request.session_id = t.d.sessionId;
	s.request.task_id = t.d.taskId;
	s.request.run_id = t.d.currentRunId;
	s.request.attempt_id = t.d.currentAttemptId;
	s.request.process_id = t.d.currentProcessId;
	s.request.end_with_client = false;
	/*
	 * The task's limits apply to the process: the limit per attempt, the idle limit, and what is left of the task's
	 * total time. 0 is not a valid limit, so the minimum is 1 ms.
	 */
	struct process_limits *limits = &s.request.limits;
	const uint64_t now = engine_real(engine), end = task_deadline(engine, &t);
	uint64_t wall = jval_uint(jval_get(t.d.retryPolicy, "timeoutMs"), LIMIT_NONE);
	if (end != UINT64_MAX && (end > now ? (end - now) / 1000 : 0) < wall)
		wall = end > now ? (end - now) / 1000 : 0;
	if (wall < limits->wall_ms)
		limits->wall_ms = wall ? wall : 1;
	if (t.d.idleMs != VIEW_ABSENT && t.d.idleMs < limits->idle_ms)
		limits->idle_ms = t.d.idleMs ? t.d.idleMs : 1;
	process_start_owned(engine, &s.request, &by, OWNER_TASK, task_id, made);
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

/* Completes the attempt only. Whether the task is complete is decided by its caller. */
void task_attempt_completed(struct engine *engine, const struct task *t, struct transaction *tx, const struct caller *c,
			    const struct process *p, const char *summary)
{
	struct scope s = task_scope(&t->d, c);

	s.process = p ? p->id : NULL;
	EMIT(task_attempt_completed, tx, s, .envelope.status = "completed", .attempt = t->d.attemptCount,
	     .status = "completed", .outputRefs = p ? json_stream_names(p) : JSON_EMPTY_ARRAY,
	     .checkpointRefs = JSON_EMPTY_ARRAY, .summary = summary);
	benchmark_run_ended(engine, tx, t->d.currentRunId, &(struct run_end){ 0 });
}

/* The final event of a task that is not retried. */
static void ended_fact(const struct task *t, struct transaction *tx, const struct caller *c,
		       const struct attempt_end *end)
{
	const struct last_error_part error = error_of(end, false);
	const struct json_value error_json = json_from_writer(json_write_last_error, &error, 0);
	const struct opt_int attempts = opt_int(view_counted(t->d.attemptCount));
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

void task_attempt_failed(struct engine *engine, const struct task *t, struct transaction *tx, const struct caller *c,
			 const struct attempt_end *end)
{
	const uint64_t made = t->d.attemptCount;
	/* No retry right before the deadline: the attempt would time out immediately. */
	const bool late = engine_real(engine) + 1000 >= task_deadline(engine, t);
	const bool again = t->d.attemptOpen && t->status != TASK_CANCELLING && !late &&
			   retry_is_granted(t->d.retryPolicy, view_counted(made), end);

	if (t->d.attemptOpen) {
		const struct last_error_part error = error_of(end, end->may_retry);
		struct scope s = task_scope(&t->d, c);

		s.process = end->process ? end->process->id : NULL;
		EMIT(task_attempt_failed, tx, s, .envelope = { .status = end->status, .status_reason = end->message },
		     .attempt = made, .status = end->status, .failureCategory = end->category,
		     .retryable = end->may_retry,
		     .nextAttemptPolicy = json_from_string(again ? "retry_policy" : "manual"),
		     .lastError = json_from_writer(json_write_last_error, &error, 0),
		     .outputRefs = end->process ? json_stream_names(end->process) : JSON_NONE);
		benchmark_run_ended(engine, tx, t->d.currentRunId,
				    &(struct run_end){ end->status, end->category, end->message });
	}
	if (t->status == TASK_CANCELLING)
		return;
	/* A denial does not fail the task: it can be retried or resumed after a change of the policy. */
	if (!again && strcmp(end->category, "permission") == 0)
		return blocked_fact(t, tx, c, "permission", NULL, end->message);
	/* A loss stays visible in the log even if the task is retried. */
	if (!again || strcmp(end->status, "lost") == 0)
		ended_fact(t, tx, c, end);
	if (!again)
		return;
	const uint64_t wait_ms = retry_backoff_ms(t->d.retryPolicy, made == VIEW_ABSENT ? 1 : made),
		       due = engine_real(engine) + wait_ms * 1000;
	EMIT(task_retrying, tx, task_scope(&t->d, NULL),
	     .envelope = { .status = "retrying", .status_reason = end->category }, .attempt = made + 1,
	     .notBefore = wait_ms ? due : 0, .reason = end->category);
	if (wait_ms) {
		queued_fact(t, tx, NULL, "backoff", "the next attempt waits for the end of its delay", 0, due);
		task_wake(engine, due);
	}
	if (t->status == TASK_PAUSED) { /* resume_task begins that attempt */
		mem_auto char *why = jval_strdup(t->d.statusReason);

		EMIT(task_paused, tx, task_scope(&t->d, NULL), .envelope = { .status = "paused", .status_reason = why },
		     .stopped = JSON_EMPTY_ARRAY, .reason = why);
	}
}

/* ---- callbacks as the owner of a process ---- */

/* A lack of resources is temporary, so the attempt stays open and its launch is repeated. Everything else ends it. */
static void task_refused(struct engine *engine, const char *task_id, const struct err *e, const char *data,
			 unsigned long len)
{
	task_auto struct task t = TASK_INIT;
	struct err e2 = ERR_INIT;

	if (task_read(engine, task_id, &t, &e2) != 0 || !t.d.attemptOpen)
		return;
	const bool waits = task_can_wait(e->code) && t.status != TASK_CANCELLING;
	const uint64_t due = engine_real(engine) + RESOURCE_MS * 1000;
	if (waits) {
		engine->work->waits = true;
		task_wake(engine, due);
	}
	/* Already waiting: do not repeat the event on every try. */
	if (waits && t.status == TASK_WAITING_RESOURCE)
		return;
	struct transaction *tx = transaction_new_internal(engine);
	if (waits) {
		EMIT(task_waiting, tx, task_scope(&t.d, NULL),
		     .envelope = { .status = "waiting_resource", .status_reason = e->message },
		     .status = "waiting_resource", .waitingFor = "worker", .dueAt = due, .reason = e->message);
	} else {
		const struct attempt_end end = attempt_end_of_refusal(e);

		task_attempt_failed(engine, &t, tx, NULL, &end);
		transaction_after_commit(tx, task_next, task_id);
	}
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
	if (t.status == TASK_PAUSED) /* approved, or checked by hooks, during the pause */
		process_set_paused(p, true);
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

/* Records the end of the attempt, then completes the task or lets it wait for its outcome. */
static void task_attempt_succeeded(struct engine *engine, const struct task *t, struct transaction *tx,
				   const struct process *p, const char *summary)
{
	buf_auto struct buf missing = BUF_INIT;

	task_attempt_completed(engine, t, tx, NULL, p, summary);
	/* task_next lets the cancellation finish. */
	if (t->status == TASK_CANCELLING)
		return;
	const size_t lacks = t->d.autoComplete
				     ? task_missing(engine, t, t->d.acceptance, t->d.deliveryState, true, &missing)
				     : 0;
	json_auto_t *params = summary ? json_pack("{s:s}", "summary", summary) : NULL;
	if (t->d.autoComplete && !lacks)
		return task_completed_fact(engine, t, tx, NULL, params, NULL, "auto_complete");
	struct jiter first = jiter_on(jval_of(buf_cstr(&missing), missing.len));
	(void)jiter_next(&first);
	mem_auto char *what = jval_strdup(jval_get(first.value, "what")),
		      *id = jval_strdup(jval_get(first.value, "id")),
		      *reason = lacks ? mem_printf("the %s succeeded, but the task is not complete: %s %s",
						   p ? "command" : "agent", what, id ? id : "")
				      : mem_printf("the %s succeeded; complete_task or fail_task decides the outcome",
						   p ? "command" : "agent");
	EMIT(task_waiting, tx, task_scope(&t->d, NULL),
	     .envelope = { .status = "waiting_input", .status_reason = reason }, .status = "waiting_input",
	     .waitingFor = lacks ? "acceptance" : "complete_task",
	     .missing = lacks ? json_from_buf(&missing) : JSON_NONE, .reason = reason);
}

/* In the commit of the process's end. */
static void task_ended(struct process *p, const struct process_outcome *o, struct transaction *tx)
{
	task_auto struct task t = TASK_INIT;

	if (owned_attempt(p, &t) < 0)
		return;
	if (!o->clean) {
		struct attempt_end end = attempt_end_of_process(p, o);
		struct err e = ERR_INIT;

		if (task_lease_holds(p->engine, &t, &e) < 0) { /* the guard has killed it */
			end.status = "lost";
			end.message = "lease_over";
			end.may_retry = false;
		}
		return task_attempt_failed(p->engine, &t, tx, NULL, &end);
	}
	task_attempt_succeeded(p->engine, &t, tx, p, NULL);
}

/* Idempotent. Runs after the commit of every end of an attempt. */
void task_next(struct engine *engine, const char *task_id)
{
	task_auto struct task t = TASK_INIT;
	struct err e = ERR_INIT;

	if (task_read(engine, task_id, &t, &e) != 0)
		return;
	if (t.status == TASK_CANCELLING)
		task_part_over(engine, task_id);
	else if (t.status == TASK_RETRYING)
		task_begin_now(engine, task_id, "retry_policy");
	if (!t.d.attemptOpen)
		task_worker_over(engine, task_id);
	if (task_status_ended(t.status)) {
		task_jobs_end(engine, task_id, "task_ended");
		task_actions_end(engine, task_id, "the task has ended");
		task_notify_edges(engine, task_id);
	}
	task_dispatch(engine);
}

/*
 * A start that waited for policy or hooks is dropped if its attempt is no longer the current one. In a paused task,
 * resume_task launches it again, unless a person or hooks have allowed it: then it starts, and is stopped at once.
 */
static bool task_wanted(struct engine *engine, const char *task_id, const char *process_id)
{
	task_auto struct task t = TASK_INIT;
	struct err e = ERR_INIT;

	return task_read(engine, task_id, &t, &e) == 0 && t.d.attemptOpen &&
	       strcmp(t.d.currentProcessId, process_id) == 0 && t.status != TASK_CANCELLING &&
	       (t.status != TASK_PAUSED || engine_process(engine, process_id));
}

/* The runtime may have died between the end of the task and that of its process. A task that is not known has ended. */
static bool task_abandoned(struct engine *engine, const char *task_id)
{
	task_auto struct task t = TASK_INIT;
	struct err e = ERR_INIT;

	return task_read(engine, task_id, &t, &e) != 0 || (task_status_ended(t.status) && t.status != TASK_COMPLETED);
}

extern const struct process_owner_ops task_owner;
const struct process_owner_ops task_owner = {
	.refused = task_refused,
	.wanted = task_wanted,
	.abandoned = task_abandoned,
	.started = task_started,
	.output = task_output,
	.ended = task_ended,
	.over = task_next,
};

/* ---- the end of an agent's turn ---- */

/* The attempt that the turn works on, if it is still open. */
static int attempt_of(struct engine *engine, const char *turn_id, struct task *ret)
{
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc d;
	struct err e = ERR_INIT;

	return turn_read(engine, turn_id, &text, &d, &e) == 0 && turn_driven_by_loop(&d) && d.attemptId[0] &&
			       task_read(engine, d.taskId, ret, &e) == 0 && ret->d.attemptOpen &&
			       strcmp(ret->d.currentAttemptId, d.attemptId) == 0
		       ? 0
		       : -1;
}

void task_on_turn_completed(struct transaction *tx, const struct scope *s, const struct turn_completed *p)
{
	task_auto struct task t = TASK_INIT;

	if (p->outcome == turn_outcome_process || attempt_of(tx->engine, s->turn, &t) < 0)
		return;
	task_attempt_succeeded(tx->engine, &t, tx, NULL, p->summary);
	transaction_after_commit(tx, task_next, t.d.taskId);
}

void task_on_turn_failed(struct transaction *tx, const struct scope *s, const struct turn_failed *p)
{
	struct attempt_end end = attempt_end_of_turn(p);
	task_auto struct task t = TASK_INIT;

	if (attempt_of(tx->engine, s->turn, &t) < 0)
		return;
	if (strcmp(p->envelope.status, "cancelled") == 0)
		(void)!task_agent_timed_out(tx->engine, &t, &end); /* then the time limit has interrupted it */
	task_attempt_failed(tx->engine, &t, tx, NULL, &end);
	transaction_after_commit(tx, task_next, t.d.taskId);
}

/* ---- start_task and retry_task ---- */

/* Begins an attempt for a request, and replies with its ids. */
static void begin_for_request(struct transaction *tx, const struct task *t, const char *reason, enum task_work work)
{
	struct task_begun begun;

	task_begin(tx->engine, t, tx, &tx->caller, reason, work, &begun);
	transaction_after_commit(tx, task_launch, t->d.taskId);
	jw_kstr(&tx->w, "taskId", t->d.taskId);
	jw_kstr(&tx->w, "status", begun.status);
	if (begun.how == TASK_BEGUN) {
		jw_kstr(&tx->w, "runId", begun.run_id);
		jw_kstr(&tx->w, "attemptId", begun.attempt_id);
		jw_kuint(&tx->w, "attempt", begun.attempt);
		jw_kopt(&tx->w, "processId", none_if_empty(begun.process_id));
	}
	transaction_commit(tx);
}

void engine_start_task(struct engine *engine, const json_t *params, const struct caller *c, engine_reply_fn fn,
		       void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	json_auto_t *command = command_of(params, c);
	task_auto struct task t = TASK_INIT;
	struct err e = ERR_INIT;

	if (task_get(engine, param_str(params, "taskId"), c, &t, &e) < 0 || task_may(&t, TASK_VERB_START, &e) < 0 ||
	    task_lease_holds(engine, &t, &e) < 0 || (command && command_check(engine, command, c, &e) < 0))
		return transaction_reject(tx, &e);
	/* The command and options given with the start replace those of the task. */
	if (command || json_object_get(params, "heartbeatMs")) {
		const struct scope s = task_scope(&t.d, c);
		command_fact_auto struct command_fact run;

		command_fact_init(&run, command, &s, tx);
		EMIT(task_updated, tx, s,
		     .changes = JSON_OBJECT(task_changes, .run = command_part(&run),
					    .limits.heartbeatMs = param_int(params, "heartbeatMs")));
	}
	begin_for_request(tx, &t, "start_task", task_work_of(engine, &t, command));
}

/* A new attempt after an end, regardless of the retry policy. */
void engine_retry_task(struct engine *engine, const json_t *params, const struct caller *c, engine_reply_fn fn,
		       void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	const char *reason = param_str(params, "reason");
	task_auto struct task t = TASK_INIT;
	struct err e = ERR_INIT;

	/* The fleet decides about another attempt of its task, which then has a token of its own. */
	if (task_get(engine, param_str(params, "taskId"), c, &t, &e) == 0 && t.d.fleet.type == JT_OBJECT)
		err_set(&e, ERR_STATE, "task '%s' belongs to a fleet; 'bailiff fleet retry' runs it again", t.d.taskId);
	else if (!e.code && task_may(&t, TASK_VERB_RETRY, &e) == 0 && t.d.attemptOpen)
		err_set(&e, ERR_STATE, "task '%s' has an attempt in progress; fail_task ends it", t.d.taskId);
	if (e.code || param_text(params, "reason", TASK_REASON_MAX, &e) < 0)
		return transaction_reject(tx, &e);
	if (!reason)
		reason = "retry_task";
	const struct scope s = task_scope(&t.d, c);
	EMIT(task_retrying, tx, s, .envelope = { .status = "retrying", .status_reason = reason },
	     .attempt = view_counted(t.d.attemptCount) + 1, .reason = reason);
	begin_for_request(tx, &t, reason, task_work_of(engine, &t, NULL));
}

void task_on_dependencies_met(struct engine *engine, const char *task_id)
{
	task_begin_now(engine, task_id, "dependencies_met");
}
