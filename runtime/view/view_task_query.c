/*
 * Reading tasks: the whole record, lists, and the tasks of a session's or thread's snapshot. Each document is read in a
 * short transaction of its own.
 */

#include "runtime/view/view_page.h"
#include "runtime/view/view_task.h"
#include "runtime/view/view_write.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/store/store.h"

#define DEPTH_MAX 64 /* of parents */
#define ATTEMPTS_SHOWN 50u
#define EDGES_SHOWN 1000u
#define RECENT 10u
#define BLOCKED_SHOWN 50u

/* ---- attempts ---- */

/* The specification's status for an attempt's own. */
static const char *attempt_status(const char *native)
{
	static const struct {
		const char *native, *status;
	} rows[] = {
		{ "lost", "unknown" },
		{ "timed_out", "failed" },
		{ "accepted", "queued" },
		{ "paused", "idle" },
	};

	for (size_t i = 0; i < countof(rows); i++)
		if (strcmp(rows[i].native, native) == 0)
			return rows[i].status;
	return strncmp(native, "waiting", 7) == 0 ? "blocked" : native;
}

static void write_attempt(const struct attempt_doc *d, struct jw *w)
{
	const char *status = attempt_status(d->status);

	jw_obj(w);
	jw_kstr(w, "runId", d->runId);
	view_write_word(w, "attemptId", d->attemptId);
	jw_kstr(w, "status", status);
	if (strcmp(status, d->status) != 0)
		jw_kstr(w, "nativeStatus", d->status);
	jw_kuint(w, "attemptCount", d->attempt);
	view_write_members(w, &attempt_schema, d,
			   "reason worker processId threadId turnId inputRefs outputRefs checkpointRefs retryPolicy "
			   "lastError completionSummary startedAt endedAt");
	jw_obj_end(w);
}

/* The latest attempts, oldest first. */
static int write_attempts(struct store *s, const struct task_doc *d, struct jw *w, struct err *e)
{
	uint64_t n = view_counted(d->attemptCount);
	buf_auto struct buf text = BUF_INIT;
	char key[VIEW_ATTEMPT_KEY_MAX];
	struct attempt_doc a;

	jw_karr(w, "attempts");
	for (uint64_t i = n > ATTEMPTS_SHOWN ? n - ATTEMPTS_SHOWN + 1 : 1; i <= n; i++) {
		view_attempt_key(d->taskId, i, key);
		int r = view_read(s, &attempt_schema, key, &text, &a, e);

		if (r < 0)
			return -1;
		if (r == 0)
			write_attempt(&a, w);
	}
	jw_arr_end(w);
	if (n > ATTEMPTS_SHOWN)
		jw_kbool(w, "attemptsTruncated", true);
	return 0;
}

/* ---- edges ---- */

struct edge_scan {
	struct jw *w;
	unsigned n;
	const char *from; /* NULL: as a relationship; else with this end named, too */
};

static bool on_edge(void *ctx, const char *id, size_t id_len, const char *json, size_t len)
{
	struct edge_scan *sc = ctx;
	struct jval doc = jval_of(json, len);

	/* Counts one more than is shown, which tells the caller that edges were left out. */
	if (sc->n++ >= EDGES_SHOWN)
		return false;
	if (!sc->from) {
		jw_raw(sc->w, json, len);
		return true;
	}
	jw_obj(sc->w);
	jw_kstr(sc->w, "taskId", sc->from);
	view_write_json(sc->w, "kind", jval_get(doc, "kind"));
	view_write_json(sc->w, "targetId", jval_get(doc, "targetId"));
	view_write_json(sc->w, "status", jval_get(doc, "status"));
	jw_obj_end(sc->w);
	return true;
}

static int write_edges(struct store *s, const char *task, bool as_graph, unsigned *seen, struct jw *w, struct err *e)
{
	char prefix[VIEW_EDGE_KEY_MAX];
	struct edge_scan sc = { .w = w, .n = *seen, .from = as_graph ? task : NULL };

	view_edge_key(task, NULL, NULL, prefix);
	if (store_model_scan(s, VIEW_TASK_EDGE, prefix, NULL, false, on_edge, &sc, e) < 0)
		return -1;
	*seen = sc.n;
	return 0;
}

