/*
 * Jobs. A job's document has the counts of its items by status; an item gets a document with its first attempt.
 * Every change of an item goes through struct item_change, so that the item, the counts and the lists (running, to
 * be retried) change together. The counts are maintained and not computed: a job may have many items.
 */

#include "runtime/view/view_job.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/event/id.h"
#include "runtime/event/payloads.h"
#include "runtime/store/store.h"
#include "runtime/view/projections.h"
#include "runtime/view/view_page.h"
#include "runtime/view/view_write.h"

#define FAILED_SHOWN 50u
#define THREADS_SHOWN 50u

void view_job_item_key(const char *job_id, const char *item_id, char ret[VIEW_JOB_ITEM_KEY_MAX])
{
	(void)snprintf(ret, VIEW_JOB_ITEM_KEY_MAX, "%s/%s", job_id, item_id);
}

/* ---- jobs ---- */

bool job_on_created(struct projection *p, void *doc)
{
	struct jval limits = event_payload_member(p->event, "limits");
	struct job_doc *d = doc;

	d->itemCount = jval_uint(event_payload_member(p->event, "itemCount"), 0);
	d->supervisedTo = jval_uint(event_payload_member(p->event, "supervisedTo"), d->itemCount);
	d->maxParallel = jval_uint(jval_get(limits, "maxParallel"), VIEW_ABSENT);
	d->maxRuntimeMs = jval_uint(jval_get(limits, "maxRuntimeMs"), VIEW_ABSENT);
	return true;
}

bool job_on_started(struct projection *p, void *doc)
{
	struct job_doc *d = doc;

	if (!d->startedAt) {
		d->startedAt = p->event->real_us;
		d->taskPausedMs = jval_uint(event_payload_member(p->event, "taskPausedMs"), VIEW_ABSENT);
	}
	if (job_doc_ended(d))
		projection_list(p, false, VIEW_LIVE_JOB, d->jobId, NULL);
	return true;
}

/* ---- items ---- */

/* Pending items have no counter: they are the rest of itemCount (write_progress). */
static void count_status(struct job_doc *d, const char *status, int by)
{
	uint64_t *count = strcmp(status, "running") == 0     ? &d->running
			  : strcmp(status, "completed") == 0 ? &d->completed
			  : strcmp(status, "failed") == 0    ? &d->failed
			  : strcmp(status, "reported") == 0  ? &d->reported
							     : NULL;

	if (count)
		*count = view_add(*count, by);
}

/* The due time has a fixed width, so the keys of a job sort by it. */
static void retry_owner(const char *job, uint64_t due, char ret[VIEW_JOB_ITEM_KEY_MAX])
{
	(void)snprintf(ret, VIEW_JOB_ITEM_KEY_MAX, "%s/%020llu", job, (unsigned long long)due);
}

/* Adds an id to a short array; at the limit the first ids stay, or with `latest` the last ones. */
static struct jval add_id(struct jval list, const char *id, unsigned limit, bool latest, struct buf *out)
{
	struct jw w = jw_on(out);
	unsigned n = 0, skip;

	for (struct jiter it = jiter_on(list); list.type == JT_ARRAY && jiter_next(&it); n++)
		if (jval_is_str(it.value, id))
			return list;
	if (n >= limit && !latest)
		return list;
	skip = n >= limit ? n - limit + 1 : 0;
	jw_arr(&w);
	for (struct jiter it = jiter_on(list); list.type == JT_ARRAY && jiter_next(&it);)
		if (skip > 0)
			skip--;
		else
			jw_raw(&w, it.value.text, it.value.len);
	jw_str(&w, id);
	jw_arr_end(&w);
	return jval_of(out->data, out->len);
}

/* One change of an item's status, in its document, the job's counts and the lists. */
struct item_change {
	struct job_doc job;
	struct job_item_doc item;
	char key[VIEW_JOB_ITEM_KEY_MAX], before[ID_SIZE], again[VIEW_JOB_ITEM_KEY_MAX], process[ID_SIZE];
	struct buf ids;
};

