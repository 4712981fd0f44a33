#include "supervisor/gateway/mcp/mcp_task.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "supervisor/gateway/common/rpc_message.h"
#include "supervisor/gateway/mcp/mcp_private.h"
#include "supervisor/gateway/mcp/mcp_tool.h"
#include "supervisor/gateway/mcp/mcp_version.h"

#include <stdio.h>
#include <string.h>

#define QUICK_MS 1000u /* a call that ends sooner is answered directly */
#define TTL_MS (24 * 3600 * 1000)
#define TASKS_MAX 200u       /* in memory; above this, ended ones are dropped */
#define HELD_MAX (32u << 20) /* bytes of their results; above this, older ones are left to the daemon */
#define WAITING_MAX 256u

struct mcp_task {
	TAILQ_ENTRY(mcp_task) entry;
	struct mcp_session *mcp;
	struct mcp_call_private *call; /* NULL: ended */
	char id[72];
	enum mcp_task_status status;
	char created[CLOCK_TEXT_MAX], updated[CLOCK_TEXT_MAX];
	json_int_t ttl_ms;
	json_t *message; /* the response with which it ended */
	size_t weight;   /* its size in bytes */
	bool recorded;   /* stored by the daemon, so it can be loaded again */
};

/* ---- description ---- */

static json_t *open_questions(const struct mcp_call_private *p)
{
	json_t *all = json_object();
	const struct mcp_question *q;

	TAILQ_FOREACH (q, &p->questions, entry)
		if (!q->answer)
			json_object_set_new(all, q->key,
					    json_pack("{ss sO}", "method", q->method, "params", q->params));
	return all;
}

static json_t *describe_task(const struct mcp_task *t, bool modern)
{
	json_auto_t *inputs = t->call ? open_questions(t->call) : NULL;
	const json_t *error = json_object_get(t->message, "error");
	const struct mcp_task_view v = {
		.id = t->id,
		.status = t->status,
		.created = t->created,
		.updated = t->updated,
		.ttl_ms = t->ttl_ms,
		.inputs = inputs,
		.error = error,
		.result = json_object_get(t->message, "result"),
		.message = error ? json_get_string(error, "message") : NULL,
	};

	return mcp_task_json(t->mcp, &v, modern);
}

static void notify_status(struct mcp_task *t)
{
	struct mcp_session *m = t->mcp;
	json_auto_t *modern = describe_task(t, true);

	mcp_listen_task(m, t->id, modern);
	if (m->version)
		mcp_send(m, NULL,
			 rpc_message_notification(RPC_VERSIONED, "notifications/tasks/status", describe_task(t, false)),
			 false);
}

static void set_status(struct mcp_task *t, enum mcp_task_status status)
{
	t->status = status;
	clock_format(clock_real_us(), t->updated);
	if (mcp_is_behind(t->mcp))
		json_object_set_new(t->mcp->unsent_tasks, t->id, json_true());
	else
		notify_status(t);
}

/* ---- creation ---- */

static struct mcp_task *find_task(struct mcp_session *m, const char *id)
{
	struct mcp_task *t;

	TAILQ_FOREACH (t, &m->tasks, entry)
		if (strcmp(t->id, id) == 0)
			return t;
	return NULL;
}

/* Stops as soon as the client falls behind again; the rest stays in unsent_tasks for the next call. */
void mcp_tasks_notify(struct mcp_session *m)
{
	struct mcp_task *t;
	const char *id;
	json_t *yes;
	void *next;

	json_object_foreach_safe (m->unsent_tasks, next, id, yes) {
		if (mcp_is_behind(m))
			return;
		if ((t = find_task(m, id)))
			notify_status(t);
		json_object_del(m->unsent_tasks, id);
	}
}

static void task_free(struct mcp_task *t)
{
	TAILQ_REMOVE(&t->mcp->tasks, t, entry);
	t->mcp->ntasks--;
	t->mcp->task_bytes -= t->weight;
	if (t->mcp->up)
		gateway_session_cancel_callbacks(t->mcp->up, t);
	json_decref(t->message);
	free(t);
}

