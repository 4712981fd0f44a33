/*
 * Hooks of turns.
 *
 *   user_prompt_submit  before a turn with text starts: it is submitted and holds its thread, but waits for the hooks
 *   stop                before a turn completes. If a hook objects, a turn that its client drives continues, and the
 *                       client gets the reason; a turn of the loop cannot continue and fails
 *   post_sampling       after a client reported a model's answer; nothing waits for these hooks
 */

#include "runtime/engine/hook/hook.h"

#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/policy/policy_lookup.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/session/session.h"
#include "runtime/engine/turn/turn.h"
#include "runtime/engine/turn/turn_hooks.h"
#include "runtime/engine/turn/turn_state.h"
#include "runtime/view/view_ids.h"

#define UNKNOWN "which hooks there are is not known: "

/* The directory of the turn's work, which determines the hooks that apply. Owned by the caller. */
static char *turn_cwd(const struct turn_doc *t)
{
	json_t *where = turn_part_merged(NULL, t, NULL);
	const char *cwd = json_string_value(json_object_get(where, "cwd"));
	char *copy = mem_strdup(cwd ? cwd : HOOK_NOWHERE);

	json_decref(where);
	return copy;
}

static void subject_of_turn(const struct turn_doc *t, enum hook_point point, const char *cwd, struct hook_subject *ret)
{
	*ret = (struct hook_subject){ .point = point,
				      .uid = (uint32_t)t->uid,
				      .session_id = t->sessionId,
				      .thread_id = t->threadId,
				      .turn_id = t->turnId,
				      .task_id = t->taskId,
				      .trace_id = t->traceId,
				      .cwd = cwd };
	turn_requester(t, &ret->by);
}

/* ---- post_sampling ---- */

/* A model's answer that waits until the hooks are known. */
struct sampled {
	char turn_id[ID_SIZE];
	json_t *said;
};

static void sampled_known(struct engine *g, const struct policy_hooks *hooks, const struct err *why, void *ctx)
{
	const struct policy_hook *list[HOOKS_SELECTED_MAX];
	struct sampled *w = ctx;
	buf_auto struct buf text = BUF_INIT;
	size_t n = hook_select(g, hooks, HOOK_POST_SAMPLING, NULL, list);
	struct hook_subject s;
	struct turn_doc t;
	struct err e = ERR_INIT;

	if (n && turn_read(g, w->turn_id, &text, &t, &e) == 0) {
		mem_auto char *cwd = turn_cwd(&t);

		subject_of_turn(&t, HOOK_POST_SAMPLING, cwd, &s);
		json_t *v = hook_input(&s, (int)permission_mode_of(g, t.sessionId));
		json_object_set(v, "model_response", w->said);
		mem_auto char *input = hook_input_text(v);
		s.input = input;
		struct transaction *tx = transaction_new_internal(g);
		struct hook_group *group = hook_group_new(g, &s, list, n, tx);
		transaction_commit(tx);
		hook_group_run(group, NULL, NULL);
	}
	json_decref(w->said);
	free(w);
}

void turn_hooks_sampled(struct engine *g, const char *turn_id, const char *payload, size_t len)
{
	buf_auto struct buf text = BUF_INIT;
	struct hook_subject s;
	struct turn_doc t;
	struct err e = ERR_INIT;

	if (turn_read(g, turn_id, &text, &t, &e) != 0)
		return;
	mem_auto char *cwd = turn_cwd(&t);
	struct sampled *w = mem_zalloc(1, sizeof *w);
	memcpy(w->turn_id, t.turnId, ID_SIZE);
	w->said = json_loadb(payload, len, 0, NULL);
	if (!w->said)
		w->said = json_object();
	subject_of_turn(&t, HOOK_POST_SAMPLING, cwd, &s);
	hooks_wait(g, cwd, &s.by, sampled_known, w);
}

/* ---- user_prompt_submit ---- */

/* A turn that waits for user_prompt_submit. It holds its thread until the hooks have answered. */
struct hook_prompt {
	struct engine *engine;
	char thread_id[ID_SIZE], turn_id[ID_SIZE];
	char *prompt, *cwd;
	struct pending_reply reply; /* of submit_turn, unless it was sent before */
	struct buf data;            /* of an error */
	struct err err;
};

