/*
 * pre_tool_use for input of a running process: what a gateway's tool write_stdin would type is checked by the hooks for
 * the tool of that name, and written if none objects. Input has no approval, so a hook that asks denies it. Hooks read
 * the bytes as text, with keys as control characters, as in the loop's tool.
 */

#include "runtime/engine/hook/hook.h"

#include "policy/decision.h"
#include "policy/rules.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/core/reply.h"
#include "runtime/engine/policy/policy_lookup.h"

#define TOOL "write_stdin"

/* Input that waits for its hooks. */
struct checked_input {
	struct engine *engine;
	char process_id[ID_SIZE];
	char *data;
	size_t len;
	bool eof; /* the end of the input, without data */
	struct hook_tool tool;
	struct caller caller;
	engine_reply_fn fn;
	void *ctx;
};

static void input_free(void *ctx)
{
	struct checked_input *in = ctx;

	hook_tool_done(&in->tool);
	caller_done(&in->caller);
	free(in->data);
	free(in);
}

static void input_reject(struct checked_input *in, const struct err *e)
{
	in->fn(in->ctx, e, NULL, 0);
	input_free(in);
}

static void input_write(struct checked_input *in)
{
	if (in->eof)
		engine_close_stdin(in->engine, in->process_id, &in->caller, in->fn, in->ctx);
	else
		engine_write_stdin(in->engine, in->process_id, in->data, in->len, &in->caller, in->fn, in->ctx);
	input_free(in);
}

/* Replaces the text by a hook's version. */
static int rewrite_input(struct checked_input *in, const struct hook_reply *by, struct err *e)
{
	json_auto_t *input = json_loads(by->answer.input, JSON_ALLOW_NUL, NULL);
	const json_t *text = json_object_get(input, "text");

	if (hook_tool_is_same(&in->tool, input))
		return 0;
	if (in->eof || !json_is_string(text))
		return err_set(e, ERR_PERMISSION, "a hook gave an updatedInput without a text");
	free(in->data);
	in->len = json_string_length(text);
	in->data = mem_dup(json_string_value(text), in->len + 1);
	return 0;
}

static void on_answered(struct hook_group *group, void *ctx)
{
	struct checked_input *in = ctx;
	struct hook_result sum;
	struct err e = ERR_INIT;
	char why[POLICY_REASON_MAX];

	hook_group_sum(group, &sum);
	if (group->cancelled || in->engine->stopping) {
		err_set(&e, ERR_UNAVAILABLE, "the daemon is stopping");
	} else if (sum.verdict > HOOK_VERDICT_ALLOW) {
		hook_result_reason(&sum, why, sizeof why);
		err_set(&e, ERR_PERMISSION, "policy %s: %s",
			sum.verdict == HOOK_VERDICT_DENY ? "denies it" : "requires a person to type it (bailiff input)",
			why);
	} else if (sum.rewriter) {
		rewrite_input(in, sum.rewriter, &e);
	}
	if (e.code)
		input_reject(in, &e);
	else
		input_write(in);
}

/* As hooks read it; −1 if they could not check all of it. */
static int make_tool(struct checked_input *in, struct err *e)
{
	json_auto_t *args = json_pack("{s:s}", "processId", in->process_id);
	json_t *text = in->eof ? json_true() : json_stringn(in->data, in->len);

	if (!text)
		return err_set(e, ERR_PERMISSION, "the input is not UTF-8, and the hooks for " TOOL " cannot check it");
	json_object_set_new(args, in->eof ? "eof" : "text", text);
	hook_tool_of_call(TOOL, args, NULL, &in->tool);
	return 0;
}

static void run_hooks(struct checked_input *in, struct process *p, const struct policy_hook *const *list, size_t n)
{
	struct hook_subject s = hook_subject_of(p, HOOK_PRE_TOOL_USE);
	struct transaction *tx = transaction_new_internal(in->engine);
	json_t *v;

	s.cwd = p->cwd;
	s.waits = "call";
	s.untrusting = p->mode == MODE_UNTRUSTED;
	v = hook_input(&s, p->mode >= 0 ? p->mode : (int)permission_mode_of(in->engine, p->session_id));
	json_object_set_new(v, "tool_name", json_string(in->tool.names[0]));
	json_object_set(v, "tool_input", in->tool.input);
	json_object_set_new(v, "tool_use_id", json_string(p->id));
	mem_auto char *text = hook_input_text(v);
	s.input = text;
	struct hook_group *group = hook_group_new(in->engine, &s, list, n, tx);
	group->drop = input_free;
	transaction_commit(tx);
	hook_group_run(group, on_answered, in);
}

static void on_known(struct engine *engine, const struct policy_hooks *hooks, const struct err *unknown, void *ctx)
{
	const struct policy_hook *list[HOOKS_SELECTED_MAX];
	struct checked_input *in = ctx;
	struct err e = ERR_INIT;
	struct process *p = engine_live(engine, in->process_id, &in->caller, &e);

	if (engine->stopping)
		err_set(&e, ERR_UNAVAILABLE, "the daemon is stopping");
	else if (p && unknown)
		err_set(&e, ERR_PERMISSION, "policy denies it: the hooks are not known: %s", unknown->message);
	if (e.code)
		return input_reject(in, &e);
	const struct rules_query use = { .tool = TOOL, .bases = { .cwd = p->cwd, .home = p->home } };
	const char *const name = TOOL;
	const struct hook_query q = { .point = HOOK_PRE_TOOL_USE, .name = &name, .nnames = 1, .use = &use };
	const size_t n = policy_hooks_select(hooks, &q, list);
	if (!n)
		return input_write(in);
	if (make_tool(in, &e) < 0)
		return input_reject(in, &e);
	run_hooks(in, p, list, n);
}

void engine_type_stdin(struct engine *engine, const char *process_id, const void *data, size_t n, bool eof,
		       const struct caller *c, engine_reply_fn fn, void *ctx)
{
	struct err e = ERR_INIT;
	const struct process *p = engine_live(engine, process_id, c, &e);
	struct checked_input *in = mem_zalloc(1, sizeof *in);

	*in = (struct checked_input){ .engine = engine, .len = n, .eof = eof, .fn = fn, .ctx = ctx };
	id_copy(in->process_id, process_id);
	in->data = mem_dup(n ? data : "", n ? n : 1);
	caller_copy(&in->caller, c);
	if (p)
		hooks_wait(engine, p->cwd, &p->by, on_known, in);
	else
		input_write(in); /* which rejects it */
}
