/*
 * The verbs that only concern the task itself: progress, pause, resume, complete, fail, archive. Starting and
 * retrying are in task_attempt.c, cancelling is in task_cancel.c.
 */

#include "runtime/engine/action/action.h"
#include "runtime/engine/work/task_private.h"

/* The common start of all verbs: loads and checks the task; NULL: the request was rejected. */
static struct transaction *begin_verb(struct engine *engine, const json_t *params, const struct caller *c,
				      engine_reply_fn fn, void *ctx, enum task_verb v, struct task *t)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	struct err e = ERR_INIT;

	if (task_get(engine, param_str(params, "taskId"), c, t, &e) < 0 || task_may(t, v, &e) < 0 ||
	    param_text(params, "reason", TASK_REASON_MAX, &e) < 0) {
		transaction_reject(tx, &e);
		return NULL;
	}
	return tx;
}

static void finish_verb(struct transaction *tx, const struct task *t, const char *status)
{
	jw_kstr(&tx->w, "taskId", t->d.taskId);
	jw_kstr(&tx->w, "status", status);
	transaction_commit(tx);
}

/* ---- acceptance ---- */

static const char *const verdicts[] = { "met", "unmet", "waived", "pending" };

/* Merges a client's report into the criteria: [{id, status, note?, evidenceRef?}], or only their ids. */
static json_t *acceptance_over(struct jval kept, const json_t *coverage, struct err *e)
{
	json_t *list = kept.type == JT_ARRAY ? json_loadb(kept.text, kept.len, 0, NULL) : json_array(), *c;
	char field[ERR_FIELD_MAX];
	size_t i;

	json_array_foreach ((json_t *)(uintptr_t)coverage, i, c) {
		const char *status = json_is_string(c) ? "met" : param_str(c, "status");
		const char *id = json_is_string(c) ? json_string_value(c) : param_str(c, "id"), *key;
		json_t *v = NULL, *one, *member;
		bool known = false;
		size_t k;

		/* Found by its id or its text; without an id, by its position. */
		json_array_foreach (list, k, one) {
			const char *text = param_str(one, "text");

			if (id ? strcmp(param_str(one, "id"), id) == 0 || (text && strcmp(text, id) == 0) : k == i) {
				v = one;
				break;
			}
		}

		snprintf(field, sizeof field, "acceptance[%zu]", i);
		for (k = 0; status && k < countof(verdicts); k++)
			known |= strcmp(verdicts[k], status) == 0;
		if (!v || !known) {
			err_field(e, field,
				  v ? "status must be met, unmet, waived or pending"
				    : "no such criterion; give its id, or as many as there are");
			json_decref(list);
			return NULL;
		}
		json_object_foreach (c, key, member)
			if (strcmp(key, "id") != 0 && strcmp(key, "required") != 0)
				json_object_set(v, key, member);
		json_object_set_new(v, "status", json_string(status));
	}
	return list;
}

/* ---- append_task_progress ---- */

