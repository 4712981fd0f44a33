#include "runtime/view/projections.h"

/* The event has the whole order, so the document is written anew; an empty queue has none. */
int view_queue_on_changed(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev);
	struct queue_doc d;

	view_create(&queue_schema, ev, &d);
	view_copy_members(&queue_schema, &d, payload);
	if (jval_is_str(jval_get(payload, "resumeState"), "held"))
		view_set_string(d.resumeState, "held");
	struct jiter it = jiter_on(d.order);
	if (!jiter_next(&it))
		return view_list_del(m, VIEW_QUEUE, d.threadId, NULL, e);
	return d.threadId[0] ? view_save(m, &queue_schema, d.threadId, &d, e) : 0;
}
