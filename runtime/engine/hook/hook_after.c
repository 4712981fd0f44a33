/*
 * Hooks after a process has ended: post_tool_use, or post_tool_failure if it failed. They cannot undo anything; their
 * answers go into events and to the client that waits for the tool's result. A client that waits for the process itself
 * already has its reply. The owner's next step (the next part of a turn, the next attempt of a task) waits for the
 * hooks.
 */

#include "runtime/engine/hook/hook.h"

#include "policy/command_analysis.h"
#include "policy/command_text.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/policy/policy_lookup.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/session/session.h"
#include "runtime/engine/session/tool_call_read.h"

/* Of each stream in tool_response; the refs next to it lead to the rest. */
#define RESPONSE_BYTES 30000u
/* The longest answer of a built-in tool that hooks get as an object; of a longer one they get a preview. */
#define ANSWER_MAX (256u << 10)
#define WORDS_MAX (32u << 20) /* larger than any plan, whatever the JSON escaping adds */

/* The ended process, read from its document, so that this also works after a restart. */
struct ended {
	struct engine *engine;
	struct buf text, line;
	struct process_doc doc;
	char cwd[4096], workspace[4096], home[4096]; /* "" = none */
	const struct policy_hooks *hooks;
	struct hook_tool tool;
	bool is_tool;
	bool partial; /* the command line cannot be read */
	bool good;
};

static void ended_done(struct ended *x)
{
	buf_done(&x->text);
	buf_done(&x->line);
	hook_tool_done(&x->tool);
}

/* Reads all words of the command as JSON; a long command is stored behind a ref. −1: they cannot be read. */
static int read_words(struct ended *x, struct buf *out)
{
	char ref[ID_SIZE];
	struct err e = ERR_INIT;

	if (x->doc.commandRef.type != JT_STRING) {
		buf_append(out, x->doc.command.text, x->doc.command.len);
		return 0;
	}
	jval_str(x->doc.commandRef, ref, sizeof ref);
	if (store_output_whole(x->engine->o.store, ref, WORDS_MAX, out, &e) < 0) {
		log_error("the words of %s cannot be read for its hooks: %s", x->doc.processId, e.message);
		return -1;
	}
	return 0;
}

/*
 * Builds the same complete line that hooks saw before the start. It must not be truncated: a hook could not check the
 * part that is missing.
 */
static void words_of(struct ended *x)
{
	buf_auto struct buf text = BUF_INIT;
	json_auto_t *words = read_words(x, &text) == 0 ? json_loadb(buf_cstr(&text), text.len, JSON_ALLOW_NUL, NULL)
						       : NULL;
	json_t *v;
	size_t i;

	json_array_foreach (words, i, v) {
		if (i)
			buf_byte(&x->line, ' ');
		command_quote(json_string_value(v), json_string_length(v), &x->line);
	}
	x->partial = !json_array_size(words);
}

static void tool_of(struct ended *x)
{
	buf_auto struct buf text = BUF_INIT;
	struct tool_call_doc call;
	struct err e = ERR_INIT;
	json_t *args = NULL;

	if (x->doc.toolCallId[0] && tool_call_read(x->engine, x->doc.toolCallId, &text, &call, &e) == 0 &&
	    strcmp(call.toolName, "shell") != 0)
		args = tool_call_arguments(x->engine, &call, &e);
	if (args) {
		x->is_tool = true;
		hook_tool_of_call(call.toolName, args, x->cwd, &x->tool);
		json_decref(args);
		return;
	}
	if (x->doc.commandLine.type == JT_STRING)
		jval_str_buf(x->doc.commandLine, &x->line);
	else
		words_of(x);
	hook_tool_of_command(buf_cstr(&x->line), NULL, LIMIT_NONE, &x->tool);
}

/* The home directory used for the policy decision; for a process that an earlier runtime started, its user's. */
static void find_home(const struct process *p, char *ret, size_t size)
{
	buf_auto struct buf env = BUF_INIT;

	if (!p->home)
		p->engine->o.ports->base_env(p->engine->o.host, p->uid, &env);
	snprintf(ret, size, "%s", p->home ? p->home : policy_lookup_home(&env));
}