/* What runs the item: its process, or an agent's turn; "" = neither. */
static const char *worker_of(const struct job_item_doc *d) { return d->processId[0] ? d->processId : d->turnId; }

/* 1: the event names no job or no item. */
static int load_item(struct models *m, const struct event_view *ev, const char *item, struct item_change *c,
		     struct err *e)
{
	int r = view_open_event(m, &job_schema, ev, &c->job, e);

	if (r)
		return r;
	if (!*item)
		return 1;
	/* This read invalidates the job's JSON members: save_item_counts reads the job again. */
	view_job_item_key(c->job.jobId, item, c->key);
	if (view_open(m, &job_item_schema, ev, c->key, &c->item, e) < 0)
		return -1;
	id_copy(c->item.itemId, item);
	id_copy(c->before, c->item.status);
	id_copy(c->process, worker_of(&c->item));
	retry_owner(c->job.jobId, c->item.dueAt, c->again);
	return 0;
}

/* Reads the job again: writing the item has invalidated what its JSON members pointed to. */
static int save_item_counts(struct models *m, const struct event_view *ev, struct item_change *c, struct err *e)
{
	char status[ID_SIZE], item[ID_SIZE], thread[ID_SIZE];
	uint64_t index = c->item.index;

	memcpy(status, c->item.status, sizeof(status));
	memcpy(item, c->item.itemId, sizeof(item));
	event_id_copy(ev, ID_THREAD, thread, sizeof(thread));
	if (view_open_event(m, &job_schema, ev, &c->job, e) != 0)
		return -1;
	count_status(&c->job, c->before, -1);
	count_status(&c->job, status, 1);
	/* Clients claim items in any order; the supervisor starts them from first to last. */
	if (index != VIEW_ABSENT && *worker_of(&c->item) && strcmp(status, "running") == 0 && index >= c->job.cursor)
		c->job.cursor = index + 1;
	if (strcmp(status, "failed") == 0)
		c->job.failedItems = add_id(c->job.failedItems, item, FAILED_SHOWN, false, &c->ids);
	else if (*thread && strcmp(status, "running") != 0)
		c->job.assignedThreadIds = add_id(c->job.assignedThreadIds, thread, THREADS_SHOWN, true, &c->ids);
	return view_save(m, &job_schema, c->job.jobId, &c->job, e);
}

/* Writes the item, moves it between the lists, and updates the job. */
static int save_item(struct models *m, const struct event_view *ev, struct item_change *c, struct err *e)
{
	bool running = strcmp(c->item.status, "running") == 0, was_running = strcmp(c->before, "running") == 0;
	char again[VIEW_JOB_ITEM_KEY_MAX];

	retry_owner(c->job.jobId, c->item.dueAt, again);
	int r = view_save(m, &job_item_schema, c->key, &c->item, e);
	if (r == 0 && strcmp(c->before, "pending") == 0)
		r = view_list_del(m, VIEW_JOB_AGAIN, c->again, c->item.itemId, e);
	if (r == 0 && strcmp(c->item.status, "pending") == 0)
		r = view_list_put(m, VIEW_JOB_AGAIN, again, c->item.itemId, e);
	if (r == 0 && running != was_running)
		r = running ? view_list_put(m, VIEW_JOB_RUNNING, c->job.jobId, c->item.itemId, e)
			    : view_list_del(m, VIEW_JOB_RUNNING, c->job.jobId, c->item.itemId, e);
	if (r == 0)
		r = save_item_counts(m, ev, c, e);
	buf_done(&c->ids);
	return r;
}

