#include "supervisor/cli/event_stream.h"

#include "runtime/base/buf.h"
#include "supervisor/client/remote.h"

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

void event_stream_start(struct event_stream *f)
{
	remote_listen(f->remote, on_connected, on_event, f);
	send_subscription(f);
}

void event_stream_stop(struct event_stream *f) { remote_listen(f->remote, NULL, NULL, NULL); }
