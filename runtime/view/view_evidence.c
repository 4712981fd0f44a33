#include "runtime/view/view_evidence.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/store/store.h"
#include "runtime/view/projections.h"
#include "runtime/view/view_ids.h"

#define SHOWN_MAX 50u

/* Content by its hash, so that the same bytes are not kept twice. */
static int project_files(struct models *m, const struct event_view *ev, const struct evidence_doc *d, struct err *e)
{
	if (event_from_client(ev))
		return 0;
	for (struct jiter it = jiter_on(jval_get(event_payload(ev), "files")); jiter_next(&it);) {
		struct evidence_content_doc c;
		char key[VIEW_CONTENT_KEY], hash[ID_SIZE] = "";

		view_copy_string(hash, jval_get(it.value, "sha256"));
		snprintf(key, sizeof(key), "%s/%s", d->sessionId, hash);
		view_clear(&evidence_content_schema, &c);
		id_copy(c.evidenceId, d->evidenceId);
		view_copy_string(c.ref, jval_get(it.value, "ref"));
		if (hash[0] && view_save(m, &evidence_content_schema, key, &c, e) < 0)
			return -1;
	}
	return 0;
}

int view_evidence_on_changed(struct models *m, const struct event_view *ev, struct err *e)
{
	struct evidence_doc d;
	int r = view_open_event(m, &evidence_schema, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	if (d.exports == VIEW_ABSENT)
		d.fromClient = event_from_client(ev);
	struct jval outcomes = jval_get(event_payload(ev), "verificationOutcomes");
	/* A client may report how an export of the runtime was verified, but not change what it is. */
	if (!event_from_client(ev) || d.fromClient)
		view_copy_members(&evidence_schema, &d, event_payload(ev));
	else if (outcomes.type == JT_ARRAY)
		d.verificationOutcomes = outcomes;
	if (!event_from_client(ev))
		view_copy_string(d.kind, jval_get(event_payload(ev), "kind"));
	event_id_copy(ev, ID_TRACE, d.traceId, sizeof(d.traceId));
	d.exports = view_add(d.exports, 1);
	if (view_save(m, &evidence_schema, d.evidenceId, &d, e) < 0) /* first: its slices point into the old document */
		return -1;
	const char *owners[] = { d.sessionId, d.threadId, d.turnId, d.taskId };
	for (size_t i = 0; i < countof(owners); i++)
		if (view_list_put(m, VIEW_OWNER_EVIDENCE, owners[i], d.evidenceId, e) < 0)
			return -1;
	return project_files(m, ev, &d, e);
}

/* ---- for snapshots ---- */

static int newest_evidence(struct store *s, const char *owner, struct view_ids *ret, struct err *e)
{
	return view_members(s, VIEW_OWNER_EVIDENCE, owner, VIEW_NEWEST_FIRST, SHOWN_MAX, ret, e);
}

/* The values of one member of the documents; arrays are flattened. */
static int write_each(struct store *s, const struct view_ids *ids, const char *key, size_t offset, struct jw *w,
		      struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct evidence_doc d;

	jw_karr(w, key);
	for (size_t i = ids->n; i-- > 0;) {
		int r = view_read(s, &evidence_schema, ids->id[i], &text, &d, e);

		if (r < 0)
			return -1;
		struct jval v = *(const struct jval *)((const char *)&d + offset);
		if (r > 0 || v.type == JT_NONE)
			continue;
		if (v.type != JT_ARRAY) {
			jw_raw(w, v.text, v.len);
			continue;
		}
		for (struct jiter it = jiter_on(v); jiter_next(&it);)
			if (it.value.type == JT_OBJECT)
				jw_raw(w, it.value.text, it.value.len);
	}
	jw_arr_end(w);
	return 0;
}

static void write_refs(const struct view_ids *ids, struct jw *w)
{
	jw_karr(w, "evidenceRefs");
	for (size_t i = ids->n; i-- > 0;)
		jw_str(w, ids->id[i]);
	jw_arr_end(w);
}

int view_write_evidence(struct store *s, const char *owner_id, bool outcomes, struct jw *w, struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;

	if (newest_evidence(s, owner_id, &ids, e) < 0)
		return -1;
	write_refs(&ids, w);
	if (!outcomes)
		return 0;
	return write_each(s, &ids, "verificationOutcomes", offsetof(struct evidence_doc, verificationOutcomes), w, e);
}

static int write_records(struct store *s, const struct view_ids *ids, struct jw *w, struct err *e)
{
	buf_auto struct buf text = BUF_INIT, out = BUF_INIT;
	struct evidence_doc d;

	jw_karr(w, "evidence");
	for (size_t i = ids->n; i-- > 0;) {
		int r = view_read(s, &evidence_schema, ids->id[i], &text, &d, e);

		if (r < 0)
			return -1;
		if (r > 0)
			continue;
		d.uid = VIEW_ABSENT;
		buf_reset(&out);
		view_encode(&evidence_schema, &d, &out);
		jw_raw(w, out.data, out.len);
	}
	jw_arr_end(w);
	return 0;
}

int view_evidence_summary(struct store *s, const char *session_id, struct jw *w, struct err *e)
{
	static const struct {
		const char *key;
		size_t offset;
	} lists[] = {
		{ "packRefs", offsetof(struct evidence_doc, packRef) },
		{ "replayRefs", offsetof(struct evidence_doc, replayRef) },
		{ "reviewRefs", offsetof(struct evidence_doc, reviewRef) },
		{ "traceRefs", offsetof(struct evidence_doc, traceRef) },
		{ "verificationOutcomes", offsetof(struct evidence_doc, verificationOutcomes) },
	};
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;
	int more = newest_evidence(s, session_id, &ids, e);

	if (more < 0)
		return -1;
	jw_obj(w);
	jw_kstr(w, "sessionId", session_id);
	write_refs(&ids, w);
	for (size_t i = 0; i < countof(lists); i++)
		if (write_each(s, &ids, lists[i].key, lists[i].offset, w, e) < 0)
			return -1;
	if (write_records(s, &ids, w, e) < 0)
		return -1;
	jw_kbool(w, "truncated", more > 0);
	jw_obj_end(w);
	return 0;
}
