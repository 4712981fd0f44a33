/*
 * A waiter holds only an id and a reply. The answer is composed from the documents when the wait ends, so it does not
 * matter which code ended the turn or the call, or in how many steps. The list is searched linearly: it has one entry
 * for each request that is waiting.
 *
 * With an idempotency key the answer is stored, so that a retry gets it again. The reply does not wait for that commit.
 */

#include "runtime/engine/session/waiter.h"

#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/session/session_state.h"
#include "runtime/engine/session/tool_call_read.h"
#include "runtime/engine/session/turn_read.h"
#include "runtime/view/view_ids.h"

static struct waiter *waiter_add(struct engine *engine, const char *id, struct transaction *tx)
{
	struct waiter *w = mem_zalloc(1, sizeof *w);

	id_copy(w->id, id);
	w->deadline_ns = UINT64_MAX;
	transaction_take_reply(tx, &w->reply);
	TAILQ_INSERT_TAIL(&engine->sessions->waiters, w, link);
	return w;
}

void turn_waiter_add(struct engine *engine, const char *turn_id, enum turn_wait how, struct transaction *tx)
{
	waiter_add(engine, turn_id, tx)->turn_wait = how;
}

/* The call is in the log: from now on the timeouts of its waiters apply, because the reply can refer to it. */
static void call_durable(struct engine *engine, const char *call_id)
{
	struct waiter *w;

	TAILQ_FOREACH (w, &engine->sessions->waiters, link)
		if (w->for_call && strcmp(w->id, call_id) == 0) {
			w->durable = true;
			engine_wake(engine, w->deadline_ns);
		}
}

void tool_waiter_add(struct engine *engine, const char *call_id, uint64_t timeout_ms, struct transaction *tx)
{
	struct waiter *w = waiter_add(engine, call_id, tx);
	buf_auto struct buf text = BUF_INIT;
	struct tool_call_doc d;
	struct err e = ERR_INIT;

	w->for_call = true;
	if (timeout_ms < UINT64_MAX / 2000000)
		w->deadline_ns = engine_now(engine) + timeout_ms * 1000000ull;
	/* Its timeout may answer only when the call is in the log: the answer is read from there. */
	if (view_read(engine->o.store, &tool_call_schema, call_id, &text, &d, &e) == 0)
		call_durable(engine, call_id);
	else
		transaction_after_commit(tx, call_durable, call_id);
}

/* ---- answers ---- */

static void turn_answer(struct engine *engine, const struct waiter *w, struct jw *j)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;
	buf_auto struct buf text = BUF_INIT;
	char prefix[VIEW_KEY_MAX];
	const struct view_ids_query q = { .kind = VIEW_TURN_PROCESS, .prefix = prefix, .max = 1000 };
	struct turn_doc t;
	struct err e = ERR_INIT;

	jw_obj(j);
	jw_kstr(j, "turnId", w->id);
	if (turn_read(engine, w->id, &text, &t, &e) == 0) {
		jw_kstr(j, "sessionId", t.sessionId);
		jw_kstr(j, "threadId", t.threadId);
		jw_kstr(j, "turnStatus", t.status);
	}
	jw_kstr(j, "status", w->turn_wait == TURN_WAIT_FAILED ? "failed" : "interrupted");
	snprintf(prefix, sizeof prefix, "%s/", w->id);
	(void)view_ids(engine->o.store, &q, &ids, NULL, &e);
	jw_karr(j, "processes");
	for (size_t i = 0; i < ids.n; i++)
		jw_str(j, ids.id[i]);
	jw_arr_end(j);
	jw_kuint(j, "sequence", store_last_sequence(engine->o.store));
	jw_obj_end(j);
}

static void json_member(struct jw *j, const char *key, struct jval v)
{
	if (v.type != JT_NONE)
		jw_kraw(j, key, v.text, v.len);
}