static bool load_ended_process(struct process *p, struct ended *x)
{
	struct err e = ERR_INIT;

	*x = (struct ended){ .engine = p->engine };
	if (view_read(p->engine->o.store, &process_schema, p->id, &x->text, &x->doc, &e) != 0 || !x->doc.startedAt ||
	    x->doc.endSequence == VIEW_ABSENT)
		return false;
	jval_str(x->doc.cwd, x->cwd, sizeof x->cwd);
	jval_str(jval_get(x->doc.sandboxProfile, "workspace"), x->workspace, sizeof x->workspace);
	find_home(p, x->home, sizeof x->home);
	x->good = strcmp(x->doc.status, "completed") == 0 && jval_uint(x->doc.exitCode, 1) == 0;
	return true;
}

/* ---- input ---- */

static json_t *stream_text(struct ended *x, const struct process *p, int stream)
{
	buf_auto struct buf out = BUF_INIT, clean = BUF_INIT;
	struct err e = ERR_INIT;

	if (p->streams[stream].ref[0] && p->streams[stream].size)
		(void)store_output_read(x->engine->o.store, p->streams[stream].ref, 0, RESPONSE_BYTES, &out, &e);
	if (out.len && !text_utf8_valid(out.data, text_utf8_cut(out.data, out.len)))
		text_sanitize(out.data, out.len, &clean);
	else
		buf_append(&clean, buf_cstr(&out), out.len ? text_utf8_cut(out.data, out.len) : 0);
	json_t *v = json_stringn(buf_cstr(&clean), clean.len);
	return v ? v : json_string("");
}

static json_t *tool_answer(struct ended *x, const struct process *p)
{
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;
	json_t *v = NULL;

	if (p->streams[STREAM_STDOUT].size <= ANSWER_MAX &&
	    store_output_read(x->engine->o.store, p->streams[STREAM_STDOUT].ref, 0, ANSWER_MAX, &out, &e) == 0)
		v = json_loadb(buf_cstr(&out), out.len, 0, NULL);
	if (!json_is_object(v)) {
		json_decref(v);
		v = json_object();
		json_object_set_new(v, "preview", stream_text(x, p, STREAM_STDOUT));
	}
	json_t *path = json_object_get(x->tool.input, "file_path");
	if (path)
		json_object_set(v, "filePath", path);
	json_object_set_new(v, "success", json_boolean(x->good));
	return v;
}

static json_t *response_of(struct ended *x, const struct process *p)
{
	static const char *const refs[STREAM_COUNT] = { "stdout_ref", "stderr_ref", "terminal_ref" };
	json_t *v = x->is_tool ? tool_answer(x, p) : json_object();
	bool cut = false;

	if (!x->is_tool) {
		json_object_set_new(v, "stdout", stream_text(x, p, process_has_tty(p) ? STREAM_PTY : STREAM_STDOUT));
		json_object_set_new(v, "stderr", stream_text(x, p, STREAM_STDERR));
		json_object_set_new(v, "interrupted", json_boolean(strcmp(x->doc.status, "terminated") == 0));
		json_object_set_new(v, "isImage", json_false());
	}
	if (x->doc.exitCode.type == JT_NUMBER)
		json_object_set_new(v, "exit_code", json_integer(jval_int(x->doc.exitCode, 0)));
	for (int i = 0; i < STREAM_COUNT; i++)
		if (p->streams[i].ref[0]) {
			json_object_set_new(v, refs[i], json_string(p->streams[i].ref));
			cut |= p->streams[i].size > RESPONSE_BYTES;
		}
	json_object_set_new(v, "truncated", json_boolean(cut));
	return v;
}

static json_t *error_of(const struct ended *x)
{
	buf_auto struct buf text = BUF_INIT;

	if (x->doc.message.type == JT_STRING)
		jval_str_buf(x->doc.message, &text);
	else if (x->doc.exitCode.type == JT_NUMBER)
		buf_printf(&text, "exit code %lld", (long long)jval_int(x->doc.exitCode, 0));
	else
		buf_printf(&text, "it ended as %s", x->doc.status);
	json_t *v = json_string(buf_cstr(&text));
	return v ? v : json_string("it failed");
}

static void texts_of(struct ended *x, const struct process *p, const struct hook_subject *s, struct hook_texts *ret)
{
	json_t *v = hook_input(s, (int)permission_mode_of(x->engine, p->session_id));

	json_object_set_new(v, "tool_name", json_string(x->tool.names[0]));
	json_object_set(v, "tool_input", x->tool.input);
	json_object_set_new(v, "tool_use_id", json_string(p->tool_call_id[0] ? p->tool_call_id : p->id));
	json_object_set_new(v, "tool_response", response_of(x, p));
	json_object_set_new(v, "duration_ms", json_integer(jval_int(x->doc.durationMs, 0)));
	if (!x->good) {
		json_object_set_new(v, "error", error_of(x));
		json_object_set_new(v, "is_interrupt", json_boolean(strcmp(x->doc.status, "terminated") == 0));
	}
	hook_texts_of(&x->tool, v, ret);
}

