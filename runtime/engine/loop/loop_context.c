/*
 * What a conversation begins with: the system prompt, the tools, a description of the surroundings, and the instruction
 * files of the workspace. The runtime cannot read the user's files, so a process in the turn's sandbox does.
 */

#include "runtime/engine/loop/loop_private.h"

#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/ref.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/process/start_spec.h"
#include "runtime/engine/session/turn_read.h"
#include "runtime/engine/tool/tool.h"
#include "runtime/engine/work/work.h"

#include <time.h>

#define INSTRUCTIONS_MAX (1u << 20) /* of the output of bailiff-tool: its files in JSON may be six times as long */
#define READ_MS 10000u

/* A prompt cache covers the prompt only while its bytes stay the same: no time, no path, nothing of the turn in it. */
#define PROMPT_VERSION "2" /* changes with the text */
#define PROMPT_MAX (64u << 10)
static const char prompt[] =
	"You are a coding agent that works in a user's workspace through bailiff, a supervisor that runs your commands "
	"in a "
	"sandbox.\n"
	"\n"
	"- Use the tools to inspect and change files and to run commands. Read a file before you change it.\n"
	"- Each command runs in a sandbox. An operation that the sandbox or the policy denies fails with an "
	"explanation: read "
	"it and choose another way, or tell the user which permission is needed. Do not try to evade it.\n"
	"- Commands of a session share /tmp and the loopback network. A command that keeps running blocks you: run "
	"servers with background, long commands with yieldMs, and programs that ask or draw with tty. Continue with "
	"wait, write_stdin, screen and kill.\n"
	"- Long output is shortened in the middle; the result says how to read the rest.\n"
	"- Verify your work: run the tests or the program when there is a way to.\n"
	"- Work until the request is done or you need the user. Then answer in a few sentences: what you changed, how "
	"you "
	"checked it, what is left.\n";

int loop_system_prompt(struct engine *engine, const struct turn_doc *t, struct buf *ret, struct err *e)
{
	mem_auto char *ref = jval_strdup(jval_get(t->systemPrompt, "ref"));

	if (ref)
		return store_output_whole(engine->o.store, ref, PROMPT_MAX, ret, e);
	if (jval_is_str(jval_get(t->systemPrompt, "source"), "file"))
		return err_set(
			e, ERR_UNAVAILABLE,
			"~/.config/bailiff/system-prompt.md replaced it in an earlier turn, and the process that "
			"reads the file failed; see its output");
	buf_str(ret, prompt);
	return 0;
}

static void add_member(struct buf *out, const char *label, struct jval v)
{
	mem_auto char *text = jval_strdup(v);

	if (text && *text)
		buf_printf(out, "%s: %s\n", label, text);
}

json_t *loop_environment(struct engine *engine, const struct turn_doc *t)
{
	const struct jval env = t->executionEnvironment;
	buf_auto struct buf out = BUF_INIT;
	time_t now = (time_t)(engine_real(engine) / 1000000);
	struct tm tm;
	char date[32] = "";

	if (gmtime_r(&now, &tm))
		strftime(date, sizeof date, "%Y-%m-%d", &tm);
	buf_str(&out, "<environment>\n");
	add_member(&out, "working directory", jval_get(env, "cwd"));
	add_member(&out, "operating system", jval_get(env, "os"));
	add_member(&out, "architecture", jval_get(env, "arch"));
	add_member(&out, "shell", jval_get(env, "shell"));
	add_member(&out, "sandbox profile", jval_get(env, "sandbox"));
	add_member(&out, "network", jval_get(env, "network"));
	if (date[0])
		buf_printf(&out, "date: %s\n", date);
	buf_str(&out, "</environment>");
	return json_pack("{s:s,s:s}", "type", "note", "text", buf_cstr(&out));
}

/* ---- tools ---- */

static struct loop_tool make_tool(const struct tool *t)
{
	json_t *row = json_pack("{s:s,s:s,s:o}", "name", t->name, "description", t->description, "schema",
				json_loads(t->schema, 0, NULL));

	return (struct loop_tool){ row, json_dumpb(row, NULL, 0, JSON_COMPACT) };
}

struct tools_of {
	struct engine *engine;
	const struct turn_doc *turn;
	json_t *rows;
	size_t bytes;
};

/* Root sees the tools of other users' clients, but a call finds only its own. */
static bool may_find(const struct tools_of *x, const struct tool *t)
{
	const struct tool_scope in = { (uint32_t)x->turn->uid, x->turn->sessionId };
	struct tool found;

	return tool_find(x->engine, t->name, in, &found) && found.uid == t->uid && found.connection == t->connection;
}

