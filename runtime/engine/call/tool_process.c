/*
 * Calls of bailiff's own tools and those of MCP servers, which run as a process in the turn's sandbox: that of its
 * session, unless its options need another one. The shell tool is the command itself. The file tools are bailiff-tool
 * (supervisor/tool), which reads its request from stdin and writes its answer to stdout; it also starts MCP servers.
 */

#include "runtime/engine/call/tool_call.h"

#include "policy/command_text.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/engine/call/mcp_server.h"
#include "runtime/engine/call/process_tools.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/core/transaction.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/process/start_spec.h"
#include "runtime/engine/session/turn_read.h"

#define PREVIEW_BYTES 2048u
#define TTY_ROWS 24
#define TTY_COLS 80
#define PROGRESS_NS 1000000000ull
#define ANSWER_READ (256u << 10)
#define ARTIFACTS_MAX 100u

/* ---- the start ---- */

/* Models pass the command as one string, the time limit as timeoutMs, and whether it needs a terminal or input. */
static void shell_arguments(json_t *args)
{
	json_t *command = json_object_get(args, "command"), *timeout = json_object_get(args, "timeoutMs"), *limits;

	if (json_is_string(command)) {
		json_object_set(args, "commandLine", command);
		json_object_del(args, "command");
	}
	if (json_is_integer(timeout)) {
		limits = json_object_get(args, "limits") ? json_copy(json_object_get(args, "limits")) : json_object();
		json_object_set(limits, "wallMs", timeout);
		json_object_set_new(args, "limits", limits);
		json_object_del(args, "timeoutMs");
	}
	const bool tty = json_is_true(json_object_get(args, "tty"));
	json_object_del(args, "tty");
	if (tty)
		json_object_set_new(args, "tty", json_pack("{si si}", "rows", TTY_ROWS, "cols", TTY_COLS));
	else if (json_is_true(json_object_get(args, "interactive")))
		json_object_set_new(args, "stdin", json_string("pipe"));
}

/*
 * A call of a model that the loop drives. The turn's options are its user's and may have widened the sandbox; the
 * arguments are the model's and may not: only what is run counts. A working directory becomes a part of the command, so
 * that it does not select another workspace. New reference; NULL with e.
 */
static json_t *model_arguments(const json_t *args, struct err *e)
{
	static const char *const members[] = { "env",     "timeoutMs",  "stderr",      "description", "justification",
					       "yieldMs", "background", "interactive", "tty" };
	const char *cwd = json_string_value(json_object_get(args, "cwd")),
		   *line = json_string_value(json_object_get(args, "command"));
	json_t *ret = json_object(), *v;
	const char *key;

	if (!line)
		line = json_string_value(json_object_get(args, "commandLine"));
	for (size_t i = 0; i < countof(members); i++)
		if ((v = json_object_get(args, members[i])))
			json_object_set(ret, members[i], v);
	if (line) {
		buf_auto struct buf text = BUF_INIT;

		if (cwd) {
			buf_str(&text, "cd ");
			command_quote(cwd, strlen(cwd), &text);
			buf_str(&text, " && {\n");
		}
		buf_printf(&text, "%s%s", line, cwd ? "\n}" : "");
		json_object_set_new(ret, "commandLine", json_string(buf_cstr(&text)));
	} else if ((v = json_object_get(args, "command"))) {
		json_object_set(ret, "command", v);
	}
	json_object_foreach ((json_t *)(uintptr_t)args, key, v)
		if (!json_object_get(ret, key) && strcmp(key, "command") != 0 && strcmp(key, "commandLine") != 0 &&
		    !(line && strcmp(key, "cwd") == 0))
			err_at(e, ERR_PERMISSION, key, "%.40s: only the user of the agent can set this", key);
	if (!e->code)
		return ret;
	json_decref(ret);
	return NULL;
}

