/*
 * Hooks of turns.
 *
 *   user_prompt_submit  before a turn with text starts: it is submitted and holds its thread, but waits for the hooks
 *   stop                before a turn completes. If a hook objects, a turn that its client drives continues, and the
 *                       client gets the reason; a turn of the loop cannot continue and fails
 *   post_sampling       after a client reported a model's answer; nothing waits for these hooks
 */

#include "runtime/engine/hook/hook.h"
#include "runtime/engine/policy/policy_lookup.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/turn/turn_private.h"

#define UNKNOWN "the hooks cannot be determined: "

/* The directory of the turn's work, which determines the hooks that apply. Owned by the caller. */
static char *turn_cwd(const struct turn_doc *t)
{
	json_auto_t *where = turn_part_merged(NULL, t, NULL);
	const char *cwd = json_string_value(json_object_get(where, "cwd"));

	return mem_strdup(cwd ? cwd : HOOK_NOWHERE);
}

/* Hooks of a turn run with the identity of the client that submitted it. */
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
	json_t *answer;
};

static void sampled_known(struct engine *engine, const struct policy_hooks *hooks, const struct err *why, void *ctx)
{
	const struct policy_hook *list[HOOKS_SELECTED_MAX];
	struct sampled *w = ctx;
	buf_auto struct buf text = BUF_INIT;
	size_t n = hook_select(engine, hooks, HOOK_POST_SAMPLING, NULL, list);
	struct hook_subject s;
	struct turn_doc t;
	struct err e = ERR_INIT;

	if (n && turn_read(engine, w->turn_id, &text, &t, &e) == 0) {
		mem_auto char *cwd = turn_cwd(&t);

		subject_of_turn(&t, HOOK_POST_SAMPLING, cwd, &s);
		json_t *v = hook_input(&s, (int)permission_mode_of(engine, t.sessionId));
		json_object_set(v, "model_response", w->answer);
		mem_auto char *input = hook_input_text(v);
		s.input = input;
		struct transaction *tx = transaction_new_internal(engine);
		struct hook_group *group = hook_group_new(engine, &s, list, n, tx);
		transaction_commit(tx);
		hook_group_run(group, NULL, NULL);
	}
	json_decref(w->answer);
	free(w);
}

