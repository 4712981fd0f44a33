#include "supervisor/cli/feed.h"

#include "runtime/base/buf.h"
#include "supervisor/client/remote.h"

static void on_subscribed(void *ctx, struct jval result, struct jval error)
{
	struct feed *f = ctx;

	if (error.type == JT_NONE || remote_broken(error))
		return;
	remote_error(error, &f->failure);
	err_wrap(&f->failure, "subscribe to events");
	f->failed = true;
}

static void subscribe(struct feed *f)
{
	buf_auto struct buf params = BUF_INIT;

	buf_printf(&params, "{\"afterSequence\":%llu%s%s}", (unsigned long long)f->sequence, f->filter->len ? "," : "",
		   buf_cstr(f->filter));
	remote_send_once(f->remote, "subscribe_events", &params, on_subscribed, f);
}

static void on_connected(void *ctx)
{
	struct feed *f = ctx;

	if (f->connected)
		f->connected(f->ctx);
	subscribe(f);
}

static void on_event(void *ctx, struct jval event)
{
	struct feed *f = ctx;
	uint64_t sequence = jval_uint(jval_get(event, "sequence"), 0);

	if (sequence <= f->sequence)
		return;
	f->sequence = sequence;
	f->event(f->ctx, event);
}

void feed_start(struct feed *f)
{
	remote_listen(f->remote, on_connected, on_event, f);
	subscribe(f);
}

void feed_stop(struct feed *f) { remote_listen(f->remote, NULL, NULL, NULL); }