void engine_append_task_progress(struct engine *engine, const json_t *params, const struct caller *c,
				 engine_reply_fn fn, void *ctx)
{
	task_auto struct task t = TASK_INIT;
	struct err e = ERR_INIT;
	struct transaction *tx = begin_verb(engine, params, c, fn, ctx, TASK_VERB_PROGRESS, &t);

	if (!tx)
		return;
	static const char *const values[] = { "counters", "plan", "validation", "usage" };
	const json_t *percent = json_object_get(params, "percent");
	json_auto_t *delivery = NULL, *refs = NULL, *acceptance = NULL;
	if (percent && (!json_is_number(percent) || json_number_value(percent) < 0 || json_number_value(percent) > 100))
		err_field(&e, "percent", "expected a number from 0 to 100");
	for (size_t i = 0; !e.code && i < countof(values); i++)
		param_small(params, values[i], TASK_JSON_MAX, &e);
	if (!e.code && param_text(params, "summary", TASK_TEXT_MAX, &e) == 0 &&
	    param_text(params, "step", TASK_REASON_MAX, &e) == 0) {
		delivery = param_delivery(params, "delivery", &e);
		if (json_object_get(params, "outputRefs"))
			refs = param_refs(params, "outputRefs", "outputRef", &e);
		if (json_object_get(params, "acceptance") && !e.code)
			acceptance = acceptance_over(t.d.acceptance, json_object_get(params, "acceptance"), &e);
	}
	if (e.code)
		return transaction_reject(tx, &e);
	const char *phase = param_str(params, "phase");
	const struct scope s = task_scope(&t.d, c);
	const struct task_progress progress = { .envelope.phase = phase,
						.phase = phase,
						.percent = param_json(params, "percent"),
						.step = param_str(params, "step"),
						.summary = param_str(params, "summary"),
						.counters = param_json(params, "counters"),
						.plan = param_json(params, "plan"),
						.validation = param_json(params, "validation"),
						.usage = param_json(params, "usage"),
						.outputRefs = json_from_tree(refs),
						.delivery = json_from_tree(delivery),
						.acceptance = json_from_tree(acceptance) };
	if (emit_task_progress(tx, s, &progress) < 0) {
		err_set(&e, ERR_INVALID, "the progress is too large for one event");
		return transaction_reject(tx, &e);
	}
	/* A report is also a sign of life: the task now depends on this connection. */
	task_set_worker(engine, t.d.taskId, c);
	transaction_after_commit(tx, task_part_over, t.d.taskId); /* it may report the last acceptance or delivery */
	finish_verb(tx, &t, t.d.status);
}

/* ---- pause and resume ---- */

/* All processes that work for the task. The signal goes to the command's process group. */
struct pause_request {
	const char *task_id;
	bool pause; /* false: resume */
};

/* Processes that have exited, or have the wanted state already, are left alone. */
static void pause_process(void *ctx, const char *id, void *value)
{
	const struct pause_request *h = ctx;
	struct process *p = value;

	if (strcmp(p->task_id, h->task_id) == 0 && !p->gone)
		process_set_paused(p, h->pause);
}

void task_stop_processes(struct engine *engine, const char *task_id)
{
	struct pause_request h = { .task_id = task_id, .pause = true };

	strmap_each(&engine->processes->live, pause_process, &h);
}

struct stopped_list {
	const char *task_id;
	struct jw w;
};

static void list_process(void *ctx, const char *id, void *value)
{
	struct stopped_list *l = ctx;
	const struct process *p = value;

	if (strcmp(p->task_id, l->task_id) != 0 || p->gone || p->paused)
		return;
	jw_obj(&l->w);
	jw_kstr(&l->w, "processId", p->id);
	jw_kstr(&l->w, "signal", "STOP");
	jw_kstr(&l->w, "scope", "process_group");
	jw_obj_end(&l->w);
}

/*
 * The processes are stopped when the fact is durable, before the reply; a restart in between stops them. A pause is
 * possible even if space is short (STORE_MUST).
 */
void engine_pause_task(struct engine *engine, const json_t *params, const struct caller *c, engine_reply_fn fn,
		       void *ctx)
{
	task_auto struct task t = TASK_INIT;
	struct transaction *tx = begin_verb(engine, params, c, fn, ctx, TASK_VERB_PAUSE, &t);
	const char *reason = param_str(params, "reason");
	struct err e = ERR_INIT;
	buf_auto struct buf stopped = BUF_INIT;
	struct stopped_list l = { .task_id = t.d.taskId, .w = jw_on(&stopped) };

	if (!tx)
		return;
	if (task_agent_open(engine, t.d.taskId)) {
		err_set(&e, ERR_STATE, "task '%s' is worked on by a model and cannot be paused; possible: cancel",
			t.d.taskId);
		return transaction_reject(tx, &e);
	}
	jw_arr(&l.w);
	strmap_each(&engine->processes->live, list_process, &l);
	jw_arr_end(&l.w);
	EMIT(task_paused, tx, task_scope(&t.d, c), .envelope = { .status = "paused", .status_reason = reason },
	     .stopped = json_from_buf(&stopped), .reason = reason);
	tx->flags |= STORE_MUST;
	transaction_after_commit(tx, task_stop_processes, t.d.taskId);
	finish_verb(tx, &t, "paused");
}

/*
 * Runs when task.resumed is durable: continues the stopped processes, and launches what could not start during the
 * pause.
 */
