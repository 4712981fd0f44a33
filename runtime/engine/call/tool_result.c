#include "runtime/engine/call/tool_result.h"

#include "pty/excerpt.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/tool/tool.h"
#include "runtime/view/view_documents.h"
#include "sandbox/violation_text.h"

#include <inttypes.h>

#define ANSWER_MAX (8u << 20) /* of a file tool, as JSON: content of 1 MiB may consist of escapes */
#define CONTEXT_BYTES 8192u   /* of one text that a hook added */
#define DENIALS_MAX 5
#define MESSAGE_MAX 2048

static void end_line(struct buf *out)
{
	if (out->len && out->data[out->len - 1] != '\n')
		buf_byte(out, '\n');
}

/* Messages may contain text of the command or of a client: bounded, and without control characters. */
static void write_text(struct jval v, struct buf *out)
{
	buf_auto struct buf text = BUF_INIT;

	jval_str_buf(v, &text);
	text_sanitize(buf_cstr(&text), text.len > MESSAGE_MAX ? text_utf8_cut(text.data, MESSAGE_MAX) : text.len, out);
}

/* ---- output ---- */

static int read_range(struct engine *engine, const char *ref, uint64_t from, uint64_t length, struct buf *out)
{
	struct err e = ERR_INIT;
	int r = 0;

	for (uint64_t got = 1; r == 0 && length && got; length -= got) {
		size_t before = out->len;

		r = store_output_read(engine->o.store, ref, from, length, out, &e);
		got = out->len - before;
		from += got;
	}
	return r;
}

/* The bytes that the plan shows; −1: they are no longer there, or damaged. */
static int read_excerpt(struct engine *engine, struct excerpt *x)
{
	if (read_range(engine, x->ref, x->from, x->head, &x->first) < 0)
		return -1;
	return x->tail ? read_range(engine, x->ref, x->total - x->tail, x->tail, &x->last) : 0;
}

/* The text of an output, and how to read what is missing from it. */
static void write_excerpt(struct engine *engine, struct excerpt *x, struct buf *out)
{
	if (read_excerpt(engine, x) < 0) {
		buf_printf(out, "[%" PRIu64 " bytes of output (%s) are no longer stored]\n", x->total, x->ref);
		return;
	}
	excerpt_text(x, out);
	end_line(out);
	uint64_t omitted = excerpt_omitted(x);
	if (omitted)
		buf_printf(out,
			   "[%" PRIu64 " of %" PRIu64 " bytes are not shown; read_output with {\"ref\":\"%s\","
			   "\"offset\":%zu} reads on from there]\n",
			   omitted, x->total, x->ref, excerpt_head_end(x));
}

/* The whole of a stored text, within the budget. */
static void write_ref(struct engine *engine, const char *ref, size_t budget, struct buf *out)
{
	struct excerpt x = { .lines = true };
	buf_auto struct buf text = BUF_INIT;
	struct err e = ERR_INIT;

	if (store_output_whole(engine->o.store, ref, ANSWER_MAX, &text, &e) < 0) {
		buf_printf(out, "[the result (%s) cannot be read: %s]\n", ref, e.message);
		return;
	}
	snprintf(x.ref, sizeof x.ref, "%s", ref);
	x.total = text.len;
	excerpt_plan(&x, 1, budget);
	write_excerpt(engine, &x, out);
	excerpt_done(&x);
}

/* ---- commands ---- */

static void write_duration(struct jval duration, struct buf *out)
{
	int64_t ms = jval_int(duration, -1);

	if (ms >= 0)
		buf_printf(out, " after %.*f s", ms < 10000 ? 2 : 0, (double)ms / 1000);
}

/* In a session sandbox, a command may end before the processes that it has started. */
static void write_command_exit(struct jval how, struct buf *out)
{
	const int64_t left = jval_int(jval_get(how, "runningCount"), 0);
	char signal[32];

	jval_str(jval_get(how, "signal"), signal, sizeof signal);
	if (signal[0])
		buf_printf(out, "Killed by signal %s", signal);
	else
		buf_printf(out, "Exit code %d", (int)jval_int(jval_get(how, "exitCode"), -1));
	write_duration(jval_get(how, "durationMs"), out);
	buf_printf(out, left > 0 ? "; processes that it started still run: %lld.\n" : ".\n", (long long)left);
}

