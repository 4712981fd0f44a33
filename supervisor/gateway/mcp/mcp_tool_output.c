/* Tools that show a process's output: read_output, by bytes, and screen, the current contents of its terminal. */
#include "supervisor/gateway/mcp/mcp_tool.h"

#include "pty/sanitize.h"
#include "runtime/base/buf.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/gateway/common/rpc_message.h"
#include "supervisor/gateway/mcp/mcp_client_state.h"
#include "supervisor/gateway/mcp/mcp_report.h"
#include "supervisor/gateway/mcp/mcp_session.h"
#include "supervisor/gateway/mcp/mcp_wait_process.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *arg(const struct mcp_call *c, const char *name) { return json_get_string(c->arguments, name); }

/* ---- read_output ---- */

struct range {
	char stream[16];
	uint64_t offset;
	size_t length;
	bool ended;
};

#define CHARACTER_MAX 4

/*
 * The number of bytes that form complete characters within the requested length, but at least one character; the rest
 * is left for the next read.
 */
static size_t whole_characters(const struct buf *bytes, size_t wanted, bool last)
{
	size_t n = bytes->len < wanted ? bytes->len : wanted;
	size_t whole = n ? text_utf8_cut(bytes->data, n) : 0;

	if (n == bytes->len && last)
		return n;
	if (!whole)
		whole = text_utf8_len(buf_cstr(bytes), bytes->len);
	return whole ? whole : n;
}

static void on_read(struct mcp_call *c, json_t *result, json_t *error)
{
	const struct range *r = c->data;
	const json_t *data = json_object_get(result, "data");
	buf_auto struct buf bytes = BUF_INIT, shown = BUF_INIT, words = BUF_INIT, uri = BUF_INIT;
	struct sanitize s = SANITIZE_INIT;

	if (error) {
		mcp_call_daemon_error(c, "read the output", error);
		return;
	}
	uint64_t total = (uint64_t)json_integer_value(json_object_get(result, "totalBytes"));
	(void)text_base64_decode(json_string_value(data), json_string_length(data), &bytes);
	size_t n = whole_characters(&bytes, r->length, r->offset + bytes.len >= total && r->ended);
	uint64_t next = r->offset + n;
	bool over = r->ended && next >= total;

	sanitize_feed(&s, buf_cstr(&bytes), n, &shown);
	sanitize_end(&s, &shown);
	buf_printf(&words, "%s of %s, bytes %" PRIu64 " to %" PRIu64 " of %" PRIu64 "%s:\n", r->stream,
		   arg(c, "processId"), r->offset, next, total,
		   over           ? ""
		   : next < total ? " (more follows: offset is the second number)"
				  : " (so far; it still runs)");
	buf_append(&words, buf_cstr(&shown), shown.len);
	mcp_report_uri(arg(c, "processId"), r->stream, &uri);
	mcp_client_state_set_offset(mcp_session_client_state(c->mcp), arg(c, "processId"), r->stream, next);
	json_t *structured = json_pack(
		"{sO ss so sI sI sI sb ss}", "processId", json_object_get(c->arguments, "processId"), "stream",
		r->stream, "text", rpc_message_text(buf_cstr(&shown), shown.len), "offset", (json_int_t)r->offset,
		"nextOffset", (json_int_t)next, "totalBytes", (json_int_t)total, "eof", over, "uri", buf_cstr(&uri));
	mcp_call_finish(c, mcp_call_structured(mcp_call_text(words.data, words.len), structured));
}

/* The requested stream, or the one with the most output. */
static const json_t *pick_stream(const struct mcp_call *c, const json_t *outputs, const char **ret_name)
{
	const json_t *output, *found = NULL;
	const char *name, *wanted = arg(c, "stream");

	json_object_foreach ((json_t *)outputs, name, output) {
		if (wanted ? strcmp(name, wanted) != 0
			   : found && json_integer_value(json_object_get(output, "bytes")) <=
					      json_integer_value(json_object_get(found, "bytes")))
			continue;
		found = output;
		*ret_name = name;
	}
	return found;
}

