/*
 * Processes. Bytes and previews of the outputs are in documents of their own (below) and joined when a process
 * is read, so that counting output does not rewrite the process's document.
 */

#include "runtime/base/buf.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/event/payloads.h"
#include "runtime/store/store.h"
#include "runtime/view/projections.h"

#include <inttypes.h>

/* Listed from the start on, because cow_changes_sweep removes the overlays of runs that are not listed. */
bool process_on_started(struct projection *p, void *doc)
{
	struct process_doc *d = doc;

	if (jval_bool(d->cow, false))
		projection_list(p, true, VIEW_COW_PROCESS, d->processId, NULL);
	return true;
}

/*
 * kept false: the changes of a copy-on-write run are gone: applied, discarded, or there were none. What an apply
 * replaced stays until retention removes it.
 */
int view_process_on_artifact(struct models *m, const struct event_view *ev, struct err *e)
{
	char id[ID_SIZE];

	event_id_copy(ev, ID_PROCESS, id, sizeof(id));
	if (event_from_client(ev))
		return 0;
	if (jval_uint(event_payload_member(ev, "undoable"), 0) && view_list_put(m, VIEW_UNDO_PROCESS, id, NULL, e) < 0)
		return -1;
	if (jval_is_str(event_payload_member(ev, "source"), "retention") &&
	    view_list_del(m, VIEW_UNDO_PROCESS, id, NULL, e) < 0)
		return -1;
	return jval_bool(event_payload_member(ev, "kept"), true) ? 0 : view_list_del(m, VIEW_COW_PROCESS, id, NULL, e);
}

/* Only an end of file and a new window size matter. A terminal accepts input after an end of file. */
int view_process_on_input(struct models *m, const struct event_view *ev, struct err *e)
{
	struct process_input_json input;
	struct process_doc d;
	char tty[64];

	read_process_input(ev, &input);
	bool resized = jval_is_str(input.kind, "resize");
	if (!resized && !jval_is_str(input.kind, "eof"))
		return 0;
	int r = view_open_event(m, &process_schema, ev, &d, e);
	if (r)
		return r < 0 ? -1 : 0;
	if (d.tty.type == JT_OBJECT && !resized)
		return 0;
	if (resized) {
		int n = snprintf(tty, sizeof(tty), "{\"rows\":%" PRIu64 ",\"cols\":%" PRIu64 "}",
				 jval_uint(input.rows, 0), jval_uint(input.cols, 0));
		d.tty = jval_of(tty, (size_t)n);
	} else {
		d.stdinClosed = true;
	}
	return view_save(m, &process_schema, d.processId, &d, e);
}

/* The status follows from the type of the event; that of a failure from its status, too. */
static void set_status(const struct event_view *ev, struct process_doc *d)
{
	struct jval status = event_member(ev, "status");

	view_copy_string(d->statusReason, event_member(ev, "statusReason"));
	switch (ev->type) {
	case EVENT_PROCESS_COMPLETED: id_copy(d->status, "completed"); break;
	case EVENT_PROCESS_TERMINATED:
		id_copy(d->status, "terminated");
		if (!d->statusReason[0])
			view_copy_string(d->statusReason, event_payload_member(ev, "reason"));
		break;
	default:
		id_copy(d->status, jval_is_str(status, "lost") ? "lost" : "failed");
		if (!d->statusReason[0] && jval_is_str(status, "timed_out"))
			id_copy(d->statusReason, "timed_out");
	}
}

/* Records the sequence of the end, by which retention finds processes with outputs. */
bool process_on_ended(struct projection *p, void *doc)
{
	struct jval profile = event_payload_member(p->event, "profile");
	struct process_doc *d = doc;
	char ended[VIEW_ORDER_KEY_MAX];

	if (profile.type == JT_STRING)
		d->sandboxProfile = profile;
	set_status(p->event, d);
	d->endSequence = p->event->sequence;
	/* Retention removes outputs: a process without any is not listed for it. */
	struct jiter it = jiter_on(d->outputRefs);
	if (d->commandRef.type == JT_STRING || jiter_next(&it)) {
		view_order_key(d->endSequence, ended);
		projection_list(p, true, VIEW_ENDED_PROCESS, ended, d->processId);
	}
	return true;
}

/* The outputs of a process expire together, so the first one removes it from the list. */
int view_process_on_output_expired(struct models *m, const struct event_view *ev, struct err *e)
{
	char ended[VIEW_ORDER_KEY_MAX];
	struct process_doc d;
	int r = view_open_event(m, &process_schema, ev, &d, e);

	if (r || d.endSequence == VIEW_ABSENT)
		return r < 0 ? -1 : 0;
	view_order_key(d.endSequence, ended);
	return view_list_del(m, VIEW_ENDED_PROCESS, ended, d.processId, e);
}

