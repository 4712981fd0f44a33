#include "runtime/view/projections.h"

#include "runtime/base/buf.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/store/store.h"

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
		view_copy_string(ref, jval_get(event_payload(ev), "outputRef"));
	int r = load_output(m, ev, ref, d, e);
	if (r == 0)
		view_copy_string(d->stream, jval_get(event_payload(ev), "stream"));
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
	struct jval payload = event_payload(ev);
	char ref[ID_SIZE] = "";
	struct output_doc d;
	int r;

	view_copy_string(ref, jval_get(payload, "commandRef"));
	r = load_output(m, ev, ref, &d, e);
	if (r)
		return r < 0 ? -1 : 0;
	set_whole(&d, "command", "\"application/json\"", jval_uint(jval_get(payload, "commandBytes"), d.bytes));
	return save_output(m, &d, e);
}

/* The input of a turn or tool call, or the result of a client's tool. No process writes it. */
int view_output_on_input(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev);
	bool result = ev->type == EVENT_TOOL_RESULT;
	char ref[ID_SIZE] = "";
	struct output_doc d;
	uint64_t bytes = jval_uint(jval_get(payload, result ? "rawOutputBytes" : "inputBytes"), VIEW_ABSENT);
	int r;

	view_copy_string(ref, jval_get(payload, result ? "rawOutputRef" : "inputRef"));
	r = bytes == VIEW_ABSENT ? 1 : load_output(m, ev, ref, &d, e);
	if (r || d.ended)
		return r < 0 ? -1 : 0;
	set_whole(&d, result ? "result" : "input", "\"application/json\"", bytes);
	return save_output(m, &d, e);
}

/* The diff of a changed file. Events that a client emitted are not about outputs of ours. */
int view_output_on_artifact(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev);
	char ref[ID_SIZE] = "";
	struct output_doc d;
	int r;

	if (event_from_client(ev) || !jval_is_str(jval_get(payload, "source"), "run"))
		return 0;
	view_copy_string(ref, jval_get(payload, "diffRef"));
	r = load_output(m, ev, ref, &d, e);
	if (r || d.ended || !d.processId[0])
		return r < 0 ? -1 : 0;
	set_whole(&d, "diff", "\"text/x-diff\"", jval_uint(jval_get(payload, "diffBytes"), 0));
	if (save_output(m, &d, e) < 0)
		return -1;
	return view_list_put(m, VIEW_PROCESS_DIFF, d.processId, d.outputRef, e);
}

int view_output_on_started(struct models *m, const struct event_view *ev, struct err *e)
{
	if (project_command(m, ev, e) < 0)
		return -1;
	for (struct jiter it = jiter_on(jval_get(event_payload(ev), "outputRefs")); jiter_next(&it);) {
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

int view_output_on_output(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev);
	uint64_t offset = jval_uint(jval_get(payload, "offset"), 0), length = jval_uint(jval_get(payload, "length"), 0),
		 end;
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

int view_output_on_spilled(struct models *m, const struct event_view *ev, struct err *e)
{
	struct output_doc d;
	int r = load_event_output(m, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	struct jval payload = event_payload(ev);
	view_copy_members(&output_schema, &d, payload);
	d.spilled = true;
	if (jval_bool(jval_get(payload, "complete"), false)) { /* not a stream */
		view_copy_string(d.stream, jval_get(payload, "stream"));
		d.bytes = jval_uint(jval_get(payload, "bytes"), 0);
		d.ended = true;
	}
	return save_output(m, &d, e);
}

static void set_omission(struct output_doc *d, struct jval v)
{
	d->omittedBytes = jval_uint(jval_get(v, "omittedBytes"), d->omittedBytes);
	d->omittedFrom = jval_uint(jval_get(v, "omittedFrom"), d->omittedFrom);
	d->omittedTo = jval_uint(jval_get(v, "omittedTo"), d->omittedTo);
}

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

int view_output_on_expired(struct models *m, const struct event_view *ev, struct err *e)
{
	struct output_doc d;
	int r = load_event_output(m, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	d.expired = true;
	d.expiredAt = ev->real_us;
	if (save_output(m, &d, e) < 0 || view_list_del(m, VIEW_PROCESS_DIFF, d.processId, d.outputRef, e) < 0)
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

int view_output_on_process_ended(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval outputs = jval_get(event_payload(ev), "outputs");
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
