#include "runtime/view/projections.h"

#include "runtime/base/mem.h"

static const struct view_field fields[] = {
	VIEW_FIELD(VIEW_ID, queue_doc, threadId),
	VIEW_FIELD(VIEW_JSON, queue_doc, order),     /* turn ids, the next one first */
	VIEW_FIELD(VIEW_ID, queue_doc, resumeState), /* held: nothing is taken until resume_thread */
	VIEW_FIELD(VIEW_JSON, queue_doc, policy),
	VIEW_FIELD(VIEW_ID, queue_doc, sessionId),
	VIEW_FIELD(VIEW_UINT, queue_doc, uid),
	VIEW_FIELD(VIEW_TIME, queue_doc, updatedAt),
};
const struct view_schema queue_schema = { VIEW_QUEUE, sizeof(struct queue_doc), fields, countof(fields) };

/* The event holds the whole order; a queue in which nobody waits has no document. */
int view_queue_on_changed(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev);
	struct queue_doc d;
	char id[VIEW_ID_MAX];

	event_id_copy(ev, ID_THREAD, id, sizeof(id));
	if (!*id)
		return 0;
	view_clear(&queue_schema, &d);
	view_set_string(d.threadId, id);
	event_id_copy(ev, ID_SESSION, d.sessionId, sizeof(d.sessionId));
	d.uid = ev->uid;
	d.updatedAt = ev->real_us;
	view_copy_members(&queue_schema, &d, payload);
	view_copy_string(d.resumeState, jval_get(payload, "resumeState"));
	if (strcmp(d.resumeState, "held") != 0)
		d.resumeState[0] = '\0';
	struct jiter it = jiter_on(d.order);
	if (!jiter_next(&it))
		return view_list_del(m, VIEW_QUEUE, id, NULL, e);
	return view_save(m, &queue_schema, id, &d, e);
}
