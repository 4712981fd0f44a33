/*
 * changes: the changes of a copy-on-write run. The action diff shows them, apply and discard settle them. Settling
 * needs a person: the client's user is asked, and the request is sent with that person's authority. If the client
 * cannot ask, the result says who can.
 */
#include "supervisor/gateway/mcp/mcp_tool.h"

#include "runtime/base/buf.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/gateway/common/rpc_message.h"
#include "supervisor/gateway/mcp/mcp_wait_process.h"
#include "supervisor/gateway/mcp/mcp_workspace.h"

#include <string.h>

#define SHOWN_PATHS 20

static json_t *params_of(const struct mcp_call *c)
{
	json_t *params = json_pack("{sO}", "processId", json_object_get(c->arguments, "processId")),
	       *paths = json_object_get(c->arguments, "paths");

	if (json_array_size(paths))
		json_object_set(params, "paths", paths);
	return params;
}

/* ---- diff ---- */

/* Appends the diff, cut at the budget. */
static void append_diff(const char *diff, size_t budget, struct buf *out)
{
	size_t n = strlen(diff), room = budget > out->len ? budget - out->len : 0;

	text_sanitize(diff, n > room ? text_utf8_cut(diff, room) : n, out);
	if (n > room)
		buf_printf(out, "\n[… %zu bytes of this diff left out …]\n", n - room);
}

static void on_changes(struct mcp_call *c, json_t *result, json_t *error)
{
	buf_auto struct buf words = BUF_INIT;
	json_t *rows, *v;
	size_t i;

	if (error)
		return mcp_call_daemon_error(c, "list the changes", error);
	rows = json_array();
	json_array_foreach (json_object_get(result, "changes"), i, v) {
		json_t *row = json_pack("{ss ss}", "path", json_get_text(v, "path"), "change",
					json_get_text(v, "change"));

		buf_printf(&words, "%s  %s\n", json_get_text(v, "change"), json_get_text(v, "path"));
		if (json_get_text(v, "diff")[0])
			json_object_set(row, "diff", json_object_get(v, "diff"));
		json_array_append_new(rows, row);
	}
	if (!words.len && json_array_size(json_object_get(c->arguments, "paths")))
		buf_str(&words, "Nothing is held back at these paths. Without paths, all changes are listed.\n");
	else if (!words.len)
		buf_str(&words, "Nothing is held back: it changed nothing, or all of it was applied or discarded.\n");
	else
		buf_str(&words, "These changes are held back. The action apply makes them real, discard forgets them; "
				"both take paths.\n\n");
	json_array_foreach (json_object_get(result, "changes"), i, v)
		append_diff(json_get_text(v, "diff"), mcp_wait_process_budget(c), &words);
	mcp_call_reply(c, &words,
		       json_pack("{ss sO so}", "status", "held", "processId",
				 json_object_get(c->arguments, "processId"), "changes", rows),
		       false);
}

/* ---- apply, discard ---- */

struct settling {
	const char *method, *did, *question, *verb, *yes;
};
static const struct settling apply = { "apply_changes", "applied", "Write these changes to your files?", "apply",
				       "Write them" };
static const struct settling discard = { "discard_changes", "discarded", "Forget these changes for good?", "discard",
					 "Forget them" };

static const struct settling *settling_of(const struct mcp_call *c)
{
	return json_text_is(c->arguments, "action", "apply") ? &apply : &discard;
}

static void on_settled(struct mcp_call *c, json_t *result, json_t *error)
{
	const struct settling *s = settling_of(c);
	const json_t *done = json_object_get(result, s->did), *conflicts = json_object_get(result, "conflicts"), *v;
	buf_auto struct buf words = BUF_INIT;
	size_t i;

	if (error)
		return mcp_call_daemon_error(c, s->verb, error);
	buf_printf(&words, "%s: %zu change%s.\n", s->did, json_array_size(done), json_array_size(done) == 1 ? "" : "s");
	json_t *rows = json_array();
	json_array_foreach (conflicts, i, v) {
		buf_printf(&words, "conflict: %s (%s); it was left as it is\n", json_get_text(v, "path"),
			   json_get_text(v, "reason"));
		json_array_append_new(rows, json_pack("{ss ss}", "path", json_get_text(v, "path"), "reason",
						      json_get_text(v, "reason")));
	}
	mcp_call_reply(c, &words,
		       json_pack("{ss sO so sO*}", "status", s->did, "processId",
				 json_object_get(c->arguments, "processId"), "conflicts", rows, "paths", done),
		       json_array_size(conflicts) > 0);
}

