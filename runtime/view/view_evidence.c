#include "runtime/view/view_evidence.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/store/store.h"
#include "runtime/view/projections.h"
#include "runtime/view/view_ids.h"

#define SHOWN_MAX 50u

static const struct view_field fields[] = {
	VIEW_FIELD(VIEW_ID, evidence_doc, evidenceId),
	VIEW_FIELD(VIEW_ID, evidence_doc,
		   kind), /* evidence_pack, replay_case, review, benchmark_trial; of a client's: verification */
	VIEW_FIELD(VIEW_FLAG, evidence_doc, fromClient),
	VIEW_FIELD(VIEW_JSON, evidence_doc, packRef),
	VIEW_FIELD(VIEW_JSON, evidence_doc, replayRef),
	VIEW_FIELD(VIEW_JSON, evidence_doc, reviewRef),
	VIEW_FIELD(VIEW_JSON, evidence_doc, traceRef),
	VIEW_FIELD(VIEW_JSON, evidence_doc, trajectoryRef),
	VIEW_FIELD(VIEW_JSON, evidence_doc, runtimeTranscriptRef),
	VIEW_FIELD(VIEW_JSON, evidence_doc, artifactManifestRef),
	VIEW_FIELD(VIEW_JSON, evidence_doc, sha256),
	VIEW_FIELD(VIEW_JSON, evidence_doc, bytes),
	VIEW_FIELD(VIEW_JSON, evidence_doc, events),
	VIEW_FIELD(VIEW_JSON, evidence_doc, throughSequence),
	VIEW_FIELD(VIEW_JSON, evidence_doc, verificationOutcomes),
	VIEW_FIELD(VIEW_JSON, evidence_doc, producer),
	VIEW_FIELD(VIEW_UINT, evidence_doc, exports), /* how often it was told */
	VIEW_FIELD(VIEW_ID, evidence_doc, sessionId),
	VIEW_FIELD(VIEW_ID, evidence_doc, threadId),
	VIEW_FIELD(VIEW_ID, evidence_doc, turnId),
	VIEW_FIELD(VIEW_ID, evidence_doc, taskId),
	VIEW_FIELD(VIEW_ID, evidence_doc, traceId),
	VIEW_FIELD(VIEW_TIME, evidence_doc, createdAt),
	VIEW_FIELD(VIEW_TIME, evidence_doc, updatedAt),
	VIEW_FIELD(VIEW_UINT, evidence_doc, uid),
};
const struct view_schema evidence_schema = { VIEW_EVIDENCE, sizeof(struct evidence_doc), fields, countof(fields) };

static const struct view_field content_fields[] = {
	VIEW_FIELD(VIEW_ID, evidence_content_doc, evidenceId),
	VIEW_FIELD(VIEW_ID, evidence_content_doc, ref),
};
const struct view_schema evidence_content_schema = { VIEW_EVIDENCE_CONTENT, sizeof(struct evidence_content_doc),
						     content_fields, countof(content_fields) };

/* Which bytes are behind which ref, so that the same need not be kept twice. */
static int fold_files(struct models *m, const struct event_view *ev, const struct evidence_doc *d, struct err *e)
{
	if (event_from_client(ev))
		return 0;
	for (struct jiter it = jiter_on(jval_get(event_payload(ev), "files")); jiter_next(&it);) {
		struct evidence_content_doc c;
		char key[VIEW_CONTENT_KEY], hash[VIEW_ID_MAX] = "";

		view_copy_string(hash, jval_get(it.value, "sha256"));
		snprintf(key, sizeof(key), "%s/%s", d->sessionId, hash);
		view_clear(&evidence_content_schema, &c);
		view_set_string(c.evidenceId, d->evidenceId);
		view_copy_string(c.ref, jval_get(it.value, "ref"));
		if (hash[0] && view_save(m, &evidence_content_schema, key, &c, e) < 0)
			return -1;
	}
	return 0;
}

int view_evidence_on_changed(struct models *m, const struct event_view *ev, struct err *e)
{
	char id[VIEW_ID_MAX];
	struct evidence_doc d;

	event_id_copy(ev, ID_EVIDENCE, id, sizeof(id));
	if (!*id)
		return 0;
	if (view_load(m, &evidence_schema, id, &d, e) < 0)
		return -1;
	if (!d.evidenceId[0]) {
		view_set_string(d.evidenceId, id);
		view_set_string(d.kind, "verification");
		d.uid = ev->uid;
		d.createdAt = ev->real_us;
		d.fromClient = event_from_client(ev);
		event_id_copy(ev, ID_SESSION, d.sessionId, sizeof(d.sessionId));
		event_id_copy(ev, ID_THREAD, d.threadId, sizeof(d.threadId));
		event_id_copy(ev, ID_TURN, d.turnId, sizeof(d.turnId));
		event_id_copy(ev, ID_TASK, d.taskId, sizeof(d.taskId));
	}
	struct jval outcomes = jval_get(event_payload(ev), "verificationOutcomes");
	/* Of what the runtime exported a client may tell how it was verified, not what it is. */
	if (!event_from_client(ev) || d.fromClient)
		view_copy_members(&evidence_schema, &d, event_payload(ev));
	else if (outcomes.type == JT_ARRAY)
		d.verificationOutcomes = outcomes;
	if (!event_from_client(ev))
		view_copy_string(d.kind, jval_get(event_payload(ev), "kind"));
	event_id_copy(ev, ID_TRACE, d.traceId, sizeof(d.traceId));
	d.exports = (d.exports == VIEW_ABSENT ? 0 : d.exports) + 1;
	d.updatedAt = ev->real_us;
	if (view_save(m, &evidence_schema, d.evidenceId, &d, e) < 0) /* first: its slices point into the old document */
		return -1;
	const char *owners[] = { d.sessionId, d.threadId, d.turnId, d.taskId };
	for (size_t i = 0; i < countof(owners); i++)
		if (view_list_put(m, VIEW_OWNER_EVIDENCE, owners[i], d.evidenceId, e) < 0)
			return -1;
	return fold_files(m, ev, &d, e);
}

/* ---- for snapshots ---- */

static int latest(struct store *s, const char *owner, struct view_ids *ret, struct err *e)
{
	char prefix[VIEW_ID_MAX + 2];
	const struct view_ids_query q = {
		.kind = VIEW_OWNER_EVIDENCE, .prefix = prefix, .descending = true, .max = SHOWN_MAX
	};

	snprintf(prefix, sizeof(prefix), "%s/", owner);
	return view_ids(s, &q, ret, NULL, e);
}

/* What the documents have under this member, one after another; arrays are taken apart. */
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

	if (latest(s, owner_id, &ids, e) < 0)
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
	int more = latest(s, session_id, &ids, e);

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