void tool_result_exit(const struct process_doc *p, struct buf *out)
{
	char signal[32], limit[32];

	if (!p->endedAt)
		return write_command_exit(p->commandExited, out);
	jval_str(p->signal, signal, sizeof signal);
	jval_str(p->limit, limit, sizeof limit);
	if (strcmp(p->status, "lost") == 0) {
		buf_str(out, "The command was lost: the supervisor was not running when it ended. Its exit status is "
			     "unknown; it may have run completely, partly or not at all");
	} else if (limit[0]) {
		buf_printf(out, "Stopped by its %s limit", limit);
		write_duration(p->durationMs, out);
		buf_str(out, ": ");
		write_text(p->message, out);
	} else if (strcmp(p->status, "failed") == 0) {
		buf_str(out, "The command did not run: ");
		write_text(p->message, out);
	} else if (strcmp(p->status, "terminated") == 0) {
		buf_str(out, "Terminated");
		write_duration(p->durationMs, out);
		buf_str(out, "; it may have run partly");
	} else if (signal[0]) {
		buf_printf(out, "Killed by signal %s", signal);
		write_duration(p->durationMs, out);
	} else {
		buf_printf(out, "Exit code %d", (int)jval_int(p->exitCode, -1));
		write_duration(p->durationMs, out);
	}
	buf_str(out, ".\n");
}

static size_t load_streams(struct engine *engine, const struct process_doc *p, struct excerpt x[STREAM_COUNT],
			   uint64_t lost[STREAM_COUNT])
{
	buf_auto struct buf text = BUF_INIT;
	struct err e = ERR_INIT;
	struct output_doc d;
	size_t n = 0;

	for (struct jiter it = jiter_on(p->outputRefs); n < STREAM_COUNT && jiter_next(&it);) {
		char ref[ID_SIZE];

		jval_str(jval_get(it.value, "outputRef"), ref, sizeof ref);
		if (view_read(engine->o.store, &output_schema, ref, &text, &d, &e) != 0 || !d.bytes)
			continue;
		x[n] = (struct excerpt){ .total = d.bytes, .lines = true };
		snprintf(x[n].ref, sizeof x[n].ref, "%s", ref);
		jval_str(jval_get(it.value, "stream"), x[n].stream, sizeof x[n].stream);
		lost[n++] = d.truncated && d.omittedBytes != VIEW_ABSENT ? d.omittedBytes : 0;
	}
	return n;
}

static void write_streams(struct engine *engine, struct excerpt *x, const uint64_t *lost, size_t n, size_t budget,
			  struct buf *out)
{
	excerpt_plan(x, n, budget);
	for (size_t i = 0; i < n; i++) {
		/* A single stream needs no name, except that standard error is worth one. */
		if (n > 1 || strcmp(x[i].stream, "stderr") == 0)
			buf_printf(out, "--- %s ---\n", x[i].stream);
		write_excerpt(engine, &x[i], out);
		if (lost[i])
			buf_printf(out,
				   "[%" PRIu64 " bytes in the middle exceeded the output limit and were not "
				   "kept]\n",
				   lost[i]);
		excerpt_done(&x[i]);
	}
}

/* The argument of the shell tool that asks for what was denied. A person or policy decides on it. */
static void write_needs(const struct violation_needs *n, struct buf *out)
{
	buf_auto struct buf host = BUF_INIT, json = BUF_INIT;
	struct jw w = jw_on(&json);
	const char *person = violation_needs_person(n);

	violation_needs_host(n, &host);
	jw_obj(&w);
	if (n->write && n->folder[0] == '/') {
		jw_karr(&w, "writeRoots");
		jw_str(&w, n->folder);
		jw_arr_end(&w);
	}
	if (n->read && n->file[0]) {
		jw_karr(&w, "readRoots");
		jw_str(&w, n->file);
		jw_arr_end(&w);
	}
	if (host.len) {
		jw_kstr(&w, "network", "allow");
		jw_karr(&w, "allowHosts");
		jw_str(&w, buf_cstr(&host));
		jw_arr_end(&w);
	}
	jw_obj_end(&w);
	if (json.len > 2)
		buf_printf(out,
			   "If this is needed, call shell with \"sandbox\":%s and a justification; policy or the user "
			   "decides.\n",
			   buf_cstr(&json));
	if (person)
		buf_printf(out, "Note: %s.\n", person);
	if (n->session)
		buf_str(out, "Commands that share /tmp or localhost must run in one command line.\n");
}

