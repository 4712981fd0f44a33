/*
 * Hooks before and after tool calls that a client or the engine itself executes. tool_permission.c evaluates such
 * calls: it runs the hooks here and continues with the arguments as they rewrote them. Those of a process are in hook/,
 * but a call of the shell that leaves its process running ends here.
 */

#include "runtime/engine/call/tool_call.h"

#include "policy/command_analysis.h"
#include "policy/command_text.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/engine/call/tool_result.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/policy/policy_lookup.h"
#include "runtime/engine/session/turn_read.h"

#define RESPONSE_MAX (256u << 10)
#define PREVIEW_BYTES 2048u

/* The index in replies, requested and sum: 0 = pre_tool_use, 1 = permission_request. */
static int stage_of(enum hook_point point) { return point == HOOK_PERMISSION_REQUEST; }

/* Hooks that still run keep running, but their group no longer calls back. */
void tool_hooks_done(struct tool_hooks *h)
{
	if (h->group)
		h->group->then = NULL;
	for (int i = 0; i < 2; i++)
		hook_replies_free(h->replies[i], h->nreplies[i]);
	free(h->updated_ref);
	*h = (struct tool_hooks){ 0 };
}

static void subject_of(const struct tool_hooks_use *u, enum hook_point point, struct hook_subject *ret)
{
	*ret = (struct hook_subject){ .point = point,
				      .uid = (uint32_t)u->turn->uid,
				      .by = *u->by,
				      .session_id = u->turn->sessionId,
				      .thread_id = u->turn->threadId,
				      .turn_id = u->turn->turnId,
				      .task_id = u->turn->taskId,
				      .tool_call_id = u->call_id,
				      .trace_id = u->turn->traceId,
				      .cwd = u->cwd && u->cwd[0] ? u->cwd : HOOK_NOWHERE,
				      .untrusting = u->mode == MODE_UNTRUSTED };
	/* The hooks run with the identity of the turn's user, not of the client that sent the request. */
	ret->by.uid = (uint32_t)u->turn->uid;
}

/* The JSON that a hook reads from its stdin, in the names of the convention (tool_name, tool_input). */
static json_t *input_of(const struct hook_subject *s, const struct tool_hooks_use *u, const struct hook_tool *tool)
{
	json_t *v = hook_input(s, u->mode);

	json_object_set_new(v, "tool_name", json_string(tool->names[0]));
	json_object_set(v, "tool_input", tool->input);
	json_object_set_new(v, "tool_use_id", json_string(u->call_id));
	return v;
}

/* Stores the answers of one stage, and continues the evaluation. */
static void on_replies(struct hook_group *group, void *ctx)
{
	struct tool_hooks *h = ctx;
	const int stage = stage_of(group->point);
	struct hook_result sum;

	hook_group_sum(group, &sum);
	if (sum.rewriter && sum.verdict != HOOK_VERDICT_DENY && hook_group_input_ref(group, sum.rewriter)) {
		free(h->updated_ref);
		h->updated_ref = mem_strdup(hook_group_input_ref(group, sum.rewriter));
	}
	hook_group_take(group, &h->replies[stage], &h->nreplies[stage]);
	hook_result_of(h->replies[stage], h->nreplies[stage], &h->sum[stage]);
	h->fresh = h->sum[stage].verdict != HOOK_VERDICT_DENY ? h->sum[stage].rewriter : NULL;
	h->group = NULL;
	h->go(group->engine, h->ctx);
}

bool tool_hooks_prepare(struct engine *engine, struct tool_hooks *h, enum hook_point point,
			const struct tool_hooks_use *u)
{
	const struct policy_hook *list[HOOKS_SELECTED_MAX];
	struct hook_tool tool;
	struct hook_subject s;
	size_t n = 0;

	if (h->requested[stage_of(point)])
		return false;
	h->requested[stage_of(point)] = true;
	if (!hooks_are_at(u->hooks, point))
		return false;
	hook_tool_of_call(u->tool, u->arguments, u->cwd, &tool);
	const struct hook_query q = { .point = point, .name = tool.names, .nnames = tool.nnames, .use = u->use };
	n = policy_hooks_select(u->hooks, &q, list);
	if (n) {
		subject_of(u, point, &s);
		json_t *v = input_of(&s, u, &tool);
		if (point == HOOK_PERMISSION_REQUEST)
			json_object_set_new(v, "permission_suggestions", json_array());
		struct hook_texts texts;
		hook_texts_of(&tool, v, &texts);
		s.texts = &texts;
		s.waits = "call";
		struct transaction *tx = transaction_new_internal(engine);
		h->group = hook_group_new(engine, &s, list, n, tx);
		hook_texts_done(&texts);
		transaction_commit(tx);
	}
	hook_tool_done(&tool);
	return n > 0;
}