static void call_answer(struct engine *engine, const struct waiter *w, struct jw *j)
{
	buf_auto struct buf text = BUF_INIT;
	struct tool_call_doc d;
	struct err e = ERR_INIT;

	jw_obj(j);
	jw_kstr(j, "toolCallId", w->id);
	if (tool_call_read(engine, w->id, &text, &d, &e) == 0) {
		jw_kstr(j, "stepId", d.stepId);
		jw_kstr(j, "turnId", d.turnId);
		jw_kstr(j, "toolName", d.toolName);
		jw_kstr(j, "status", d.status);
		if (d.processId[0])
			jw_kstr(j, "processId", d.processId);
		json_member(j, "resultRef", d.rawOutputRef);
		json_member(j, "preview", d.displayPreview);
		json_member(j, "exitCode", d.exitCode);
		json_member(j, "artifactRefs", d.artifactRefs);
		json_member(j, "hookReason", d.hookReason);
		json_member(j, "hookContextRefs", d.hookContextRefs);
		json_member(j, "updatedResultRef", d.updatedOutputRef);
		if (d.category.type != JT_NONE) {
			jw_kobj(j, "error");
			json_member(j, "category", d.category);
			json_member(j, "message", d.message);
			json_member(j, "retryable", d.retryable);
			json_member(j, "advice", d.advice);
			jw_obj_end(j);
		}
	} else {
		jw_kstr(j, "status", "waiting_permission"); /* it has not started */
	}
	jw_kuint(j, "sequence", store_last_sequence(engine->o.store));
	jw_obj_end(j);
}

/* Removes the waiter before it replies: the callback may add or remove others. */
static void waiter_answer(struct engine *engine, struct waiter *w)
{
	buf_auto struct buf out = BUF_INIT;
	struct jw j = jw_on(&out);

	TAILQ_REMOVE(&engine->sessions->waiters, w, link);
	if (w->for_call)
		call_answer(engine, w, &j);
	else
		turn_answer(engine, w, &j);
	if (w->reply.idem_key) {
		struct transaction *tx = transaction_new_internal(engine);

		transaction_store_reply(tx, &w->reply, out.data, out.len);
		transaction_commit_then(tx, 0, NULL, NULL);
	}
	reply_json(&w->reply, out.data, out.len);
	free(w);
}

/* Searches from the start after each reply, because a reply can lead to requests that change the list. */
static void answer_all(struct engine *engine, const char *id, bool for_call)
{
	struct waiter *w;

	do {
		TAILQ_FOREACH (w, &engine->sessions->waiters, link)
			if (w->for_call == for_call && strcmp(w->id, id) == 0)
				break;
		if (w)
			waiter_answer(engine, w);
	} while (w);
}

void turn_waiters_answer(struct engine *engine, const char *turn_id) { answer_all(engine, turn_id, false); }

void tool_waiters_answer(struct engine *engine, const char *call_id) { answer_all(engine, call_id, true); }

uint64_t waiters_tick(struct engine *engine, uint64_t now)
{
	uint64_t next = UINT64_MAX;
	struct waiter *w;

	do {
		TAILQ_FOREACH (w, &engine->sessions->waiters, link)
			if (w->durable && now >= w->deadline_ns)
				break;
		if (w)
			waiter_answer(engine, w);
	} while (w);
	TAILQ_FOREACH (w, &engine->sessions->waiters, link)
		if (w->durable && w->deadline_ns < next)
			next = w->deadline_ns;
	return next;
}

/* Fails the waits of one connection; 0 = all. */
static void drop_waiters(struct engine *engine, uint64_t connection, const char *why)
{
	struct waiter *w;
	struct err e = ERR_INIT;

	err_set(&e, ERR_UNAVAILABLE, "%s", why);
	do {
		TAILQ_FOREACH (w, &engine->sessions->waiters, link)
			if (!connection || w->reply.connection == connection)
				break;
		if (w) {
			TAILQ_REMOVE(&engine->sessions->waiters, w, link);
			reply_err(&w->reply, &e, NULL, 0);
			free(w);
		}
	} while (w);
}

void waiters_client_disconnected(struct engine *engine, uint64_t connection)
{
	drop_waiters(engine, connection, "the client has gone");
}

void waiters_free(struct engine *engine) { drop_waiters(engine, 0, "the daemon is stopping"); }