/* ---- output ---- */

/* 1: the ref is "". */
static int load_output(struct models *m, const struct event_view *ev, const char *ref, struct output_doc *d,
		       struct err *e)
{
	if (!*ref)
		return 1;
	if (view_open(m, &output_schema, ev, ref, d, e) < 0)
		return -1;
	id_copy(d->outputRef, ref);
	return 0;
}

/* The output that the event is about. 1: it names none. */
static int load_event_output(struct models *m, const struct event_view *ev, struct output_doc *d, struct err *e)
{
	char ref[ID_SIZE] = "";

	event_id_copy(ev, ID_OUTPUT, ref, sizeof(ref));
	if (!*ref)
		view_copy_string(ref, event_payload_member(ev, "outputRef"));
	int r = load_output(m, ev, ref, d, e);
	if (r == 0)
		view_copy_string(d->stream, event_payload_member(ev, "stream"));
	return r;
}

static int save_output(struct models *m, const struct output_doc *d, struct err *e)
{
	return view_save(m, &output_schema, d->outputRef, d, e);
}

/* An output that is complete from the start, not a stream. */
static void set_whole(struct output_doc *d, const char *stream, const char *media_type, uint64_t bytes)
{
	id_copy(d->stream, stream);
	d->mediaType = jval_of(media_type, strlen(media_type));
	d->bytes = bytes;
	d->ended = true;
}

/* A command that was too long for its event. */
static int project_command(struct models *m, const struct event_view *ev, struct err *e)
{
	char ref[ID_SIZE] = "";
	struct output_doc d;
	int r;

	view_copy_string(ref, event_payload_member(ev, "commandRef"));
	r = load_output(m, ev, ref, &d, e);
	if (r)
		return r < 0 ? -1 : 0;
	set_whole(&d, "command", "\"application/json\"", jval_uint(event_payload_member(ev, "commandBytes"), d.bytes));
	return save_output(m, &d, e);
}

/* The input of a turn or tool call, or the result of a client's tool. No process writes it. */
int view_output_on_input(struct models *m, const struct event_view *ev, struct err *e)
{
	bool result = ev->type == EVENT_TOOL_RESULT;
	char ref[ID_SIZE] = "";
	struct output_doc d;
	uint64_t bytes = jval_uint(event_payload_member(ev, result ? "rawOutputBytes" : "inputBytes"), VIEW_ABSENT);
	int r;

	view_copy_string(ref, event_payload_member(ev, result ? "rawOutputRef" : "inputRef"));
	r = bytes == VIEW_ABSENT ? 1 : load_output(m, ev, ref, &d, e);
	if (r || d.ended)
		return r < 0 ? -1 : 0;
	set_whole(&d, result ? "result" : "input", "\"application/json\"", bytes);
	return save_output(m, &d, e);
}

/* The diff of a changed file. Events that a client emitted are not about outputs of ours. */
int view_output_on_artifact(struct models *m, const struct event_view *ev, struct err *e)
{
	char ref[ID_SIZE] = "";
	struct output_doc d;
	int r;

	if (event_from_client(ev) || !jval_is_str(event_payload_member(ev, "source"), "run"))
		return 0;
	view_copy_string(ref, event_payload_member(ev, "diffRef"));
	r = load_output(m, ev, ref, &d, e);
	if (r || d.ended || !d.processId[0])
		return r < 0 ? -1 : 0;
	set_whole(&d, "diff", "\"text/x-diff\"", jval_uint(event_payload_member(ev, "diffBytes"), 0));
	if (save_output(m, &d, e) < 0)
		return -1;
	return view_list_put(m, VIEW_PROCESS_DIFF, d.processId, d.outputRef, e);
}

/* One document per stream of the process, before any byte: readers can tell "empty" from "unknown". */
int view_output_on_started(struct models *m, const struct event_view *ev, struct err *e)
{
	if (project_command(m, ev, e) < 0)
		return -1;
	for (struct jiter it = jiter_on(event_payload_member(ev, "outputRefs")); jiter_next(&it);) {
		char ref[ID_SIZE] = "";
		struct output_doc d;
		int r;

		view_copy_string(ref, jval_get(it.value, "outputRef"));
		r = load_output(m, ev, ref, &d, e);
		if (r < 0)
			return -1;
		if (r > 0)
			continue;
		view_copy_string(d.stream, jval_get(it.value, "stream"));
		if (save_output(m, &d, e) < 0)
			return -1;
	}
	return 0;
}

