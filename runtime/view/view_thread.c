#include "runtime/view/projections.h"

#include "runtime/base/mem.h"
#include "runtime/view/view_write.h"

static const struct view_field fields[] = {
	VIEW_FIELD(VIEW_ID, thread_doc, threadId),
	VIEW_FIELD(VIEW_ID, thread_doc, status), /* of the specification's small enum */
	VIEW_FIELD(VIEW_ID, thread_doc, phase),  /* the status as it was told, where that is finer */
	VIEW_FIELD(VIEW_JSON, thread_doc, reason),
	VIEW_FIELD(VIEW_ID, thread_doc, activeTurnId),
	VIEW_FIELD(VIEW_JSON, thread_doc, origin),
	VIEW_FIELD(VIEW_JSON, thread_doc, parentThreadId),
	VIEW_FIELD(VIEW_ID, thread_doc, sessionId),
	VIEW_FIELD(VIEW_UINT, thread_doc, uid),
	VIEW_FIELD(VIEW_TIME, thread_doc, createdAt),
	VIEW_FIELD(VIEW_TIME, thread_doc, updatedAt),
	VIEW_FIELD(VIEW_UINT, thread_doc, turnNumber), /* the last one given to a turn */
};
const struct view_schema thread_schema = { VIEW_THREAD, sizeof(struct thread_doc), fields, countof(fields) };

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

/* The event's thread, whose document may be a fresh one. 1 when the event names none. */
static int load(struct models *m, const struct event_view *ev, struct thread_doc *d, struct err *e)
{
	char id[VIEW_ID_MAX];

	event_id_copy(ev, ID_THREAD, id, sizeof(id));
	if (!*id)
		return 1;
	if (view_load(m, &thread_schema, id, d, e) < 0)
		return -1;
	if (!d->threadId[0]) {
		view_set_string(d->threadId, id);
		event_id_copy(ev, ID_SESSION, d->sessionId, sizeof(d->sessionId));
		view_set_string(d->status, "idle");
		d->uid = ev->uid;
		d->createdAt = ev->real_us;
	}
	d->updatedAt = ev->real_us;
	return 0;
}

int view_thread_on_started(struct models *m, const struct event_view *ev, struct err *e)
{
	struct thread_doc d;
	int r = load(m, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	view_copy_members(&thread_schema, &d, event_payload(ev));
	return view_save(m, &thread_schema, d.threadId, &d, e);
}

int view_thread_on_updated(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev);
	char status[VIEW_ID_MAX] = "";
	struct thread_doc d;
	int r = load(m, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	view_copy_members(&thread_schema, &d, payload);
	view_copy_string(status, jval_get(payload, "status"));
	if (*status) {
		view_set_string(d.status, view_thread_status(status));
		view_set_string(d.phase, strcmp(d.status, status) == 0 ? "" : status);
	}
	return view_save(m, &thread_schema, d.threadId, &d, e);
}

int view_thread_next_turn(struct models *m, const struct event_view *ev, uint64_t *ret, struct err *e)
{
	struct thread_doc d;
	int r = load(m, ev, &d, e);

	if (r)
		return r;
	*ret = d.turnNumber = view_plus_one(d.turnNumber);
	return view_save(m, &thread_schema, d.threadId, &d, e);
}

int view_thread_on_turn_started(struct models *m, const struct event_view *ev, struct err *e)
{
	struct thread_doc d;
	int r = load(m, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	event_id_copy(ev, ID_TURN, d.activeTurnId, sizeof(d.activeTurnId));
	return view_save(m, &thread_schema, d.threadId, &d, e);
}

int view_thread_on_turn_ended(struct models *m, const struct event_view *ev, struct err *e)
{
	char turn[VIEW_ID_MAX];
	struct thread_doc d;
	int r = load(m, ev, &d, e);

	if (r)
		return r < 0 ? -1 : 0;
	event_id_copy(ev, ID_TURN, turn, sizeof(turn));
	if (strcmp(turn, d.activeTurnId) == 0)
		d.activeTurnId[0] = '\0';
	return view_save(m, &thread_schema, d.threadId, &d, e);
}