/* ---- selecting and running ---- */

static size_t select_hooks(struct ended *x, enum hook_point point, const struct policy_hook *list[HOOKS_SELECTED_MAX])
{
	const struct rule_base_paths place = { .cwd = x->cwd,
					       .workspace = x->workspace[0] ? x->workspace : x->cwd,
					       .home = x->home[0] ? x->home : NULL };
	const struct analysis_options how = { .cwd = place.cwd, .workspace = place.workspace, .home = place.home };
	command_facts_auto struct command_facts facts = { 0 };
	const json_t *all = json_object_get(x->tool.input, "file_paths");
	const char *path = json_string_value(json_object_get(x->tool.input, "file_path"));
	const size_t npaths = x->tool.each ? json_array_size(all) : path ? 1 : 0;
	struct command_path *named = mem_zalloc(npaths + 1, sizeof *named);
	const struct rules_query use = { .facts = &facts,
					 .tool = x->is_tool ? x->tool.names[x->tool.nnames - 1] : NULL,
					 .path = named,
					 .npaths = npaths,
					 .bases = place };
	const struct hook_query q = { .point = point, .name = x->tool.names, .nnames = x->tool.nnames, .use = &use };

	for (size_t i = 0; i < npaths; i++) {
		const char *one = x->tool.each ? json_string_value(json_array_get(all, i)) : path;

		named[i] = (struct command_path){ .path = one, .word = one, .exact = true, .access = COMMAND_WRITES };
	}
	if (!x->is_tool)
		command_analyse_line(buf_cstr(&x->line), x->line.len, &how, &facts);
	/* An unknown command matches every condition of a hook, so a hook may run needlessly but is never skipped. */
	if (x->partial)
		facts.unknown |= COMMAND_UNKNOWN(TOO_MUCH);
	size_t n = policy_hooks_select(x->hooks, &q, list);
	free(named);
	return n;
}

struct hook_group *hook_after(struct process *p, const struct policy_hooks *hooks)
{
	struct engine *engine = p->engine;
	const struct policy_hook *list[HOOKS_SELECTED_MAX];
	struct hook_subject s;
	char thread[ID_SIZE], turn[ID_SIZE];
	struct hook_group *group = NULL;
	struct err e = ERR_INIT;
	struct ended x;
	size_t n;

	if (engine->stopping ||
	    (!hooks_are_at(hooks, HOOK_POST_TOOL_USE) && !hooks_are_at(hooks, HOOK_POST_TOOL_FAILURE)) ||
	    !load_ended_process(p, &x))
		return NULL;
	x.hooks = hooks;
	s = hook_subject_of(p, x.good ? HOOK_POST_TOOL_USE : HOOK_POST_TOOL_FAILURE);
	s.by.uid = p->uid;
	s.cwd = x.cwd;
	s.waits = HOOK_WAITS_RESULT;
	struct transaction *tx = transaction_new_internal(engine);
	tool_of(&x);
	n = hooks_are_at(x.hooks, s.point) ? select_hooks(&x, s.point, list) : 0;
	/* The process's own turn has ended with it, so the hooks' events belong to the system turn. */
	if (n && p->owns_turn && session_system_turn(engine, tx, p->uid, p->session_id, thread, turn, &e) == 0) {
		s.thread_id = thread;
		s.turn_id = turn;
	}
	if (n) {
		struct hook_texts texts;

		texts_of(&x, p, &s, &texts);
		s.texts = &texts;
		group = hook_group_new(engine, &s, list, n, tx);
		hook_texts_done(&texts);
		transaction_commit(tx);
	} else {
		transaction_free(tx);
	}
	ended_done(&x);
	return group;
}

/* `continue: false` ends the turn. All other answers are only recorded. */
void hook_on_reply(struct hook_group *group)
{
	struct hook_result sum;
	char reason[512];

	hook_group_sum(group, &sum);
	if (!sum.stopper || group->cancelled)
		return;
	snprintf(reason, sizeof reason, "hook %.100s: %.300s", sum.stopper->ref.text,
		 sum.stopper->answer.reason ? sum.stopper->answer.reason : "continue: false");
	group->engine->modules->hook_stop(
		group->engine,
		&(struct hook_stop_notice){ .turn_id = group->turn_id, .by = &group->by, .reason = reason });
}