/* Maps the error of a start to the categories of tool.failed, which clients act upon. */
static void fail_start_by(struct engine *engine, const char *call_id, const struct err *e, const char *permission)
{
	const char *category = e->code == ERR_PERMISSION    ? "permission"
			       : e->code == ERR_SANDBOX     ? "sandbox"
			       : e->code == ERR_UNAVAILABLE ? "unavailable"
			       : e->code == ERR_EXHAUSTED   ? "resource"
							    : "tool";
	const struct tool_failure why = { .status = "failed",
					  .category = category,
					  .message = e->message,
					  .retryable = e->code == ERR_UNAVAILABLE || e->code == ERR_EXHAUSTED,
					  .permission = permission };

	tool_call_fail(engine, call_id, &why);
}

static void fail_start(struct engine *engine, const char *call_id, const struct err *e)
{
	fail_start_by(engine, call_id, e, NULL);
}

/*
 * Whether the tool asks the turn's client for the text of files in an editor (options.editor): it then writes a request
 * to its stderr and reads the reply from its stdin (supervisor/tool/tool_editor.c).
 */
static bool asks_editor(const struct turn_doc *t, const struct tool *tool)
{
	return (tool->builtin == TOOL_READ_FILE || tool->builtin == TOOL_EDIT_FILE ||
		tool->builtin == TOOL_APPLY_PATCH) &&
	       jval_bool(jval_get(t->options, "editor"), false);
}

/* A call never has more rights than the client that made it: agents can drive an operator's turn. */
static void call_requester(const struct tool_call_doc *d, const struct turn_doc *t, struct requester *ret)
{
	turn_requester(t, ret);
	if (!jval_is_str(jval_get(d->requestedBy, "role"), role_name(ROLE_OPERATOR)))
		ret->role = ROLE_AGENT;
}

/* Starts the process of a call in the turn's sandbox. All but the shell get their arguments as standard input. */
static void start_process(struct engine *engine, const struct tool_call_doc *d, const struct turn_doc *t,
			  const struct tool *tool, json_t *args)
{
	static const struct tool_failure missing = {
		.status = "failed",
		.category = "unavailable",
		.message = "bailiff-tool, which runs this tool, was not found in the directory of bailiffd",
		.advice = "install bailiff-tool and restart bailiffd"
	};
	const bool shell = tool->builtin == TOOL_SHELL, editor = asks_editor(t, tool);
	const char *argv[MCP_SERVER_ARGV_MAX] = { engine->o.tool_program, tool->name };
	size_t argc = 2;
	mem_auto char *input = json_dumps(args, JSON_COMPACT);
	struct tool_paths paths = { 0 };
	char process[ID_TEXT_MAX];
	struct requester by;
	struct start_spec spec;
	struct err e = ERR_INIT;

	if (!shell && !engine->o.tool_program)
		return tool_call_fail(engine, d->toolCallId, &missing);
	if (shell && process_tools_check(engine, d->threadId, args, &e) < 0)
		return fail_start(engine, d->toolCallId, &e);
	if (editor)
		argv[argc++] = "--editor";
	json_auto_t *where = turn_part_merged(engine, t, shell ? args : NULL);
	call_requester(d, t, &by);
	if (!json_object_get(where, "sandboxId"))
		json_object_set_new(where, "sandboxId", json_string(SANDBOX_OF_THREAD));
	if (shell)
		shell_arguments(where);
	else /* a valid command for the check; the program replaces it below */
		json_object_set_new(where, "commandLine", json_string(tool->name));
	json_auto_t *command = NULL;
	mem_auto char *chosen = tool->runs == TOOL_RUNS_MCP ? mcp_server_chosen(engine, d) : NULL;
	if (tool->runs == TOOL_RUNS_MCP) {
		if (!(command = mcp_server_launch(engine, d, where, &by, &e)))
			return fail_start(engine, d->toolCallId, &e);
		argc = mcp_server_strv(command, argv);
	}
	if (start_spec_of(engine, where, &spec, &e) < 0)
		return fail_start(engine, d->toolCallId, &e);
	struct start_request *r = &spec.request;
	r->session_id = r->thread_id = NULL;
	r->turn_id = d->turnId;
	r->task_id = none_if_empty(d->taskId);
	r->tool_call_id = d->toolCallId;
	r->step_id = d->stepId;
	r->trace_id = none_if_empty(d->traceId);
	r->end_with_client = false;
	if (!shell) {
		r->command_line = NULL;
		r->argv = argv;
		r->argc = argc;
		r->stdin_pipe = true;
		r->stderr_merge = false;
		r->sandbox.own_program = engine->o.tool_program;
		tool_paths_of(tool->name, args, &paths);
		r->tool = tool->name;
		r->tool_command = chosen;
		r->tool_paths = (const char *const *)paths.path;
		r->ntool_paths = paths.count;
		r->stdin_text = input;
		r->stdin_stays = editor;
	}
	process_start_owned(engine, r, &by, OWNER_TOOL, d->toolCallId, process);
	tool_paths_done(&paths);
	start_spec_done(&spec);
}