/* Releases the thread, which the next turn may then use. */
static void prompt_free(struct hook_prompt *w)
{
	if (strmap_get(&w->engine->turns->prompts, w->thread_id) == w)
		strmap_del(&w->engine->turns->prompts, w->thread_id);
	thread_release(w->engine, w->thread_id, w);
	reply_done(&w->reply);
	buf_done(&w->data);
	free(w->prompt);
	free(w->cwd);
	free(w);
}

static void prompt_drop(void *ctx) { prompt_free(ctx); }

/* The turn's end is durable: replies to submit_turn with the reason and starts the thread's next turn. */
static void prompt_refused(struct engine *g, const char *thread_id)
{
	struct hook_prompt *w = strmap_get(&g->turns->prompts, thread_id);

	if (!w)
		return;
	reply_err(&w->reply, &w->err, w->data.data, w->data.len);
	prompt_free(w);
	turn_thread_is_free(g, thread_id);
}

/* Ends the turn because a hook objects. `said` is the reason that the hook gave, or NULL. */
static void prompt_block(struct hook_prompt *w, const struct turn_doc *t, const char *reason, const char *said)
{
	struct transaction *own = transaction_new_internal(w->engine);
	buf_auto struct buf record = BUF_INIT;
	struct jw j = jw_on(&w->data);
	const struct turn_end end = { .status = "failed", .category = "hook", .message = reason };
	turn_end_facts(w->engine, t, &end, own);
	err_set(&w->err, ERR_PERMISSION, "the turn is not begun: %s", reason);
	jw_kstr(&j, "turnId", t->turnId);
	jw_kstr(&j, "threadId", t->threadId);
	jw_kstr(&j, "sessionId", t->sessionId);
	jw_kstr(&j, "decision", "block");
	jw_kopt(&j, "reason", said);
	/* The stored reply makes a repeated idempotent request fail in the same way. */
	reply_error_record(&w->err, w->data.data, w->data.len, &record);
	transaction_store_reply(own, &w->reply, record.data, record.len);
	transaction_after_commit(own, prompt_refused, w->thread_id);
	transaction_commit(own);
}

/* False: the turn has ended, and the waiting client has its reply. */
static bool prompt_turn(struct hook_prompt *w, struct buf *text, struct turn_doc *ret)
{
	struct engine *g = w->engine;
	struct err e = ERR_INIT;
	char thread[ID_SIZE];

	if (turn_read(g, w->turn_id, text, ret, &e) == 0 && !turn_doc_ended(ret) && !g->stopping)
		return true;
	/* It was interrupted meanwhile; or the daemon is stopping, and recovery will end it. */
	err_set(&w->err, ERR_UNAVAILABLE, "the turn was ended before it began");
	memcpy(thread, w->thread_id, sizeof thread);
	prompt_refused(g, thread);
	return false;
}

/* Starts the turn. The pending reply of submit_turn moves to the transaction that starts it. */
static void prompt_begin(struct hook_prompt *w, const struct turn_doc *t, const char *context)
{
	struct transaction *tx = transaction_new_internal(w->engine);

	transaction_give_reply(tx, &w->reply);
	turn_start_facts(w->engine, t, false, context, tx);
	jw_kstr(&tx->w, "sessionId", t->sessionId);
	jw_kstr(&tx->w, "threadId", t->threadId);
	jw_kstr(&tx->w, "turnId", t->turnId);
	jw_kstr(&tx->w, "status", "accepted");
	transaction_after_commit(tx, turn_step_due, t->turnId);
	prompt_free(w);
	transaction_commit(tx);
}

static void prompt_said(struct hook_group *group, void *ctx)
{
	struct hook_prompt *w = ctx;
	buf_auto struct buf text = BUF_INIT, context = BUF_INIT;
	struct jw refs = jw_on(&context);
	struct hook_result sum;
	struct turn_doc t;
	char reason[400];

	hook_group_sum(group, &sum);
	hook_context_refs(group, &refs);
	if (!prompt_turn(w, &text, &t))
		return;
	/* There is no approval for prompts, so "ask" blocks the turn like a denial. */
	if (sum.verdict >= HOOK_SAYS_ASK) {
		hook_result_reason(&sum, reason, sizeof reason);
		prompt_block(w, &t, reason, sum.by->answer.reason);
	} else {
		prompt_begin(w, &t, buf_cstr(&context));
	}
}