static void reject_call(struct mcp_call *c, const char *status, const char *message)
{
	buf_auto struct buf words = BUF_INIT;

	buf_str(&words, message);
	mcp_call_reply(c, &words,
		       json_pack("{ss sO ss}", "status", status, "processId",
				 json_object_get(c->arguments, "processId"), "message", message),
		       true);
}

static void reply_needs_person(struct mcp_call *c)
{
	mem_auto char *words = mem_printf(
		"This requires a person, and this client did not ask one. They can run: bailiff %s %s",
		settling_of(c)->verb, json_get_text(c->arguments, "processId"));

	reject_call(c, "needs_person", words);
}

static void on_answered(struct mcp_call *c)
{
	const struct settling *s = settling_of(c);
	const json_t *answer = mcp_call_answer(c, "settle");

	if (json_text_is(answer, "action", "accept") &&
	    strcmp(json_get_text(json_object_get(answer, "content"), "decision"), s->verb) == 0)
		mcp_call_decide(c, s->method, params_of(c), on_settled);
	else if (!answer || mcp_call_dismissed_unread(c, "settle"))
		reply_needs_person(c);
	else
		reject_call(c, "refused", "The user did not agree; the changes stay held back.");
}

static void ask_user(struct mcp_call *c, const char *message)
{
	const struct settling *s = settling_of(c);

	mcp_call_question(c, "settle", "elicitation/create",
			  json_pack("{ss so s{ss s{s{ss ss s[ss] s[ss]}} s[s]}}", "mode", "form", "message",
				    rpc_message_text(message, strlen(message)), "requestedSchema", "type", "object",
				    "properties", "decision", "type", "string", "title", "Decision", "enum", s->verb,
				    "keep", "enumNames", s->yes, "Keep them held back", "required", "decision"));
	mcp_call_ask(c, NULL, on_answered);
}

static void on_listed(struct mcp_call *c, json_t *result, json_t *error)
{
	const struct settling *s = settling_of(c);
	const json_t *changes = json_object_get(result, "changes");

	if (error) {
		mcp_call_daemon_error(c, s->verb, error);
	} else if (!json_array_size(changes)) {
		reject_call(c, "nothing",
			    json_array_size(json_object_get(c->arguments, "paths"))
				    ? "Nothing is held back at these paths."
				    : "Nothing is held back that could be settled.");
	} else if (!mcp_call_can(c, "elicitation.form")) {
		reply_needs_person(c);
	} else {
		buf_auto struct buf list = BUF_INIT;
		const json_t *v;
		size_t i;
		buf_str(&list, settling_of(c)->question);
		json_array_foreach (changes, i, v) {
			if (i == SHOWN_PATHS)
				break;
			buf_printf(&list, "\n%s ", json_get_text(v, "change"));
			text_sanitize_line(json_get_text(v, "path"), strlen(json_get_text(v, "path")), &list);
		}
		if (json_array_size(changes) > SHOWN_PATHS)
			buf_printf(&list, "\nand %zu more", json_array_size(changes) - SHOWN_PATHS);
		ask_user(c, list.data);
	}
}

/* Checks first whether there is anything to settle, so that the user is not asked needlessly. */
void mcp_tool_changes(struct mcp_call *c)
{
	json_t *params;

	if (!json_get_text(c->arguments, "action")[0] || json_text_is(c->arguments, "action", "diff")) {
		params = params_of(c);
		json_object_set_new(params, "diffs", json_true());
		mcp_call_query(c, "list_changes", params, on_changes);
	} else if (c->kept && json_object_get(json_object_get(c->params, "inputResponses"), "settle") &&
		   mcp_call_can(c, "elicitation.form")) {
		ask_user(c, ""); /* the answer came with this round */
	} else {
		mcp_call_clear_answers(c);
		mcp_call_query(c, "list_changes", params_of(c), on_listed);
	}
}
