/*
 * From events to spans. spans.def has a row for each kind of span: the event that starts it, those that end it, the id
 * that joins the two, and the kinds that can be its parent.
 *
 * A start event is kept as text until its end event arrives. The table of starts is only a cache: when it is full it is
 * emptied as a whole, and an end event whose start is missing reads it from the log. Choosing which entry to drop would
 * need an order that nothing else needs, and 4096 open spans are rare.
 *
 * The parent of a span is decided when the span ends. It must be a span that exists or will exist, because a collector
 * shows a child of an unknown parent as a trace of its own. So the parent's start is searched as well (has_span), and
 * the next possible parent is used if there is none.
 */

#include "supervisor/otlp/span.h"

#include "runtime/base/clock.h"
#include "runtime/base/hash.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPEN_MAX 4096u /* start events kept in memory */
#define ID_MAX 128
#define NAME_MAX_BYTES 200

enum { KIND_INTERNAL = 1, KIND_CLIENT = 3 };

/* A span being written; `start` is JT_NONE if the start event was not found. */
struct span {
	struct span_table *book;
	const struct span_row *row;
	struct jval start, end;
	struct jw *w;
	char name[NAME_MAX_BYTES];
	int kind;
	bool alone; /* a process that was not started by a tool */
};

static void write_turn(struct span *s);
static void write_attempt(struct span *s);
static void write_model(struct span *s);
static void write_tool(struct span *s);
static void write_process(struct span *s);
static void write_action(struct span *s);
static void write_hook(struct span *s);
static void write_context(struct span *s);
static void write_artifact(struct span *s);
static void write_evidence(struct span *s);
static void write_exec(struct span *s);

static const struct span_row {
	const char *kind, *start, *ends, *id, *parents;
	void (*write)(struct span *s); /* writes the attributes; may set name and kind */
} rows[] = {
#define SPAN(kind, start, ends, id, parents, writer) { kind, start, ends, id, parents, write_##writer },
#include "supervisor/otlp/spans.def"
#undef SPAN
};

/* The span of a command that was not started by a tool: the parent of its process, written from the same events. */
static const struct span_row exec_row = { "exec", "process.started", "", "processId", "interaction", write_exec };

/* ---- words and ids ---- */

/* Whether a list of words separated by blanks contains this one. */
static bool has_word(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = list; n && (at = strstr(at, word)) != NULL; at += n)
		if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
			return true;
	return false;
}

/*
 * The first digits of a SHA-256: 32 for a trace, 16 for a span. `what` keeps the ids of different kinds apart, even if
 * their objects have the same id.
 */
static void derive_id(const char *what, const char *id, size_t digits, char *ret)
{
	struct buf buf_auto text = BUF_INIT;
	char hash[HASH_SHA256_TEXT];

	buf_str(&text, what);
	buf_str(&text, id);
	hash_sha256_text(text.data, text.len, hash);
	memcpy(ret, hash, digits);
	ret[digits] = '\0';
}

/* A member of the start event, or else of the end event. */
static struct jval find_member(const struct span *s, const char *member)
{
	struct jval v = jval_get(s->start, member);

	return v.type ? v : jval_get(s->end, member);
}

/*
 * An id that the caller supplied. It is exported only if it has the form that the protocol requires; a collector may
 * reject a whole batch for one malformed id.
 */
static bool hex_member(const struct span *s, const char *member, size_t digits, char *ret)
{
	char text[ID_MAX];

	if (jval_str(find_member(s, member), text, sizeof(text)) != digits ||
	    strspn(text, "0123456789abcdef") != digits)
		return false;
	memcpy(ret, text, digits + 1);
	return true;
}

/* In microseconds since the epoch; 0 if the event has no valid time. */
static uint64_t time_of(struct jval event)
{
	char text[CLOCK_TEXT_MAX];
	uint64_t us = 0;

	if (jval_str(jval_get(event, "timestamp"), text, sizeof(text)) < sizeof(text))
		(void)clock_parse(text, &us);
	return us;
}

/* ---- attributes ---- */

static void attribute_open(struct jw *w, const char *key)
{
	jw_obj(w);
	jw_kstr(w, "key", key);
	jw_kobj(w, "value");
}

static void attribute_close(struct jw *w)
{
	jw_obj_end(w);
	jw_obj_end(w);
}