static void prompt_ask(struct hook_prompt *w, const struct turn_doc *t, const struct policy_hook *const *list, size_t n,
		       struct transaction *tx, struct hook_group **ret)
{
	struct hook_subject s;

	subject_of_turn(t, HOOK_USER_PROMPT_SUBMIT, w->cwd, &s);
	json_t *v = hook_input(&s, (int)permission_mode_of(w->engine, t->sessionId));
	json_object_set_new(v, "prompt", json_string(w->prompt));
	mem_auto char *input = hook_input_text(v);
	s.input = input;
	s.waits = "turn";
	*ret = hook_group_new(w->engine, &s, list, n, tx);
	(*ret)->drop = prompt_drop;
}

static void prompt_known(struct engine *g, const struct policy_hooks *hooks, const struct err *why, void *ctx)
{
	const struct policy_hook *list[HOOKS_SELECTED_MAX];
	struct hook_prompt *w = ctx;
	buf_auto struct buf text = BUF_INIT;
	struct hook_group *group;
	struct turn_doc t;

	if (!prompt_turn(w, &text, &t))
		return;
	/* Unknown hooks might object, so the turn does not start. */
	if (why) {
		char reason[400];

		snprintf(reason, sizeof reason, UNKNOWN "%.300s", why->message);
		prompt_block(w, &t, reason, NULL);
		return;
	}
	size_t n = hook_select(g, hooks, HOOK_USER_PROMPT_SUBMIT, NULL, list);
	if (!n) {
		prompt_begin(w, &t, NULL);
		return;
	}
	struct transaction *tx = transaction_new_internal(g);
	prompt_ask(w, &t, list, n, tx, &group);
	transaction_commit(tx);
	hook_group_run(group, prompt_said, w);
}

/* The text parts of the input, joined by newlines. */
static char *words_of(const json_t *input)
{
	struct buf out = BUF_INIT;
	const json_t *part;
	size_t i;

	json_array_foreach (input, i, part) {
		const char *text = json_string_value(json_object_get(part, "text"));

		if (text)
			buf_printf(&out, "%s%s", out.len ? "\n" : "", text);
	}
	return buf_take(&out);
}

bool turn_hooks_prompt(struct engine *g, const struct turn_doc *t, const json_t *input, struct transaction *tx)
{
	const struct policy_hooks *hooks = NULL;
	const struct policy_hook *list[HOOKS_SELECTED_MAX];
	struct hook_group *group = NULL;
	struct hook_subject s;

	if (!turn_driven_by_client(t))
		return false;
	mem_auto char *cwd = turn_cwd(t);
	subject_of_turn(t, HOOK_USER_PROMPT_SUBMIT, cwd, &s);
	/* If the workspace's hooks are not known yet, the turn has to wait even if there turn out to be none. */
	const bool known = hooks_for_workspace(g, cwd, &s.by, &hooks);
	size_t n = known ? hook_select(g, hooks, HOOK_USER_PROMPT_SUBMIT, NULL, list) : 0;
	if (known && !n)
		return false;
	struct hook_prompt *w = mem_zalloc(1, sizeof *w);
	w->engine = g;
	w->prompt = words_of(input);
	w->cwd = mem_take(&cwd);
	memcpy(w->thread_id, t->threadId, ID_SIZE);
	memcpy(w->turn_id, t->turnId, ID_SIZE);
	strmap_put(&g->turns->prompts, w->thread_id, w);
	thread_claim(g, w->thread_id, w->turn_id, w);
	transaction_take_reply(tx, &w->reply);
	/* hook.started goes into the batch of the transaction, so one commit has the turn and its hooks. */
	if (known)
		prompt_ask(w, t, list, n, tx, &group);
	transaction_commit(tx);
	if (known)
		hook_group_run(group, prompt_said, w);
	else
		hooks_wait(g, w->cwd, &s.by, prompt_known, w);
	return true;
}

/* ---- stop ---- */

struct stopping {
	struct engine *engine;
	char turn_id[ID_SIZE];
	struct transaction *transaction; /* the client's; NULL: a turn of the loop */
	char *outcome, *summary, *usage;
	char unknown[400]; /* why the hooks could not be determined; "" = they could */
};

static void stopping_free(struct stopping *w)
{
	if (strmap_get(&w->engine->turns->stops, w->turn_id) == w)
		strmap_del(&w->engine->turns->stops, w->turn_id);
	free(w->outcome);
	free(w->summary);
	free(w->usage);
	free(w);
}