/* A command that succeeded did not need what is optional (violation_text.h), and guesses about it are moot. */
static void write_denials(struct engine *engine, const struct process_doc *p, bool succeeded, struct buf *out)
{
	buf_auto struct buf text = BUF_INIT;
	struct violation_needs needs = { 0 };
	struct violation_doc d;
	struct err e = ERR_INIT;
	size_t n = 0;

	if (view_read(engine->o.store, &violation_schema, p->processId, &text, &d, &e) != 0)
		return;
	for (struct jiter it = jiter_on(d.violations); jiter_next(&it);) {
		bool hint = violation_text_is_hint(it.value);
		buf_auto struct buf what = BUF_INIT;

		if (succeeded && (hint || violation_text_is_optional(it.value)))
			continue;
		violation_needs_add(&needs, it.value);
		if (n++ >= DENIALS_MAX)
			continue;
		violation_text_describe(it.value, &what);
		buf_str(out, hint ? "Probably denied by the sandbox: " : "Denied by the sandbox: ");
		text_sanitize_line(buf_cstr(&what), what.len, out);
		buf_byte(out, '\n');
	}
	if (n > DENIALS_MAX)
		buf_printf(out, "… and %zu more denials.\n", n - DENIALS_MAX);
	write_needs(&needs, out);
}

/* false: the call has no process, which ended before it started. */
static bool write_command(struct engine *engine, const struct tool_call_doc *d, size_t budget, struct buf *out)
{
	buf_auto struct buf text = BUF_INIT;
	struct process_doc p;
	struct err e = ERR_INIT;

	if (!d->processId[0] || view_read(engine->o.store, &process_schema, d->processId, &text, &p, &e) != 0 ||
	    !process_doc_ended(&p))
		return false;
	tool_result_exit(&p, out);
	struct excerpt x[STREAM_COUNT];
	uint64_t lost[STREAM_COUNT];
	const size_t n = load_streams(engine, &p, x, lost);
	if (!n)
		buf_str(out, "(no output)\n");
	write_streams(engine, x, lost, n, budget, out);
	write_denials(engine, &p, strcmp(d->status, "completed") == 0, out);
	return true;
}

/* ---- reports about a process that may still run (process_report.h) ---- */

bool tool_result_report(struct engine *engine, const struct tool_call_doc *d, struct buf *text, struct jval *ret)
{
	static const char *const tools[] = { "shell", "wait", "write_stdin", "screen", "kill" };
	bool reports = strcmp(d->runner, "runtime") == 0 && strcmp(d->status, "completed") == 0;
	struct err e = ERR_INIT;
	char ref[ID_SIZE];
	size_t i = 0;

	while (i < countof(tools) && strcmp(tools[i], d->toolName) != 0)
		i++;
	/* A command that ended in time has no answer other than its output. */
	jval_str(d->structuredContentRef, ref, sizeof ref);
	if (!reports || i == countof(tools) || !ref[0] ||
	    store_output_whole(engine->o.store, ref, ANSWER_MAX, text, &e) < 0)
		return false;
	*ret = jval_of(buf_cstr(text), text->len);
	return jval_get(*ret, "processId").type == JT_STRING;
}