static void add_text(struct span *s, const char *key, const char *value)
{
	attribute_open(s->w, key);
	jw_kstr(s->w, "stringValue", value);
	attribute_close(s->w);
}

/* The functions below take a value of an event, and add nothing if the event does not have it. */
static void add_string(struct span *s, const char *key, struct jval v)
{
	char *text = jval_strdup(v);

	if (text && text[0])
		add_text(s, key, text);
	free(text);
}

/* The JSON encoding of the protocol writes 64-bit integers as strings. */
static void add_number(struct span *s, const char *key, struct jval v)
{
	char text[32];

	if (v.type != JT_NUMBER)
		return;
	snprintf(text, sizeof(text), "%lld", (long long)jval_int(v, 0));
	attribute_open(s->w, key);
	jw_kstr(s->w, "intValue", text);
	attribute_close(s->w);
}

static void write_turn(struct span *s) { add_string(s, "bailiff.turn.source", jval_path(s->start, "payload.source")); }

static void write_attempt(struct span *s) { add_number(s, "bailiff.attempt", jval_path(s->end, "payload.attempt")); }

/*
 * Names and attributes of model and tool spans follow OpenTelemetry's conventions for generative AI, so existing
 * dashboards recognise them.
 */
static void write_model(struct span *s)
{
	char model[NAME_MAX_BYTES - 8] = "";

	jval_str(jval_path(s->start, "payload.model"), model, sizeof(model));
	snprintf(s->name, sizeof(s->name), "chat%s%s", model[0] ? " " : "", model);
	s->kind = KIND_CLIENT;
	add_text(s, "gen_ai.operation.name", "chat");
	add_string(s, "gen_ai.request.model", jval_path(s->start, "payload.model"));
	add_string(s, "gen_ai.provider.name", jval_path(s->start, "payload.provider"));
	add_number(s, "gen_ai.usage.input_tokens", jval_path(s->end, "payload.usage.inputTokens"));
	add_number(s, "gen_ai.usage.output_tokens", jval_path(s->end, "payload.usage.outputTokens"));
}

static void write_tool(struct span *s)
{
	char tool[NAME_MAX_BYTES - 16] = "";

	jval_str(jval_path(s->start, "payload.toolName"), tool, sizeof(tool));
	snprintf(s->name, sizeof(s->name), "execute_tool%s%s", tool[0] ? " " : "", tool);
	add_text(s, "gen_ai.operation.name", "execute_tool");
	add_string(s, "gen_ai.tool.name", jval_path(s->start, "payload.toolName"));
	add_string(s, "gen_ai.tool.call.id", find_member(s, "toolCallId"));
}

/* Exports the program, working directory and exit status, but no arguments: they may contain secrets. */
static void write_process(struct span *s)
{
	struct jiter words = jiter_on(jval_path(s->start, "payload.command"));
	char program[NAME_MAX_BYTES] = "";

	if (jiter_next(&words))
		jval_str(words.value, program, sizeof(program));
	const char *slash = strrchr(program, '/'), *base = slash && slash[1] ? slash + 1 : program;
	if (base[0]) {
		snprintf(s->name, sizeof(s->name), "%s", base);
		add_text(s, "process.executable.name", base);
	}
	s->kind = KIND_CLIENT;
	add_number(s, "process.pid", jval_path(s->start, "payload.pid"));
	add_number(s, "process.exit.code", jval_path(s->end, "payload.exitCode"));
	add_string(s, "process.working_directory", jval_path(s->start, "payload.cwd"));
	if (s->start.type) {
		attribute_open(s->w, "process.interactive");
		jw_kbool(s->w, "boolValue", (jval_path(s->start, "payload.tty").type == JT_OBJECT));
		attribute_close(s->w);
	}
	add_string(s, "bailiff.signal", jval_path(s->end, "payload.signal"));
	add_string(s, "bailiff.sandbox.profile", jval_path(s->start, "payload.profile"));
	add_number(s, "bailiff.sandbox.violations", jval_path(s->end, "payload.violationCount"));
}

/* A command that was not started by a tool: the agent's own tool call, the parent of the process span. */
static void write_exec(struct span *s)
{
	struct jval call = find_member(s, "toolCallId");

	snprintf(s->name, sizeof(s->name), "execute_tool exec");
	add_text(s, "gen_ai.operation.name", "execute_tool");
	add_text(s, "gen_ai.tool.name", "exec");
	add_string(s, "gen_ai.tool.call.id", call.type ? call : find_member(s, "processId"));
}

