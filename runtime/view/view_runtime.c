#include "runtime/view/projections.h"

#include "runtime/base/mem.h"

static const struct view_field fields[] = {
	VIEW_FIELD(VIEW_ID, runtime_doc, systemSessionId),
	VIEW_FIELD(VIEW_UINT, runtime_doc, reconstructions), /* starts that found earlier state */
	VIEW_FIELD(VIEW_TIME, runtime_doc, reconstructedAt),
	VIEW_FIELD(VIEW_JSON, runtime_doc, bootId),
	VIEW_FIELD(VIEW_UINT, runtime_doc, alive), /* counts of the last one */
	VIEW_FIELD(VIEW_UINT, runtime_doc, exited),
	VIEW_FIELD(VIEW_UINT, runtime_doc, lost),
	VIEW_FIELD(VIEW_JSON, runtime_doc, aborted),
	VIEW_FIELD(VIEW_JSON, runtime_doc, degraded),
};
const struct view_schema runtime_schema = { VIEW_RUNTIME, sizeof(struct runtime_doc), fields, countof(fields) };

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

static uint64_t count_of(struct jval list)
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
	d.reconstructions = d.reconstructions == VIEW_ABSENT ? 1 : d.reconstructions + 1;
	d.reconstructedAt = ev->real_us;
	d.alive = count_of(jval_get(payload, "alive"));
	d.exited = count_of(jval_get(payload, "exited"));
	d.lost = count_of(jval_get(payload, "lost"));
	return view_save(m, &runtime_schema, VIEW_RUNTIME_ID, &d, e);
}
