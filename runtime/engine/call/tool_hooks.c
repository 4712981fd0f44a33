/*
 * Hooks before and after tool calls that a client executes. tool_permission.c evaluates such calls: it runs the hooks
 * here and continues with the arguments as they rewrote them.
 */

#include "runtime/engine/call/tool_call.h"

#include "runtime/base/mem.h"
#include "runtime/base/text.h"
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
		hook_said_free(h->replies[i], h->nreplies[i]);
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
	if (sum.rewriter && sum.verdict != HOOK_SAYS_DENY && hook_group_input_ref(group, sum.rewriter)) {
		free(h->updated_ref);
		h->updated_ref = mem_strdup(hook_group_input_ref(group, sum.rewriter));
	}
	hook_group_take(group, &h->replies[stage], &h->nreplies[stage]);
	hook_result_of(h->replies[stage], h->nreplies[stage], &h->sum[stage]);
	h->fresh = h->sum[stage].verdict != HOOK_SAYS_DENY ? h->sum[stage].rewriter : NULL;
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

/* Answers of hooks after a call change nothing about it; they are recorded, and the waiting clients get the result. */
static void after_replies(struct hook_group *group, void *ctx)
{
	struct call_ended *w = ctx;

	hook_on_reply(group);
	tool_call_ended(w->engine, w->call_id);
	free(w);
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
	const struct policy_hook *list[HOOKS_SELECTED_MAX];
	struct tool_call_doc d;
	struct turn_doc t;
	struct requester by;
	struct err e = ERR_INIT;
	size_t n = 0;

	if (engine->stopping || tool_call_read(engine, w->call_id, &text, &d, &e) != 0 ||
	    turn_read(engine, d.turnId, &turn_text, &t, &e) != 0) {
		tool_call_ended(engine, w->call_id);
		free(w);
		return;
	}
	const bool good = strcmp(d.status, "completed") == 0;
	const enum hook_point point = good ? HOOK_POST_TOOL_USE : HOOK_POST_TOOL_FAILURE;
	json_t *args = tool_call_arguments(engine, &d, &e);
	struct hook_tool tool;
	hook_tool_of_call(d.toolName, args, w->cwd, &tool);
	const struct rules_query use = { .tool = d.toolName, .bases = { .cwd = w->cwd } };
	const struct hook_query q = { .point = point, .name = tool.names, .nnames = tool.nnames, .use = &use };
	n = policy_hooks_select(hooks, &q, list);
	if (n) {
		struct hook_subject s;

		turn_requester(&t, &by);
		const struct tool_hooks_use u = { .turn = &t,
						  .tool = d.toolName,
						  .call_id = d.toolCallId,
						  .cwd = w->cwd,
						  .by = &by,
						  .mode = (int)permission_mode_of(engine, t.sessionId) };
		subject_of(&u, point, &s);
		json_t *v = input_of(&s, &u, &tool);
		/* The result that the client reported; an object if there is none or it is not JSON. */
		buf_auto struct buf result = BUF_INIT;
		char ref[ID_SIZE] = "";
		json_t *response = NULL;
		jval_str(d.rawOutputRef, ref, sizeof ref);
		if (ref[0] && store_output_read(engine->o.store, ref, 0, RESPONSE_MAX, &result, &e) == 0)
			response = json_loadb(buf_cstr(&result), result.len, JSON_DECODE_ANY, NULL);
		json_object_set_new(v, "tool_response", response ? response : json_object());
		if (!good) {
			mem_auto char *why = jval_strdup(d.message);

			json_object_set_new(v, "error", json_string(why ? why : d.status));
			json_object_set_new(v, "is_interrupt", json_boolean(strcmp(d.status, "cancelled") == 0));
		}
		struct hook_texts texts;
		hook_texts_of(&tool, v, &texts);
		s.texts = &texts;
		struct transaction *tx = transaction_new_internal(engine);
		struct hook_group *group = hook_group_new(engine, &s, list, n, tx);
		hook_texts_done(&texts);
		group->drop = free;
		transaction_commit(tx);
		hook_group_run(group, after_replies, w);
	} else {
		tool_call_ended(engine, w->call_id);
		free(w);
	}
	hook_tool_done(&tool);
	json_decref(args);
}

/* The directory is copied: the policy files may have to be read first, which outlives the documents. */
void tool_hooks_after(struct engine *engine, const char *call_id)
{
	buf_auto struct buf text = BUF_INIT, turn_text = BUF_INIT;
	struct tool_call_doc d;
	struct turn_doc t;
	struct requester by;
	struct err e = ERR_INIT;

	if (tool_call_read(engine, call_id, &text, &d, &e) != 0 ||
	    turn_read(engine, d.turnId, &turn_text, &t, &e) != 0) {
		tool_call_ended(engine, call_id);
		return;
	}
	json_t *where = turn_part_merged(NULL, &t, NULL);
	const char *cwd = json_string_value(json_object_get(where, "cwd"));
	struct call_ended *w = mem_zalloc(1, sizeof *w);
	w->engine = engine;
	id_copy(w->call_id, call_id);
	snprintf(w->cwd, sizeof w->cwd, "%s", cwd ? cwd : "");
	turn_requester(&t, &by);
	hooks_wait(engine, cwd, &by, after_hooks_known, w);
	json_decref(where);
}

void tool_call_finish(const struct tool_call_doc *d, const char *text, size_t len, struct transaction *tx)
{
	mem_auto char *preview = mem_strndup(text, text_utf8_cut(text, len < PREVIEW_BYTES ? len : PREVIEW_BYTES));
	char ref[ID_TEXT_MAX];

	id_make(ID_KIND_OUTPUT, ref);
	transaction_add_output(tx, ref, text, len);
	EMIT(tool_result, tx, tool_call_scope(d), .envelope.status = "completed", .rawOutputRef = ref,
	     .rawOutputBytes = opt_int((int64_t)len), .structuredContentRef = ref, .displayPreview = preview,
	     .part = opt_int_if(d->part != VIEW_ABSENT, d->part));
	transaction_after_commit(tx, tool_hooks_after, d->toolCallId);
}