static void write_action(struct span *s)
{
	add_string(s, "bailiff.action.type", jval_path(s->start, "payload.actionType"));
	add_string(s, "bailiff.decision", jval_path(s->end, "payload.decision"));
	add_string(s, "bailiff.decision.source", jval_path(s->end, "payload.source"));
}

static void write_hook(struct span *s)
{
	add_string(s, "bailiff.hook.point", jval_path(s->end, "payload.hookPoint"));
	add_string(s, "bailiff.decision", jval_path(s->end, "payload.decision"));
}

static void write_context(struct span *s) { add_string(s, "bailiff.context.event", jval_get(s->end, "type")); }

static void write_artifact(struct span *s)
{
	add_string(s, "bailiff.artifact.change", jval_path(s->end, "payload.change"));
	add_string(s, "bailiff.artifact.source", jval_path(s->end, "payload.source"));
}

static void write_evidence(struct span *s) { add_string(s, "bailiff.export.kind", jval_path(s->end, "payload.kind")); }

/*
 * By the name of the end event, or by how the command ended: process.completed with a status other than 0 is a failed
 * span, too.
 */
static bool has_failed(const struct span *s)
{
	struct jval code = jval_path(s->end, "payload.exitCode");
	char type[64];

	jval_str(jval_get(s->end, "type"), type, sizeof(type));
	return strstr(type, "failed") || strstr(type, "terminated") || (code.type && jval_int(code, 0) != 0) ||
	       jval_path(s->end, "payload.signal").type == JT_STRING;
}

/* The reason of a failed span: the error category, or how the command ended. */
static void add_error_type(struct span *s)
{
	static const char *const categories[] = { "payload.category", "payload.failureCategory",
						  "payload.error.category" };
	struct jval code = jval_path(s->end, "payload.exitCode"), signal = jval_path(s->end, "payload.signal");
	char name[32], text[40];

	if (!has_failed(s))
		return;
	for (size_t i = 0; i < countof(categories); i++) {
		struct jval category = jval_path(s->end, categories[i]);

		if (category.type == JT_STRING)
			return add_string(s, "error.type", category);
	}
	if (signal.type == JT_STRING) {
		jval_str(signal, name, sizeof(name));
		snprintf(text, sizeof(text), "%s%s", strncmp(name, "SIG", 3) == 0 ? "" : "SIG", name);
		add_text(s, "error.type", text);
	} else if (code.type == JT_NUMBER && jval_int(code, 0) != 0) {
		snprintf(text, sizeof(text), "%lld", (long long)jval_int(code, 0));
		add_text(s, "error.type", text);
	} else {
		add_text(s, "error.type", "_OTHER"); /* the value that the convention defines for other errors */
	}
}

static void write_attributes(struct span *s, bool traced)
{
	static const struct {
		const char *member, *key;
	} ids[] = {
		{ "sessionId", "gen_ai.conversation.id" },
		{ "threadId", "bailiff.thread.id" },
		{ "turnId", "bailiff.turn.id" },
		{ "taskId", "bailiff.task.id" },
		{ "runId", "bailiff.run.id" },
		{ "processId", "bailiff.process.id" },
		{ "toolCallId", "bailiff.tool.call.id" },
		{ "actionId", "bailiff.action.id" },
	};

	jw_karr(s->w, "attributes");
	s->row->write(s);
	add_error_type(s);
	for (size_t i = 0; i < countof(ids); i++)
		add_string(s, ids[i].key, find_member(s, ids[i].member));
	add_string(s, "bailiff.status", jval_get(s->end, "status"));
	add_number(s, "bailiff.sequence", jval_get(s->end, "sequence"));
	add_text(s, "bailiff.trace", traced ? "caller" : "derived");
	if (s->row->start[0] && !s->start.type)
		add_text(s, "bailiff.start", "unknown");
	jw_arr_end(s->w);
}

/* ---- a whole span ---- */

/* The caller's trace, or an id derived from the turn (or task), so that spans that belong together share a trace. */
static bool write_trace(struct span *s)
{
	char id[ID_MAX] = "", trace[33];
	bool given = hex_member(s, "traceId", 32, trace);

	if (!given) {
		jval_str(find_member(s, "turnId"), id, sizeof(id));
		if (!id[0])
			jval_str(find_member(s, "taskId"), id, sizeof(id));
		if (!id[0])
			jval_str(find_member(s, "sessionId"), id, sizeof(id));
		derive_id("trace:", id, 32, trace);
	}
	jw_kstr(s->w, "traceId", trace);
	return given;
}