void turn_hooks_sampled(struct engine *engine, const char *turn_id, const char *payload, size_t len)
{
	buf_auto struct buf text = BUF_INIT;
	struct hook_subject s;
	struct turn_doc t;
	struct err e = ERR_INIT;

	if (turn_read(engine, turn_id, &text, &t, &e) != 0)
		return;
	mem_auto char *cwd = turn_cwd(&t);
	struct sampled *w = mem_zalloc(1, sizeof *w);
	memcpy(w->turn_id, t.turnId, ID_SIZE);
	w->answer = json_loadb(payload, len, 0, NULL);
	if (!w->answer)
		w->answer = json_object();
	subject_of_turn(&t, HOOK_POST_SAMPLING, cwd, &s);
	hooks_wait(engine, cwd, &s.by, sampled_known, w);
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
static void prompt_refused(struct engine *engine, const char *thread_id)
{
	struct hook_prompt *w = strmap_get(&engine->turns->prompts, thread_id);

	if (!w)
		return;
	reply_err(&w->reply, &w->err, w->data.data, w->data.len);
	prompt_free(w);
	turn_thread_is_free(engine, thread_id);
}

/* Ends the turn because a hook objects. `given` is the reason that the hook gave, or NULL. */
static void prompt_block(struct hook_prompt *w, const struct turn_doc *t, const char *reason, const char *given)
{
	struct transaction *own = transaction_new_internal(w->engine);
	buf_auto struct buf record = BUF_INIT;
	struct jw j = jw_on(&w->data);
	const struct turn_end end = { .status = "failed", .category = "hook", .message = reason };
	turn_end_facts(w->engine, t, &end, own);
	err_set(&w->err, ERR_PERMISSION, "the turn is not started: %s", reason);
	jw_kstr(&j, "turnId", t->turnId);
	jw_kstr(&j, "threadId", t->threadId);
	jw_kstr(&j, "sessionId", t->sessionId);
	jw_kstr(&j, "decision", "block");
	jw_kopt(&j, "reason", given);
	/* The stored reply makes a repeated idempotent request fail in the same way. */
	reply_error_record(&w->err, w->data.data, w->data.len, &record);
	transaction_store_reply(own, &w->reply, record.data, record.len);
	transaction_after_commit(own, prompt_refused, w->thread_id);
	transaction_commit(own);
}

/* False: the turn has ended, and the waiting client has its reply. */
static bool prompt_turn(struct hook_prompt *w, struct buf *text, struct turn_doc *ret)
{
	struct engine *engine = w->engine;
	struct err e = ERR_INIT;
	char thread[ID_SIZE];

	if (turn_read(engine, w->turn_id, text, ret, &e) == 0 && !turn_doc_ended(ret) && !engine->stopping)
		return true;
	/* It was interrupted meanwhile; or the daemon is stopping, and recovery will end it. */
	err_set(&w->err, ERR_UNAVAILABLE, "the turn was ended before it started");
	memcpy(thread, w->thread_id, sizeof thread);
	prompt_refused(engine, thread);
	return false;
}

/* Starts the turn. The pending reply of submit_turn moves to the transaction that starts it. */
static void prompt_begin(struct hook_prompt *w, const struct turn_doc *t, const char *context)
{
	struct transaction *tx = transaction_new_internal(w->engine);

	transaction_give_reply(tx, &w->reply);
	turn_start_facts(w->engine, t, false, context, tx);
	turn_result(tx, t, "accepted");
	transaction_after_commit(tx, turn_step_due, t->turnId);
	prompt_free(w);
	transaction_commit(tx);
}

/*
 * All hooks have answered; the worst verdict decides. Context that they added is recorded with the start of the turn.
 */
static void prompt_replied(struct hook_group *group, void *ctx)
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
	if (sum.verdict >= HOOK_VERDICT_ASK) {
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

/* The hooks of the workspace were not known when the turn was submitted, and are known now (or cannot be). */
static void prompt_known(struct engine *engine, const struct policy_hooks *hooks, const struct err *why, void *ctx)
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
	size_t n = hook_select(engine, hooks, HOOK_USER_PROMPT_SUBMIT, NULL, list);
	if (!n) {
		prompt_begin(w, &t, NULL);
		return;
	}
	struct transaction *tx = transaction_new_internal(engine);
	prompt_ask(w, &t, list, n, tx, &group);
	transaction_commit(tx);
	hook_group_run(group, prompt_replied, w);
}

bool turn_hooks_prompt(struct engine *engine, const struct turn_doc *t, const json_t *input, struct transaction *tx)
{
	const struct policy_hooks *hooks = NULL;
	const struct policy_hook *list[HOOKS_SELECTED_MAX];
	struct hook_group *group = NULL;
	struct hook_subject s;

	if (!turn_driven_by_client(t) && !turn_driven_by_loop(t))
		return false;
	mem_auto char *cwd = turn_cwd(t);
	subject_of_turn(t, HOOK_USER_PROMPT_SUBMIT, cwd, &s);
	/* If the workspace's hooks are not known yet, the turn has to wait even if there turn out to be none. */
	const bool known = hooks_for_workspace(engine, cwd, &s.by, &hooks);
	size_t n = known ? hook_select(engine, hooks, HOOK_USER_PROMPT_SUBMIT, NULL, list) : 0;
	if (known && !n)
		return false;
	struct hook_prompt *w = mem_zalloc(1, sizeof *w);
	w->engine = engine;
	/* The prompt is the text parts of the input, joined by newlines. */
	struct buf prompt = BUF_INIT;
	const json_t *part;
	size_t i;
	json_array_foreach (input, i, part) {
		const char *text = json_string_value(json_object_get(part, "text"));

		if (text)
			buf_printf(&prompt, "%s%s", prompt.len ? "\n" : "", text);
	}
	w->prompt = buf_take(&prompt);
	w->cwd = mem_take(&cwd);
	memcpy(w->thread_id, t->threadId, ID_SIZE);
	memcpy(w->turn_id, t->turnId, ID_SIZE);
	strmap_put(&engine->turns->prompts, w->thread_id, w);
	thread_claim(engine, w->thread_id, w->turn_id, w);
	transaction_take_reply(tx, &w->reply);
	/* hook.started goes into the batch of the transaction, so one commit has the turn and its hooks. */
	if (known)
		prompt_ask(w, t, list, n, tx, &group);
	transaction_commit(tx);
	if (known)
		hook_group_run(group, prompt_replied, w);
	else
		hooks_wait(engine, w->cwd, &s.by, prompt_known, w);
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

/* The group was dropped at shutdown: the client has to repeat its request. */
static void stopping_drop(void *ctx)
{
	struct stopping *w = ctx;
	struct err e = ERR_INIT;

	err_set(&e, ERR_UNAVAILABLE, "the daemon is stopping");
	if (w->transaction)
		transaction_reject(w->transaction, &e);
	stopping_free(w);
}

/* Input of steer_turn that no request has sent yet. */
static bool turn_has_unsent(const struct turn_doc *t)
{
	uint64_t n = 0;

	for (struct jiter it = jiter_on(t->steers); jiter_next(&it);)
		n++;
	return n > view_counted(t->steered);
}

/*
 * Continues when the hooks have answered, or if there are none. A client gets their objection as the rejection of its
 * request; a turn of the loop cannot continue and fails.
 */
static void stop_go(struct stopping *w, const struct hook_result *sum)
{
	struct engine *engine = w->engine;
	buf_auto struct buf text = BUF_INIT, data = BUF_INIT;
	struct jw j = jw_on(&data);
	struct turn_doc t;
	struct err e = ERR_INIT;
	char reason[400] = "";

	bool gone = turn_read(engine, w->turn_id, &text, &t, &e) != 0 || turn_doc_ended(&t) || turn_is_ending(&t) ||
		    engine->stopping;
	if (w->unknown[0]) /* hooks that are not known might object */
		snprintf(reason, sizeof reason, "%s", w->unknown);
	else if (sum->verdict >= HOOK_VERDICT_ASK)
		hook_result_reason(sum, reason, sizeof reason);
	if (!gone && !w->transaction && turn_driven_by_loop(&t) && turn_has_unsent(&t)) {
		/* Input arrived while the hooks ran: the loop sends it, and the hooks run again at the next end. */
		char turn_id[ID_SIZE];

		id_copy(turn_id, w->turn_id);
		stopping_free(w);
		return turn_step_due(engine, turn_id);
	} else if (gone) {
		err_set(&e, ERR_STATE, "turn '%s' was ended while its hooks ran", w->turn_id);
	} else if (w->transaction && reason[0]) {
		err_set(&e, ERR_STATE, "the turn continues: %s", reason);
		jw_kstr(&j, "turnId", w->turn_id);
		jw_kstr(&j, "decision", "block");
		jw_kopt(&j, "reason", sum->by ? sum->by->answer.reason : NULL);
	} else if (!w->transaction || turn_may_complete(engine, &t, &e) == 0) {
		struct transaction *tx = w->transaction ? w->transaction : transaction_new_internal(engine);
		struct turn_end end = {
			.status = "completed", .outcome = w->outcome, .summary = w->summary, .usage = w->usage
		};

		if (reason[0])
			end = (struct turn_end){ .status = "failed", .category = "hook", .message = reason };
		turn_end_facts(engine, &t, &end, tx);
		if (w->transaction)
			turn_result(tx, &t, "completed");
		transaction_after_commit(tx, turn_thread_is_free, t.threadId);
		transaction_commit(tx);
		w->transaction = NULL;
	}
	if (w->transaction)
		transaction_reject_data(w->transaction, &e, data.data, data.len);
	stopping_free(w);
}

static void stop_replied(struct hook_group *group, void *ctx)
{
	struct hook_result sum;

	hook_group_sum(group, &sum);
	stop_go(ctx, &sum);
}

static void stop_known(struct engine *engine, const struct policy_hooks *hooks, const struct err *why, void *ctx)
{
	static const struct hook_result nothing;
	const struct policy_hook *list[HOOKS_SELECTED_MAX];
	struct stopping *w = ctx;
	buf_auto struct buf text = BUF_INIT;
	size_t n = hook_select(engine, hooks, HOOK_STOP, NULL, list);
	struct hook_subject s;
	struct turn_doc t;
	struct err e = ERR_INIT;

	if (why)
		snprintf(w->unknown, sizeof w->unknown, UNKNOWN "%.300s", why->message);
	if (why || !n || turn_read(engine, w->turn_id, &text, &t, &e) != 0) {
		stop_go(w, &nothing);
		return;
	}
	mem_auto char *cwd = turn_cwd(&t);
	subject_of_turn(&t, HOOK_STOP, cwd, &s);
	json_t *v = hook_input(&s, (int)permission_mode_of(engine, t.sessionId));
	json_object_set_new(v, "stop_hook_active", json_boolean(t.stopBlocked));
	if (w->summary)
		json_object_set_new(v, "last_assistant_message", json_string(w->summary));
	mem_auto char *input = hook_input_text(v);
	s.input = input;
	s.waits = "stop";
	struct transaction *tx = transaction_new_internal(engine);
	struct hook_group *group = hook_group_new(engine, &s, list, n, tx);
	group->drop = stopping_drop;
	transaction_commit(tx);
	hook_group_run(group, stop_replied, w);
}

bool turn_stop_pending(const struct engine *engine, const char *turn_id)
{
	return strmap_get(&engine->turns->stops, turn_id) != NULL;
}

/* The loop may ask again while hooks run, at each event of the turn: they run once. */
bool turn_hooks_stop(struct engine *engine, const struct turn_doc *t, const struct turn_end *end,
		     struct transaction *tx)
{
	const struct policy_hooks *hooks = NULL;
	struct hook_subject s;

	if (!tx && turn_stop_pending(engine, t->turnId))
		return true;
	mem_auto char *cwd = turn_cwd(t);
	subject_of_turn(t, HOOK_STOP, cwd, &s);
	if (engine->stopping || (hooks_for_workspace(engine, cwd, &s.by, &hooks) && !hooks_are_at(hooks, HOOK_STOP)))
		return false;
	struct stopping *w = mem_zalloc(1, sizeof *w);
	*w = (struct stopping){ .engine = engine,
				.transaction = tx,
				.outcome = mem_strdup(end->outcome),
				.summary = mem_strdup(end->summary),
				.usage = mem_strdup(end->usage) };
	memcpy(w->turn_id, t->turnId, ID_SIZE);
	strmap_put(&engine->turns->stops, w->turn_id, w);
	if (tx) { /* these belong to the request, which is freed before the hooks answer */
		tx->caller.request_id = tx->caller.trace_id = tx->caller.span_id = tx->caller.channel_id = NULL;
		tx->caller.idem_key = tx->caller.idem_method = NULL;
	}
	hooks_wait(engine, cwd, &s.by, stop_known, w);
	return true;
}

/* ---- after a restart ---- */

/* Ends turns that waited for hooks (before their start, or before their first process) and have no work left. */
void turn_hooks_recover(struct engine *engine)
{
	const struct turn_end end = { .status = "failed",
				      .category = "permission",
				      .retryable = true,
				      .message = "the runtime was restarted while hooks ran" };
	view_ids_auto struct view_ids turns = VIEW_IDS_INIT;

	id_list_read(engine, VIEW_LIVE_TURN, NULL, ID_LIST_ALL, &turns);
	for (size_t i = 0; i < turns.n; i++) {
		buf_auto struct buf text = BUF_INIT;
		struct turn_queue q;
		struct turn_doc t;
		struct err e = ERR_INIT;

		if (turn_read(engine, turns.id[i], &text, &t, &e) != 0 || turn_doc_ended(&t) ||
		    turn_has_work(engine, &t) || jval_is_str(t.source, "system"))
			continue;
		if (t.startedAt ? !jval_is_str(t.source, "process")
				: turn_queue_read(engine, t.threadId, &q, &e) == 0 &&
					  id_list_has(q.ids, q.count, turns.id[i]))
			continue;
		struct transaction *own = transaction_new_internal(engine);
		turn_end_facts(engine, &t, &end, own);
		transaction_after_commit(own, turn_thread_is_free, t.threadId);
		transaction_commit(own);
	}
}
