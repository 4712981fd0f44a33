/*
 * Events of a turn as session/update. A call of a tool is announced when it starts, completed by its arguments (title,
 * files, diffs), and ended by its result. What is needed of it until then is in `calls`.
 *
 * Commands run in the daemon's sandbox, never in a terminal of the editor (terminal/create), which has the rights of
 * the user. An editor that can show the output of such a command in a terminal (clientCapabilities._meta
 * terminal_output) gets it as a stream; others get it as text.
 */

#include "supervisor/gateway/acp/acp_private.h"

#include "runtime/base/buf.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"

#include <stdio.h>
#include <string.h>

#define OUTPUT_LIVE (16u << 10)  /* as text: after this much, the next update comes with the end */
#define OUTPUT_SHOWN (64u << 10) /* of a command, as text */
#define ARGS_MAX (1 << 20)
#define UNSHOWN "(The arguments are too long to be shown here. bailiff logs shows them.)"

typedef void (*update_fn)(struct acp_session *s, const json_t *event, const json_t *payload);

void acp_update_reset(struct acp_session *s)
{
	s->compacting = s->shown = false;
	json_object_clear(s->calls);
	json_object_clear(s->subagents);
	acp_buffer_drop_all(s);
}

/* ---- the model ---- */

static void on_requested(struct acp_session *s, const json_t *event, const json_t *payload)
{
	s->compacting = json_text_is(payload, "purpose", "compaction");
	s->shown = false;
}

static void on_delta(struct acp_session *s, const json_t *event, const json_t *payload)
{
	const json_t *text = json_object_get(payload, "text");

	if (s->compacting || !json_string_length(text))
		return;
	s->shown = true;
	acp_message_text(s, "agent_message_chunk", json_string_value(text), json_string_length(text),
			 json_get_string(event, "modelRequestId"));
}

static void on_reasoning(struct acp_session *s, const json_t *event, const json_t *payload)
{
	const json_t *text = json_object_get(payload, "text");

	if (!s->compacting && json_string_length(text))
		acp_message_text(s, "agent_thought_chunk", json_string_value(text), json_string_length(text),
				 json_get_string(event, "modelRequestId"));
}

/* Text that was sent cannot be taken back, and the next request sends an answer from its beginning. */
static void on_model_failed(struct acp_session *s, const json_t *event, const json_t *payload)
{
	static const char note[] = "\n\n*(The answer broke off and is discarded.)*\n\n";

	if (s->shown)
		acp_message_text(s, "agent_message_chunk", note, strlen(note), NULL);
	s->shown = false;
}

static void on_plan(struct acp_session *s, const json_t *event, const json_t *payload)
{
	json_t *entries = json_array();
	const json_t *step;
	size_t i;

	json_array_foreach (json_object_get(payload, "steps"), i, step)
		json_array_append_new(entries,
				      json_pack("{sO ss sO}", "content", json_object_get(step, "step"), "priority",
						"medium", "status", json_object_get(step, "status")));
	acp_message_update(s, json_pack("{ss so}", "sessionUpdate", "plan", "entries", entries));
}

/* ---- calls ---- */

/* Takes ownership of `more`, the members of the update. */
static void send_call(struct acp_session *s, const char *kind, const char *call_id, json_t *more)
{
	json_object_set_new(more, "sessionUpdate", json_string(kind));
	json_object_set_new(more, "toolCallId", json_string(call_id));
	acp_message_update(s, more);
}

static bool is_shell(const json_t *call) { return json_text_is(call, "name", "shell"); }

static json_t *terminal_meta(const char *member, const char *call_id, json_t *more)
{
	json_object_set_new(more, "terminal_id", json_string(call_id));
	return json_pack("{so}", member, more);
}

/*
 * The call's record; announced if it is new. NULL: the plan, which is shown as a plan, not as a call. tool.failed of a
 * call that never began has the tool's name, too.
 */
static json_t *announce_call(struct acp_session *s, const json_t *event, const char *tool)
{
	const char *id = json_get_text(event, "toolCallId");
	json_t *call = json_object_get(s->calls, id), *update;

	if (call || !*id || !*tool || strcmp(tool, "update_plan") == 0)
		return call;
	call = json_pack("{ss s[]}", "name", tool, "content");
	json_object_set_new(s->calls, id, call);
	update = acp_content_call(tool, NULL, s->cwd);
	json_object_set(call, "title", json_object_get(update, "title"));
	json_object_set_new(update, "status", json_string("in_progress"));
	if (is_shell(call) && s->server->terminals) {
		json_object_set_new(call, "content", json_pack("[{ss ss}]", "type", "terminal", "terminalId", id));
		json_object_set(update, "content", json_object_get(call, "content"));
		json_object_set_new(update, "_meta",
				    terminal_meta("terminal_info", id, json_pack("{ss}", "cwd", s->cwd)));
	}
	send_call(s, "tool_call", id, update);
	return call;
}