/*
 * Everything may have changed since tool.started became durable: the call may have been cancelled, the turn ended, the
 * tool unregistered.
 */
void tool_process_start(struct engine *engine, const char *call_id)
{
	static const struct tool_failure gone = { .status = "failed",
						  .category = "owner_gone",
						  .retryable = true,
						  .message = "the client that offers this tool has disconnected" };
	static const struct tool_failure ended = { .status = "cancelled",
						   .category = "cancelled",
						   .message = "the turn was ended" };
	buf_auto struct buf text = BUF_INIT, turn_text = BUF_INIT;
	struct tool_call_doc d;
	struct turn_doc t;
	struct tool tool;
	struct err e = ERR_INIT;

	if (tool_call_read(engine, call_id, &text, &d, &e) != 0 || d.endedAt ||
	    turn_read(engine, d.turnId, &turn_text, &t, &e) != 0)
		return;
	if (t.ending.type == JT_OBJECT)
		return tool_call_fail(engine, call_id, &ended);
	if (!tool_find(engine, d.toolName, (struct tool_scope){ (uint32_t)d.uid, d.sessionId }, &tool))
		return tool_call_fail(engine, call_id, &gone);
	if (!tool.builtin)
		return; /* its owner sees tool.started and executes the call */
	json_auto_t *args = tool_call_arguments(engine, &d, &e);
	if (!args)
		return fail_start(engine, call_id, &e);
	/*
	 * The daemon was restarted: nothing can be started in the name of this user yet, and the hooks of a subagent's
	 * prompt cannot be read.
	 */
	if (engine->o.ports->find_peer(engine->o.host, (uint32_t)t.uid) < 0) {
		strmap_put(&engine->calls->held, call_id, engine);
		return;
	}
	if (tool.runs == TOOL_RUNS_ENGINE)
		return tool_engine_run(engine, &d, &t, &tool, args);
	/* A call that is no part of the input is the model's. */
	if (turn_driven_by_loop(&t) && d.part == VIEW_ABSENT && tool.builtin == TOOL_SHELL) {
		json_auto_t *own = model_arguments(args, &e);

		return own ? start_process(engine, &d, &t, &tool, own) : fail_start(engine, call_id, &e);
	}
	start_process(engine, &d, &t, &tool, args);
}

static void start_held(void *ctx, const char *call_id, void *value)
{
	struct engine *engine = ctx;
	char id[ID_SIZE];

	id_copy(id, call_id);
	strmap_del(&engine->calls->held, call_id);
	tool_process_start(engine, id);
}

void tool_client_connected(struct engine *engine) { strmap_visit(&engine->calls->held, start_held, engine); }

/* ---- the owner's callbacks (process_owner.h) ---- */

