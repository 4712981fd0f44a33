#include "runtime/view/projections.h"
#include "runtime/view/view_task.h"

void view_attempt_key(const char *task_id, uint64_t attempt, char ret[VIEW_ATTEMPT_KEY_MAX])
{
	(void)snprintf(ret, VIEW_ATTEMPT_KEY_MAX, "%s/%06llu", task_id, (unsigned long long)attempt % 1000000);
}

/* 1 when the event names no attempt. */
static int load_attempt(struct models *m, const struct event_view *ev, char key[VIEW_ATTEMPT_KEY_MAX],
			struct attempt_doc *d, struct err *e)
{
	uint64_t attempt = jval_uint(jval_get(event_payload(ev), "attempt"), 0);
	char task[ID_SIZE];

	event_id_copy(ev, ID_TASK, task, sizeof(task));
	if (!*task || !attempt)
		return 1;
	view_attempt_key(task, attempt, key);
	if (view_load(m, &attempt_schema, key, d, e) < 0)
		return -1;
	d->attempt = attempt;
	event_id_copy(ev, ID_RUN, d->runId, sizeof(d->runId));
	event_id_copy(ev, ID_ATTEMPT, d->attemptId, sizeof(d->attemptId));
	return 0;
}

int view_task_attempt_on_started(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev);
	char key[VIEW_ATTEMPT_KEY_MAX];
	struct attempt_doc d;
	int r = load_attempt(m, ev, key, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	view_copy_members(&attempt_schema, &d, payload);
	view_copy_string(d.status, jval_get(payload, "status"));
	event_id_copy(ev, ID_PROCESS, d.processId, sizeof(d.processId));
	d.startedAt = ev->real_us;
	return view_save(m, &attempt_schema, key, &d, e);
}

int view_task_attempt_on_ended(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev), summary = jval_get(payload, "summary");
	char key[VIEW_ATTEMPT_KEY_MAX];
	struct attempt_doc d;
	int r = load_attempt(m, ev, key, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	view_copy_members(&attempt_schema, &d, payload);
	if (summary.type == JT_STRING)
		d.completionSummary = summary;
	id_copy(d.status, ev->type == EVENT_TASK_ATTEMPT_COMPLETED ? "completed" : "failed");
	view_copy_string(d.status, jval_get(payload, "status"));
	d.endedAt = ev->real_us;
	return view_save(m, &attempt_schema, key, &d, e);
}

int view_task_attempt_on_run_status(struct models *m, const struct event_view *ev, struct err *e)
{
	char key[VIEW_ATTEMPT_KEY_MAX];
	struct attempt_doc d;
	int r = event_from_client(ev) ? 1 : load_attempt(m, ev, key, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	if (d.endedAt)
		return 0;
	view_copy_string(d.status, jval_get(event_payload(ev), "phase"));
	event_id_copy(ev, ID_PROCESS, d.processId, sizeof(d.processId));
	event_id_copy(ev, ID_THREAD, d.threadId, sizeof(d.threadId));
	event_id_copy(ev, ID_TURN, d.turnId, sizeof(d.turnId));
	return view_save(m, &attempt_schema, key, &d, e);
}