/* ---- one task ---- */

/* The depth is bounded, because the walk follows ids in documents and must end even if they form a cycle. */
static int write_root(struct store *s, const struct task_doc *d, struct jw *w, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	char root[ID_SIZE];
	struct task_doc up;

	id_copy(root, d->parentTaskId[0] ? d->parentTaskId : d->taskId);
	for (int depth = 0; depth < DEPTH_MAX; depth++) {
		int r = view_read(s, &task_schema, root, &text, &up, e);

		if (r < 0)
			return -1;
		if (r > 0 || !up.parentTaskId[0])
			break;
		id_copy(root, up.parentTaskId);
	}
	jw_kstr(w, "rootTaskId", root);
	return 0;
}

static int write_members(struct store *s, enum view_kind kind, const char *task, const char *key, struct jw *w,
			 struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;

	if (view_members(s, kind, task, VIEW_OLDEST_FIRST, EDGES_SHOWN, &ids, e) < 0)
		return -1;
	jw_karr(w, key);
	for (size_t i = 0; i < ids.n; i++)
		jw_str(w, ids.id[i]);
	jw_arr_end(w);
	return 0;
}

/* The stored document with its root, attempts, edges, jobs and open actions. */
static int write_task(struct store *s, const struct buf *text, const struct task_doc *d, struct jw *w, struct err *e)
{
	unsigned seen = 0;

	view_write_stored(w, text);
	if (write_root(s, d, w, e) < 0 || write_attempts(s, d, w, e) < 0)
		return -1;
	jw_karr(w, "relationships");
	if (write_edges(s, d->taskId, false, &seen, w, e) < 0)
		return -1;
	jw_arr_end(w);
	if (write_members(s, VIEW_TASK_JOB, d->taskId, "jobIds", w, e) < 0 ||
	    write_members(s, VIEW_TASK_ACTION, d->taskId, "openActions", w, e) < 0)
		return -1;
	jw_obj_end(w);
	return 0;
}

int view_task_paused_ms(struct store *s, const char *task_id, uint64_t real_us, uint64_t *ret, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct task_doc d;
	int r = *task_id ? view_read(s, &task_schema, task_id, &text, &d, e) : 1;

	if (r < 0)
		return -1;
	*ret = r == 0 ? task_doc_paused_ms(&d, real_us) : 0;
	return 0;
}

int view_task(struct store *s, uint32_t uid, const char *task_id, struct buf *out, struct err *e)
{
	buf_auto struct buf text = BUF_INIT, whole = BUF_INIT;
	struct jw w = jw_on(&whole);
	struct task_doc d;

	if (view_read_visible(s, &task_schema, uid, "taskId", task_id, &text, &d, e) < 0 ||
	    write_task(s, &text, &d, &w, e) < 0)
		return -1;
	buf_append(out, whole.data, whole.len);
	return 0;
}

/* ---- lists ---- */

static bool task_matches(const void *query, const void *doc)
{
	const struct view_task_query *q = query;
	const struct task_doc *d = doc;

	return view_is(q->session_id, d->sessionId) && view_is(q->thread_id, d->threadId) &&
	       view_is(q->parent_id, d->parentTaskId) && view_is(q->status, d->status) &&
	       !(q->live_only && task_status_ended(task_doc_status(d)));
}

/* Chooses the shortest list that contains all candidates. */
static int find_tasks(struct view_page *p, struct err *e)
{
	const struct view_task_query *q = p->query;

	if (q->match)
		return view_page_find_match(p, "task_", q->match, e);
	if (q->parent_id) {
		struct view_ids_query ids = VIEW_PAGE_QUERY(VIEW_TASK_EDGE);
		char prefix[VIEW_EDGE_KEY_MAX];

		view_edge_key(q->parent_id, "child", NULL, prefix);
		ids.prefix = prefix;
		return view_page_scan(p, ids, prefix, e);
	}
	if (q->thread_id)
		return view_page_scan_list(p, VIEW_THREAD_TASK, q->thread_id, e);
	if (q->session_id)
		return view_page_scan_list(p, VIEW_SESSION_TASK, q->session_id, e);
	return view_page_scan(p, VIEW_PAGE_QUERY(q->live_only ? VIEW_LIVE_TASK : VIEW_TASK), "", e);
}