/* Both summaries end with a newline. */
static void write_report(struct engine *engine, struct jval report, size_t budget, struct buf *out)
{
	const struct jval screen = jval_get(report, "screen"), note = jval_get(report, "note");
	buf_auto struct buf text = BUF_INIT, shown = BUF_INIT;
	struct excerpt x[STREAM_COUNT];
	uint64_t lost[STREAM_COUNT] = { 0 };
	struct process_doc p;
	struct err e = ERR_INIT;
	char id[ID_SIZE];
	size_t n = 0;

	jval_str(jval_get(report, "processId"), id, sizeof id);
	if (note.type == JT_STRING) {
		write_text(note, out);
		end_line(out);
	}
	write_text(jval_get(report, "summary"), out);
	if (screen.type == JT_STRING) {
		jval_str_buf(screen, &shown);
		text_sanitize(buf_cstr(&shown), shown.len, out);
		return end_line(out);
	}
	for (struct jiter it = jiter_on(jval_get(report, "outputs")); n < STREAM_COUNT && jiter_next(&it);) {
		x[n] = (struct excerpt){ .from = jval_uint(jval_get(it.value, "from"), 0),
					 .total = jval_uint(jval_get(it.value, "to"), 0),
					 .lines = true };
		jval_str(jval_get(it.value, "stream"), x[n].stream, sizeof x[n].stream);
		jval_str(jval_get(it.value, "outputRef"), x[n].ref, sizeof x[n].ref);
		n += x[n].total > x[n].from;
	}
	if (!n)
		buf_str(out, "(no new output)\n");
	write_streams(engine, x, lost, n, budget, out);
	if (!jval_bool(jval_get(report, "running"), false) &&
	    view_read(engine->o.store, &process_schema, id, &text, &p, &e) == 0 && p.endedAt)
		write_denials(engine, &p, jval_int(p.exitCode, -1) == 0, out);
}

/* ---- file tools ---- */

/* Numbered lines, whole ones, as many as fit. Reading continues at an offset, so the head is worth more than the tail.
 */
static void write_numbered(const struct tool_call_doc *d, struct jval answer, size_t budget, struct buf *out)
{
	buf_auto struct buf text = BUF_INIT;
	const uint64_t first = jval_uint(jval_get(d->safeArgs, "offset"), 0),
		       lines = jval_uint(jval_get(answer, "lines"), 0);
	uint64_t shown = 0;
	size_t at = 0, start = out->len;

	jval_str_buf(jval_get(answer, "content"), &text);
	while (at < text.len) {
		const char *line = text.data + at, *nl = memchr(line, '\n', text.len - at);
		size_t n = nl ? (size_t)(nl - line) : text.len - at, room = budget - (out->len - start);
		size_t end = n && line[n - 1] == '\r' ? n - 1 : n;

		if (end + 8 > room && shown)
			break;
		bool cut = end > room;
		buf_printf(out, "%6" PRIu64 "\t", first + shown + 1);
		text_sanitize(line, cut ? text_utf8_cut(line, room) : end, out);
		buf_str(out, cut ? "[… the line is longer]\n" : "\n");
		shown++;
		at += n + (nl != NULL);
		if (out->len - start >= budget)
			break;
	}
	if (!shown)
		buf_printf(out, first ? "(nothing: the file has %" PRIu64 " lines)\n" : "(empty file)\n", lines);
	else if (at < text.len || jval_bool(jval_get(answer, "truncated"), false))
		buf_printf(out, "[lines %" PRIu64 " to %" PRIu64 " of %" PRIu64 "; go on with offset %" PRIu64 "]\n",
			   first + 1, first + shown, lines, first + shown);
}

static void write_content(const struct tool_call_doc *d, struct jval answer, size_t budget, struct buf *out)
{
	if (jval_is_str(jval_get(answer, "encoding"), "base64")) {
		write_text(jval_get(answer, "path"), out);
		buf_printf(out, " is not text (%" PRIu64 " bytes); file, xxd or base64 show more.\n",
			   jval_uint(jval_get(answer, "bytes"), 0));
		return;
	}
	write_numbered(d, answer, budget, out);
}