static void continue_task(struct engine *engine, const char *task_id)
{
	struct pause_request h = { .task_id = task_id };

	strmap_each(&engine->processes->live, pause_process, &h);
	task_launch(engine, task_id);
	task_resume_jobs(engine, task_id);
	task_wake(engine, engine_real(engine)); /* its time limits apply again */
	task_part_over(engine, task_id);        /* what was missing may have ended during the pause */
}

/* The action that the task waited for before the pause has been answered during it. */
static bool was_answered(struct engine *engine, const struct task *t)
{
	buf_auto struct buf text = BUF_INIT;
	struct action_doc a;
	struct err e = ERR_INIT;

	return t->d.actionId[0] && action_read(engine, t->d.actionId, &text, &a, &e) == 0 &&
	       strcmp(a.status, "pending") != 0;
}

/* The status of a paused attempt. What it waited for may have happened during the pause. */
static const char *status_to_resume(struct engine *engine, const struct task *t)
{
	const enum task_status before = task_status_find(t->d.pausedFrom);
	const struct process *p = t->d.currentProcessId[0] ? engine_process(engine, t->d.currentProcessId) : NULL;

	if (before >= TASK_STATUS_COUNT)
		return "running";
	if (t->d.currentProcessId[0] &&
	    (before == TASK_PREPARING || before == TASK_WAITING_PERMISSION || before == TASK_WAITING_RESOURCE))
		return p && p->state >= PROCESS_COMMITTING ? "running"
		       : before == TASK_WAITING_PERMISSION ? "preparing"
							   : task_status_name(before);
	return was_answered(engine, t) ? "running" : task_status_name(before);
}

static void waiting_fact(struct transaction *tx, const struct task *t, const char *action_id, const char *status)
{
	struct scope s = task_scope(&t->d, NULL);

	s.action = action_id;
	EMIT(task_waiting, tx, s, .envelope.status = status, .status = status, .waitingFor = "action",
	     .actionId = action_id);
}

/* An action that was open before the pause, or was opened during it. NULL = none is. */
static const char *wait_for_action(struct transaction *tx, const struct task *t)
{
	buf_auto struct buf text = BUF_INIT;
	struct action_doc a;
	struct err e = ERR_INIT;
	char id[ID_SIZE];

	if (!id_list_first(tx->engine, VIEW_TASK_ACTION, t->d.taskId, NULL, id) ||
	    action_read(tx->engine, id, &text, &a, &e) != 0)
		return NULL;
	const char *status = action_waiting_status(a.actionType);
	waiting_fact(tx, t, id, status);
	return status;
}

void engine_resume_task(struct engine *engine, const json_t *params, const struct caller *c, engine_reply_fn fn,
			void *ctx)
{
	task_auto struct task t = TASK_INIT;
	struct transaction *tx = begin_verb(engine, params, c, fn, ctx, TASK_VERB_RESUME, &t);
	const char *reason = param_str(params, "reason"), *status = NULL;
	struct task_begun begun;
	struct err e = ERR_INIT;

	if (!tx)
		return;
	/* Back to the status before the pause. A task that was queued or blocked is evaluated again. */
	const bool paused = t.status == TASK_PAUSED;
	enum task_status before = paused ? task_status_find(t.d.pausedFrom) : t.status;
	/* An attempt has succeeded, and its outcome is still to be decided: nothing runs again. */
	const bool decided_later = paused && before == TASK_WAITING_INPUT && view_counted(t.d.attemptCount) &&
				   !t.d.attemptOpen;
	const bool begins = !t.d.attemptOpen && !decided_later &&
			    (t.d.startedAt || before == TASK_QUEUED || before == TASK_BLOCKED);
	if (decided_later)
		status = task_status_name(before);
	else if (t.d.attemptOpen)
		status = paused ? status_to_resume(engine, &t) : "running";
	else if (paused || before == TASK_QUEUED || before == TASK_BLOCKED)
		status = "accepted";
	if (!status) {
		err_set(&e, ERR_STATE,
			"task '%s' is %s and has no attempt to continue; complete_task ends it, retry_task tries again",
			t.d.taskId, t.d.status);
		return transaction_reject(tx, &e);
	}
	const struct scope s = task_scope(&t.d, c);
	EMIT(task_resumed, tx, s, .envelope = { .status = status, .status_reason = reason }, .status = status,
	     .reason = reason);
	if (paused && !begins && !decided_later) {
		const char *waits = wait_for_action(tx, &t);

		status = waits ? waits : status;
	}
	if (begins) {
		const enum task_work work = task_work_of(engine, &t, NULL);

		task_begin(engine, &t, tx, c, "resumed", work, &begun);
		status = begun.status;
	}
	transaction_after_commit(tx, continue_task, t.d.taskId);
	finish_verb(tx, &t, status);
}