int view_tasks(struct store *s, uint32_t uid, const struct view_task_query *q, struct buf *out, struct err *e)
{
	static const struct view_list list = { "tasks", &task_schema, .matches = task_matches, .find = find_tasks };

	return view_page_write(&list, s, uid, q->limit, q->cursor, q, out, e);
}

/* ---- for snapshots ---- */

static int write_summary(struct store *s, char scope, const char *id, const struct view_ids *recent, struct jw *w,
			 struct err *e)
{
	static const char *const names[] = { "active", "waiting", "failed", "lost" };
	uint64_t sums[TASK_CLASS_COUNT] = { 0 }, *counts;
	buf_auto struct buf text = BUF_INIT;
	struct task_count_doc d;
	char key[ID_SIZE + 2];

	(void)snprintf(key, sizeof(key), "%c/%s", scope, id);
	int r = view_read(s, &task_count_schema, key, &text, &d, e);
	if (r < 0)
		return -1;
	if (r > 0)
		view_clear(&task_count_schema, &d);
	/* task_count_doc consists of one counter for each status, in the order of the enum. */
	counts = (uint64_t *)&d;
	jw_kobj(w, "taskSummary");
	for (int i = 0; i < TASK_STATUS_COUNT; i++)
		sums[task_status_class((enum task_status)i)] += view_counted(counts[i]);
	for (size_t i = 0; i < countof(names); i++)
		jw_kuint(w, names[i], sums[i]);
	jw_kuint(w, "terminal", sums[TASK_CLASS_FAILED] + sums[TASK_CLASS_DONE]);
	jw_kobj(w, "byStatus");
	for (int i = 0; i < TASK_STATUS_COUNT; i++)
		if (counts[i] != VIEW_ABSENT)
			jw_kuint(w, task_status_name((enum task_status)i), counts[i]);
	jw_obj_end(w);
	jw_karr(w, "recent");
	for (size_t i = 0; i < recent->n && i < RECENT; i++)
		jw_str(w, recent->id[i]);
	jw_arr_end(w);
	jw_obj_end(w);
	return 0;
}

/* Nodes are the tasks shown, edges all that they have. */
static int write_graph(struct store *s, const struct view_ids *ids, struct jw *w, struct err *e)
{
	unsigned seen = 0;

	jw_kobj(w, "taskGraph");
	jw_karr(w, "nodes");
	for (size_t i = 0; i < ids->n; i++)
		jw_str(w, ids->id[i]);
	jw_arr_end(w);
	jw_karr(w, "edges");
	for (size_t i = 0; i < ids->n && seen < EDGES_SHOWN; i++)
		if (write_edges(s, ids->id[i], true, &seen, w, e) < 0)
			return -1;
	jw_arr_end(w);
	if (seen > EDGES_SHOWN)
		jw_kbool(w, "edgesTruncated", true);
	jw_obj_end(w);
	return 0;
}

/* The ids may be all tasks of a thread, so each document is checked. */
static int write_blocked(struct store *s, const struct view_ids *ids, const char *thread, struct jw *w, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;

	jw_karr(w, "blockedTasks");
	for (size_t i = 0; i < ids->n; i++) {
		struct task_doc d;
		int r = view_read(s, &task_schema, ids->id[i], &text, &d, e);

		if (r < 0)
			return -1;
		if (r > 0 || task_status_class(task_doc_status(&d)) != TASK_CLASS_WAITING ||
		    (thread && strcmp(thread, d.threadId) != 0))
			continue;
		jw_obj(w);
		view_write_members(w, &task_schema, &d,
				   "taskId status statusReason waitingFor actionId blocker since=updatedAt");
		jw_obj_end(w);
	}
	jw_arr_end(w);
	return 0;
}