/* The exact bytes of the event's preview. */
static void read_preview(struct jval payload, struct buf *out)
{
	buf_auto struct buf text = BUF_INIT;

	jval_str_buf(jval_get(payload, "preview"), &text);
	if (!jval_is_str(jval_get(payload, "encoding"), "base64"))
		buf_append(out, buf_cstr(&text), text.len);
	else if (text_base64_decode(buf_cstr(&text), text.len, out) < 0)
		buf_reset(out);
}

/* Extends the stored first bytes of the stream, if this range follows them directly. */
static int project_preview(struct models *m, const char *ref, struct jval payload, struct err *e)
{
	buf_auto struct buf bytes = BUF_INIT, more = BUF_INIT, text = BUF_INIT, json = BUF_INIT;
	uint64_t offset = jval_uint(jval_get(payload, "offset"), VIEW_ABSENT);
	struct preview_doc d;
	struct jw w = jw_on(&json);

	if (offset >= VIEW_PREVIEW_BYTES)
		return 0;
	if (view_load(m, &preview_schema, ref, &d, e) < 0)
		return -1;
	jval_str_buf(d.base64, &text);
	if (text_base64_decode(buf_cstr(&text), text.len, &bytes) < 0 || bytes.len != offset)
		return 0;
	read_preview(payload, &more);
	if (more.len > VIEW_PREVIEW_BYTES - bytes.len)
		more.len = VIEW_PREVIEW_BYTES - bytes.len;
	if (!more.len)
		return 0;
	buf_append(&bytes, more.data, more.len);
	jw_base64(&w, bytes.data, bytes.len);
	d.base64 = jval_of(json.data, json.len);
	return view_save(m, &preview_schema, ref, &d, e);
}

/* The count changes and, at the start of the stream, the preview; the bytes are in the spool file or the store. */
int view_output_on_output(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev);
	uint64_t offset = jval_uint(event_payload_member(ev, "offset"), 0),
		 length = jval_uint(event_payload_member(ev, "length"), 0), end;
	struct output_doc d;
	int r = load_event_output(m, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	if (!__builtin_add_overflow(offset, length, &end) && end > d.bytes)
		d.bytes = end;
	if (save_output(m, &d, e) < 0)
		return -1;
	return project_preview(m, d.outputRef, payload, e);
}

