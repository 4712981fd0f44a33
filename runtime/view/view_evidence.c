/*
 * Evidence and benchmark trials. Exported content is found by its SHA-256, so that a second export does not store
 * the same bytes again. A trial is found by its id, by its run while it has not ended, and by data set and
 * configuration, which is the order in which comparisons read them.
 */

#include "runtime/view/view_evidence.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/store/store.h"
#include "runtime/view/projections.h"
#include "runtime/view/view_ids.h"

/* Entries in one reply; `truncated` reports that there are more. */
#define SHOWN_MAX 50u

/* Lists the evidence under everything that the event names, so that each snapshot finds its own. */
int view_evidence_on_changed(struct models *m, const struct event_view *ev, struct err *e)
{
	struct evidence_doc d;
	int r = view_open_event(m, &evidence_schema, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	if (d.exports == VIEW_ABSENT)
		d.fromClient = event_from_client(ev);
	struct jval outcomes = event_payload_member(ev, "verificationOutcomes");
	/* A client may report how an export of the runtime was verified, but not change what it is. */
	if (!event_from_client(ev) || d.fromClient)
		view_copy_payload(&evidence_schema, &d, ev);
	else if (outcomes.type == JT_ARRAY)
		d.verificationOutcomes = outcomes;
	if (!event_from_client(ev))
		view_copy_string(d.kind, event_payload_member(ev, "kind"));
	event_id_copy(ev, ID_TRACE, d.traceId, sizeof(d.traceId));
	d.exports = view_add(d.exports, 1);
	if (view_save(m, &evidence_schema, d.evidenceId, &d, e) < 0) /* first: its slices point into the old document */
		return -1;
	const char *owners[] = { d.sessionId, d.threadId, d.turnId, d.taskId };
	for (size_t i = 0; i < countof(owners); i++)
		if (view_list_put(m, VIEW_OWNER_EVIDENCE, owners[i], d.evidenceId, e) < 0)
			return -1;
	/* Content by its hash, so that the same bytes are not kept twice. */
	if (event_from_client(ev))
		return 0;
	for (struct jiter it = jiter_on(event_payload_member(ev, "files")); jiter_next(&it);) {
		struct evidence_content_doc c;
		char key[VIEW_CONTENT_KEY], hash[ID_SIZE] = "";

		view_copy_string(hash, jval_get(it.value, "sha256"));
		snprintf(key, sizeof(key), "%s/%s", d.sessionId, hash);
		view_clear(&evidence_content_schema, &c);
		id_copy(c.evidenceId, d.evidenceId);
		view_copy_string(c.ref, jval_get(it.value, "ref"));
		if (hash[0] && view_save(m, &evidence_content_schema, key, &c, e) < 0)
			return -1;
	}
	return 0;
}

/* ---- for snapshots ---- */

/* Newest first, so that the bound drops the oldest; the writers below reverse the order. */
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

/* Without the uid, which is the store's and not the client's. */
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

/* ---- benchmark ---- */

#define SHOWN_MAX 50u

void view_trial_key(uint32_t uid, const char *dataset, const char *configuration, const char *trial,
		    char ret[VIEW_TRIAL_KEY])
{
	snprintf(ret, VIEW_TRIAL_KEY, "%u/%.64s/%.64s/%.64s", uid, dataset, configuration, trial ? trial : "");
}

void view_benchmark_key(const char *session, char what, const char *id, const char *version, char ret[VIEW_TRIAL_KEY])
{
	snprintf(ret, VIEW_TRIAL_KEY, "%.64s/%c/%.64s%s%.64s", session, what, id, version ? "@" : "",
		 version ? version : "");
}

static int put_key(struct models *m, enum view_kind kind, const char *key, struct err *e)
{
	return models_put(m, (uint8_t)kind, key, strlen(key), "{}", 2, e);
}

/* A dataset or configuration that the session has recorded. */
int view_benchmark_on_resolved(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval b = event_member(ev, "benchmark");
	bool dataset = ev->type == EVENT_BENCHMARK_DATASET_RESOLVED;
	char session[ID_SIZE], id[ID_SIZE] = "", version[ID_SIZE] = "", key[VIEW_TRIAL_KEY];

	event_id_copy(ev, ID_SESSION, session, sizeof(session));
	view_copy_string(id, jval_get(b, dataset ? "datasetId" : "configurationId"));
	if (dataset)
		view_copy_string(version, jval_get(b, "datasetVersion"));
	view_benchmark_key(session, dataset ? 'd' : 'c', id, dataset ? version : NULL, key);
	return id[0] ? put_key(m, VIEW_BENCHMARK_KNOWN, key, e) : 0;
}

/* 1: the event names no trial. */
static int load_trial(struct models *m, const struct event_view *ev, struct trial_doc *d, struct err *e)
{
	char id[ID_SIZE] = "";

	view_copy_string(id, jval_get(event_member(ev, "benchmark"), "trialId"));
	if (!id[0])
		return 1;
	if (view_load(m, &trial_schema, id, d, e) < 0)
		return -1;
	id_copy(d->trialId, id);
	return 0;
}

/* Copies what comparisons filter by into strings; the rest stays JSON. */
int view_trial_on_started(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval b = event_member(ev, "benchmark");
	char key[VIEW_TRIAL_KEY];
	struct trial_doc d;
	int r = load_trial(m, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	view_copy_payload(&trial_schema, &d, ev);
	d.benchmark = b;
	d.refs = event_member(ev, "refs");
	id_copy(d.status, "running");
	view_copy_string(d.datasetId, jval_get(b, "datasetId"));
	view_copy_string(d.datasetVersion, jval_get(b, "datasetVersion"));
	view_copy_string(d.configurationId, jval_get(b, "configurationId"));
	view_copy_string(d.role, jval_get(b, "role"));
	view_copy_string(d.benchmarkTaskId, jval_get(b, "taskId"));
	event_id_copy(ev, ID_SESSION, d.sessionId, sizeof(d.sessionId));
	event_id_copy(ev, ID_THREAD, d.threadId, sizeof(d.threadId));
	event_id_copy(ev, ID_TURN, d.turnId, sizeof(d.turnId));
	event_id_copy(ev, ID_TASK, d.taskId, sizeof(d.taskId));
	event_id_copy(ev, ID_RUN, d.runId, sizeof(d.runId));
	event_id_copy(ev, ID_TRACE, d.traceId, sizeof(d.traceId));
	d.uid = ev->uid;
	d.startedAt = ev->real_us;
	if (view_save(m, &trial_schema, d.trialId, &d, e) < 0)
		return -1;
	view_trial_key(ev->uid, d.datasetId, d.configurationId, d.trialId, key);
	if (put_key(m, VIEW_CONFIGURATION_TRIAL, key, e) < 0)
		return -1;
	view_benchmark_key(d.sessionId, 't', d.trialId, NULL, key);
	if (put_key(m, VIEW_BENCHMARK_KNOWN, key, e) < 0)
		return -1;
	return view_list_put(m, VIEW_RUN_TRIAL, d.runId, d.trialId, e);
}

/* A second end keeps the time of the first. */
int view_trial_on_ended(struct models *m, const struct event_view *ev, struct err *e)
{
	struct trial_doc d;
	int r = load_trial(m, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	view_copy_payload(&trial_schema, &d, ev);
	id_copy(d.status, ev->type == EVENT_BENCHMARK_TRIAL_COMPLETED ? "completed" : "failed");
	d.timedOut = d.timedOut || jval_is_str(event_member(ev, "status"), "timed_out");
	if (!d.endedAt)
		d.endedAt = ev->real_us;
	if (view_save(m, &trial_schema, d.trialId, &d, e) < 0) /* first: its slices point into the old document */
		return -1;
	return view_list_del(m, VIEW_RUN_TRIAL, d.runId, d.trialId, e);
}

/* Each reward replaces the details of the one before. */
int view_trial_on_reward(struct models *m, const struct event_view *ev, struct err *e)
{
	struct trial_doc d;
	int r = load_trial(m, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	struct jval before = d.failureCategory;
	d.criteria = d.details = d.verifier = d.verifierStatus = d.failureCategory = (struct jval){ 0 };
	view_copy_payload(&trial_schema, &d, ev);
	/* a verifier that found no failure does not turn a failed run into a good one */
	if (strcmp(d.status, "failed") == 0 && jval_is_str(d.failureCategory, "none") && before.type != JT_NONE)
		d.failureCategory = before;
	d.rewards = view_add(d.rewards, 1);
	return view_save(m, &trial_schema, d.trialId, &d, e);
}

/* The trial was exported. */
int view_trial_on_evidence(struct models *m, const struct event_view *ev, struct err *e)
{
	char id[ID_SIZE] = "";
	struct trial_doc d;

	view_copy_string(id, event_payload_member(ev, "trialId"));
	if (!id[0] || event_from_client(ev))
		return 0;
	int r = view_load(m, &trial_schema, id, &d, e);
	if (r)
		return r < 0 ? -1 : 0;
	view_copy_string(d.packRef, event_payload_member(ev, "packRef"));
	view_copy_string(d.trajectoryRef, event_payload_member(ev, "trajectoryRef"));
	return view_save(m, &trial_schema, d.trialId, &d, e);
}

/* Only the latest comparison of a pair is kept; earlier ones are in the log. */
int view_benchmark_on_comparison(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval c = event_member(ev, "comparison");
	char session[ID_SIZE], baseline[ID_SIZE] = "", candidate[ID_SIZE] = "", key[VIEW_TRIAL_KEY];
	struct comparison_doc d;

	event_id_copy(ev, ID_SESSION, session, sizeof(session));
	view_copy_string(baseline, jval_get(c, "baseline"));
	view_copy_string(candidate, jval_get(c, "candidate"));
	snprintf(key, sizeof(key), "%.64s/%.64s/%.64s", session, baseline, candidate);
	view_clear(&comparison_schema, &d);
	id_copy(d.sessionId, session);
	d.benchmark = event_member(ev, "benchmark");
	d.comparison = c;
	d.comparedAt = ev->real_us;
	return view_save(m, &comparison_schema, key, &d, e);
}

/* ---- for snapshots ---- */

/* Not bounded: there is one document for each compared pair of configurations. */
static bool add_comparison(void *ctx, const char *id, size_t id_len, const char *json, size_t len)
{
	jw_raw(ctx, json, len);
	return true;
}

/* Without the uid, which is the store's and not the client's. */
static int write_trial(struct store *s, const char *id, struct jw *w, struct err *e)
{
	buf_auto struct buf text = BUF_INIT, out = BUF_INIT;
	struct trial_doc d;
	int r = view_read(s, &trial_schema, id, &text, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	d.uid = VIEW_ABSENT;
	view_encode(&trial_schema, &d, &out);
	jw_raw(w, out.data, out.len);
	return 0;
}

int view_benchmark_summary(struct store *s, const char *session_id, struct jw *w, struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;
	char prefix[ID_SIZE + 4];
	const struct view_ids_query q = {
		.kind = VIEW_BENCHMARK_KNOWN, .prefix = prefix, .descending = true, .max = SHOWN_MAX
	};

	snprintf(prefix, sizeof(prefix), "%.64s/t/", session_id);
	int more = view_ids(s, &q, &ids, NULL, e);
	if (more < 0)
		return -1;
	jw_obj(w);
	jw_kstr(w, "sessionId", session_id);
	jw_karr(w, "trials");
	for (size_t i = ids.n; i-- > 0;)
		if (write_trial(s, ids.id[i], w, e) < 0)
			return -1;
	jw_arr_end(w);
	jw_karr(w, "comparisons");
	snprintf(prefix, sizeof(prefix), "%.64s/", session_id);
	if (store_model_scan(s, VIEW_COMPARISON, prefix, NULL, false, add_comparison, w, e) < 0)
		return -1;
	jw_arr_end(w);
	jw_kbool(w, "truncated", more > 0);
	jw_obj_end(w);
	return 0;
}