/* One line for each changed file. */
static void write_files(struct jval files, struct buf *out)
{
	size_t before = out->len;

	for (struct jiter it = jiter_on(files); jiter_next(&it);) {
		struct jval change = jval_get(it.value, "change"), status = jval_get(it.value, "status"),
			    from = jval_get(it.value, "movedFrom"), bytes = jval_get(it.value, "bytes"),
			    why = jval_get(it.value, "message");

		write_text(change, out);
		buf_byte(out, ' ');
		write_text(jval_get(it.value, "path"), out);
		if (from.type == JT_STRING) {
			buf_str(out, " from ");
			write_text(from, out);
		}
		if (status.type == JT_STRING && !jval_is_str(status, "applied")) {
			buf_str(out, ": ");
			write_text(status, out);
		} else if (bytes.type == JT_NUMBER)
			buf_printf(out, " (%" PRIu64 " bytes)", jval_uint(bytes, 0));
		if (why.type == JT_STRING) {
			buf_str(out, ": ");
			write_text(why, out);
		}
		buf_byte(out, '\n');
	}
	if (out->len == before)
		buf_str(out, "Nothing was changed.\n");
}

/* Text that a tool has found: as much as fits, and how to get the rest. */
static void write_found(struct jval answer, size_t budget, struct buf *out)
{
	const struct jval next = jval_get(answer, "nextOffset");
	const uint64_t total = jval_uint(jval_get(answer, "totalBytes"), 0);
	buf_auto struct buf text = BUF_INIT;

	jval_str_buf(jval_get(answer, "text"), &text);
	size_t n = text.len;
	if (n > budget) {
		const char *nl = memrchr(text.data, '\n', budget);

		n = nl ? (size_t)(nl + 1 - text.data) : text_utf8_cut(text.data, budget);
	}
	text_sanitize(buf_cstr(&text), n, out);
	end_line(out);
	if (!text.len)
		buf_str(out, next.type == JT_NUMBER ? "(no more output)\n" : "(no match)\n");
	if (next.type == JT_NUMBER) {
		uint64_t at = n < text.len ? jval_uint(jval_get(answer, "offset"), 0) + n : jval_uint(next, 0);

		if (at < total)
			buf_printf(out, "[%" PRIu64 " of %" PRIu64 " bytes follow; go on with offset %" PRIu64 "]\n",
				   total - at, total, at);
	} else if (n < text.len || jval_bool(jval_get(answer, "truncated"), false))
		buf_str(out, "[there are more matches; search fewer files or for something more specific]\n");
}

/* Names of files, one a line, until the budget is used up. */
static void write_entries(struct jval list, bool truncated, size_t budget, struct buf *out)
{
	size_t start = out->len, n = 0, shown = 0;

	for (struct jiter it = jiter_on(list); jiter_next(&it); n++) {
		struct jval name = it.value.type == JT_STRING ? it.value : jval_get(it.value, "name"),
			    bytes = jval_get(it.value, "bytes");

		if (out->len - start >= budget)
			continue;
		shown++;
		write_text(name, out);
		if (jval_is_str(jval_get(it.value, "type"), "directory"))
			buf_byte(out, '/');
		if (bytes.type == JT_NUMBER)
			buf_printf(out, "  %" PRIu64, jval_uint(bytes, 0));
		buf_byte(out, '\n');
	}
	if (!n)
		buf_str(out, "(nothing)\n");
	if (shown < n || truncated)
		buf_printf(out, "[%zu of %s%zu entries; be more specific to see the others]\n", shown,
			   truncated ? "more than " : "", n);
}

/*
 * What an MCP server answered: its texts; of other content only the type. Servers should repeat structured content as
 * text; for those that do not, it is shown as JSON. false: the answer is not of that form.
 */