/* A new attempt clears the end, the outputs and the delay of the one before. */
int view_job_item_on_started(struct models *m, const struct event_view *ev, struct err *e)
{
	struct job_item_started_json started;
	struct item_change c = { .ids = BUF_INIT };
	char item[ID_SIZE];
	int r;

	event_id_copy(ev, ID_JOB_ITEM, item, sizeof(item));
	r = load_item(m, ev, item, &c, e);
	if (r)
		return r < 0 ? -1 : 0;
	read_job_item_started(ev, &started);
	id_copy(c.item.status, "running");
	c.item.index = jval_uint(started.index, c.item.index);
	c.item.attemptCount = jval_uint(started.attempt, c.item.attemptCount + 1);
	c.item.assigned = started.assigned;
	c.item.processId[0] = c.item.threadId[0] = c.item.turnId[0] = '\0';
	event_id_copy(ev, ID_PROCESS, c.item.processId, sizeof(c.item.processId));
	jval_str(jval_get(started.assigned, "turnId"), c.item.turnId, sizeof(c.item.turnId));
	c.item.outputRefs = c.item.summary = (struct jval){ 0 };
	c.item.startedAt = ev->real_us;
	c.item.endedAt = c.item.dueAt = 0;
	if (save_item(m, ev, &c, e) < 0)
		return -1;
	/* Finds the item from its process or turn. */
	buf_auto struct buf text = BUF_INIT;
	struct jw w = jw_on(&text);

	if (!*worker_of(&c.item))
		return 0;
	jw_obj(&w);
	jw_kstr(&w, "jobId", c.job.jobId);
	jw_kstr(&w, "itemId", item);
	jw_obj_end(&w);
	return models_put(m, VIEW_JOB_PROCESS, worker_of(&c.item), strlen(worker_of(&c.item)), text.data, text.len, e);
}

/* A failed item with attempts left is pending again; a client may report an item instead of completing it. */
static const char *status_at_end(const struct event_view *ev, struct jval payload)
{
	if (ev->type == EVENT_JOB_ITEM_FAILED)
		return jval_bool(jval_get(payload, "again"), false) ? "pending" : "failed";
	return jval_is_str(jval_get(payload, "status"), "reported") ? "reported" : "completed";
}

/* The process is no longer the item's, even if the item is tried again. */
int view_job_item_on_ended(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev);
	struct item_change c = { .ids = BUF_INIT };
	char item[ID_SIZE];
	int r;

	event_id_copy(ev, ID_JOB_ITEM, item, sizeof(item));
	r = load_item(m, ev, item, &c, e);
	if (r)
		return r < 0 ? -1 : 0;
	id_copy(c.item.status, status_at_end(ev, payload));
	c.item.index = jval_uint(event_payload_member(ev, "index"), c.item.index);
	c.item.attemptCount = jval_uint(event_payload_member(ev, "attempt"), c.item.attemptCount);
	event_id_copy(ev, ID_THREAD, c.item.threadId, sizeof(c.item.threadId));
	c.item.outputRefs = event_payload_member(ev, "outputRefs");
	c.item.lastError = event_payload_member(ev, "lastError");
	c.item.summary = event_payload_member(ev, "summary");
	c.item.retryable = jval_bool(event_payload_member(ev, "retryable"), false);
	c.item.endedAt = ev->real_us;
	if (strcmp(c.item.status, "pending") == 0) {
		c.item.dueAt = ev->real_us;
		view_copy_time(&c.item.dueAt, event_payload_member(ev, "dueAt"));
	}
	if (save_item(m, ev, &c, e) < 0)
		return -1;
	return view_list_del(m, VIEW_JOB_PROCESS, c.process, NULL, e);
}

/* ---- progress, which also reports items to retry and a job that is ending ---- */

static int requeue_item(struct models *m, const struct event_view *ev, const char *item, struct err *e)
{
	struct item_change c = { .ids = BUF_INIT };
	int r = load_item(m, ev, item, &c, e);

	if (r)
		return r < 0 ? -1 : 0;
	id_copy(c.item.status, "pending");
	c.item.dueAt = ev->real_us;
	return save_item(m, ev, &c, e);
}

