/*
 * Compactions and rollbacks of a thread, and the artifacts of a session. Rolled-back turns keep their documents and
 * are only listed: the log keeps their events, and snapshots mark them. VIEW_OPEN_HISTORY lists threads with an
 * unfinished operation.
 */

#include "runtime/view/view_history.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/store/store.h"
#include "runtime/view/projections.h"

#include <string.h>

/* Bounds of one document and of one reply; older boundaries stay in the log. */
#define BOUNDARIES_KEPT 8
#define ARTIFACTS_SHOWN 100u
#define ARTIFACT_KEY_MAX 480

/* ---- projections ---- */

/* A fact of a system turn names the thread in its payload. 1: no thread. */
static int load_history(struct models *m, const struct event_view *ev, struct history_doc *d, struct err *e)
{
	char id[ID_SIZE] = "";

	view_copy_string(id, event_payload_member(ev, "threadId"));
	if (!*id)
		event_id_copy(ev, ID_THREAD, id, sizeof id);
	if (!*id)
		return 1;
	if (view_open(m, &history_schema, ev, id, d, e) < 0)
		return -1;
	id_copy(d->threadId, id);
	return 0;
}

/* The list of open operations is derived from the document each time, so the two cannot disagree. */
static int save_history(struct models *m, const struct history_doc *d, struct err *e)
{
	bool open = strcmp(d->compaction, "open") == 0 || strcmp(d->rollback, "open") == 0;

	if (view_save(m, &history_schema, d->threadId, d, e) < 0)
		return -1;
	return open ? view_list_put(m, VIEW_OPEN_HISTORY, d->threadId, NULL, e)
		    : view_list_del(m, VIEW_OPEN_HISTORY, d->threadId, NULL, e);
}