/* ---- complete_task ---- */

/* Rejected with the list of what is missing. Completing a task also completes its open attempt. */
void engine_complete_task(struct engine *engine, const json_t *params, const struct caller *c, engine_reply_fn fn,
			  void *ctx)
{
	task_auto struct task t = TASK_INIT;
	buf_auto struct buf missing = BUF_INIT;
	struct transaction *tx = begin_verb(engine, params, c, fn, ctx, TASK_VERB_COMPLETE, &t);
	struct err e = ERR_INIT;

	if (!tx)
		return;
	json_auto_t *covered = NULL, *delivery = NULL;
	mem_auto char *acceptance = NULL, *delivered = NULL;
	json_auto_t *outputs = task_outputs(params, &e),
		    *artifacts = outputs ? param_refs(params, "artifacts", "id", &e) : NULL;
	if (artifacts && param_small(params, "evidenceRefs", TASK_JSON_MAX, &e) == 0 &&
	    param_text(params, "summary", TASK_TEXT_MAX, &e) == 0)
		delivery = param_delivery(params, "delivery", &e);
	if (!e.code)
		covered = acceptance_over(t.d.acceptance, json_object_get(params, "acceptance"), &e);
	if (e.code)
		return transaction_reject(tx, &e);
	acceptance = json_dumps(covered, JSON_COMPACT);
	delivered = delivery ? json_dumps(delivery, JSON_COMPACT) : NULL;
	if (task_missing(engine, &t, jval_of(acceptance, strlen(acceptance)),
			 delivered ? jval_of(delivered, strlen(delivered)) : t.d.deliveryState, false, &missing) > 0) {
		struct jval first = jval_get(jval_of(missing.data + 1, missing.len - 1), "what");
		buf_auto struct buf data = BUF_INIT;
		struct jw w = jw_on(&data);
		char what[64];

		jval_str(first, what, sizeof what);
		err_because(&e, ERR_STATE, REASON_TASK_INCOMPLETE, "task '%s' cannot be completed yet: %s", t.d.taskId,
			    what);
		jw_kraw(&w, "missing", missing.data, missing.len);
		return transaction_reject_data(tx, &e, data.data, data.len);
	}
	if (t.d.attemptOpen)
		task_attempt_completed(engine, &t, tx, c, NULL, param_str(params, "summary"));
	task_completed_fact(engine, &t, tx, c, params, json_array_size(covered) ? acceptance : NULL, "client");
	transaction_after_commit(tx, task_next, t.d.taskId);
	finish_verb(tx, &t, "completed");
}

/* With autoComplete: its worker succeeded while something was missing, and nothing is missing now. */
static void complete_waiting(struct engine *engine, const char *task_id)
{
	task_auto struct task t = TASK_INIT;
	buf_auto struct buf missing = BUF_INIT;
	struct err e = ERR_INIT;

	if (task_read(engine, task_id, &t, &e) != 0 || !t.d.autoComplete || t.d.attemptOpen ||
	    t.status != TASK_WAITING_INPUT || !view_counted(t.d.attemptCount) ||
	    task_missing(engine, &t, t.d.acceptance, t.d.deliveryState, true, &missing) > 0)
		return;
	struct transaction *tx = transaction_new_internal(engine);
	task_completed_fact(engine, &t, tx, NULL, NULL, NULL, "auto_complete");
	transaction_after_commit(tx, task_next, task_id);
	transaction_commit(tx);
}

void task_on_part_over(struct engine *engine, const char *task_id)
{
	task_cancel_check(engine, task_id);
	complete_waiting(engine, task_id);
}

/* ---- fail_task ---- */