void tool_hooks_run(struct tool_hooks *h, void (*go)(struct engine *engine, void *ctx), void *ctx)
{
	h->go = go;
	h->ctx = ctx;
	hook_group_run(h->group, on_replies, h);
}

json_t *tool_hooks_rewritten(struct tool_hooks *h, const char *tool, const json_t *arguments)
{
	json_t *input = h->fresh ? json_loads(h->fresh->answer.input, 0, NULL) : NULL, *made;

	h->fresh = NULL;
	if (!input)
		return NULL;
	made = hook_tool_arguments(tool, arguments, NULL, input);
	json_decref(input);
	return made;
}

/* ---- after the call ---- */

struct call_ended {
	struct engine *engine;
	char call_id[ID_SIZE], cwd[4096];
};

/* The result can be read now. */
static void release(struct engine *engine, const char *call_id)
{
	strmap_del(&engine->calls->hooked, call_id);
	tool_call_ended(engine, call_id);
}

/* Answers of hooks after a call change nothing about it; they are recorded, and the waiting clients get the result. */
static void after_replies(struct hook_group *group, void *ctx)
{
	struct call_ended *w = ctx;

	hook_on_reply(group);
	release(w->engine, w->call_id);
	free(w);
}

/* The result as it was reported; of a report about a process, which has only references, the text that a model reads.
 */
static json_t *response_of(struct engine *engine, const struct tool_call_doc *d)
{
	buf_auto struct buf result = BUF_INIT, shown = BUF_INIT;
	char ref[ID_SIZE] = "";
	struct err e = ERR_INIT;
	json_t *response = NULL;
	struct jval report;
	bool failed;

	if (tool_result_report(engine, d, &result, &report)) {
		mem_auto char *id = jval_strdup(jval_get(report, "processId"));

		tool_result_text(engine, d, 0, &shown, &failed);
		return json_pack("{s:s%,s:s,s:b,s:s,s:b}", "stdout", buf_cstr(&shown), shown.len, "stderr", "",
				 "interrupted", 0, "process_id", id, "running",
				 jval_bool(jval_get(report, "running"), false));
	}
	buf_reset(&result);
	jval_str(d->rawOutputRef, ref, sizeof ref);
	if (ref[0] && store_output_read(engine->o.store, ref, 0, RESPONSE_MAX, &result, &e) == 0)
		response = json_loadb(buf_cstr(&result), result.len, JSON_DECODE_ANY, NULL);
	return response ? response : json_object();
}

/* The command line of the shell; of separate words, quoted for a shell. */
static void write_line(const json_t *args, struct buf *out)
{
	const json_t *line = json_object_get(args, "commandLine"), *word;
	size_t i;

	line = line ? line : json_object_get(args, "command");
	buf_str(out, json_is_string(line) ? json_string_value(line) : "");
	json_array_foreach (line, i, word) {
		if (i)
			buf_byte(out, ' ');
		command_quote(json_string_value(word), json_string_length(word), out);
	}
}

/* The hooks that run after a call. */
struct after_hooks {
	enum hook_point point;
	struct hook_tool tool;
	const struct policy_hook *list[HOOKS_SELECTED_MAX];
	size_t n;
};

/* As before its start, conditions about commands apply to the command of the shell. */
static void select_after(const struct policy_hooks *hooks, const struct tool_call_doc *d, const json_t *args,
			 const char *cwd, struct after_hooks *ret)
{
	const bool shell = strcmp(d->runner, "runtime") == 0 && strcmp(d->toolName, "shell") == 0;
	buf_auto struct buf line = BUF_INIT;
	const struct analysis_options how = { .cwd = cwd[0] ? cwd : "/", .workspace = cwd[0] ? cwd : NULL };
	command_facts_auto struct command_facts facts = { 0 };
	const struct rules_query use = { .facts = shell ? &facts : NULL,
					 .tool = shell ? NULL : d->toolName,
					 .bases = { .cwd = cwd, .workspace = shell ? how.workspace : NULL } };

	if (shell) {
		write_line(args, &line);
		command_analyse_line(buf_cstr(&line), line.len, &how, &facts);
		hook_tool_of_command(buf_cstr(&line), NULL, LIMIT_NONE, &ret->tool);
	} else {
		hook_tool_of_call(d->toolName, args, cwd, &ret->tool);
	}
	ret->point = strcmp(d->status, "completed") == 0 ? HOOK_POST_TOOL_USE : HOOK_POST_TOOL_FAILURE;
	const struct hook_query q = {
		.point = ret->point, .name = ret->tool.names, .nnames = ret->tool.nnames, .use = &use
	};
	ret->n = policy_hooks_select(hooks, &q, ret->list);
}