/* The row whose kind is the first word of the text. The table contains only kinds that have a row. */
static const struct span_row *row_of(const char *text)
{
	size_t i = 0;

	while (i + 1 < countof(rows) && strncmp(text, rows[i].kind, strlen(rows[i].kind)) != 0)
		i++;
	return &rows[i];
}

static bool is_system_turn(struct jval start)
{
	return jval_is_str(jval_path(start, "payload.source"), "system"); /* a turn of the runtime itself */
}

/*
 * Whether this span exists and can be a parent. A tool call may be known only to the client (start_process's
 * toolCallId); the children of such a call belong to the turn.
 */
static bool has_span(const struct span *s, const struct span_row *row, const char *id)
{
	struct buf buf_auto found = BUF_INIT;
	char key[ID_MAX + 32];

	snprintf(key, sizeof(key), "%s %s", row->kind, id);
	const struct buf *start = strmap_get(&s->book->open, key);
	/*
	 * The parent is usually still open, and then its start is in memory. Otherwise this sends a request to the
	 * daemon; events that arrive meanwhile are queued (event_link.h).
	 */
	if (!start && s->book->find_start &&
	    s->book->find_start(s->book->ctx, row->start, row->id, id, s->end, &found) == 0)
		start = &found;
	if (start)
		return !is_system_turn(jval_of(start->data, start->len));
	/*
	 * Neither in memory nor in the log: retention may have removed it. Only a tool call's id can be one that the
	 * runtime never recorded.
	 */
	return row->write != write_tool;
}

static void write_ids(struct span *s)
{
	char id[ID_MAX] = "", span[17];

	if (s->row->id[0]) {
		jval_str(find_member(s, s->row->id), id, sizeof(id));
		derive_id(s->row->kind, id, 16, span);
	} else {
		/*
		 * A hook has no id. The sequence number of its event is unique in this store, and the runtime id makes
		 * it unique among stores.
		 */
		snprintf(id, sizeof(id), "%llu", (unsigned long long)jval_uint(jval_get(s->end, "sequence"), 0));
		derive_id(s->book->runtime_id, id, 16, span);
	}
	jw_kstr(s->w, "spanId", span);
	for (const char *word = s->row->parents; *word;) {
		const struct span_row *parent = row_of(word);

		id[0] = '\0';
		jval_str(find_member(s, parent->id), id, sizeof(id));
		if (id[0] && has_span(s, parent, id)) {
			derive_id(parent->kind, id, 16, span);
			jw_kstr(s->w, "parentSpanId", span);
			return;
		}
		if (s->row->write == write_process) { /* not started by a tool */
			jval_str(find_member(s, "processId"), id, sizeof(id));
			derive_id(exec_row.kind, id, 16, span);
			jw_kstr(s->w, "parentSpanId", span);
			s->alone = true;
			return;
		}
		word += strlen(parent->kind);
		word += *word == ' ';
	}
	/* No parent of ours: the span becomes a child of the caller's own span, if it sent one. */
	if (hex_member(s, "spanId", 16, span))
		jw_kstr(s->w, "parentSpanId", span);
}

static void write_nano(struct jw *w, const char *key, uint64_t us)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)us * 1000);
	jw_kstr(w, key, text);
}

static void write_times(struct span *s)
{
	uint64_t end = time_of(s->end), start;

	if (s->start.type)
		start = time_of(s->start);
	else
		start = end - 1000 * jval_uint(jval_path(s->end, "payload.durationMs"), 0);
	/*
	 * A clock that was set back, or a duration longer than the time since the epoch, must not give a span with a
	 * negative length.
	 */
	write_nano(s->w, "startTimeUnixNano", start < end ? start : end);
	write_nano(s->w, "endTimeUnixNano", end);
}

/* Returns true for a process that was not started by a tool. */
static bool write_span(struct span_table *b, const struct span_row *row, struct jval start, struct jval end,
		       struct buf *ret)
{
	struct jw w = jw_on(ret);
	struct span s = { .book = b, .row = row, .start = start, .end = end, .w = &w, .kind = KIND_INTERNAL };