static void on_tool_started(struct acp_session *s, const json_t *event, const json_t *payload)
{
	announce_call(s, event, json_get_text(payload, "toolName"));
}

static void show_args(struct acp_session *s, const char *id, json_t *call, const json_t *args)
{
	json_t *update = acp_content_call(json_get_text(call, "name"), args, s->cwd);

	if (!json_get_flag(call, "ended")) {
		json_object_set(call, "title", json_object_get(update, "title"));
		if (json_object_get(update, "content"))
			json_object_set(call, "content", json_object_get(update, "content"));
	}
	send_call(s, "tool_call_update", id, update);
}

/* Arguments of a call that are being read. */
struct acp_read {
	TAILQ_ENTRY(acp_read) entry;
	struct acp_session *session;
	char *call_id;
	json_t *actions; /* actionId: action.required, asked when the approver can see the arguments */
};

static void read_free(struct acp_read *r)
{
	TAILQ_REMOVE(&r->session->args, r, entry);
	free(r->call_id);
	json_decref(r->actions);
	free(r);
}

static struct acp_read *find_read(const struct acp_session *s, const char *call_id)
{
	struct acp_read *r;

	TAILQ_FOREACH (r, &s->args, entry)
		if (strcmp(r->call_id, call_id) == 0)
			return r;
	return NULL;
}

static void on_args_read(void *ctx, json_t *result, json_t *error)
{
	struct acp_read *r = ctx;
	struct acp_session *s = r->session;
	json_t *call = json_object_get(s->calls, r->call_id);
	json_auto_t *args = json_loads(json_get_text(result, "data"), 0, NULL), *actions = json_incref(r->actions);
	const char *action_id;
	json_t *event;

	if (call && args)
		show_args(s, r->call_id, call, args);
	else if (call) /* an approver must not take this for all of it */
		json_array_append_new(json_object_get(call, "content"), acp_content_text(UNSHOWN, strlen(UNSHOWN)));
	read_free(r);
	json_object_foreach (actions, action_id, event)
		acp_question_ask(s, event);
	s->ops->args_read(s);
}

void acp_update_done(struct acp_session *s)
{
	struct acp_read *r;

	while ((r = TAILQ_FIRST(&s->args)))
		read_free(r);
	acp_buffer_drop_all(s);
}

static void on_tool_args(struct acp_session *s, const json_t *event, const json_t *payload)
{
	const char *id = json_get_text(event, "toolCallId"), *ref = json_get_string(payload, "inputRef");
	const json_t *args = json_object_get(payload, "safeArgs");
	json_t *call = json_object_get(s->calls, id);

	if (!call)
		return;
	if (args)
		return show_args(s, id, call, args);
	/* Of long arguments only those of edits are needed, for the diff. */
	if (!ref || !acp_content_is_edit(json_get_text(call, "name")))
		return;
	struct acp_read *r = mem_zalloc(1, sizeof(*r));
	r->session = s;
	r->call_id = mem_strdup(id);
	r->actions = json_object();
	TAILQ_INSERT_TAIL(&s->args, r, entry);
	gateway_session_query(s->up, "read_output",
			      json_pack("{ss si ss}", "outputRef", ref, "length", ARGS_MAX, "encoding", "utf8"),
			      on_args_read, r);
}

/* ---- output and results ---- */

/* Text of a command for an editor without terminals. A fence that is longer than any in the text encloses it. */
static json_t *output_text(const json_t *call)
{
	const json_t *output = json_object_get(call, "output");
	const char *text = json_string_value(output);
	size_t n = json_string_length(output), fence = 3, run = 0;
	buf_auto struct buf out = BUF_INIT;

	for (size_t i = 0; i < n; i++) {
		run = text[i] == '`' ? run + 1 : 0;
		fence = run >= fence ? run + 1 : fence;
	}
	for (size_t i = 0; i < fence; i++)
		buf_byte(&out, '`');
	buf_str(&out, "console\n");
	buf_append(&out, text, n);
	if (n && text[n - 1] != '\n')
		buf_byte(&out, '\n');
	for (size_t i = 0; i < fence; i++)
		buf_byte(&out, '`');
	return acp_content_text(out.data, out.len);
}