/* A retry of ended items makes an ended job live again. */
int view_job_on_progress(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval again = event_payload_member(ev, "requeued");
	char item[ID_SIZE];
	struct job_doc d;
	int r = 0;

	for (struct jiter it = jiter_on(again); r == 0 && again.type == JT_ARRAY && jiter_next(&it);)
		if (jval_str(it.value, item, sizeof(item)) < sizeof(item))
			r = requeue_item(m, ev, item, e);
	if (r == 0)
		r = view_open_event(m, &job_schema, ev, &d, e);
	if (r)
		return r < 0 ? -1 : 0;
	d.progressAt = ev->real_us;
	view_copy_string(d.status, event_payload_member(ev, "status"));
	view_copy_string(d.endReason, event_payload_member(ev, "endReason"));
	if (event_member(ev, "statusReason").type == JT_STRING)
		d.statusReason = event_member(ev, "statusReason");
	if (again.type == JT_ARRAY)
		d.endedAt = 0;
	if (view_save(m, &job_schema, d.jobId, &d, e) < 0)
		return -1;
	return again.type == JT_ARRAY ? view_list_put(m, VIEW_LIVE_JOB, d.jobId, NULL, e) : 0;
}

/* ---- job query ---- */

int view_job_piece(struct store *s, const struct job_doc *d, uint64_t piece, struct buf *out, struct err *e)
{
	uint64_t i = 0;

	for (struct jiter it = jiter_on(d->inputRefs); jiter_next(&it); i++) {
		char ref[ID_SIZE] = "";

		if (i != piece)
			continue;
		view_copy_string(ref, jval_get(it.value, "outputRef"));
		return store_output_whole(s, ref, VIEW_JOB_BYTES, out, e) < 0
			       ? err_wrap(e, "read the items of job '%s'", d->jobId)
			       : 0;
	}
	return err_set(e, ERR_CORRUPT, "job '%s' has no items at %llu", d->jobId,
		       (unsigned long long)(piece * VIEW_JOB_PIECE));
}

/* The item as it was given, and its document if it has started. */
static int write_item(struct store *s, const struct job_doc *d, struct jval given, uint64_t index, struct jw *w,
		      struct err *e)
{
	static const char *const kept[] = { "input", "command", "commandLine" };
	buf_auto struct buf text = BUF_INIT;
	char id[ID_SIZE] = "", key[VIEW_JOB_ITEM_KEY_MAX];
	struct job_item_doc item;
	int r;

	view_copy_string(id, jval_get(given, "itemId"));
	view_job_item_key(d->jobId, id, key);
	r = view_read(s, &job_item_schema, key, &text, &item, e);
	if (r < 0)
		return -1;
	if (r == 0) {
		view_write_stored(w, &text);
		if (item.outputRefs.type == JT_NONE)
			jw_kraw(w, "outputRefs", "[]", 2);
	} else {
		jw_obj(w);
		jw_kstr(w, "itemId", id);
		jw_kuint(w, "index", index);
		jw_kstr(w, "status", "pending");
		jw_kuint(w, "attemptCount", 0);
		jw_kraw(w, "outputRefs", "[]", 2);
	}
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
		struct jval v = jval_get(given, kept[i]);

		/* Long inputs are left out of lists; the item's piece behind inputRefs has them. */
		if (v.type != JT_NONE && v.len <= 1024)
			jw_kraw(w, kept[i], v.text, v.len);
	}
	jw_obj_end(w);
	return 0;
}

static void write_progress(const struct job_doc *d, struct jw *w)
{
	uint64_t ended = d->completed + d->failed + d->reported;

	jw_kobj(w, "progress");
	jw_kuint(w, "total", d->itemCount);
	jw_kuint(w, "pending", d->itemCount > ended + d->running ? d->itemCount - ended - d->running : 0);
	jw_kuint(w, "running", d->running);
	jw_kuint(w, "completed", d->completed);
	jw_kuint(w, "failed", d->failed);
	jw_kuint(w, "reported", d->reported);
	jw_obj_end(w);
}

static int write_items(struct store *s, const struct job_doc *d, uint64_t from, unsigned limit, struct jw *w,
		       struct err *e)
{
	buf_auto struct buf piece = BUF_INIT;
	uint64_t index = from, end = from + limit < d->itemCount ? from + limit : d->itemCount;