static void stopping_drop(void *ctx)
{
	struct stopping *w = ctx;
	struct err e = ERR_INIT;

	err_set(&e, ERR_UNAVAILABLE, "the daemon is stopping");
	if (w->transaction)
		transaction_reject(w->transaction, &e);
	stopping_free(w);
}

/* True: a hook objects, or the hooks are not known and might. */
static bool hooks_object(const struct stopping *w, const struct hook_result *sum, char reason[400])
{
	if (w->unknown[0])
		snprintf(reason, 400, "%s", w->unknown);
	else if (sum->verdict >= HOOK_SAYS_ASK)
		hook_result_reason(sum, reason, 400);
	else
		return false;
	return true;
}

static void refuse_stop(struct stopping *w, const struct err *e, const struct hook_result *sum)
{
	buf_auto struct buf data = BUF_INIT;
	struct jw j = jw_on(&data);

	if (sum) {
		jw_kstr(&j, "turnId", w->turn_id);
		jw_kstr(&j, "decision", "block");
		jw_kopt(&j, "reason", sum->by ? sum->by->answer.reason : NULL);
	}
	transaction_reject_data(w->transaction, e, data.data, data.len);
}

static void end_now(struct stopping *w, const struct turn_doc *t, const struct hook_result *sum)
{
	struct transaction *tx = w->transaction ? w->transaction : transaction_new_internal(w->engine);
	char reason[400] = "";
	struct turn_end end = {
		.status = "completed", .outcome = w->outcome, .summary = w->summary, .usage = w->usage
	};

	if (hooks_object(w, sum, reason)) /* only a turn of the loop gets here: it cannot continue */
		end = (struct turn_end){ .status = "failed", .category = "hook", .message = reason };
	turn_end_facts(w->engine, t, &end, tx);
	if (w->transaction) {
		jw_kstr(&tx->w, "sessionId", t->sessionId);
		jw_kstr(&tx->w, "threadId", t->threadId);
		jw_kstr(&tx->w, "turnId", t->turnId);
		jw_kstr(&tx->w, "status", "completed");
	}
	transaction_after_commit(tx, turn_thread_is_free, t->threadId);
	transaction_commit(tx);
}

/* Continues when the hooks have answered, or if there are none. */
static void stop_go(struct stopping *w, const struct hook_result *sum)
{
	struct engine *g = w->engine;
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc t;
	struct err e = ERR_INIT;
	char reason[400];

	bool gone = turn_read(g, w->turn_id, &text, &t, &e) != 0 || turn_doc_ended(&t) || t.ending.type == JT_OBJECT ||
		    g->stopping;
	if (gone && w->transaction) {
		err_set(&e, ERR_STATE, "turn '%s' was ended while hooks checked it", w->turn_id);
		refuse_stop(w, &e, NULL);
	} else if (!gone && w->transaction && hooks_object(w, sum, reason)) {
		err_set(&e, ERR_STATE, "the turn continues: %s", reason);
		refuse_stop(w, &e, sum);
	} else if (!gone && w->transaction && turn_may_complete(g, &t, &e) < 0) {
		refuse_stop(w, &e, NULL);
	} else if (!gone) {
		end_now(w, &t, sum);
	}
	stopping_free(w);
}

static void stop_said(struct hook_group *group, void *ctx)
{
	struct hook_result sum;

	hook_group_sum(group, &sum);
	stop_go(ctx, &sum);
}

static void stop_known(struct engine *g, const struct policy_hooks *hooks, const struct err *why, void *ctx)
{
	static const struct hook_result nothing;
	const struct policy_hook *list[HOOKS_SELECTED_MAX];
	struct stopping *w = ctx;
	buf_auto struct buf text = BUF_INIT;
	size_t n = hook_select(g, hooks, HOOK_STOP, NULL, list);
	struct hook_subject s;
	struct turn_doc t;
	struct err e = ERR_INIT;

	if (why)
		snprintf(w->unknown, sizeof w->unknown, UNKNOWN "%.300s", why->message);
	if (why || !n || turn_read(g, w->turn_id, &text, &t, &e) != 0) {
		stop_go(w, &nothing);
		return;
	}
	mem_auto char *cwd = turn_cwd(&t);
	subject_of_turn(&t, HOOK_STOP, cwd, &s);
	json_t *v = hook_input(&s, (int)permission_mode_of(g, t.sessionId));
	json_object_set_new(v, "stop_hook_active", json_boolean(t.stopBlocked));
	if (w->summary)
		json_object_set_new(v, "last_assistant_message", json_string(w->summary));
	mem_auto char *input = hook_input_text(v);
	s.input = input;
	s.waits = "stop";
	struct transaction *tx = transaction_new_internal(g);
	struct hook_group *group = hook_group_new(g, &s, list, n, tx);
	group->drop = stopping_drop;
	transaction_commit(tx);
	hook_group_run(group, stop_said, w);
}

