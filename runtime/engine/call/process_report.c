#include "runtime/engine/call/process_report.h"

#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/engine/call/tool_call.h"
#include "runtime/engine/call/tool_result.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/core/id_list.h"
#include "runtime/engine/process/process.h"
#include "runtime/view/view.h"

#define CHARACTER_MAX 4u

/* ---- which processes ---- */

static bool is_shell_call(struct engine *engine, const char *call_id, const char *thread_id)
{
	buf_auto struct buf text = BUF_INIT;
	struct tool_call_doc d;
	struct err e = ERR_INIT;

	return tool_call_read(engine, call_id, &text, &d, &e) == 0 && strcmp(d.threadId, thread_id) == 0 &&
	       strcmp(d.runner, "runtime") == 0 && strcmp(d.toolName, "shell") == 0;
}

bool process_report_find(struct engine *engine, const char *thread_id, const char *process_id, struct buf *text,
			 struct process_doc *ret)
{
	struct err e = ERR_INIT;

	return id_valid(process_id, strlen(process_id)) &&
	       view_read(engine->o.store, &process_schema, process_id, text, ret, &e) == 0 &&
	       strcmp(ret->threadId, thread_id) == 0 && jval_is_str(jval_get(ret->owner, "kind"), "tool") &&
	       is_shell_call(engine, ret->toolCallId, thread_id);
}

bool process_report_covers(struct process *p, const char *thread_id)
{
	return p->owner == OWNER_TOOL && strcmp(p->thread_id, thread_id) == 0 &&
	       is_shell_call(p->engine, p->owner_id, thread_id);
}

/* ---- what was reported before ---- */

/* Where the report of this call ends, if it has one about the process. Offsets only grow. */
static void reported_by(struct engine *engine, const struct tool_call_doc *d, const struct process_doc *p,
			uint64_t ret[STREAM_COUNT])
{
	buf_auto struct buf text = BUF_INIT;
	struct jval answer;

	if (!tool_result_report(engine, d, &text, &answer) ||
	    !jval_is_str(jval_get(answer, "processId"), p->processId) || jval_get(answer, "outputs").type != JT_ARRAY)
		return;
	for (struct jiter it = jiter_on(jval_get(answer, "outputs")); jiter_next(&it);) {
		const int stream = stream_index(jval_get(it.value, "stream"));
		const uint64_t to = jval_uint(jval_get(it.value, "to"), 0);

		if (stream >= 0 && to > ret[stream])
			ret[stream] = to;
	}
}

static void search_turn(struct engine *engine, const char *turn_id, const struct process_doc *p,
			uint64_t ret[STREAM_COUNT])
{
	view_ids_auto struct view_ids calls = VIEW_IDS_INIT;

	id_list_read(engine, VIEW_TURN_TOOL_CALL, turn_id, ID_LIST_ALL, &calls);
	for (size_t i = 0; i < calls.n; i++) {
		buf_auto struct buf text = BUF_INIT;
		struct tool_call_doc d;
		struct err e = ERR_INIT;

		if (tool_call_read(engine, calls.id[i], &text, &d, &e) == 0)
			reported_by(engine, &d, p, ret);
	}
}

/* After a restart, or when the process has ended: from the calls since its start. */
static void reported_before(struct engine *engine, const struct process_doc *p, uint64_t ret[STREAM_COUNT])
{
	const struct process *live = engine_process(engine, p->processId);
	view_ids_auto struct view_ids turns = VIEW_IDS_INIT;

	if (live && live->reported_known) {
		memcpy(ret, live->reported, sizeof live->reported);
		return;
	}
	id_list_read(engine, VIEW_THREAD_TURN, p->threadId, ID_LIST_ALL, &turns);
	for (size_t i = turns.n; i-- > 0;) {
		search_turn(engine, turns.id[i], p, ret);
		if (strcmp(turns.id[i], p->turnId) == 0)
			break;
	}
}

/* ---- the report ---- */

/* Up to the last complete character of a live stream: the rest of it follows. */
static uint64_t whole_characters(const struct process *p, int stream)
{
	const uint64_t size = p->streams[stream].cited, n = size < CHARACTER_MAX ? size : CHARACTER_MAX;
	struct engine *engine = p->engine;
	char bytes[CHARACTER_MAX];
	ssize_t got = engine->o.ports->peek_output(engine->o.host, p->id, stream, size - n, bytes, n);

	return got == (ssize_t)n && n ? size - n + text_utf8_cut(bytes, n) : size;
}

static void write_range(struct jw *w, const char *stream, const char *ref, uint64_t from, uint64_t to)
{
	jw_obj(w);
	jw_kstr(w, "stream", stream);
	jw_kstr(w, "outputRef", ref);
	jw_kuint(w, "from", from);
	jw_kuint(w, "to", to > from ? to : from);
	jw_obj_end(w);
}

static void write_live(struct process *p, const uint64_t from[STREAM_COUNT], struct transaction *tx, struct jw *w)
{
	(void)process_output_flush(p, tx);
	for (int i = 0; i < STREAM_COUNT; i++) {
		if (!p->streams[i].ref[0])
			continue;
		p->reported[i] = whole_characters(p, i);
		write_range(w, stream_name(i), p->streams[i].ref, from[i], p->reported[i]);
	}
	p->reported_known = true;
}

static void write_ended(struct engine *engine, const struct process_doc *p, const uint64_t from[STREAM_COUNT],
			struct jw *w)
{
	for (struct jiter it = jiter_on(p->outputRefs); jiter_next(&it);) {
		const int stream = stream_index(jval_get(it.value, "stream"));
		buf_auto struct buf text = BUF_INIT;
		struct output_doc o;
		struct err e = ERR_INIT;
		char ref[ID_SIZE];

		jval_str(jval_get(it.value, "outputRef"), ref, sizeof ref);
		if (stream >= 0 && view_read(engine->o.store, &output_schema, ref, &text, &o, &e) == 0)
			write_range(w, stream_name(stream), ref, from[stream], o.bytes);
	}
}

void process_report_write(struct engine *engine, const struct process_doc *p, const char *note, struct transaction *tx,
			  struct buf *ret)
{
	struct process *live = p->endedAt ? NULL : engine_process(engine, p->processId);
	uint64_t from[STREAM_COUNT] = { 0 };
	buf_auto struct buf summary = BUF_INIT;
	struct jw w = jw_on(ret);

	reported_before(engine, p, from);
	jw_obj(&w);
	jw_kstr(&w, "processId", p->processId);
	jw_kbool(&w, "running", !process_report_ended(p));
	if (process_report_ended(p))
		tool_result_exit(p, &summary);
	else
		buf_printf(&summary,
			   "It still runs, as process %s. Continue with wait, write_stdin, screen or kill; you are "
			   "told when it ends.\n",
			   p->processId);
	jw_kstrn(&w, "summary", buf_cstr(&summary), summary.len);
	jw_kopt(&w, "note", note);
	jw_karr(&w, "outputs");
	if (live)
		write_live(live, from, tx, &w);
	else
		write_ended(engine, p, from, &w);
	jw_arr_end(&w);
	jw_obj_end(&w);
}