	jw_karr(w, "items");
	while (index < end && w->buf->len < VIEW_PAGE_BYTES) {
		uint64_t at = index / VIEW_JOB_PIECE * VIEW_JOB_PIECE, before = index;

		buf_reset(&piece);
		if (view_job_piece(s, d, index / VIEW_JOB_PIECE, &piece, e) < 0)
			return -1;
		for (struct jiter it = jiter_on(jval_of(piece.data, piece.len)); index < end && jiter_next(&it); at++)
			if (at == index && write_item(s, d, it.value, index++, w, e) < 0)
				return -1;
		if (index == before)
			return err_set(e, ERR_CORRUPT, "job '%s' has no item %llu", d->jobId,
				       (unsigned long long)index);
	}
	jw_arr_end(w);
	if (index < d->itemCount) {
		char next[24];

		(void)snprintf(next, sizeof(next), "%llu", (unsigned long long)index);
		jw_kstr(w, "nextCursor", next);
	}
	return 0;
}

int view_job(struct store *s, uint32_t uid, const char *job_id, uint64_t from, unsigned limit, struct buf *out,
	     struct err *e)
{
	buf_auto struct buf text = BUF_INIT, whole = BUF_INIT;
	struct jw w = jw_on(&whole);
	struct job_doc d;

	if (limit < 1 || limit > 1000)
		return err_field(e, "limit", "must be 1 to 1000");
	if (view_read_visible(s, &job_schema, uid, "jobId", job_id, &text, &d, e) < 0)
		return -1;
	view_write_stored(&w, &text);
	write_progress(&d, &w);
	if (write_items(s, &d, from, limit, &w, e) < 0)
		return -1;
	jw_obj_end(&w);
	buf_append(out, whole.data, whole.len);
	return 0;
}

static void write_brief(const struct buf *text, const struct job_doc *d, struct jw *w)
{
	view_write_stored(w, text);
	write_progress(d, w);
	jw_obj_end(w);
}

static int write_listed_job(struct view_page *p, const void *doc, struct err *e)
{
	write_brief(&p->text, doc, &p->w);
	return 0;
}

static bool job_matches(const void *query, const void *doc)
{
	const struct view_job_query *q = query;
	const struct job_doc *d = doc;

	return view_is(q->session_id, d->sessionId) && view_is(q->task_id, d->taskId) && view_is(q->status, d->status);
}

static int find_jobs(struct view_page *p, struct err *e)
{
	const struct view_job_query *q = p->query;

	if (q->live_only)
		return view_page_scan(p, VIEW_PAGE_QUERY(VIEW_LIVE_JOB), "", e);
	if (q->task_id)
		return view_page_scan_list(p, VIEW_TASK_JOB, q->task_id, e);
	if (q->session_id)
		return view_page_scan_list(p, VIEW_SESSION_JOB, q->session_id, e);
	return view_page_scan(p, VIEW_PAGE_QUERY(VIEW_JOB), "", e);
}

int view_jobs(struct store *s, uint32_t uid, const struct view_job_query *q, struct buf *out, struct err *e)
{
	static const struct view_list list = { "jobs", &job_schema, .matches = job_matches, .find = find_jobs,
					       .write = write_listed_job };

	return view_page_write(&list, s, uid, q->limit, q->cursor, q, out, e);
}

static int write_jobs(struct store *s, enum view_kind kind, const char *owner, struct jw *w, struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;
	buf_auto struct buf text = BUF_INIT;
	struct job_doc d;

	if (view_members(s, kind, owner, VIEW_NEWEST_FIRST, VIEW_WINDOW, &ids, e) < 0)
		return -1;
	for (size_t i = 0; i < ids.n; i++) {
		int r = view_read(s, &job_schema, ids.id[i], &text, &d, e);

		if (r < 0)
			return -1;
		if (r == 0)
			write_brief(&text, &d, w);
	}
	return 0;
}

int view_write_jobs_of_task(struct store *s, const char *task_id, struct jw *w, struct err *e)
{
	return write_jobs(s, VIEW_TASK_JOB, task_id, w, e);
}

int view_jobs_of_session(struct store *s, const char *session_id, struct jw *w, struct err *e)
{
	jw_karr(w, "jobs");
	int r = write_jobs(s, VIEW_SESSION_JOB, session_id, w, e);
	jw_arr_end(w);
	return r;
}