static void add_output(json_t *call, const struct buf *text)
{
	const json_t *old = json_object_get(call, "output");
	buf_auto struct buf all = BUF_INIT;

	if (json_string_length(old) >= OUTPUT_SHOWN)
		return;
	buf_append(&all, json_string_length(old) ? json_string_value(old) : "", json_string_length(old));
	buf_append(&all, text->data, text->len);
	if (all.len >= OUTPUT_SHOWN)
		buf_str(&all, "\n… (bailiff logs shows the rest)");
	json_object_set_new(call, "output", rpc_message_text(all.data, all.len));
}

/*
 * Bytes that are not UTF-8 as a whole: binary data, or text whose first character began in the previous event, which
 * does not contain its beginning. Such a character is replaced; the rest of the text is shown.
 */
static void write_bytes(const json_t *preview, uint64_t length, struct buf *out)
{
	buf_auto struct buf bytes = BUF_INIT;
	size_t split = 0;

	(void)text_base64_decode(json_string_value(preview), json_string_length(preview), &bytes);
	if (!bytes.len || memchr(bytes.data, 0, bytes.len)) {
		buf_printf(out, "(%llu bytes that are not text)\n", (unsigned long long)length);
		return;
	}
	while (split < bytes.len && split < 3 && ((unsigned char)bytes.data[split] & 0xc0) == 0x80)
		split++;
	json_auto_t *valid = rpc_message_text(bytes.data + split, bytes.len - split);
	if (split)
		buf_str(out, "\xef\xbf\xbd");
	text_sanitize(json_string_value(valid), json_string_length(valid), out);
}

static void on_output(struct acp_session *s, const json_t *event, const json_t *payload)
{
	const char *id = json_get_text(event, "toolCallId");
	const json_t *preview = json_object_get(payload, "preview");
	json_t *call = json_object_get(s->calls, id);
	uint64_t length = json_get_uint(payload, "length"), shown = json_get_uint(payload, "previewBytes");
	buf_auto struct buf text = BUF_INIT;

	if (json_object_get(call, "sandbox") && json_text_is(payload, "stream", "stderr"))
		return acp_buffer_request(s, json_get_text(event, "processId"), json_object_get(call, "sandbox"),
					  json_get_text(payload, "preview"));
	if (!is_shell(call))
		return;
	if (json_text_is(payload, "encoding", "base64"))
		write_bytes(preview, length, &text);
	else if (json_string_length(preview))
		text_sanitize(json_string_value(preview), json_string_length(preview), &text);
	if (length > shown + 3)
		buf_printf(&text, "\n… (%llu bytes omitted)\n", (unsigned long long)(length - shown));
	if (!text.len)
		return;
	if (s->server->terminals) {
		json_t *data = json_pack("{so}", "data", rpc_message_text(text.data, text.len));

		send_call(s, "tool_call_update", id,
			  json_pack("{so}", "_meta", terminal_meta("terminal_output", id, data)));
		return;
	}
	add_output(call, &text);
	if (json_string_length(json_object_get(call, "output")) < OUTPUT_LIVE && s->opening == ACP_OPEN &&
	    !s->server->ops.lags(s->server->ctx))
		send_call(s, "tool_call_update", id, json_pack("{s[o]}", "content", output_text(call)));
}

/* Only the file tools of bailiff ask for the text in the editor, not commands that write the same to their stderr. */
static void on_sandbox(struct acp_session *s, const json_t *event, const json_t *payload)
{
	json_t *call = json_object_get(s->calls, json_get_text(event, "toolCallId"));

	if (s->server->buffers && s->opening == ACP_OPEN &&
	    (json_text_is(call, "name", "read_file") || json_text_is(call, "name", "edit_file") ||
	     json_text_is(call, "name", "apply_patch")))
		json_object_set(call, "sandbox", json_object_get(payload, "sandboxProfile"));
}

static void end_call(struct acp_session *s, const json_t *event, const json_t *payload, const char *status)
{
	const char *id = json_get_text(event, "toolCallId"), *message = json_get_string(payload, "message"),
		   *preview = json_get_string(payload, "displayPreview");
	const json_t *code = json_object_get(payload, "exitCode");
	json_t *call = announce_call(s, event, json_get_text(payload, "toolName")), *update, *content;

	if (!call)
		return;
	update = json_pack("{ss}", "status", status);
	content = json_deep_copy(json_object_get(call, "content"));
	if (json_object_get(call, "output"))
		json_array_append_new(content, output_text(call));
	if (message && strcmp(status, "failed") == 0)
		json_array_append_new(content, acp_content_text(message, strlen(message)));
	if (json_array_size(content))
		json_object_set(update, "content", content);
	json_decref(content);
	if (is_shell(call) && s->server->terminals)
		json_object_set_new(
			update, "_meta",
			terminal_meta("terminal_exit", id,
				      json_pack("{sO? sn}", "exit_code", (json_t *)(uintptr_t)code, "signal")));
	if (is_shell(call) && code)
		json_object_set_new(update, "rawOutput", json_pack("{sO}", "exitCode", (json_t *)(uintptr_t)code));
	else if (preview)
		json_object_set_new(update, "rawOutput", rpc_message_text(preview, strlen(preview)));
	send_call(s, "tool_call_update", id, update);
	/* Its diff and its output are no longer needed; a turn may have many calls. */
	json_object_set_new(call, "ended", json_true());
	json_object_del(call, "title");
	json_object_del(call, "content");
	json_object_del(call, "output");
	json_object_del(call, "sandbox");
}