static bool write_mcp_result(struct jval result, const char *ref, size_t budget, struct buf *out)
{
	struct jval content = jval_get(result, "content"), structured = jval_get(result, "structuredContent");
	const size_t start = out->len;
	bool cut = false;

	if (content.type != JT_ARRAY && structured.type != JT_OBJECT)
		return false;
	for (struct jiter it = jiter_on(content); !cut && jiter_next(&it);) {
		buf_auto struct buf text = BUF_INIT;
		struct jval v = jval_get(it.value, "text");
		char type[64];

		if (v.type != JT_STRING)
			v = jval_path(it.value, "resource.text");
		jval_str_buf(v, &text);
		jval_str(jval_get(it.value, "type"), type, sizeof type);
		const size_t used = out->len - start, room = used < budget ? budget - used : 0;
		cut = text.len > room;
		if (v.type == JT_STRING)
			text_sanitize(buf_cstr(&text), cut ? text_utf8_cut(text.data, room) : text.len, out);
		else {
			buf_str(out, "[content that is not text: ");
			text_sanitize_line(type, strlen(type), out);
			buf_str(out, "]");
		}
		end_line(out);
	}
	if (out->len == start && structured.type == JT_OBJECT) {
		cut = structured.len > budget;
		text_sanitize(structured.text, cut ? text_utf8_cut(structured.text, budget) : structured.len, out);
		end_line(out);
	}
	if (cut)
		buf_printf(out, "[the result is longer; read_output with {\"ref\":\"%s\"} reads all of it as JSON]\n",
			   ref);
	return true;
}

/* The text of a file, or what was changed, included changes that are not saved in the user's editor. */
static void write_unsaved(struct jval answer, const char *text, struct buf *out)
{
	if (jval_bool(jval_get(answer, "unsaved"), false))
		buf_str(out, text);
}

static void write_answer(struct engine *engine, const struct tool_call_doc *d, size_t budget, struct buf *out)
{
	buf_auto struct buf text = BUF_INIT;
	char ref[ID_SIZE], answer_ref[ID_SIZE];
	struct err e = ERR_INIT;

	jval_str(d->rawOutputRef, ref, sizeof ref);
	if (store_output_whole(engine->o.store, ref, ANSWER_MAX, &text, &e) < 0) {
		buf_printf(out, "[the result (%s) cannot be read: %s]\n", ref, e.message);
		return;
	}
	struct jval answer = jval_of(buf_cstr(&text), text.len);
	struct jval files = jval_get(answer, "files"), entries = jval_get(answer, "entries");
	jval_str(jval_get(answer, "answerRef"), answer_ref, sizeof answer_ref);
	if (answer_ref[0]) /* of a subagent */
		write_ref(engine, answer_ref, budget, out);
	else if (write_mcp_result(jval_get(answer, "result"), ref, budget, out))
		;
	else if (jval_get(answer, "content").type == JT_STRING) {
		write_content(d, answer, budget, out);
		write_unsaved(answer, "[this is the text in the user's editor; not all of it is saved yet]\n", out);
	} else if (files.type == JT_ARRAY) {
		write_files(files, out);
		write_unsaved(answer, "[what was not saved in the user's editor is now in the file, too]\n", out);
	} else if (jval_get(answer, "text").type == JT_STRING)
		write_found(answer, budget, out);
	else if (jval_get(answer, "steps").type == JT_ARRAY)
		buf_str(out, "The plan is recorded.\n");
	else if (jval_get(answer, "answer").type == JT_STRING)
		write_text(jval_get(answer, "answer"), out);
	else if (entries.type == JT_ARRAY)
		write_entries(entries, jval_bool(jval_get(answer, "truncated"), false), budget, out);
	else
		write_ref(engine, ref, budget, out);
}

/* ---- other results ---- */

/* A client's result is JSON; a text is shown as such. */
static void write_reported(struct engine *engine, const char *ref, size_t budget, struct buf *out)
{
	buf_auto struct buf text = BUF_INIT, plain = BUF_INIT;
	struct err e = ERR_INIT;

	if (store_output_whole(engine->o.store, ref, ANSWER_MAX, &text, &e) < 0 || text.len < 1 ||
	    text.data[0] != '"') {
		write_ref(engine, ref, budget, out);
		return;
	}
	jval_str_buf(jval_of(text.data, text.len), &plain);
	size_t n = plain.len > budget ? text_utf8_cut(plain.data, budget) : plain.len;
	text_sanitize(buf_cstr(&plain), n, out);
	end_line(out);
	if (n < plain.len)
		buf_printf(out, "[%zu of %zu bytes; read_output with {\"ref\":\"%s\"} reads all of it as JSON]\n", n,
			   plain.len, ref);
}