/* The start of the stream as text, or NULL. */
static const char *preview_of(const struct process *p, int stream, char ret[PREVIEW_BYTES + 1])
{
	struct engine *engine = p->engine;
	ssize_t n = p->streams[stream].ref[0]
			    ? engine->o.ports->peek_output(engine->o.host, p->id, stream, 0, ret, PREVIEW_BYTES)
			    : 0;

	if (n <= 0)
		return NULL;
	ret[text_utf8_cut(ret, (size_t)n)] = '\0';
	return ret;
}

static void tool_output(struct process *p, struct transaction *tx)
{
	buf_auto struct buf text = BUF_INIT;
	struct tool_call_doc d;
	struct err e = ERR_INIT;

	/* No progress after the end: the result follows. */
	if (p->state > PROCESS_RUNNING || p->command_exited || engine_now(p->engine) - p->owner_told_ns < PROGRESS_NS ||
	    tool_call_read(p->engine, p->owner_id, &text, &d, &e) != 0 || d.endedAt)
		return;
	p->owner_told_ns = engine_now(p->engine);
	char preview[PREVIEW_BYTES + 1];
	EMIT(tool_progress, tx, tool_call_scope(&d), .preview = preview_of(p, STREAM_STDOUT, preview),
	     .outputRef = p->streams[STREAM_STDOUT].ref, .offset = opt_int(p->streams[STREAM_STDOUT].size));
}

/* The events that explain the process: its permission, the hooks before it, and its sandbox. */
struct ref_lookup {
	char permission[ID_SIZE], sandbox[ID_SIZE];
	struct jw hooks;
	size_t nhooks;
};

/* Stops at process.started: the events that are searched for precede it. */
static bool take_ref(void *ctx, const struct event_view *ev)
{
	struct ref_lookup *l = ctx;

	if (ev->type == EVENT_PERMISSION_EVALUATED)
		jval_str(event_member(ev, "eventId"), l->permission, sizeof l->permission);
	if (ev->type == EVENT_SANDBOX_APPLIED)
		jval_str(event_member(ev, "eventId"), l->sandbox, sizeof l->sandbox);
	if (ev->type == EVENT_HOOK_COMPLETED || ev->type == EVENT_HOOK_FAILED) {
		struct jval id = event_member(ev, "eventId");

		jw_raw(&l->hooks, id.text, id.len);
		l->nhooks++;
	}
	return ev->type != EVENT_PROCESS_STARTED;
}

static void find_refs(struct engine *engine, const char *process_id, struct ref_lookup *l)
{
	const struct store_query q = { .index = ID_PROCESS, .id = process_id, .kept = true };
	struct err e = ERR_INIT;

	jw_arr(&l->hooks);
	(void)store_events(engine->o.store, &q, take_ref, l, &e);
	jw_arr_end(&l->hooks);
}

/* ---- the answer of a file tool ---- */

/* Adds artifact.changed for each written file, and their ids to `refs`. */
static void artifact_facts(struct process *p, const struct tool_call_doc *d, struct jval files, struct jw *refs,
			   struct transaction *tx)
{
	size_t n = 0;

	for (struct jiter it = jiter_on(files); n < ARTIFACTS_MAX && jiter_next(&it);) {
		struct jval status = jval_get(it.value, "status");
		char id[ID_TEXT_MAX], step[ID_TEXT_MAX];

		if (status.type != JT_NONE && !jval_is_str(status, "applied"))
			continue;
		id_make(ID_KIND_ARTIFACT, id);
		id_make(ID_KIND_STEP, step);
		struct scope s = tool_call_scope(d);
		s.step = step;
		s.artifact = id;
		s.process = p->id;
		struct jval bytes = jval_get(it.value, "bytes");
		mem_auto char *path = jval_strdup(jval_get(it.value, "path")),
			      *change = jval_strdup(jval_get(it.value, "change"));
		EMIT(artifact_changed, tx, s, .source = "tool", .path = path, .change = change, .fileType = "file",
		     .bytes = opt_int_if(bytes.type == JT_NUMBER, jval_int(bytes, 0)),
		     .oldBytes = json_from_jval(jval_get(it.value, "oldBytes")),
		     .movedFrom = json_from_jval(jval_get(it.value, "movedFrom")));
		jw_str(refs, id);
		n++;
	}
}