static void add_tool(void *ctx, const struct tool *t)
{
	struct tools_of *x = ctx;
	const bool builtin = t->builtin != TOOL_EXTERNAL && t->builtin != TOOL_MCP;

	if (t->builtin == TOOL_SUBAGENT ? !subagent_may_call(x->engine, x->turn) : !builtin && !may_find(x, t))
		return;
	struct loop_tool *kept = builtin ? &x->engine->loop->builtin[t->builtin] : NULL, made = { 0 };
	if (!kept || !kept->row)
		made = make_tool(t);
	if (kept && !kept->row)
		*kept = made;
	x->bytes += (kept ? kept : &made)->bytes + 1;
	if (kept)
		json_array_append(x->rows, kept->row);
	else
		json_array_append_new(x->rows, made.row);
}

json_t *loop_tools(struct engine *engine, const struct turn_doc *t, size_t *ret_bytes)
{
	struct tools_of x = { .engine = engine, .turn = t, .rows = json_array() };

	tool_each_offered(engine, (uint32_t)t->uid, t->sessionId, add_tool, &x);
	*ret_bytes = x.bytes ? x.bytes + 1 : 2; /* brackets, and commas between the rows */
	return x.rows;
}

void loop_tools_forget(struct engine *engine)
{
	for (size_t i = 0; i < countof(engine->loop->builtin); i++)
		json_decref(engine->loop->builtin[i].row);
}

/* ---- instruction files ---- */

/* Whether the user's last turn had a prompt from a file; it is not known now, because the reader failed. */
static bool had_prompt_file(struct engine *engine, const char *key)
{
	buf_auto struct buf last = BUF_INIT;
	struct err e = ERR_INIT;
	int r = store_meta_get(engine->o.store, key, &last, &e);

	return r < 0 || (r == 0 && strcmp(buf_cstr(&last), "file") == 0);
}

/*
 * The prompt of the turn, else of the user's file, else the built-in one. If the file cannot be read, the built-in one
 * is used only for a user who has no such file. New reference.
 */
static json_t *choose_prompt(const json_t *submitted, const json_t *found, const struct ref_owner *owner,
			     struct transaction *tx)
{
	const json_t *file = json_object_get(found, "systemPrompt");
	const char *text = submitted ? json_string_value(submitted) : json_get_string(file, "text");
	mem_auto char *key = mem_printf("prompt.%u", owner->uid);
	char ref[ID_TEXT_MAX];

	if (!found && !submitted && had_prompt_file(tx->engine, key))
		return json_pack("{s:s}", "source", "file");
	if (found) {
		const char *source = json_get_string(file, "text") ? "file" : "built-in";

		transaction_set_meta(tx, key, source, strlen(source));
	}
	if (!text)
		return json_pack("{s:s,s:s}", "source", "built-in", "version", PROMPT_VERSION);
	ref_store(tx, owner, text, strlen(text), ref);
	return json_pack("{s:s,s:s,s:I,s:s*}", "source", submitted ? "turn" : "file", "ref", ref, "bytes",
			 (json_int_t)strlen(text), "path", submitted ? NULL : json_get_string(file, "path"));
}

/*
 * context.resolved: the system prompt; the instruction files that were selected and omitted, and their text behind a
 * ref. `found` NULL = the files cannot be read.
 */
static void instructions_fact(struct engine *engine, const char *turn_id, const json_t *found, struct transaction *tx)
{
	static const char *const unread[] = { "instruction_files", "system_prompt_file" };
	static const char *const members[] = { "files", "omitted" };
	const char *instructions = json_get_text(found, "text");
	json_auto_t *refs = json_pack("{s:{}}", "instructions");
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc t;
	struct err e = ERR_INIT;

	if (turn_read(engine, turn_id, &text, &t, &e) != 0)
		return;
	json_auto_t *submitted = turn_system_prompt(engine, &t, &e);
	const struct ref_owner owner = turn_ref_owner(&t, "turn", t.turnId, NULL);
	if (*instructions) {
		char ref[ID_TEXT_MAX];

		ref_store(tx, &owner, instructions, strlen(instructions), ref);
		json_object_set_new(json_object_get(refs, "instructions"), "ref", json_string(ref));
	}
	for (size_t i = 0; i < countof(members); i++)
		if (json_object_get(found, members[i]))
			json_object_set(json_object_get(refs, "instructions"), members[i],
					json_object_get(found, members[i]));
	/* An unreadable input fails the turn where its text is read; no other prompt is sent before that. */
	json_object_set_new(refs, "systemPrompt", choose_prompt(submitted, found, &owner, tx));
	EMIT(context_resolved, tx, turn_scope(&t), .refs = json_from_tree(refs), .omissions = JSON_EMPTY_ARRAY,
	     .missing = json_from_strings(unread, found ? 0 : countof(unread)));
}

static void context_refused(struct engine *engine, const char *turn_id, const struct err *e, const char *data,
			    unsigned long len)
{
	struct transaction *tx = transaction_new_internal(engine);

	strmap_del(&engine->loop->reading, turn_id);
	instructions_fact(engine, turn_id, NULL, tx);
	transaction_after_commit(tx, loop_step_due, turn_id);
	transaction_commit(tx);
}