/* What bailiff-tool adds to its error. */
static void write_near_miss(struct engine *engine, const struct tool_call_doc *d, struct buf *out)
{
	buf_auto struct buf text = BUF_INIT, miss = BUF_INIT;
	char ref[ID_SIZE];
	struct err e = ERR_INIT;

	jval_str(d->rawOutputRef, ref, sizeof ref);
	if (!ref[0] || store_output_whole(engine->o.store, ref, ANSWER_MAX, &text, &e) < 0)
		return;
	jval_str_buf(jval_get(jval_of(buf_cstr(&text), text.len), "nearMiss"), &miss);
	text_sanitize(buf_cstr(&miss), miss.len, out);
	end_line(out);
}

static void write_failure(struct engine *engine, const struct tool_call_doc *d, struct buf *out)
{
	const bool unknown = strcmp(d->status, "lost") == 0 || strcmp(d->status, "running") == 0;
	char category[64];

	jval_str(d->category, category, sizeof category);
	buf_printf(out, "%s (%s): ",
		   strcmp(category, "permission") == 0   ? "Denied"
		   : strcmp(d->status, "cancelled") == 0 ? "Cancelled"
		   : unknown                             ? "Interrupted"
							 : "Failed",
		   category[0] ? category : d->status);
	if (d->message.type == JT_STRING)
		write_text(d->message, out);
	else
		buf_str(out, unknown ? "the outcome is unknown" : "no reason was given");
	end_line(out);
	if (strcmp(d->runner, "runtime") == 0)
		write_near_miss(engine, d, out);
	/* Its effects are unknown even if no output is: the caller must look before it repeats the call. */
	if (unknown || (strcmp(d->status, "cancelled") == 0 && d->startedAt))
		buf_str(out, "It may have run, completely or partly. Check its effects before repeating it.\n");
	if (d->advice.type == JT_STRING) {
		buf_str(out, "Advice: ");
		write_text(d->advice, out);
		end_line(out);
	}
}

static void write_hook_answers(struct engine *engine, const struct tool_call_doc *d, struct buf *out)
{
	if (d->hookReason.type == JT_STRING) {
		buf_str(out, "A hook of the user says: ");
		write_text(d->hookReason, out);
		end_line(out);
	}
	for (struct jiter it = jiter_on(d->hookContextRefs); jiter_next(&it);) {
		char ref[ID_SIZE];

		jval_str(it.value, ref, sizeof ref);
		buf_str(out, "A hook of the user adds:\n");
		write_ref(engine, ref, CONTEXT_BYTES, out);
	}
}

void tool_result_text(struct engine *engine, const struct tool_call_doc *d, size_t max_bytes, struct buf *ret_text,
		      bool *ret_error)
{
	const bool completed = strcmp(d->status, "completed") == 0, runtime = strcmp(d->runner, "runtime") == 0,
		   command = runtime && strcmp(d->toolName, "shell") == 0;
	const size_t budget = max_bytes ? max_bytes : TOOL_RESULT_BYTES, start = ret_text->len;
	char ref[ID_SIZE] = "", replaced[ID_SIZE] = "";
	buf_auto struct buf report_text = BUF_INIT;
	struct jval report;

	jval_str(d->rawOutputRef, ref, sizeof ref);
	jval_str(d->updatedOutputRef, replaced, sizeof replaced);
	*ret_error = !completed;
	if (replaced[0])
		write_reported(engine, replaced, budget, ret_text);
	else if (tool_result_report(engine, d, &report_text, &report))
		write_report(engine, report, budget, ret_text);
	else if (command && d->endedAt && write_command(engine, d, budget, ret_text))
		;
	else if (!completed)
		write_failure(engine, d, ret_text);
	else if (runtime && ref[0])
		write_answer(engine, d, budget, ret_text);
	else if (ref[0])
		write_reported(engine, ref, budget, ret_text);
	if (ret_text->len == start)
		buf_str(ret_text, "(no result)\n");
	write_hook_answers(engine, d, ret_text);
}
