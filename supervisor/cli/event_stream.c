/*
 * A subscription ends with its connection, so the position is kept here and not by the daemon. Sequence numbers make
 * that safe: after a reconnect the daemon sends everything after the last event that was seen, so none is lost, and
 * on_event drops repetitions.
 */

#include "supervisor/cli/event_stream.h"

#define PAGE 500

/* A reply lost with the connection is not an error: on_connected subscribes again. */
static void on_subscribed(void *ctx, struct jval result, struct jval error)
{
	struct event_stream *f = ctx;

	if (error.type == JT_NONE || remote_broken(error))
		return;
	remote_error(error, &f->failure);
	err_wrap(&f->failure, "subscribe to events");
	f->failed = true;
}

/* remote_send_once: a subscription is bound to its connection, and on_connected creates a new one. */
static void send_subscription(struct event_stream *f)
{
	buf_auto struct buf params = BUF_INIT;

	buf_printf(&params, "{\"afterSequence\":%llu%s%s}", (unsigned long long)f->sequence, f->filter->len ? "," : "",
		   buf_cstr(f->filter));
	remote_send_once(f->remote, "subscribe_events", &params, on_subscribed, f);
}

static void on_connected(void *ctx)
{
	struct event_stream *f = ctx;

	if (f->connected)
		f->connected(f->ctx);
	send_subscription(f);
}

/* After a reconnect events may be sent again; skip those already seen. */
static void on_event(void *ctx, struct jval event)
{
	struct event_stream *f = ctx;
	uint64_t sequence = jval_uint(jval_get(event, "sequence"), 0);

	if (sequence <= f->sequence)
		return;
	f->sequence = sequence;
	f->event(f->ctx, event);
}

static void on_early_lost(void *ctx)
{
	struct early_events *v = ctx;

	v->lost = true;
}

static void on_early_event(void *ctx, struct jval event)
{
	struct early_events *v = ctx;

	buf_append(v->lines, event.text, event.len);
	buf_byte(v->lines, '\n');
}

void early_events_listen(struct early_events *v, struct remote *r)
{
	remote_listen(r, on_early_lost, on_early_event, v);
}

void event_stream_start(struct event_stream *f)
{
	const struct buf *lines = f->early ? f->early->lines : NULL;

	remote_listen(f->remote, on_connected, on_event, f);
	for (size_t at = 0; lines && at < lines->len;) {
		size_t n = (size_t)((char *)memchr(lines->data + at, '\n', lines->len - at) - (lines->data + at));

		on_event(f, jval_of(lines->data + at, n));
		at += n + 1;
	}
	if (!f->early || f->early->lost)
		send_subscription(f);
}

void event_stream_stop(struct event_stream *f) { remote_listen(f->remote, NULL, NULL, NULL); }

int event_stream_list(struct cli *c, const struct buf *filter, uint64_t *sequence,
		      bool (*fn)(void *ctx, struct jval event), void *ctx, struct err *e)
{
	uint64_t before;
	bool more;

	/* Stops when a page does not advance: a daemon that reports hasMore without progress must not make it loop. */
	do {
		request_auto struct request q = REQUEST_INIT(q);

		before = *sequence;
		buf_append(&q.params, buf_cstr(filter), filter->len);
		q.w.need_comma = filter->len > 0;
		jw_kuint(&q.w, "limit", PAGE);
		if (before)
			jw_kuint(&q.w, "afterSequence", before);
		if (request_read(c, &q, "list_events") < 0) {
			*e = q.e;
			return -1;
		}
		for (struct jiter it = jiter_on(jval_get(q.result, "events")); jiter_next(&it);) {
			*sequence = jval_uint(jval_get(it.value, "sequence"), *sequence);
			if (!fn(ctx, it.value))
				return 0;
		}
		/* A page without matches still reports how far it searched. */
		uint64_t searched = jval_uint(jval_get(q.result, "lastSequence"), 0);
		more = jval_bool(jval_get(q.result, "hasMore"), false);
		if (more && *sequence == before && searched > before)
			*sequence = searched;
	} while (more && *sequence != before);
	return 0;
}