bool loop_read_instructions(struct engine *engine, const struct turn_doc *t)
{
	const char *const argv[] = { engine->o.tool_program, "instructions" };
	struct start_spec spec;
	struct requester by;
	char process[ID_TEXT_MAX];
	struct err e = ERR_INIT;

	if (t->instructions.type == JT_OBJECT)
		return false;
	if (strmap_get(&engine->loop->reading, t->turnId))
		return true;
	json_auto_t *where = turn_part_merged(NULL, t, NULL);
	json_object_set_new(where, "commandLine", json_string("instructions")); /* for the check; replaced below */
	json_object_del(where, "sandboxId"); /* it needs no session sandbox, and must not create one */
	json_object_set_new(where, "profile", json_string("instructions")); /* whatever the turn may do */
	if (!engine->o.tool_program)
		err_set(&e, ERR_UNAVAILABLE, "bailiff-tool, which reads them, was not found next to bailiffd");
	if (e.code || start_spec_of(engine, where, &spec, &e) < 0) {
		context_refused(engine, t->turnId, &e, NULL, 0);
		return true;
	}
	struct start_request *r = &spec.request;
	turn_requester(t, &by);
	r->command_line = NULL;
	r->argv = argv;
	r->argc = countof(argv);
	r->stdin_pipe = false;
	r->session_id = t->sessionId;
	r->thread_id = t->threadId;
	r->turn_id = t->turnId;
	r->task_id = none_if_empty(t->taskId);
	r->trace_id = none_if_empty(t->traceId);
	r->end_with_client = false;
	r->sandbox.own_program = engine->o.tool_program;
	r->sandbox.reads_only = true;
	r->limits.wall_ms = READ_MS;
	strmap_put(&engine->loop->reading, t->turnId, engine);
	process_start_owned(engine, r, &by, OWNER_CONTEXT, t->turnId, process);
	start_spec_done(&spec);
	return true;
}

static void context_ended(struct process *p, const struct process_outcome *o, struct transaction *tx)
{
	struct engine *engine = p->engine;
	const uint64_t size = p->streams[STREAM_STDOUT].size;
	buf_auto struct buf out = BUF_INIT;
	json_auto_t *found = NULL;

	if (o->clean && size && size <= INSTRUCTIONS_MAX) {
		char *at = buf_reserve(&out, (size_t)size);
		ssize_t n = engine->o.ports->peek_output(engine->o.host, p->id, STREAM_STDOUT, 0, at, (size_t)size);

		found = n > 0 ? json_loadb(at, (size_t)n, 0, NULL) : NULL;
	}
	strmap_del(&engine->loop->reading, p->owner_id);
	instructions_fact(engine, p->owner_id, found, tx);
}

const struct process_owner_ops loop_context_owner = {
	.refused = context_refused,
	.ended = context_ended,
	.over = loop_step_due,
};

void loop_add_instructions(struct engine *engine, const struct turn_doc *t, const json_t *history, json_t *items)
{
	mem_auto char *ref = jval_strdup(jval_get(t->instructions, "ref"));
	buf_auto struct buf text = BUF_INIT, note = BUF_INIT;
	struct err e = ERR_INIT;
	const json_t *item;
	size_t i;

	if (!ref || store_output_whole(engine->o.store, ref, INSTRUCTIONS_MAX, &text, &e) < 0)
		return;
	buf_printf(&note, "<instructions>\n%s</instructions>", buf_cstr(&text));
	json_array_foreach (history, i, item)
		if (json_text_is(item, "text", buf_cstr(&note)))
			return;
	json_array_append_new(items, json_pack("{s:s,s:s}", "type", "note", "text", buf_cstr(&note)));
}

/* ---- context from hooks ---- */

static void add_refs(struct engine *engine, struct jval refs, json_t *items)
{
	for (struct jiter it = jiter_on(refs); jiter_next(&it);) {
		mem_auto char *ref = jval_strdup(it.value);
		buf_auto struct buf text = BUF_INIT;
		struct err e = ERR_INIT;

		if (ref && store_output_whole(engine->o.store, ref, INSTRUCTIONS_MAX, &text, &e) == 0 && text.len)
			json_array_append_new(items, json_pack("{s:s,s:s}", "type", "note", "text", buf_cstr(&text)));
	}
}

void loop_add_hook_context(struct engine *engine, const struct turn_doc *t, bool session, json_t *items)
{
	buf_auto struct buf text = BUF_INIT;
	struct session_doc d;
	struct err e = ERR_INIT;

	if (session && view_read_speculative(engine->o.store, &session_schema, t->sessionId, &text, &d, &e) == 0)
		add_refs(engine, d.hookContextRefs, items);
	add_refs(engine, t->hookContext, items);
}