/* Drops the oldest ended task from memory; the daemon still has it. */
static bool evict_task(struct mcp_session *m)
{
	struct mcp_task *t;

	if (m->ntasks < TASKS_MAX)
		return true;
	TAILQ_FOREACH (t, &m->tasks, entry)
		if (!t->call) {
			task_free(t);
			return true;
		}
	return false;
}

static bool has_extension(const struct mcp_call_private *p)
{
	return mcp_call_can(&p->call, "extensions." MCP_TASKS_EXTENSION);
}

/* The version in which a client requests a task; in others the member has no meaning. */
static bool has_legacy_tasks(const struct mcp_call_private *p)
{
	return p->era == MCP_LEGACY && mcp_version_at_least(p->version, "2025-11-25");
}

static bool is_legacy_request(const struct mcp_call_private *p)
{
	return has_legacy_tasks(p) && json_is_object(json_object_get(p->call.params, "task"));
}

bool mcp_task_possible(const struct mcp_call_private *p)
{
	return p->task || (p->tool && p->tool->task != MCP_TASK_NO &&
			   (p->era == MCP_MODERN ? has_extension(p) : is_legacy_request(p)));
}

/* The request was answered with the task: the call has no stream from now on and does not count as in progress. */
static void detach_call(struct mcp_call_private *p, struct mcp_task *t)
{
	bool modern = p->era == MCP_MODERN;
	json_t *result = modern ? describe_task(t, true) : json_pack("{so}", "task", describe_task(t, false));
	void *stream = p->stream;

	if (modern)
		json_object_set_new(result, "resultType", json_string("task"));
	mcp_call_add_meta(p, result);
	p->task = t;
	p->task_id = t->id;
	p->stream = NULL;
	mcp_call_uncount(p);
	if (modern) {
		json_decref(p->progress_token); /* the extension has no progress notifications */
		p->progress_token = NULL;
	}
	mcp_send(p->call.mcp, stream, rpc_message_result(RPC_VERSIONED, p->id, result), true);
}

static void cancel_recorded(struct gateway_session *up, const char *id, const char *reason)
{
	gateway_session_mutate(up, "cancel_task", json_pack("{ss ss}", "taskId", id, "reason", reason), NULL, NULL,
			       NULL);
}

/*
 * Runs when the daemon has stored the task. Only then does the client get its id, so that the task survives a crash of
 * this gateway. If the handler has ended the call meanwhile (p->ended), its response becomes the task's result.
 */
static void on_created(struct mcp_call *c, json_t *result, json_t *error)
{
	struct mcp_call_private *p = c->priv;
	const char *id = json_get_string(result, "taskId");
	json_int_t ttl = json_integer_value(json_object_get(json_object_get(c->params, "task"), "ttl"));
	mcp_call_fn then = p->task_then;
	struct mcp_owned *o;

	p->task_then = NULL;
	p->becoming = false;
	if (!id || !evict_task(c->mcp)) {
		if (id)
			cancel_recorded(c->up, id, "too many are in progress");
		if (p->ended)
			mcp_call_end(p, mem_take(&p->ended));
		else if (then)
			mcp_call_fail(c, RPC_INTERNAL_ERROR, NULL, "create a task: %s",
				      id ? "too many are in progress" : json_get_string(error, "message"));
		return; /* a call that runs already is answered directly */
	}
	struct mcp_task *t = mem_zalloc(1, sizeof(*t));
	t->mcp = c->mcp;
	t->call = p;
	snprintf(t->id, sizeof(t->id), "%s", id);
	clock_format(clock_real_us(), t->created);
	memcpy(t->updated, t->created, sizeof(t->updated));
	t->ttl_ms = ttl > TTL_MS ? ttl : TTL_MS;
	TAILQ_INSERT_TAIL(&c->mcp->tasks, t, entry);
	c->mcp->ntasks++;
	gateway_session_mutate(c->up, "start_task", json_pack("{ss}", "taskId", t->id), p->traceparent, NULL, NULL);
	LIST_FOREACH (o, &p->owned, entry)
		mcp_task_owns(t, o->process_id);
	detach_call(p, t);
	if (p->ended)
		mcp_call_end(p, mem_take(&p->ended));
	else if (then)
		then(c);
}