	snprintf(s.name, sizeof(s.name), "%s", row->kind);
	if (ret->len)
		buf_str(ret, ",");
	jw_obj(&w);
	bool traced = write_trace(&s);
	write_ids(&s);
	write_times(&s);
	write_attributes(&s, traced);
	jw_kstr(&w, "name", s.name);
	jw_kuint(&w, "kind", (uint64_t)s.kind);
	bool bad = has_failed(&s);
	jw_kobj(s.w, "status");
	/* The protocol's status codes: 1 = ok, 2 = error. */
	jw_kuint(s.w, "code", bad ? 2 : 1);
	if (bad && jval_path(s.end, "payload.message").type == JT_STRING) {
		char *message = jval_strdup(jval_path(s.end, "payload.message"));
		jw_kstr(s.w, "message", message);
		free(message);
	}
	jw_obj_end(s.w);
	jw_obj_end(&w);
	return s.alone;
}

/* ---- the table ---- */

void span_table_init(struct span_table *b, const char *runtime_id)
{
	*b = (struct span_table){ .open = STRMAP_INIT };
	snprintf(b->runtime_id, sizeof(b->runtime_id), "%s", runtime_id);
}

static void forget_start(void *ctx, const char *key, void *value)
{
	buf_done(value);
	free(value);
	strmap_del(ctx, key);
}

void span_table_done(struct span_table *b)
{
	strmap_each(&b->open, forget_start, &b->open);
	strmap_done(&b->open);
}

void span_types(struct buf *ret)
{
	struct jw w = jw_on(ret);

	jw_arr(&w);
	for (size_t i = 0; i < countof(rows); i++) {
		if (rows[i].start[0])
			jw_str(&w, rows[i].start);
		for (const char *at = rows[i].ends; *at;) {
			size_t n = strcspn(at, " ");
			jw_strn(&w, at, n);
			at += n + (at[n] == ' ');
		}
	}
	jw_arr_end(&w);
}

static void key_of(const struct span_row *row, struct jval event, char *ret, size_t cap)
{
	char id[ID_MAX] = "";

	jval_str(jval_get(event, row->id), id, sizeof(id));
	snprintf(ret, cap, "%s %s", row->kind, id);
}

/* Moves the start event from the table to *ret, or reads it from the log. *ret stays empty if neither has it. */
static void take_start_event(struct span_table *b, const struct span_row *row, struct jval end, struct buf *ret)
{
	char key[ID_MAX + 32], id[ID_MAX] = "";

	if (!row->start[0])
		return;
	key_of(row, end, key, sizeof(key));
	struct buf *text = strmap_del(&b->open, key);
	if (text) {
		buf_append(ret, text->data, text->len);
		buf_done(text);
		free(text);
		return;
	}
	jval_str(jval_get(end, row->id), id, sizeof(id));
	if (b->find_start && id[0])
		(void)b->find_start(b->ctx, row->start, row->id, id, end, ret);
}

bool span_table_event(struct span_table *b, struct jval event, struct buf *ret)
{
	char type[64];

	if (jval_str(jval_get(event, "type"), type, sizeof(type)) >= sizeof(type))
		return false;
	for (size_t i = 0; i < countof(rows); i++) {
		struct buf buf_auto start = BUF_INIT;

		if (rows[i].start[0] && strcmp(rows[i].start, type) == 0) {
			char key[ID_MAX + 32];
			struct buf *text, *earlier;
			if (b->open.count >= OPEN_MAX)
				strmap_each(&b->open, forget_start,
					    &b->open); /* they are read from the log when needed */
			key_of(&rows[i], event, key, sizeof(key));
			text = mem_zalloc(1, sizeof(*text));
			buf_append(text, event.text, event.len);
			/* The same start event again: the exporter resumed at an earlier position. */
			earlier = strmap_put(&b->open, key, text);
			if (earlier) {
				buf_done(earlier);
				free(earlier);
			}
			return false;
		}
		if (!has_word(rows[i].ends, type))
			continue;
		take_start_event(b, &rows[i], event, &start);
		struct jval s = start.len ? jval_of(start.data, start.len) : (struct jval){ 0 };
		/* A turn of the runtime itself is no work of a client, so it has no span. */
		if (is_system_turn(s))
			return false;
		if (write_span(b, &rows[i], s, event, ret))
			(void)write_span(b, &exec_row, s, event, ret);
		return true;
	}
	return false;
}
