#include "runtime/view/view_channel.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/store/store.h"
#include "runtime/view/projections.h"
#include "runtime/view/view_ids.h"
#include "runtime/view/view_write.h"

#include <stdlib.h>
#include <string.h>

int view_channel_on_peer_task(struct models *m, const struct event_view *ev, struct err *e)
{
	struct jval payload = event_payload(ev);
	char channel[VIEW_ID_MAX], remote[VIEW_ID_MAX], key[2 * VIEW_ID_MAX];
	struct peer_task_doc d;

	event_id_copy(ev, ID_CHANNEL, channel, sizeof channel);
	jval_str(jval_get(payload, "remoteTaskId"), remote, sizeof remote);
	if (!*channel || !*remote)
		return 0;
	snprintf(key, sizeof key, "%s/%s", channel, remote);
	if (view_open(m, &peer_task_schema, ev, key, &d, e) < 0)
		return -1;
	view_copy_members(&peer_task_schema, &d, payload);
	d.remoteState[0] = '\0';
	view_copy_string(d.remoteState, jval_get(payload, "remoteState"));
	if (view_save(m, &peer_task_schema, key, &d, e) < 0)
		return -1;
	return view_list_put(m, VIEW_TASK_PEER, d.taskId, key, e);
}

/* ---- for readers ---- */

uint64_t view_channel_acked(struct store *s, const char *channel_id)
{
	mem_auto char *key = mem_printf(CHANNEL_ACK_KEY "%s", channel_id);
	buf_auto struct buf text = BUF_INIT;
	struct err e = ERR_INIT;

	return store_meta_get(s, key, &text, &e) == 0 ? strtoull(buf_cstr(&text), NULL, 10) : 0;
}

void channel_json(const struct channel_doc *d, uint64_t acked, struct jw *w)
{
	jw_obj(w);
	jw_kstr(w, "channelId", d->channelId);
	jw_kstr(w, "status", d->status);
	view_write_json(w, "transport", d->transport);
	view_write_json(w, "peerRole", d->peerRole);
	view_write_json(w, "nativeProtocol", d->nativeProtocol);
	view_write_json(w, "capabilities", d->capabilities);
	view_write_json(w, "accountRef", d->accountRef);
	if (d->sessionId[0])
		jw_kstr(w, "sessionId", d->sessionId);
	view_write_json(w, "reason", d->reason);
	view_write_json(w, "gap", d->gap);
	jw_kuint(w, "lastAckedSequence", acked > view_counted(d->lastAcked) ? acked : view_counted(d->lastAcked));
	jw_kuint(w, "resumes", view_counted(d->resumes));
	if (d->heartbeatMs != VIEW_ABSENT)
		jw_kuint(w, "heartbeatMs", d->heartbeatMs);
	jw_kobj(w, "permissionBridge");
	jw_kuint(w, "forwarded", view_counted(d->forwarded));
	jw_kuint(w, "returned", view_counted(d->returned));
	jw_kuint(w, "pending", view_counted(d->forwarded) - view_counted(d->returned));
	jw_obj_end(w);
	jw_kuint(w, "uid", d->uid);
	view_write_time(w, "connectedAt", d->connectedAt);
	view_write_time(w, "lastSeenAt", d->lastSeenAt);
	view_write_time(w, "disconnectedAt", d->disconnectedAt);
	jw_obj_end(w);
}

struct listing {
	struct store *store;
	struct jw *w;
	uint32_t uid;
	const char *session_id;
	unsigned limit, given, looked;
	char last[VIEW_ID_MAX];
	bool more;
};

#define LOOK_MAX 10000u

static bool give(void *ctx, const char *id, size_t id_len, const char *json, size_t len)
{
	struct listing *l = ctx;
	struct channel_doc d;

	if (l->given >= l->limit || l->looked++ >= LOOK_MAX) {
		l->more = true;
		return false;
	}
	snprintf(l->last, sizeof l->last, "%.*s", (int)id_len, id);
	view_decode(&channel_schema, jval_of(json, len), &d);
	if ((l->uid != VIEW_ANY_UID && d.uid != l->uid) || (l->session_id && strcmp(l->session_id, d.sessionId) != 0))
		return true;
	channel_json(&d, view_channel_acked(l->store, d.channelId), l->w);
	l->given++;
	return true;
}

int view_channels(struct store *s, uint32_t uid, const char *session_id, unsigned limit, const char *cursor,
		  struct buf *out, struct err *e)
{
	struct jw w = jw_on(out);
	struct listing l = { .store = s, .w = &w, .uid = uid, .session_id = session_id, .limit = limit };

	if (limit < 1 || limit > 1000)
		return err_field(e, "limit", "must be 1 to 1000");
	if (cursor && !id_valid(cursor, strlen(cursor)))
		return err_field(e, "cursor", "not a cursor of this method");
	jw_obj(&w);
	jw_karr(&w, "channels");
	if (store_model_scan(s, VIEW_CHANNEL, NULL, cursor, true, give, &l, e) < 0)
		return -1;
	jw_arr_end(&w);
	if (l.more)
		jw_kstr(&w, "nextCursor", l.last);
	jw_obj_end(&w);
	return 0;
}

int view_channel_summary(struct store *s, const char *session_id, struct jw *w, struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;
	buf_auto struct buf text = BUF_INIT;

	char prefix[VIEW_KEY_MAX];
	const struct view_ids_query q = {
		.kind = VIEW_SESSION_CHANNEL, .prefix = prefix, .descending = true, .max = 50
	};

	snprintf(prefix, sizeof prefix, "%s/", session_id);
	if (view_ids(s, &q, &ids, NULL, e) < 0)
		return -1;
	jw_obj(w);
	jw_karr(w, "channels");
	for (size_t i = 0; i < ids.n; i++) {
		struct channel_doc d;
		int r = view_read(s, &channel_schema, ids.id[i], &text, &d, e);

		if (r < 0)
			return -1;
		if (r == 0)
			channel_json(&d, view_channel_acked(s, d.channelId), w);
	}
	jw_arr_end(w);
	jw_obj_end(w);
	return 0;
}