/* For a stream only the place of its bytes changes; a complete file, such as an export, gets its document here. */
int view_output_on_spilled(struct models *m, const struct event_view *ev, struct err *e)
{
	struct output_doc d;
	int r = load_event_output(m, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	view_copy_payload(&output_schema, &d, ev);
	d.spilled = true;
	if (jval_bool(event_payload_member(ev, "complete"), false)) { /* not a stream */
		view_copy_string(d.stream, event_payload_member(ev, "stream"));
		d.bytes = jval_uint(event_payload_member(ev, "bytes"), 0);
		d.ended = true;
	}
	return save_output(m, &d, e);
}

/* Offsets are absolute in the stream. Absent members keep the earlier values. */
static void set_omission(struct output_doc *d, struct jval v)
{
	d->omittedBytes = jval_uint(jval_get(v, "omittedBytes"), d->omittedBytes);
	d->omittedFrom = jval_uint(jval_get(v, "omittedFrom"), d->omittedFrom);
	d->omittedTo = jval_uint(jval_get(v, "omittedTo"), d->omittedTo);
}

/* An early notice; the final range comes with the end of the process (end_output). */
int view_output_on_truncated(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev);
	struct output_doc d;
	int r = load_event_output(m, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	d.truncated = true;
	set_omission(&d, payload);
	return save_output(m, &d, e);
}

/* The document stays without its preview: a client learns that the output has expired. */
int view_output_on_expired(struct models *m, const struct event_view *ev, struct err *e)
{
	struct output_doc d;
	int r = load_event_output(m, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	d.expired = true;
	d.expiredAt = ev->real_us;
	if (save_output(m, &d, e) < 0)
		return -1;
	return view_list_del(m, VIEW_PREVIEW, d.outputRef, NULL, e);
}

/* `final` is the terminal event's entry for this output, if it has one. */
static int end_output(struct models *m, const struct event_view *ev, const char *ref, struct jval final, struct err *e)
{
	struct output_doc d;
	int r = load_output(m, ev, ref, &d, e);

	if (r || d.ended)
		return r < 0 ? -1 : 0;
	d.ended = true;
	d.bytes = jval_uint(jval_get(final, "bytes"), d.bytes);
	if (jval_bool(jval_get(final, "truncated"), false))
		d.truncated = true;
	set_omission(&d, final);
	return save_output(m, &d, e);
}

/* Marks every stream as complete. */
int view_output_on_process_ended(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval outputs = event_payload_member(ev, "outputs");
	char id[ID_SIZE], ref[ID_SIZE], stream[ID_SIZE];
	mem_auto char *refs = NULL;
	struct process_doc p;
	size_t len;

	for (struct jiter it = jiter_on(outputs); jiter_next(&it);) {
		ref[0] = '\0';
		view_copy_string(ref, jval_get(it.value, "outputRef"));
		if (end_output(m, ev, ref, it.value, e) < 0)
			return -1;
	}
	event_id_copy(ev, ID_PROCESS, id, sizeof(id));
	if (!*id)
		return 0;
	if (view_load(m, &process_schema, id, &p, e) < 0)
		return -1;
	/* A copy: the next call on the models invalidates it. */
	len = p.outputRefs.len;
	refs = mem_strndup(len ? p.outputRefs.text : "", len);
	for (struct jiter it = jiter_on(jval_of(refs, len)); jiter_next(&it);) {
		ref[0] = stream[0] = '\0';
		view_copy_string(ref, jval_get(it.value, "outputRef"));
		view_copy_string(stream, jval_get(it.value, "stream"));
		if (end_output(m, ev, ref, jval_get(outputs, stream), e) < 0)
			return -1;
	}
	return 0;
}

/* ---- violation ---- */

/* A command can violate its sandbox in a loop: the document keeps a bounded list, the log has every event. */
#define VIOLATIONS_KEPT 32

/* Violations with the same kind and target. Texts are compared as written: one writer writes them all. */
static bool is_same_violation(struct jval a, struct jval b)
{
	static const char *const members[] = { "kind", "operation", "path", "pathIs",
					       "host", "address",   "port", "confidence" };

	for (size_t i = 0; i <= countof(members); i++) {
		const char *name = i < countof(members) ? members[i] : "syscall";
		struct jval x = jval_get(a, name), y = jval_get(b, name);

		if (i == countof(members) && !jval_is_str(jval_get(a, "kind"), "syscall"))
			break;
		if (x.type != y.type || x.len != y.len || (x.len && memcmp(x.text, y.text, x.len) != 0))
			return false;
	}
	return true;
}

/* An entry: the payload with another count. */
static void write_entry(struct jw *w, struct jval payload, uint64_t count)
{
	jw_obj(w);
	for (struct jiter it = jiter_on(payload); jiter_next(&it);) {
		char key[64];

		if (jval_is_str(it.key, "count") || jval_str(it.key, key, sizeof key) >= sizeof key)
			continue;
		jw_kraw(w, key, it.value.text, it.value.len);
	}
	jw_kuint(w, "count", count);
	jw_obj_end(w);
}

/* The number of entries, and the index of the one that matches the payload: −1 = none. */
static size_t find_violation(struct jval list, struct jval payload, ssize_t *ret_at)
{
	size_t n = 0;

	*ret_at = -1;
	for (struct jiter it = jiter_on(list); jiter_next(&it); n++)
		if (*ret_at < 0 && is_same_violation(it.value, payload))
			*ret_at = (ssize_t)n;
	return n;
}

/* At the limit a new violation replaces the oldest; a known one only counts up. */
static void write_list(struct jw *w, struct jval list, struct jval payload, uint64_t count)
{
	ssize_t found, at = 0;
	bool full = find_violation(list, payload, &found) >= VIOLATIONS_KEPT;

	jw_arr(w);
	for (struct jiter it = jiter_on(list); jiter_next(&it); at++) {
		if (at == found)
			write_entry(w, it.value, jval_uint(jval_get(it.value, "count"), 0) + count);
		else if (at > 0 || found >= 0 || !full)
			jw_raw(w, it.value.text, it.value.len);
	}
	if (found < 0)
		write_entry(w, payload, count);
	jw_arr_end(w);
}

/* Hints do not count: they are guesses from the command's output. */
int view_violation_on_reported(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev);
	uint64_t count = jval_uint(event_payload_member(ev, "count"), 1);
	buf_auto struct buf list = BUF_INIT;
	struct jw w = jw_on(&list);
	struct violation_doc d;
	char id[ID_SIZE];

	event_id_copy(ev, ID_PROCESS, id, sizeof id);
	if (!*id)
		return 0;
	if (view_load(m, &violation_schema, id, &d, e) < 0)
		return -1;
	d.violationCount = view_counted(d.violationCount);
	if (!jval_is_str(event_payload_member(ev, "confidence"), "hint"))
		d.violationCount += count;
	write_list(&w, d.violations, payload, count);
	d.violations = jval_of(list.data, list.len);
	return view_save(m, &violation_schema, id, &d, e);
}
