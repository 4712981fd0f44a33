/*
 * Channels to remote peers. The sequence that a peer has acknowledged is a meta value of the store and not an event:
 * the peer would have to acknowledge that event, too. The document's `lastAcked` is that of the latest disconnection or
 * resumption; readers take the larger of the two.
 */

#include "runtime/view/view_channel.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/store/store.h"
#include "runtime/view/projections.h"
#include "runtime/view/view_page.h"

#include <stdlib.h>
#include <string.h>

/* A remote task is identified by its channel: peers choose their ids. */
int view_channel_on_peer_task(struct models *m, const struct event_view *ev, struct err *e)
{
	char channel[ID_SIZE], remote[ID_SIZE], key[2 * ID_SIZE];
	struct peer_task_doc d;

	event_id_copy(ev, ID_CHANNEL, channel, sizeof channel);
	jval_str(event_payload_member(ev, "remoteTaskId"), remote, sizeof remote);
	if (!*channel || !*remote)
		return 0;
	snprintf(key, sizeof key, "%s/%s", channel, remote);
	if (view_open(m, &peer_task_schema, ev, key, &d, e) < 0)
		return -1;
	view_copy_payload(&peer_task_schema, &d, ev);
	/* The state is that of this event, or none; members are merged. */
	d.remoteState[0] = '\0';
	view_copy_string(d.remoteState, event_payload_member(ev, "remoteState"));
	if (view_save(m, &peer_task_schema, key, &d, e) < 0)
		return -1;
	return view_list_put(m, VIEW_TASK_PEER, d.taskId, key, e);
}

/* ---- for readers ---- */

int view_channel_acked(struct store *s, const char *channel_id, uint64_t *ret, struct err *e)
{
	mem_auto char *key = mem_printf(CHANNEL_ACK_KEY "%s", channel_id);
	buf_auto struct buf text = BUF_INIT;
	int r = store_meta_get(s, key, &text, e);

	if (r < 0)
		return err_wrap(e, "read the cursor of channel '%.64s'", channel_id);
	*ret = r == 0 ? strtoull(buf_cstr(&text), NULL, 10) : 0;
	return 0;
}

/* A channel as clients see it. */
static void channel_json(const struct channel_doc *d, uint64_t acked, struct jw *w)
{
	jw_obj(w);
	jw_kstr(w, "channelId", d->channelId);
	jw_kstr(w, "status", d->status);
	view_write_members(w, &channel_schema, d,
			   "transport peerRole nativeProtocol capabilities accountRef sessionId reason gap");
	jw_kuint(w, "lastAckedSequence", acked > view_counted(d->lastAcked) ? acked : view_counted(d->lastAcked));
	jw_kuint(w, "resumes", view_counted(d->resumes));
	view_write_members(w, &channel_schema, d, "heartbeatMs");
	jw_kobj(w, "permissionBridge");
	jw_kuint(w, "forwarded", view_counted(d->forwarded));
	jw_kuint(w, "returned", view_counted(d->returned));
	jw_kuint(w, "pending", view_counted(d->forwarded) - view_counted(d->returned));
	jw_obj_end(w);
	view_write_members(w, &channel_schema, d, "uid connectedAt lastSeenAt disconnectedAt");
	jw_obj_end(w);
}

static bool channel_matches(const void *query, const void *doc)
{
	return view_is(query, ((const struct channel_doc *)doc)->sessionId);
}

static int write_listed_channel(struct view_page *p, const void *doc, struct err *e)
{
	const struct channel_doc *d = doc;
	uint64_t acked;

	if (view_channel_acked(p->store, d->channelId, &acked, e) < 0)
		return -1;
	channel_json(d, acked, &p->w);
	return 0;
}

int view_channels(struct store *s, uint32_t uid, const char *session_id, unsigned limit, const char *cursor,
		  struct buf *out, struct err *e)
{
	static const struct view_list list = { "channels", &channel_schema, .matches = channel_matches,
					       .write = write_listed_channel };

	return view_page_write(&list, s, uid, limit, cursor, session_id, out, e);
}

#define PEER_TASKS_SHOWN 50u

struct peer_scan {
	struct jw *w;
	unsigned n;
};

static bool on_peer_task(void *ctx, const char *id, size_t id_len, const char *json, size_t len)
{
	struct peer_scan *scan = ctx;
	struct peer_task_doc d;

	view_decode(&peer_task_schema, jval_of(json, len), &d);
	jw_obj(scan->w);
	view_write_members(scan->w, &peer_task_schema, &d,
			   "channelId taskId remoteTaskId remoteStatus remoteState updatedAt");
	jw_obj_end(scan->w);
	return ++scan->n < PEER_TASKS_SHOWN;
}

/* The tasks at the peers of these channels, at most PEER_TASKS_SHOWN of each. */
static int write_peer_tasks(struct store *s, const struct view_ids *channels, struct jw *w, struct err *e)
{
	jw_karr(w, "peerTasks");
	for (size_t i = 0; i < channels->n; i++) {
		struct peer_scan scan = { .w = w };
		char prefix[ID_SIZE + 2];

		snprintf(prefix, sizeof prefix, "%s/", channels->id[i]);
		if (store_model_scan(s, VIEW_PEER_TASK, prefix, NULL, false, on_peer_task, &scan, e) < 0)
			return -1;
	}
	jw_arr_end(w);
	return 0;
}

int view_channel_summary(struct store *s, const char *session_id, struct jw *w, struct err *e)
{
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;
	buf_auto struct buf text = BUF_INIT;

	if (view_members(s, VIEW_SESSION_CHANNEL, session_id, VIEW_NEWEST_FIRST, 50, &ids, e) < 0)
		return -1;
	jw_obj(w);
	jw_karr(w, "channels");
	for (size_t i = 0; i < ids.n; i++) {
		struct channel_doc d;
		uint64_t acked;
		int r = view_read(s, &channel_schema, ids.id[i], &text, &d, e);

		if (r < 0 || (r == 0 && view_channel_acked(s, d.channelId, &acked, e) < 0))
			return -1;
		if (r == 0)
			channel_json(&d, acked, w);
	}
	jw_arr_end(w);
	if (ids.n && write_peer_tasks(s, &ids, w, e) < 0)
		return -1;
	jw_obj_end(w);
	return 0;
}
