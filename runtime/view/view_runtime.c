#include "runtime/view/projections.h"

int view_runtime_on_session_created(struct models *m, const struct event_view *ev, struct err *e)
{
	struct runtime_doc d;

	if (!jval_is_str(jval_get(event_payload(ev), "kind"), "system"))
		return 0;
	if (view_load(m, &runtime_schema, VIEW_RUNTIME_ID, &d, e) < 0)
		return -1;
	if (d.systemSessionId[0])
		return 0;
	event_id_copy(ev, ID_SESSION, d.systemSessionId, sizeof(d.systemSessionId));
	return view_save(m, &runtime_schema, VIEW_RUNTIME_ID, &d, e);
}

static uint64_t count_elements(struct jval list)
{
	uint64_t n = 0;

	for (struct jiter it = jiter_on(list); jiter_next(&it);)
		n++;
	return n;
}

int view_runtime_on_reconstructed(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev);
	struct runtime_doc d;

	if (view_load(m, &runtime_schema, VIEW_RUNTIME_ID, &d, e) < 0)
		return -1;
	view_copy_members(&runtime_schema, &d, payload);
	d.reconstructions = view_add(d.reconstructions, 1);
	d.reconstructedAt = ev->real_us;
	d.alive = count_elements(jval_get(payload, "alive"));
	d.exited = count_elements(jval_get(payload, "exited"));
	d.lost = count_elements(jval_get(payload, "lost"));
	return view_save(m, &runtime_schema, VIEW_RUNTIME_ID, &d, e);
}