/* Runs these hooks with the call's result, then releases the replies of its waiting clients. */
static void start_after(struct engine *engine, struct call_ended *w, const struct tool_call_doc *d,
			const struct turn_doc *t, const struct after_hooks *h)
{
	struct requester by;
	struct hook_subject s;
	struct hook_texts texts;

	turn_requester(t, &by);
	const struct tool_hooks_use u = { .turn = t,
					  .tool = d->toolName,
					  .call_id = d->toolCallId,
					  .cwd = w->cwd,
					  .by = &by,
					  .mode = (int)permission_mode_of(engine, t->sessionId) };
	subject_of(&u, h->point, &s);
	json_t *v = input_of(&s, &u, &h->tool);
	json_object_set_new(v, "tool_response", response_of(engine, d));
	if (h->point == HOOK_POST_TOOL_FAILURE) {
		mem_auto char *why = jval_strdup(d->message);

		json_object_set_new(v, "error", json_string(why ? why : d->status));
		json_object_set_new(v, "is_interrupt", json_boolean(strcmp(d->status, "cancelled") == 0));
	}
	hook_texts_of(&h->tool, v, &texts);
	s.texts = &texts;
	s.waits = HOOK_WAITS_RESULT;
	struct transaction *tx = transaction_new_internal(engine);
	struct hook_group *group = hook_group_new(engine, &s, h->list, h->n, tx);
	hook_texts_done(&texts);
	group->drop = free;
	transaction_commit(tx);
	hook_group_run(group, after_replies, w);
}

/*
 * The hooks of the workspace are known. The call or its turn may be gone by now, and the daemon may be stopping; the
 * waiting clients get their reply in any case.
 */
static void after_hooks_known(struct engine *engine, const struct policy_hooks *hooks, const struct err *unknown,
			      void *ctx)
{
	struct call_ended *w = ctx;
	buf_auto struct buf text = BUF_INIT, turn_text = BUF_INIT;
	struct after_hooks h;
	struct tool_call_doc d;
	struct turn_doc t;
	struct err e = ERR_INIT;

	if (engine->stopping || tool_call_read(engine, w->call_id, &text, &d, &e) != 0 ||
	    turn_read(engine, d.turnId, &turn_text, &t, &e) != 0) {
		release(engine, w->call_id);
		free(w);
		return;
	}
	json_t *args = tool_call_arguments(engine, &d, &e);
	select_after(hooks, &d, args, w->cwd, &h);
	if (h.n) {
		start_after(engine, w, &d, &t, &h);
	} else {
		release(engine, w->call_id);
		free(w);
	}
	hook_tool_done(&h.tool);
	json_decref(args);
}

/*
 * The end of the call is durable. The directory is copied: the policy files may have to be read first, which outlives
 * the documents. It is that of the command, if the call has one.
 */
static void run_after(struct engine *engine, const char *call_id)
{
	buf_auto struct buf text = BUF_INIT, turn_text = BUF_INIT;
	struct tool_call_doc d;
	struct turn_doc t;
	struct requester by;
	struct err e = ERR_INIT;
	buf_auto struct buf process_text = BUF_INIT;

	if (tool_call_read(engine, call_id, &text, &d, &e) != 0 ||
	    turn_read(engine, d.turnId, &turn_text, &t, &e) != 0) {
		release(engine, call_id);
		return;
	}
	json_t *where = turn_part_merged(NULL, &t, NULL);
	const char *cwd = json_string_value(json_object_get(where, "cwd"));
	struct call_ended *w = mem_zalloc(1, sizeof *w);
	struct process_doc p;
	w->engine = engine;
	id_copy(w->call_id, call_id);
	snprintf(w->cwd, sizeof w->cwd, "%s", cwd ? cwd : "");
	if (d.processId[0] && view_read(engine->o.store, &process_schema, d.processId, &process_text, &p, &e) == 0)
		jval_str(p.cwd, w->cwd, sizeof w->cwd);
	turn_requester(&t, &by);
	hooks_wait(engine, none_if_empty(w->cwd), &by, after_hooks_known, w);
	json_decref(where);
}

/* Marked before the commit: the end of another call continues the turn, too. */
void tool_hooks_follow(struct transaction *tx, const char *call_id)
{
	strmap_put(&tx->engine->calls->hooked, call_id, tx->engine);
	transaction_after_commit(tx, run_after, call_id);
}

bool tool_hooks_pending(struct engine *engine, const char *call_id)
{
	return strmap_get(&engine->calls->hooked, call_id) || strmap_get(&engine->calls->ending, call_id);
}