static void end_process(struct engine *engine, const char *task_id)
{
	task_auto struct task t = TASK_INIT;
	struct err e = ERR_INIT;

	task_agent_end(engine, task_id, "task_failed");
	task_processes_end(engine, task_id, "task_failed");
	task_worker_over(engine, task_id);
	if (task_read(engine, task_id, &t, &e) == 0)
		task_next(engine, task_id);
}

/* No retry: the client has decided. Processes of the task are ended after the commit. */
void engine_fail_task(struct engine *engine, const json_t *params, const struct caller *c, engine_reply_fn fn,
		      void *ctx)
{
	task_auto struct task t = TASK_INIT;
	const json_t *error = json_object_get(params, "error");
	const char *message = json_is_string(error) ? json_string_value(error) : param_str(error, "message"),
		   *category = param_str(error, "category");
	struct transaction *tx = begin_verb(engine, params, c, fn, ctx, TASK_VERB_FAIL, &t);
	struct err e = ERR_INIT;

	if (!tx)
		return;
	if (!json_is_object(error) && !json_is_string(error))
		err_field(&e, "error", "expected a string, or an object with message and category");
	else if ((message && strlen(message) > TASK_TEXT_MAX) || (category && strlen(category) > 64) ||
		 param_small(params, "error", TASK_JSON_MAX, &e) < 0)
		err_field(&e, "error", "too long: message at most %u bytes, category at most 64", TASK_TEXT_MAX);
	if (e.code)
		return transaction_reject(tx, &e);
	const struct attempt_end end = { .status = "failed",
					 .category = category ? category : "reported",
					 .message = message ? message : "",
					 .exit_code = -1 };
	task_attempt_failed(engine, &t, tx, c, &end);
	transaction_after_commit(tx, end_process, t.d.taskId);
	finish_verb(tx, &t, "failed");
}

/* ---- archive_task ---- */

void engine_archive_task(struct engine *engine, const json_t *params, const struct caller *c, engine_reply_fn fn,
			 void *ctx)
{
	task_auto struct task t = TASK_INIT;
	struct transaction *tx = begin_verb(engine, params, c, fn, ctx, TASK_VERB_ARCHIVE, &t);
	const char *reason = param_str(params, "reason");

	if (!tx)
		return;
	EMIT(task_archived, tx, task_scope(&t.d, c), .envelope = { .status = "archived", .status_reason = reason },
	     .reason = reason);
	finish_verb(tx, &t, "archived");
}

/* ---- actions ---- */

/* `waiting`: the status of the task while the action is open; NULL = it was resolved. */
static void on_action(struct transaction *tx, const char *task_id, const char *action_id, const char *waiting)
{
	task_auto struct task t = TASK_INIT;
	struct err e = ERR_INIT;
	char other[ID_SIZE];

	if (!task_id || !*task_id || task_read(tx->engine, task_id, &t, &e) != 0 || task_status_ended(t.status) ||
	    t.status == TASK_CANCELLING)
		return;
	/* Without an attempt only the start of an accepted task waits for the answer. */
	if (waiting && !t.d.attemptOpen && t.status != TASK_ACCEPTED && !t.d.actionId[0])
		return;
	if (t.status == TASK_PAUSED ||
	    (!waiting && (!t.d.actionId[0] || id_list_first(tx->engine, VIEW_TASK_ACTION, task_id, action_id, other))))
		return;
	if (waiting) {
		waiting_fact(tx, &t, action_id, waiting);
	} else {
		const char *status = t.d.attemptOpen ? "running" : "accepted", *reason = "the action was answered";
		struct scope s = task_scope(&t.d, NULL);

		s.action = action_id;
		EMIT(task_resumed, tx, s, .envelope = { .status = status, .status_reason = reason }, .status = status,
		     .reason = reason);
	}
}

void task_on_action_required(struct transaction *tx, const struct scope *s, const struct action_required *p)
{
	on_action(tx, s->task, s->action, action_waiting_status(p->actionType));
}

void task_on_action_resolved(struct transaction *tx, const struct scope *s, const struct action_resolved *p)
{
	on_action(tx, s->task, s->action, NULL);
	if (none_if_empty(s->task))
		transaction_after_commit(tx, task_part_over, s->task);
}