void mcp_task_convert(struct mcp_call *c, mcp_call_fn then)
{
	struct mcp_call_private *p = c->priv;
	const char *what = json_get_string(c->arguments, "command");
	mem_auto char *objective = mem_printf("%s%s%.500s", c->name, what ? ": " : "", what ? what : "");

	p->task_then = then;
	p->becoming = true;
	mcp_call_task(c,
		      json_pack("{s:o ss ss s{ss}}", "objective", rpc_message_text(objective, strlen(objective)),
				"taskKind", MCP_TASK_KIND, "visibility", "background", "scope", "tool", c->name),
		      on_created);
}

/*
 * The call did not end within quick_ms. A call that has asked its user stays a plain call: the question belongs to its
 * request.
 */
static void on_slow(struct mcp_call *c)
{
	if (!c->priv->task && !c->priv->asking && !c->priv->becoming)
		mcp_task_convert(c, NULL);
}

static void run_tool(struct mcp_call *c) { c->priv->tool->call(c); }

static void run_modern(struct mcp_call *c, const struct mcp_tool *t)
{
	bool has = has_extension(c->priv);

	if (!has && (t->task == MCP_TASK_MUST || t->task == MCP_TASK_OWN))
		return mcp_call_fail(
			c, MCP_CAPABILITY_MISSING,
			json_pack("{s{s{s{}}}}", "requiredCapabilities", "extensions", MCP_TASKS_EXTENSION),
			"the tool %s runs as a task only", t->name);
	if (has && (t->task == MCP_TASK_MUST || t->task == MCP_TASK_AT_ONCE))
		return mcp_task_convert(c, run_tool);
	if (has && t->task == MCP_TASK_MAY)
		mcp_call_slow(c->priv, c->mcp->o.config->quick_ms ? c->mcp->o.config->quick_ms : QUICK_MS, on_slow);
	t->call(c);
}

void mcp_task_run(struct mcp_call *c, const struct mcp_tool *t)
{
	struct mcp_call_private *p = c->priv;
	const json_t *task = json_object_get(c->params, "task"), *ttl = json_object_get(task, "ttl");
	bool wants = is_legacy_request(p);

	p->tool = t;
	if (has_legacy_tasks(p) &&
	    ((task && !json_is_object(task)) ||
	     (ttl && !json_is_null(ttl) && !(json_is_number(ttl) && json_number_value(ttl) >= 0))))
		mcp_call_fail(c, RPC_INVALID_PARAMS, NULL,
			      "task: expected an object with a ttl in milliseconds, or without");
	else if (p->era == MCP_MODERN)
		run_modern(c, t);
	else if (wants && t->task == MCP_TASK_NO)
		mcp_call_fail(c, RPC_METHOD_NOT_FOUND, NULL, "the tool %s does not run as a task", t->name);
	else if (!wants && t->task == MCP_TASK_MUST && mcp_version_at_least(p->version, "2025-11-25"))
		mcp_call_fail(c, RPC_METHOD_NOT_FOUND, NULL, "the tool %s runs as a task only", t->name);
	else if (wants)
		mcp_task_convert(c, run_tool);
	else
		t->call(c);
}

/* ---- in progress ---- */

/* Records the process in the daemon's task, so that another gateway can report on it (mcp_task_load.c). */
void mcp_task_owns(struct mcp_task *t, const char *process_id)
{
	gateway_session_mutate(t->call->call.up, "update_task",
			       json_pack("{ss s{ss ss}}", "taskId", t->id, "scope", "tool", t->call->call.name,
					 "processId", process_id),
			       NULL, NULL, NULL);
}

void mcp_task_asks(struct mcp_task *t)
{
	json_auto_t *open = open_questions(t->call);

	set_status(t, json_object_size(open) ? MCP_TASK_INPUT : MCP_TASK_WORKING);
}

