#include "runtime/view/view_job.h"
#include "runtime/view/projections.h"

#include "runtime/base/buf.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/event/payloads.h"
#include "runtime/store/store.h"

#define FAILED_SHOWN 50u
#define THREADS_SHOWN 50u

void view_job_item_key(const char *job_id, const char *item_id, char ret[VIEW_JOB_ITEM_KEY_MAX])
{
	(void)snprintf(ret, VIEW_JOB_ITEM_KEY_MAX, "%s/%s", job_id, item_id);
}

/* ---- jobs ---- */

bool job_on_created(struct projection *p, void *doc)
{
	struct jval limits = jval_get(p->payload, "limits");
	struct job_doc *d = doc;

	d->itemCount = jval_uint(jval_get(p->payload, "itemCount"), 0);
	d->supervisedTo = jval_uint(jval_get(p->payload, "supervisedTo"), d->itemCount);
	d->maxParallel = jval_uint(jval_get(limits, "maxParallel"), VIEW_ABSENT);
	d->maxRuntimeMs = jval_uint(jval_get(limits, "maxRuntimeMs"), VIEW_ABSENT);
	return true;
}

bool job_on_started(struct projection *p, void *doc)
{
	struct job_doc *d = doc;

	d->startedAt = d->startedAt ? d->startedAt : p->event->real_us;
	if (job_doc_ended(d))
		projection_list(p, false, VIEW_LIVE_JOB, d->jobId, NULL);
	return true;
}

/* ---- items ---- */

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
	id_copy(c->process, c->item.processId);
	retry_owner(c->job.jobId, c->item.dueAt, c->again);
	return 0;
}

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
	if (index != VIEW_ABSENT && c->item.processId[0] && strcmp(status, "running") == 0 && index >= c->job.cursor)
		c->job.cursor = index + 1;
	if (strcmp(status, "failed") == 0)
		c->job.failedItems = add_id(c->job.failedItems, item, FAILED_SHOWN, false, &c->ids);
	else if (*thread && strcmp(status, "running") != 0)
		c->job.assignedThreadIds = add_id(c->job.assignedThreadIds, thread, THREADS_SHOWN, true, &c->ids);
	return view_save(m, &job_schema, c->job.jobId, &c->job, e);
}

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

/* Finds the item from its process. */
static int put_process(struct models *m, const char *process, const char *job, const char *item, struct err *e)
{
	buf_auto struct buf text = BUF_INIT;
	struct jw w = jw_on(&text);

	if (!*process)
		return 0;
	jw_obj(&w);
	jw_kstr(&w, "jobId", job);
	jw_kstr(&w, "itemId", item);
	jw_obj_end(&w);
	return models_put(m, VIEW_JOB_PROCESS, process, strlen(process), text.data, text.len, e);
}

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
	c.item.processId[0] = c.item.threadId[0] = '\0';
	event_id_copy(ev, ID_PROCESS, c.item.processId, sizeof(c.item.processId));
	c.item.outputRefs = (struct jval){ 0 };
	c.item.startedAt = ev->real_us;
	c.item.endedAt = c.item.dueAt = 0;
	if (save_item(m, ev, &c, e) < 0)
		return -1;
	return put_process(m, c.item.processId, c.job.jobId, item, e);
}

/* A failed item with attempts left is pending again; a client may report an item instead of completing it. */
static const char *status_at_end(const struct event_view *ev, struct jval payload)
{
	if (ev->type == EVENT_JOB_ITEM_FAILED)
		return jval_bool(jval_get(payload, "again"), false) ? "pending" : "failed";
	return jval_is_str(jval_get(payload, "status"), "reported") ? "reported" : "completed";
}

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
	c.item.index = jval_uint(jval_get(payload, "index"), c.item.index);
	c.item.attemptCount = jval_uint(jval_get(payload, "attempt"), c.item.attemptCount);
	event_id_copy(ev, ID_THREAD, c.item.threadId, sizeof(c.item.threadId));
	c.item.outputRefs = jval_get(payload, "outputRefs");
	c.item.lastError = jval_get(payload, "lastError");
	c.item.retryable = jval_bool(jval_get(payload, "retryable"), false);
	c.item.endedAt = ev->real_us;
	if (strcmp(c.item.status, "pending") == 0) {
		c.item.dueAt = ev->real_us;
		view_copy_time(&c.item.dueAt, jval_get(payload, "dueAt"));
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

int view_job_on_progress(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev), again = jval_get(payload, "requeued");
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
	view_copy_string(d.status, jval_get(payload, "status"));
	view_copy_string(d.endReason, jval_get(payload, "endReason"));
	if (event_member(ev, "statusReason").type == JT_STRING)
		d.statusReason = event_member(ev, "statusReason");
	if (again.type == JT_ARRAY)
		d.endedAt = 0;
	if (view_save(m, &job_schema, d.jobId, &d, e) < 0)
		return -1;
	return again.type == JT_ARRAY ? view_list_put(m, VIEW_LIVE_JOB, d.jobId, NULL, e) : 0;
}
