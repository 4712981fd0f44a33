#include "runtime/view/projections.h"

#include "runtime/base/mem.h"

#include <inttypes.h>

const char *view_action_waiting(struct jval type)
{
	static const struct {
		const char *type, *status;
	} rows[] = {
		{ "permission", "waiting_permission" },
		{ "approval", "waiting_permission" },
		{ "plan", "waiting_permission" },
		{ "resource", "waiting_resource" },
	};

	for (size_t i = 0; i < countof(rows); i++)
		if (jval_is_str(type, rows[i].type))
			return rows[i].status;
	return "waiting_input";
}

void view_order_key(uint64_t n, char ret[VIEW_ORDER_KEY_MAX])
{
	(void)snprintf(ret, VIEW_ORDER_KEY_MAX, "%020" PRIu64, n);
}

static void list_expiry(struct projection *p, bool put, const struct action_doc *d)
{
	char due[VIEW_ORDER_KEY_MAX];

	if (!d->expiresAt)
		return;
	view_order_key(d->expiresAt, due);
	projection_list(p, put, VIEW_TIMED_ACTION, due, d->actionId);
}

bool action_on_required(struct projection *p, void *doc)
{
	list_expiry(p, true, doc);
	return true;
}

bool action_on_resolved(struct projection *p, void *doc)
{
	list_expiry(p, false, doc);
	return true;
}