/* ---- end ---- */

static void reply_waiter(struct mcp_task *t, struct mcp_call *c)
{
	json_t *result = json_object_get(t->message, "result"), *error = json_object_get(t->message, "error");

	if (error)
		return mcp_call_fail(c, (int)json_integer_value(json_object_get(error, "code")),
				     json_incref(json_object_get(error, "data")), "%s",
				     json_get_string(error, "message"));
	if (t->status == MCP_TASK_CANCELLED)
		return mcp_call_fail(c, RPC_INVALID_PARAMS, NULL, "the task was cancelled");
	json_t *copy = json_deep_copy(result), *meta = json_object_get(copy, "_meta");
	if (!meta)
		json_object_set_new(copy, "_meta", meta = json_object());
	json_object_set_new(meta, MCP_META "related-task", json_pack("{ss}", "taskId", t->id));
	mcp_call_finish(c, copy);
}

/* tasks/result calls wait without a deadline; replying to one frees it, so iterate by serial. */
static void reply_waiters(struct mcp_task *t)
{
	struct mcp_call_private *p;
	uint64_t at = 0;

	for (p = mcp_call_after(t->mcp, 0); p; p = mcp_call_after(t->mcp, at)) {
		at = p->serial;
		if (p->waits_for == t)
			reply_waiter(t, &p->call);
	}
}

/* Drops results that the daemon has stored, if they take too much memory. */
static void drop_results(struct mcp_session *m)
{
	struct mcp_task *t, *next;

	for (t = TAILQ_FIRST(&m->tasks); t && m->task_bytes > HELD_MAX; t = next) {
		next = TAILQ_NEXT(t, entry);
		if (t->recorded && !json_object_get(m->unsent_tasks, t->id))
			task_free(t);
	}
}

static void on_recorded(void *ctx, json_t *result, json_t *error)
{
	struct mcp_task *t = ctx;

	t->recorded = !error;
	drop_results(t->mcp);
}

/*
 * Stores the result in the daemon's record. If it is too long even for that, the process remains, from which most of it
 * can be reported.
 */
static void record_result(struct mcp_task *t, struct gateway_session *up)
{
	const json_t *error = json_object_get(t->message, "error");
	json_t *result = json_object_get(t->message, "result");

	if (error)
		return gateway_session_mutate(up, "fail_task",
					      json_pack("{ss s{sO ss}}", "taskId", t->id, "error", "message",
							json_object_get(error, "message"), "category", "mcp"),
					      NULL, NULL, NULL);
	size_t len;
	json_t *params = mcp_task_completion(t->id, result, &len);
	t->weight = len == SIZE_MAX ? 0 : len;
	t->mcp->task_bytes += t->weight;
	gateway_session_mutate(up, "complete_task", params, NULL, len <= MCP_TASK_RESULT_MAX ? on_recorded : NULL, t);
}

void mcp_task_ended(struct mcp_task *t, const json_t *message)
{
	struct gateway_session *up = t->call->call.up;

	t->call = NULL;
	t->message = json_deep_copy(message);
	json_object_del(json_object_get(t->message, "result"), "resultType"); /* a task contains the plain result */
	record_result(t, up);
	set_status(t, json_object_get(t->message, "error") ? MCP_TASK_FAILED : MCP_TASK_COMPLETED);
	reply_waiters(t);
}

/*
 * The client has disconnected, but its tasks continue: nothing is terminated, and the next client can load them from
 * the daemon.
 */
void mcp_tasks_detach(struct mcp_session *m)
{
	struct mcp_task *t;

	TAILQ_FOREACH (t, &m->tasks, entry)
		if (t->call) {
			mcp_call_detach(t->call);
			t->call = NULL;
		}
}

void mcp_tasks_free(struct mcp_session *m)
{
	struct mcp_task *t;

	while ((t = TAILQ_FIRST(&m->tasks)))
		task_free(t);
}

/* ---- methods ---- */