/* How a call's process has ended, with what it wrote and the events that explain it. */
struct call_end {
	struct process_outcome outcome;
	bool file_tool;
	struct buf artifacts; /* a file tool: the ids of what it changed, as a JSON array */
	struct ref_lookup found;
	struct buf hooks; /* of `found` */
	char category[64], message[512];
};

static void call_end_done(struct call_end *k)
{
	buf_done(&k->artifacts);
	buf_done(&k->hooks);
}

/* The answer of a file tool; its start is enough: {"files":[…]} and {"error":…} come first in it or are all of it. */
static void read_answer(struct process *p, const struct tool_call_doc *d, bool changes_files, struct call_end *k,
			struct transaction *tx)
{
	struct engine *engine = p->engine;
	const uint64_t size = p->streams[STREAM_STDOUT].size;
	size_t want = size < ANSWER_READ ? (size_t)size : ANSWER_READ;
	buf_auto struct buf answer = BUF_INIT;
	char *at = buf_reserve(&answer, want);
	ssize_t n = want ? engine->o.ports->peek_output(engine->o.host, p->id, STREAM_STDOUT, 0, at, want) : 0;
	struct jw refs = jw_on(&k->artifacts);

	buf_extend(&answer, n > 0 ? (size_t)n : 0);
	struct jval all = jval_of(buf_cstr(&answer), answer.len), error = jval_get(all, "error");
	jw_arr(&refs);
	if (changes_files)
		artifact_facts(p, d, jval_get(all, "files"), &refs, tx);
	jw_arr_end(&refs);
	/* The tool's own error says more than "exit code 1". */
	if (error.type == JT_OBJECT && !k->outcome.clean && strcmp(k->outcome.category, "exit") == 0) {
		snprintf(k->category, sizeof k->category, "tool");
		jval_str(jval_get(error, "category"), k->category, sizeof k->category);
		jval_str(jval_get(error, "message"), k->message, sizeof k->message);
		k->outcome.category = k->category;
		k->outcome.message = k->message;
	}
}

static void end_fact(struct process *p, const struct tool_call_doc *d, const struct call_end *k, struct transaction *tx)
{
	const struct process_outcome *o = &k->outcome;
	const struct process_stream *out = &p->streams[STREAM_STDOUT];
	char preview[PREVIEW_BYTES + 1];
	const char *shown = preview_of(p, STREAM_STDOUT, preview), *output = none_if_empty(out->ref);
	const struct opt_int code = opt_int_if(o->exit_code >= 0, o->exit_code),
			     part = opt_int_if(d->part != VIEW_ABSENT, d->part);
	const struct json_value hooks = k->found.nhooks ? json_from_buf(&k->hooks) : JSON_NONE;
	struct scope s = tool_call_scope(d);

	s.process = p->id;
	if (o->clean)
		EMIT(tool_result, tx, s, .envelope.status = o->status, .exitCode = code, .rawOutputRef = output,
		     .structuredContentRef = k->file_tool ? out->ref : NULL,
		     .artifactRefs = k->file_tool ? json_from_buf(&k->artifacts) : JSON_NONE, .displayPreview = shown,
		     .permissionRef = none_if_empty(k->found.permission), .sandboxRef = none_if_empty(k->found.sandbox),
		     .hookRefs = hooks, .part = part);
	else
		EMIT(tool_failed, tx, s, .envelope = { .status = o->status, .status_reason = o->message },
		     .category = o->category, .message = o->message,
		     .retryable = opt_bool(strcmp(o->status, "lost") == 0 || strcmp(o->status, "timed_out") == 0 ||
					   strcmp(o->category, "transport") == 0),
		     .advice = tool_advice(o->category), .exitCode = code, .rawOutputRef = output,
		     .errorRef = none_if_empty(p->streams[STREAM_STDERR].ref), .displayPreview = shown,
		     .permissionRef = none_if_empty(k->found.permission), .sandboxRef = none_if_empty(k->found.sandbox),
		     .hookRefs = hooks, .part = part);
}