bool turn_hooks_stop(struct engine *g, const struct turn_doc *t, const struct turn_end *end, struct transaction *tx)
{
	const struct policy_hooks *hooks = NULL;
	struct hook_subject s;

	if (!tx && strmap_get(&g->turns->stops, t->turnId))
		return true;
	mem_auto char *cwd = turn_cwd(t);
	subject_of_turn(t, HOOK_STOP, cwd, &s);
	if (g->stopping || (hooks_for_workspace(g, cwd, &s.by, &hooks) && !hooks_are_at(hooks, HOOK_STOP)))
		return false;
	struct stopping *w = mem_zalloc(1, sizeof *w);
	*w = (struct stopping){ .engine = g,
				.transaction = tx,
				.outcome = mem_strdup(end->outcome),
				.summary = mem_strdup(end->summary),
				.usage = mem_strdup(end->usage) };
	memcpy(w->turn_id, t->turnId, ID_SIZE);
	strmap_put(&g->turns->stops, w->turn_id, w);
	if (tx) { /* these belong to the request, which is freed before the hooks answer */
		tx->caller.request_id = tx->caller.trace_id = tx->caller.span_id = tx->caller.channel_id = NULL;
		tx->caller.idem_key = tx->caller.idem_method = NULL;
	}
	hooks_wait(g, cwd, &s.by, stop_known, w);
	return true;
}

/* ---- after a restart ---- */

#define RECOVER_MAX 4096u

struct work_count {
	const char *turn_id;
	size_t count;
};

static void count_work(void *ctx, const char *id, void *value)
{
	const struct process *p = value;
	struct work_count *w = ctx;

	w->count += p->owner != OWNER_HOOK && strcmp(p->turn_id, w->turn_id) == 0;
}

static bool has_work(struct engine *g, const struct turn_doc *t)
{
	struct work_count w = { .turn_id = t->turnId };

	strmap_each(&g->processes->live, count_work, &w);
	return w.count || (t->openCalls != VIEW_ABSENT && t->openCalls);
}

/* Ends a turn that waited for hooks (before its start, or before its first process) and has no work left. */
static void recover_turn(struct engine *g, const char *turn_id)
{
	const struct turn_end begun = { .status = "failed",
					.category = "permission",
					.retryable = true,
					.message = "the runtime was restarted while hooks checked it" };
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc t;
	struct err e = ERR_INIT;
	struct turn_queue q;
	bool queued = false;

	if (turn_read(g, turn_id, &text, &t, &e) != 0 || turn_doc_ended(&t) || has_work(g, &t) ||
	    jval_is_str(t.source, "system"))
		return;
	if (!t.startedAt && turn_queue_read(g, t.threadId, &q, &e) == 0)
		for (size_t i = 0; i < q.count; i++)
			queued |= strcmp(q.ids[i], turn_id) == 0;
	if (queued || (t.startedAt && !jval_is_str(t.source, "process")))
		return;
	struct transaction *own = transaction_new_internal(g);
	turn_end_facts(g, &t, &begun, own);
	transaction_after_commit(own, turn_thread_is_free, t.threadId);
	transaction_commit(own);
}

void turn_hooks_recover(struct engine *g)
{
	view_ids_auto struct view_ids turns = VIEW_IDS_INIT;
	const struct view_ids_query open = { .kind = VIEW_LIVE_TURN, .prefix = "", .max = RECOVER_MAX };
	struct err e = ERR_INIT;

	if (view_ids(g->o.store, &open, &turns, NULL, &e) < 0)
		log_error("look for turns that waited for hooks: %s", e.message);
	for (size_t i = 0; i < turns.n; i++)
		recover_turn(g, turns.id[i]);
}