static int write_tasks(struct store *s, const struct view_ids *ids, struct jw *w, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	bool cut = false;
	size_t began = w->buf->len;

	jw_karr(w, "tasks");
	for (size_t i = ids->n; i-- > 0;) {
		struct task_doc d;
		int r = view_read(s, &task_schema, ids->id[i], &text, &d, e);

		if (r < 0)
			return -1;
		/* A part of a page, because a snapshot has more than tasks. */
		cut |= w->buf->len - began > VIEW_PAGE_BYTES / 4;
		if (r > 0 || cut)
			continue;
		if (write_task(s, &text, &d, w, e) < 0)
			return -1;
	}
	jw_arr_end(w);
	if (cut)
		jw_kbool(w, "tasksTruncated", true);
	return 0;
}

int view_tasks_of_session(struct store *s, const char *session_id, struct jw *w, struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT, blocked = VIEW_IDS_INIT;

	if (view_members(s, VIEW_SESSION_TASK, session_id, VIEW_NEWEST_FIRST, VIEW_WINDOW, &ids, e) < 0 ||
	    view_members(s, VIEW_BLOCKED_TASK, session_id, VIEW_NEWEST_FIRST, BLOCKED_SHOWN, &blocked, e) < 0)
		return -1;
	return write_tasks(s, &ids, w, e) < 0 || write_summary(s, 's', session_id, &ids, w, e) < 0 ||
			       write_graph(s, &ids, w, e) < 0 || write_blocked(s, &blocked, NULL, w, e) < 0
		       ? -1
		       : 0;
}

int view_tasks_of_thread(struct store *s, const char *thread_id, struct jw *w, struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;

	if (view_members(s, VIEW_THREAD_TASK, thread_id, VIEW_NEWEST_FIRST, VIEW_WINDOW, &ids, e) < 0)
		return -1;
	/* Most threads have no tasks and get no members for them. */
	if (ids.n == 0)
		return 0;
	return write_tasks(s, &ids, w, e) < 0 || write_summary(s, 't', thread_id, &ids, w, e) < 0 ||
			       write_graph(s, &ids, w, e) < 0 || write_blocked(s, &ids, thread_id, w, e) < 0
		       ? -1
		       : 0;
}

int view_snapshot_task(struct store *s, uint32_t uid, const char *session_id, const char *thread_id,
		       const char *task_id, struct buf *out, struct err *e)
{
	buf_auto struct buf text = BUF_INIT, whole = BUF_INIT;
	struct jw w = jw_on(&whole);
	struct view_session_brief session;
	struct view_thread_brief thread;
	struct task_doc d;
	int r = 0;

	jw_obj(&w);
	jw_kstr(&w, "schemaVersion", store_env(s)->schema_version);
	jw_kstr(&w, "runtimeId", store_runtime_id(s));
	if (task_id) {
		if (view_read_visible(s, &task_schema, uid, "taskId", task_id, &text, &d, e) < 0)
			return -1;
		jw_kstr(&w, "sessionId", d.sessionId);
		jw_key(&w, "task");
		if (write_task(s, &text, &d, &w, e) < 0)
			return -1;
		view_write_time(&w, "updatedAt", d.updatedAt);
	} else if (thread_id) {
		if ((r = view_thread_brief(s, uid, thread_id, &thread, e)) == 0) {
			jw_kstr(&w, "sessionId", thread.session_id);
			jw_kstr(&w, "threadId", thread_id);
			r = view_tasks_of_thread(s, thread_id, &w, e);
		}
	} else if ((r = view_session_brief(s, uid, session_id, &session, e)) == 0) {
		jw_kstr(&w, "sessionId", session_id);
		r = view_tasks_of_session(s, session_id, &w, e);
	}
	if (r > 0)
		return err_not_known(e, thread_id ? "threadId" : "sessionId", thread_id ? thread_id : session_id);
	if (r < 0)
		return -1;
	jw_obj_end(&w);
	buf_append(out, whole.data, whole.len);
	return 0;
}