struct pending_parts {
	struct engine *engine;
	const char *turn_id;
	size_t count;
};

static void count_part(void *ctx, const char *call_id, void *value)
{
	struct pending_parts *of = ctx;
	buf_auto struct buf text = BUF_INIT;
	struct tool_call_doc d;
	struct err e = ERR_INIT;

	of->count += tool_call_read(of->engine, call_id, &text, &d, &e) == 0 && d.part != VIEW_ABSENT &&
		     strcmp(d.turnId, of->turn_id) == 0;
}

size_t tool_hooks_pending_parts(struct engine *engine, const char *turn_id)
{
	struct pending_parts of = { .engine = engine, .turn_id = turn_id };

	strmap_each(&engine->calls->hooked, count_part, &of);
	strmap_each(&engine->calls->ending, count_part, &of);
	return of.count;
}

/* ---- after a restart ---- */

void tool_hooks_recover(struct engine *engine)
{
	struct hook_group *group;

	TAILQ_FOREACH (group, &engine->hook->groups, link) {
		if (!group->resumed || !group->tool_call_id[0])
			continue;
		struct call_ended *w = mem_zalloc(1, sizeof *w);
		w->engine = engine;
		id_copy(w->call_id, group->tool_call_id);
		group->then = after_replies;
		group->ctx = w;
		group->drop = free;
		strmap_put(&engine->calls->hooked, w->call_id, engine);
	}
}

/* Collects the calls whose hooks were started at their end. */
static bool note_hook_after(void *ctx, const struct event_view *ev)
{
	struct strmap *started = ctx;
	char call_id[ID_SIZE];

	if (ev->type == EVENT_HOOK_STARTED) {
		struct jval point = jval_get(event_payload(ev), "hookPoint");

		event_id_copy(ev, ID_TOOL_CALL, call_id, sizeof call_id);
		if (jval_is_str(point, "post_tool_use") || jval_is_str(point, "post_tool_failure"))
			strmap_put(started, call_id, started);
	}
	return true;
}

/*
 * Has the call ended without its hooks? hook.started is durable before a hook runs: without it, none has run. The hooks
 * of a call with a process are selected at the end of the process, which is not repeated.
 */
static bool missed_hooks(struct engine *engine, const char *call_id, const struct strmap *started)
{
	buf_auto struct buf text = BUF_INIT;
	struct tool_call_doc d;
	struct err e = ERR_INIT;

	return !tool_hooks_pending(engine, call_id) && !strmap_get(started, call_id) &&
	       tool_call_read(engine, call_id, &text, &d, &e) == 0 && strcmp(d.status, "completed") == 0 &&
	       !d.processId[0];
}

bool tool_hooks_resume(struct engine *engine, const char *turn_id, const char (*call_ids)[ID_SIZE], size_t n)
{
	const struct store_query q = { .index = ID_TURN, .id = turn_id, .kept = true };
	bool *missed = mem_zalloc(n + 1, sizeof *missed), any = false;
	struct strmap started = STRMAP_INIT;
	struct err e = ERR_INIT;

	/* If the log cannot be read, a hook might have run: it does not run again. */
	if (store_events(engine->o.store, &q, note_hook_after, &started, &e) < 0) {
		engine_warn(engine, "hooks_skipped", "run bailiff store verify",
			    "hooks after the last calls of turn %s may not have run: %s", turn_id, e.message);
		n = 0;
	}
	/* All are marked first: the end of one continues the turn. */
	for (size_t i = 0; i < n; i++)
		if ((missed[i] = missed_hooks(engine, call_ids[i], &started))) {
			strmap_put(&engine->calls->hooked, call_ids[i], engine);
			any = true;
		}
	for (size_t i = 0; i < n; i++)
		if (missed[i])
			run_after(engine, call_ids[i]);
	strmap_done(&started);
	free(missed);
	return any;
}

/* ---- the end of a call ---- */

void tool_call_finish(const struct tool_call_doc *d, const char *text, size_t len, struct transaction *tx)
{
	mem_auto char *preview = mem_strndup(text, text_utf8_cut(text, len < PREVIEW_BYTES ? len : PREVIEW_BYTES));
	char ref[ID_TEXT_MAX];

	id_make(ID_KIND_OUTPUT, ref);
	transaction_add_output(tx, ref, text, len);
	EMIT(tool_result, tx, tool_call_scope(d), .envelope.status = "completed", .rawOutputRef = ref,
	     .rawOutputBytes = opt_int((int64_t)len), .structuredContentRef = ref, .displayPreview = preview,
	     .part = opt_int_if(d->part != VIEW_ABSENT, d->part));
	tool_hooks_follow(tx, d->toolCallId);
}