static void on_process(struct mcp_call *c, json_t *result, json_t *error)
{
	const char *name = NULL;
	const json_t *output = pick_stream(c, json_object_get(result, "outputs"), &name);
	uint64_t length = mcp_wait_process_number(c, "length", MCP_WAIT_PROCESS_BUDGET),
		 tail = mcp_wait_process_number(c, "tail", 0);
	struct range *r;

	if (error) {
		mcp_call_daemon_error(c, "look at the process", error);
		return;
	}
	if (!output) {
		buf_auto struct buf names = BUF_INIT;

		json_object_foreach (json_object_get(result, "outputs"), name, output)
			buf_printf(&names, "%s%s", names.len ? ", " : "", name);
		mcp_call_tool_error(c, "stream: it has no such output%s; there is %s.",
				    mcp_report_has_ended(result) ? "" : " (yet)", names.len ? names.data : "none");
		return;
	}
	uint64_t total = (uint64_t)json_integer_value(json_object_get(output, "bytes"));
	r = mem_zalloc(1, sizeof(*r));
	snprintf(r->stream, sizeof(r->stream), "%s", name);
	r->ended = mcp_report_has_ended(result);
	r->offset = mcp_wait_process_number(c, "offset", 0);
	if (tail) {
		r->offset = total > tail ? total - tail : 0;
		length = tail;
	}
	r->length = (size_t)length;
	c->data = r;
	c->data_free = free;
	/* Request a little more, so that even the shortest length shows a complete character. */
	mcp_call_query(c, "read_output",
		       json_pack("{sO sI sI ss}", "outputRef", json_object_get(output, "outputRef"), "offset",
				 (json_int_t)r->offset, "length",
				 (json_int_t)(length < CHARACTER_MAX ? CHARACTER_MAX : length), "encoding", "base64"),
		       on_read);
}

void mcp_tool_read_output(struct mcp_call *c)
{
	if (json_object_get(c->arguments, "tail") &&
	    (json_object_get(c->arguments, "offset") || json_object_get(c->arguments, "length"))) {
		mcp_call_tool_error(c, "tail: excludes offset and length; it is the last so many bytes");
		return;
	}
	mcp_call_query(c, "get_process", json_pack("{sO}", "processId", json_object_get(c->arguments, "processId")),
		       on_process);
}

/* ---- screen ---- */

static void on_screen(struct mcp_call *c, json_t *result, json_t *error)
{
	static const char *const same[] = { "processId", "rows", "cols", "title", "alternate", "ended" };
	const json_t *matched = c->data, *cursor = json_object_get(result, "cursor");
	const char *text = json_get_string(result, "text");
	buf_auto struct buf words = BUF_INIT, shown = BUF_INIT;
	json_t *structured;

	if (error) {
		mcp_call_daemon_error(c, "look at the screen", error);
		return;
	}
	if (json_is_false(matched))
		buf_str(&words, "What was waited for did not come in time.\n");
	buf_printf(&words, "%d rows of %d columns, cursor at row %d, column %d%s:\n",
		   (int)json_integer_value(json_object_get(result, "rows")),
		   (int)json_integer_value(json_object_get(result, "cols")),
		   (int)json_integer_value(json_object_get(cursor, "row")) + 1,
		   (int)json_integer_value(json_object_get(cursor, "col")) + 1,
		   json_get_flag(result, "ended") ? "; the process has ended" : "");
	text_sanitize(text ? text : "", text ? strlen(text) : 0, &shown);
	buf_append(&words, buf_cstr(&shown), shown.len);
	structured = json_pack("{so s{sI sI}}", "text", rpc_message_text(buf_cstr(&shown), shown.len), "cursor", "row",
			       json_integer_value(json_object_get(cursor, "row")), "col",
			       json_integer_value(json_object_get(cursor, "col")));
	for (size_t i = 0; i < countof(same); i++)
		if (json_object_get(result, same[i]))
			json_object_set(structured, same[i], json_object_get(result, same[i]));
	if (matched)
		json_object_set(structured, "matched", (json_t *)matched);
	mcp_call_finish(c, mcp_call_structured(mcp_call_text(words.data, words.len), structured));
}

static void show_screen(struct mcp_call *c)
{
	mcp_call_query(c, "get_screen",
		       json_pack("{sO ss}", "processId", json_object_get(c->arguments, "processId"), "format", "text"),
		       on_screen);
}

static void drop_lines(void *data) { json_decref(data); }

static void on_shown(struct mcp_call *c, json_t *result, json_t *error)
{
	if (error) {
		mcp_call_daemon_error(c, "wait for the screen", error);
		return;
	}
	c->data = json_boolean(json_get_flag(result, "matched"));
	c->data_free = drop_lines;
	show_screen(c);
}

void mcp_tool_screen(struct mcp_call *c)
{
	json_t *until = json_object(), *idle = json_object_get(c->arguments, "idleMs");

	if (arg(c, "waitForText"))
		json_object_set_new(until, "text", json_string(arg(c, "waitForText")));
	if (arg(c, "waitForRegex"))
		json_object_set_new(until, "regex", json_string(arg(c, "waitForRegex")));
	if (idle)
		json_object_set(until, "idleMs", idle);
	if (!json_object_size(until)) {
		json_decref(until);
		show_screen(c);
		return;
	}
	json_object_set_new(until, "exit", json_true()); /* no output follows the exit */
	mcp_call_query(c, "wait_screen",
		       json_pack("{sO so sI}", "processId", json_object_get(c->arguments, "processId"), "until", until,
				 "timeoutMs", (json_int_t)mcp_wait_process_number(c, "timeoutMs", 10000)),
		       on_shown);
}
