#include "runtime/view/projections.h"

#include "runtime/base/mem.h"

static const struct {
	const char *from, *to;
} statuses[] = {
	{ "idle", "idle" },           { "queued", "queued" },       { "running", "running" },
	{ "blocked", "blocked" },     { "completed", "completed" }, { "failed", "failed" },
	{ "cancelled", "cancelled" }, { "stale", "stale" },         { "accepted", "running" },
	{ "preparing", "running" },   { "streaming", "running" },   { "retrying", "running" },
	{ "timed_out", "failed" },    { "paused", "idle" },
};

const char *view_thread_status(const char *status)
{
	for (size_t i = 0; i < countof(statuses); i++)
		if (strcmp(status, statuses[i].from) == 0)
			return statuses[i].to;
	return strncmp(status, "waiting_", 8) == 0 ? "blocked" : "unknown";
}

bool thread_on_updated(struct projection *p, void *doc)
{
	struct thread_doc *d = doc;
	char status[ID_SIZE] = "";

	view_copy_string(status, jval_get(p->payload, "status"));
	if (*status) {
		id_copy(d->status, view_thread_status(status));
		id_copy(d->phase, strcmp(d->status, status) == 0 ? "" : status);
	}
	return true;
}

int view_thread_next_turn(struct models *m, const struct event_view *ev, uint64_t *ret, struct err *e)
{
	struct thread_doc d;
	int r = view_open_event(m, &thread_schema, ev, &d, e);

	if (r)
		return r;
	*ret = d.turnNumber = view_add(d.turnNumber, 1);
	return view_save(m, &thread_schema, d.threadId, &d, e);
}

bool thread_on_turn_ended(struct projection *p, void *doc)
{
	struct thread_doc *d = doc;
	char turn[ID_SIZE];

	event_id_copy(p->event, ID_TURN, turn, sizeof(turn));
	if (strcmp(turn, d->activeTurnId) == 0)
		d->activeTurnId[0] = '\0';
	return true;
}

/* The event has the whole order, so the document is written anew; an empty queue has none. */
int view_queue_on_changed(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev);
	struct queue_doc d;

	view_create(&queue_schema, ev, &d);
	view_copy_members(&queue_schema, &d, payload);
	if (jval_is_str(jval_get(payload, "resumeState"), "held"))
		id_copy(d.resumeState, "held");
	struct jiter it = jiter_on(d.order);
	if (!jiter_next(&it))
		return view_list_del(m, VIEW_QUEUE, d.threadId, NULL, e);
	return d.threadId[0] ? view_save(m, &queue_schema, d.threadId, &d, e) : 0;
}