/* Started, completed or failed. */
int view_history_on_compaction(struct models *m, const struct event_view *ev, struct err *e)
{
	buf_auto struct buf boundaries = BUF_INIT;
	struct history_doc d;
	int r = load_history(m, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	if (ev->type == EVENT_CONTEXT_COMPACTION_STARTED) {
		d.turns = d.tokensBefore = d.tokensAfter = d.summaryRef = d.preview = d.failure = (struct jval){ 0 };
		d.keptActions = d.incidents = d.artifactRefs = d.evidenceRefs = d.continuation = (struct jval){ 0 };
		d.startedAt = ev->real_us;
		d.dueUs = jval_uint(event_payload_member(ev, "dueUs"), VIEW_ABSENT);
		event_id_copy(ev, ID_TURN, d.compactionTurnId, sizeof d.compactionTurnId);
		id_copy(d.compaction, "open");
	} else {
		d.dueUs = VIEW_ABSENT;
		id_copy(d.compaction, ev->type == EVENT_CONTEXT_COMPACTION_COMPLETED ? "completed" : "failed");
	}
	view_copy_payload(&history_schema, &d, ev);
	if (ev->type == EVENT_CONTEXT_COMPACTION_FAILED)
		d.failure = event_payload_member(ev, "reason");
	if (ev->type == EVENT_CONTEXT_COMPACTION_COMPLETED) {
		d.compactedAt = ev->real_us;
		d.compactions = view_add(d.compactions, 1);
		/* the boundaries up to now and the one of this event */
		struct jw w = jw_on(&boundaries);
		char at[CLOCK_TEXT_MAX];
		size_t n = 0, at_entry = 0;

		for (struct jiter it = jiter_on(d.boundaries); jiter_next(&it);)
			n++;
		jw_arr(&w);
		for (struct jiter it = jiter_on(d.boundaries); jiter_next(&it); at_entry++)
			if (n < BOUNDARIES_KEPT || at_entry > 0)
				jw_raw(&w, it.value.text, it.value.len);
		clock_format(ev->real_us, at);
		jw_obj(&w);
		jw_kstr(&w, "at", at);
		jw_kstr(&w, "turnId", d.compactionTurnId);
		view_write_members(&w, &history_schema, &d, "trigger summaryRef");
		jw_obj_end(&w);
		jw_arr_end(&w);
		d.boundaries = jval_of(boundaries.data, boundaries.len);
	}
	return save_history(m, &d, e);
}

/* The removed turns are listed when the rollback has completed, not when it starts. */
int view_history_on_rollback(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev), removed = event_payload_member(ev, "removedTurns");
	struct history_doc d;
	int r = load_history(m, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	view_copy_payload(&history_schema, &d, ev);
	if (ev->type == EVENT_HISTORY_ROLLBACK_STARTED) {
		id_copy(d.rollback, "open");
		view_copy_string(d.targetTurnId, jval_path(payload, "target.turnId"));
		d.rollbackReason = event_payload_member(ev, "reason");
		d.filesRestored = d.notRestored = (struct jval){ 0 };
		return save_history(m, &d, e);
	}
	id_copy(d.rollback, "completed");
	d.rolledBackAt = ev->real_us;
	d.rollbacks = view_add(d.rollbacks, 1);
	char thread[ID_SIZE];
	memcpy(thread, d.threadId, sizeof thread);
	if (save_history(m, &d, e) < 0)
		return -1;
	for (struct jiter it = jiter_on(removed); jiter_next(&it);) {
		char turn[ID_SIZE] = "";

		view_copy_string(turn, it.value);
		if (view_list_put(m, VIEW_ROLLED_BACK, thread, turn, e) < 0)
			return -1;
	}
	return 0;
}

/* Artifacts without an id are known by their path. */
int view_artifact_on_changed(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval path = event_payload_member(ev, "path");
	char session[ID_SIZE], artifact[ID_SIZE], name[ARTIFACT_KEY_MAX - ID_SIZE - 2], key[ARTIFACT_KEY_MAX];
	struct artifact_doc d;

	event_id_copy(ev, ID_SESSION, session, sizeof session);
	event_id_copy(ev, ID_ARTIFACT, artifact, sizeof artifact);
	if (*artifact)
		snprintf(name, sizeof name, "%s", artifact);
	else if (path.type != JT_STRING || jval_str(path, name, sizeof name) >= sizeof name || !*name)
		return 0; /* a count of many, or a path too long for a key */
	snprintf(key, sizeof key, "%s/%s", session, name);
	if (view_load(m, &artifact_schema, key, &d, e) < 0)
		return -1;
	view_copy_payload(&artifact_schema, &d, ev);
	id_copy(d.artifactId, artifact);
	event_id_copy(ev, ID_TURN, d.turnId, sizeof d.turnId);
	event_id_copy(ev, ID_TASK, d.taskId, sizeof d.taskId);
	event_id_copy(ev, ID_PROCESS, d.processId, sizeof d.processId);
	d.uid = ev->uid;
	d.updatedAt = ev->real_us;
	d.versions = view_add(d.versions, 1);
	return view_save(m, &artifact_schema, key, &d, e);
}

/* ---- for readers ---- */

bool view_turn_rolled_back(struct store *s, const char *thread_id, const char *turn_id)
{
	buf_auto struct buf text = BUF_INIT;
	char key[2 * ID_SIZE];
	struct err e = ERR_INIT;

	snprintf(key, sizeof key, "%s/%s", thread_id, turn_id);
	return store_model_get(s, VIEW_ROLLED_BACK, key, &text, &e) == 0;
}

static void write_compaction(const struct history_doc *d, struct jw *w)
{
	if (!d->compaction[0])
		return;
	jw_kobj(w, "compaction");
	jw_kstr(w, "status", d->compaction);
	jw_kuint(w, "count", view_counted(d->compactions));
	view_write_members(
		w, &history_schema, d,
		"trigger turns tokensBefore tokensAfter summaryRef preview keptActions incidents artifactRefs "
		"evidenceRefs continuation failure boundaries startedAt completedAt=compactedAt");
	jw_obj_end(w);
}

static void write_rollback(const struct history_doc *d, struct jw *w)
{
	if (!d->rollback[0])
		return;
	jw_kobj(w, "rollback");
	jw_kstr(w, "status", d->rollback);
	jw_kuint(w, "count", view_counted(d->rollbacks));
	jw_kstr(w, "targetTurnId", d->targetTurnId);
	view_write_members(w, &history_schema, d,
			   "reason=rollbackReason removedTurns affected filesRestored notRestored "
			   "completedAt=rolledBackAt");
	jw_obj_end(w);
}

int view_write_history(struct store *s, const char *thread_id, struct jw *w, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct history_doc d;
	int r = view_read(s, &history_schema, thread_id, &text, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	jw_kobj(w, "history");
	write_compaction(&d, w);
	write_rollback(&d, w);
	jw_obj_end(w);
	return 0;
}

int view_context_boundary(struct store *s, const char *thread_id, struct jw *w, struct err *e)
{
	buf_auto struct buf text = BUF_INIT, thread_text = BUF_INIT;
	struct thread_doc thread;
	struct history_doc d;
	int r = view_read(s, &history_schema, thread_id, &text, &d, e),
	    found = r < 0 ? -1 : view_read(s, &thread_schema, thread_id, &thread_text, &thread, e);

	if (found < 0)
		return -1;
	jw_obj(w);
	jw_kstr(w, "threadId", thread_id);
	if (found == 0) {
		jw_kobj(w, "context"); /* what context.resolved said last: references, omissions, missing facts */
		view_write_members(w, &thread_schema, &thread,
				   "turn=turnContext loop=loopContext client=clientContext");
		jw_obj_end(w);
	}
	if (r == 0)
		write_compaction(&d, w);
	else
		jw_kstr(w, "status", "not_applicable"); /* it was never compacted */
	jw_obj_end(w);
	return 0;
}

struct artifact_listing {
	struct jw *w;
	size_t count, shown, issues;
};

/* Counts all, shows the first ones. */
static bool write_artifact(void *ctx, const char *id, size_t id_len, const char *json, size_t len)
{
	struct artifact_listing *l = ctx;

	l->count++;
	l->issues += jval_uint(jval_path(jval_of(json, len), "validation.issues"), 0);
	if (l->shown < ARTIFACTS_SHOWN) {
		jw_raw(l->w, json, len);
		l->shown++;
	}
	return l->count < 10000;
}

int view_artifact_summary(struct store *s, const char *session_id, struct jw *w, struct err *e)
{
	struct artifact_listing l = { .w = w };
	mem_auto char *prefix = mem_printf("%s/", session_id);

	jw_obj(w);
	jw_karr(w, "artifacts");
	if (store_model_scan(s, VIEW_ARTIFACT, prefix, NULL, true, write_artifact, &l, e) < 0)
		return -1;
	jw_arr_end(w);
	jw_kuint(w, "count", l.count);
	jw_kuint(w, "validationIssues", l.issues);
	jw_kbool(w, "truncated", l.shown < l.count);
	jw_obj_end(w);
	return 0;
}