/* NULL: the call has failed. *ret: the task in memory, or NULL. */
static const char *task_of(struct mcp_call *c, struct mcp_task **ret)
{
	struct mcp_call_private *p = c->priv;
	const json_t *id = json_object_get(c->params, "taskId");

	if (p->era == MCP_MODERN && !has_extension(p)) {
		mcp_call_lacks(c, "extensions." MCP_TASKS_EXTENSION);
		return NULL;
	}
	if (p->era == MCP_LEGACY && !mcp_version_at_least(p->version, "2025-11-25")) {
		mcp_call_fail(c, RPC_METHOD_NOT_FOUND, NULL, "there are no tasks in this version of the protocol");
		return NULL;
	}
	if (!json_is_string(id) || !json_string_length(id) || json_string_length(id) >= sizeof((*ret)->id)) {
		mcp_call_fail(c, RPC_INVALID_PARAMS, NULL, "taskId: there is no such task");
		return NULL;
	}
	*ret = find_task(c->mcp, json_string_value(id));
	return json_string_value(id);
}

void mcp_method_tasks_get(struct mcp_call *c)
{
	struct mcp_task *t;
	const char *id = task_of(c, &t);

	if (id && t)
		mcp_call_finish(c, describe_task(t, c->priv->era == MCP_MODERN));
	else if (id)
		mcp_task_load(c, id, false);
}

static bool is_waiting(const struct mcp_call_private *p) { return p->waits_for != NULL; }

/* A waiting call may last as long as the task, so it does not count as in progress; WAITING_MAX bounds them instead. */
void mcp_method_tasks_result(struct mcp_call *c)
{
	struct mcp_task *t;
	const char *id = task_of(c, &t);

	if (!id)
		return;
	if (!t)
		mcp_task_load(c, id, true);
	else if (!t->call)
		reply_waiter(t, c);
	else if (mcp_call_count(c->mcp, is_waiting) >= WAITING_MAX)
		mcp_call_fail(c, RPC_INVALID_REQUEST, NULL, "%u requests wait for results already", WAITING_MAX);
	else {
		c->priv->waits_for = t;
		mcp_call_uncount(c->priv);
	}
}

void mcp_method_tasks_list(struct mcp_call *c)
{
	if (mcp_version_at_least(c->priv->version, "2025-11-25"))
		mcp_task_load_list(c);
	else
		mcp_call_fail(c, RPC_METHOD_NOT_FOUND, NULL, "there are no tasks in this version of the protocol");
}

void mcp_method_tasks_cancel(struct mcp_call *c)
{
	bool modern = c->priv->era == MCP_MODERN;
	struct mcp_task *t;
	const char *id = task_of(c, &t);

	if (!id)
		return;
	if (!t)
		return mcp_task_load_cancel(c, id);
	if (!t->call && !modern)
		return mcp_call_fail(c, RPC_INVALID_PARAMS, NULL, "taskId: the task has ended");
	if (t->call) {
		struct mcp_call_private *p = t->call;

		t->call = NULL;
		cancel_recorded(p->call.up, t->id, "cancelled by the client");
		mcp_call_cancel(p);
		set_status(t, MCP_TASK_CANCELLED);
		reply_waiters(t);
	}
	mcp_call_finish(c, modern ? json_object() : describe_task(t, false));
}

void mcp_method_tasks_update(struct mcp_call *c)
{
	const json_t *responses = json_object_get(c->params, "inputResponses");
	struct mcp_task *t;

	if (!task_of(c, &t))
		return;
	if (!t)
		return mcp_call_fail(c, RPC_INVALID_PARAMS, NULL,
				     "taskId: there is no such task, or it no longer waits for answers");
	if (!json_is_object(responses))
		return mcp_call_fail(c, RPC_INVALID_PARAMS, NULL, "inputResponses: expected an object");
	struct mcp_call_private *p = t->call;
	json_auto_t *kept = json_incref((json_t *)responses);
	mcp_call_finish(c, json_object());
	if (p)
		mcp_question_update(p, kept);
}
