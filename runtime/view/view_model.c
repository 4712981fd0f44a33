#include "runtime/view/view_model.h"

#include "runtime/base/buf.h"
#include "runtime/store/store.h"
#include "runtime/view/projections.h"

#include <stdio.h>
#include <string.h>

void view_model_key(uint32_t uid, const char *name, char ret[ID_SIZE])
{
	(void)snprintf(ret, ID_SIZE, "%u/%.*s", uid, (int)VIEW_MODEL_NAME_MAX, name);
}

static void key_of(const struct event_view *ev, char ret[ID_SIZE])
{
	char name[ID_SIZE];

	jval_str(event_payload_member(ev, "name"), name, sizeof name);
	view_model_key(ev->uid, name, ret);
}

/* Adding a name again replaces everything except the time when it was first added, which orders the models. */
int view_model_on_added(struct models *m, const struct event_view *ev, struct err *e)
{
	struct model_doc d, before;
	char key[ID_SIZE];

	key_of(ev, key);
	int r = view_load(m, &model_schema, key, &before, e);
	if (r < 0)
		return -1;
	view_create(&model_schema, ev, &d);
	if (r == 0) {
		d.addedAt = before.addedAt;
		d.defaultUs = before.defaultUs;
	}
	view_copy_payload(&model_schema, &d, ev);
	if (jval_bool(event_payload_member(ev, "isDefault"), false))
		d.defaultUs = ev->real_us;
	return view_save(m, &model_schema, key, &d, e);
}

int view_model_on_removed(struct models *m, const struct event_view *ev, struct err *e)
{
	char key[ID_SIZE];

	key_of(ev, key);
	return models_del(m, VIEW_MODEL, key, strlen(key), e) < 0 ? -1 : 0;
}

/* Those of a session are in memory only: they end with the connection that added them. */
static bool of_session(const struct event_view *ev) { return event_payload_member(ev, "sessionId").type == JT_STRING; }

int view_mcp_server_on_added(struct models *m, const struct event_view *ev, struct err *e)
{
	struct mcp_server_doc d;
	char key[ID_SIZE];

	if (of_session(ev))
		return 0;
	key_of(ev, key);
	view_create(&mcp_server_schema, ev, &d);
	view_copy_payload(&mcp_server_schema, &d, ev);
	return view_save(m, &mcp_server_schema, key, &d, e);
}

int view_mcp_server_on_removed(struct models *m, const struct event_view *ev, struct err *e)
{
	char key[ID_SIZE];

	if (of_session(ev))
		return 0;
	key_of(ev, key);
	return models_del(m, VIEW_MCP_SERVER, key, strlen(key), e) < 0 ? -1 : 0;
}