static void on_result(struct acp_session *s, const json_t *event, const json_t *payload)
{
	end_call(s, event, payload, "completed");
}

static void on_failed(struct acp_session *s, const json_t *event, const json_t *payload)
{
	end_call(s, event, payload, "failed");
}

/* ---- questions and the end ---- */

/* Questions of the past are not asked again. */
static void on_action(struct acp_session *s, const json_t *event, const json_t *payload)
{
	struct acp_read *r = find_read(s, json_get_text(event, "toolCallId"));

	if (s->opening != ACP_OPEN)
		return;
	if (r)
		json_object_set(r->actions, json_get_text(event, "actionId"), (json_t *)(uintptr_t)event);
	else
		acp_question_ask(s, event);
}

/* While it was asked about, the call was shown as the question. Now it is shown as what it is again. */
static void on_resolved(struct acp_session *s, const json_t *event, const json_t *payload)
{
	const char *id = json_get_text(event, "toolCallId");
	const json_t *call = json_object_get(s->calls, id);
	struct acp_read *r = find_read(s, id);

	if (r)
		json_object_del(r->actions, json_get_text(event, "actionId"));
	acp_question_withdraw(s, json_get_text(event, "actionId"));
	if (call && !json_get_flag(call, "ended") && s->opening == ACP_OPEN)
		send_call(s, "tool_call_update", id,
			  json_pack("{sO sO ss}", "title", json_object_get(call, "title"), "content",
				    json_object_get(call, "content"), "status", "in_progress"));
}

static void on_turn_ended(struct acp_session *s, const json_t *event, const json_t *payload)
{
	if (s->opening == ACP_OPEN)
		s->ops->turn_ended(s, event);
}

/* ---- the table ---- */

static void ignore_event(struct acp_session *s, const json_t *event, const json_t *payload) {}

static const struct {
	const char *type;
	update_fn run;
	bool of_subagents; /* also shown of them: their answers are results of calls, and their ends are not the turn's
			    */
} updates[] = {
	{ "turn.submitted", ignore_event, false }, /* acp_replay reads it */
	{ "model.requested", on_requested, false }, { "model.delta", on_delta, false },
	{ "reasoning.delta", on_reasoning, false }, { "model.failed", on_model_failed, false },
	{ "plan.updated", on_plan, false },         { "tool.started", on_tool_started, true },
	{ "tool.args", on_tool_args, true },        { "sandbox.applied", on_sandbox, true },
	{ "process.output", on_output, true },      { "tool.result", on_result, true },
	{ "tool.failed", on_failed, true },         { "action.required", on_action, true },
	{ "action.resolved", on_resolved, true },   { "turn.completed", on_turn_ended, false },
	{ "turn.failed", on_turn_ended, false },
};

bool acp_update_handles(struct jval type)
{
	for (size_t i = 0; i < countof(updates); i++)
		if (jval_is_str(type, updates[i].type))
			return true;
	return false;
}

json_t *acp_update_types(void)
{
	json_t *types = json_array();

	for (size_t i = 0; i < countof(updates); i++)
		json_array_append_new(types, json_string(updates[i].type));
	return types;
}

static void run_update(struct acp_session *s, const json_t *event, bool of_subagent)
{
	for (size_t i = 0; i < countof(updates); i++)
		if (json_text_is(event, "type", updates[i].type) && (!of_subagent || updates[i].of_subagents)) {
			updates[i].run(s, event, json_object_get(event, "payload"));
			return;
		}
}

void acp_update_event(struct acp_session *s, const json_t *event) { run_update(s, event, false); }

void acp_update_other(struct acp_session *s, const json_t *event)
{
	const char *turn = json_get_text(event, "turnId");
	const json_t *call = json_object_get(s->calls, json_get_text(event, "toolCallId"));

	if (json_text_is(event, "type", "turn.submitted") && json_text_is(call, "name", "subagent"))
		json_object_set_new(s->subagents, turn, json_true());
	else if (json_object_get(s->subagents, turn))
		run_update(s, event, true);
}