/* In the commit of the process's end: the result of the call, and for a file tool what it changed. */
static void tool_ended(struct process *p, const struct process_outcome *outcome, struct transaction *tx)
{
	struct engine *engine = p->engine;
	__attribute__((cleanup(call_end_done))) struct call_end k = { .outcome = *outcome };
	buf_auto struct buf text = BUF_INIT;
	struct tool_call_doc d;
	struct tool tool;
	struct err e = ERR_INIT;

	if (tool_call_read(engine, p->owner_id, &text, &d, &e) != 0 || d.endedAt)
		return;
	/*
	 * `over` follows, after the hooks. It does not for a process that was lost; a command that has left others
	 * running has its hooks when they have ended.
	 */
	if (p->state == PROCESS_ENDING)
		strmap_put(&engine->calls->ending, d.toolCallId, engine);
	k.file_tool = tool_find(engine, d.toolName, (struct tool_scope){ (uint32_t)d.uid, d.sessionId }, &tool) &&
		      tool.builtin && tool.builtin != TOOL_SHELL;
	if (k.file_tool)
		read_answer(p, &d, tool.runs == TOOL_RUNS_FILES, &k, tx);
	k.found.hooks = jw_on(&k.hooks);
	find_refs(engine, p->id, &k.found);
	end_fact(p, &d, &k, tx);
}

static bool tool_wanted(struct engine *engine, const char *call_id, const char *process_id)
{
	buf_auto struct buf text = BUF_INIT, turn_text = BUF_INIT;
	struct tool_call_doc d;
	struct turn_doc t;
	struct err e = ERR_INIT;

	return tool_call_read(engine, call_id, &text, &d, &e) == 0 && !d.endedAt &&
	       turn_read(engine, d.turnId, &turn_text, &t, &e) == 0 && t.ending.type != JT_OBJECT;
}

/* A turn that is being ended ends its calls, also those whose process has not started. */
static void tool_refused(struct engine *engine, const char *call_id, const struct err *e, const char *data,
			 unsigned long len)
{
	static const struct tool_failure ended = { .status = "cancelled",
						   .category = "cancelled",
						   .message = "the turn was ended" };
	buf_auto struct buf hooks = BUF_INIT, members = BUF_INIT;
	struct ref_lookup found = { .hooks = jw_on(&hooks) };
	char process[ID_SIZE];

	if (!tool_wanted(engine, call_id, NULL))
		return tool_call_fail(engine, call_id, &ended);
	buf_printf(&members, "{%.*s}", (int)len, data ? data : "");
	jval_str(jval_get(jval_of(members.data, members.len), "processId"), process, sizeof process);
	if (process[0]) /* a denial names it */
		find_refs(engine, process, &found);
	fail_start_by(engine, call_id, e, none_if_empty(found.permission));
}

static void tool_process_started(struct process *p, struct transaction *tx) { process_tools_started(p); }

static void tool_process_over(struct engine *engine, const char *call_id)
{
	strmap_del(&engine->calls->ending, call_id);
	tool_call_ended(engine, call_id);
	process_tools_over(engine, call_id);
}

const struct process_owner_ops tool_owner_ops = {
	.refused = tool_refused,
	.wanted = tool_wanted,
	.started = tool_process_started,
	.output = tool_output,
	.command_exited = tool_ended,
	.ended = tool_ended,
	.over = tool_process_over,
};
