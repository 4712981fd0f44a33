#include "supervisor/gateway/http/console_link.h"

#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/loop/loop.h"
#include "supervisor/client/link.h"

#include <event2/event.h>
#include <string.h>
#include <sys/queue.h>

#define RETRY_LEAST_MS 20
#define RETRY_MOST_MS 1000

struct request {
	TAILQ_ENTRY(request) entry;
	struct console_link *of;
	remote_reply_fn fn;
	void *ctx;
};

struct console_link {
	struct event_base *base;
	struct console_link_ops ops;
	void *ctx;
	char *role;
	struct link *link;
	TAILQ_HEAD(, request) requests;
	struct event *retry; /* frees a broken link, outside of its callbacks, and connects again */
	unsigned wait_ms;    /* before the next attempt; 0: none failed yet */
	bool up, broken, paused;
	bool freed; /* by a callback of the link: on_retry frees it */
};

static void schedule_retry(struct console_link *l, unsigned ms)
{
	struct timeval tv = { ms / 1000, (suseconds_t)(ms % 1000) * 1000 };

	loop_add(l->retry, &tv);
}

static void set_down(struct console_link *l)
{
	bool was = l->up;

	l->up = false;
	l->broken = true;
	schedule_retry(l, l->wait_ms);
	l->wait_ms = l->wait_ms == 0 ? RETRY_LEAST_MS : l->wait_ms * 2 > RETRY_MOST_MS ? RETRY_MOST_MS : l->wait_ms * 2;
	if (was && l->ops.down && !l->freed)
		l->ops.down(l->ctx);
}

static void on_disconnected(void *ctx) { set_down(ctx); }

static void on_lost(void *ctx, const struct err *e)
{
	struct console_link *l = ctx;

	if (!l->broken)
		set_down(l);
}

static void on_event(void *ctx, struct jval event)
{
	struct console_link *l = ctx;

	if (l->up && !l->freed && l->ops.event)
		l->ops.event(l->ctx, event);
}

/* A daemon that rejects initialize does not serve this role: try again later, as if it were gone. */
static void on_hello(void *ctx, struct jval result, struct jval error)
{
	struct console_link *l = ctx;

	if (l->freed || l->broken)
		return;
	if (error.type != JT_NONE)
		return set_down(l);
	l->up = true;
	l->wait_ms = 0;
	l->ops.up(l->ctx, result);
}

static void connect_daemon(struct console_link *l)
{
	static const struct link_ops ops = { .disconnected = on_disconnected, .event = on_event, .lost = on_lost };
	static const struct remote_options options = { .later = true };
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	struct remote *r;
	struct err e = ERR_INIT;

	if (remote_open(&options, &r, &e) < 0)
		return set_down(l);
	jw_obj(&w);
	jw_kstr(&w, "clientName", "bailiff console");
	jw_kopt(&w, "role", l->role[0] ? l->role : NULL);
	jw_obj_end(&w);
	remote_handshake_async(r, "initialize", &params, on_hello, l);
	l->broken = false;
	l->link = link_new(l->base, r, &ops, l);
	link_pause(l->link, l->paused);
}

static void free_now(struct console_link *l)
{
	struct request *q;

	while ((q = TAILQ_FIRST(&l->requests))) {
		TAILQ_REMOVE(&l->requests, q, entry);
		free(q);
	}
	link_free(l->link);
	event_free(l->retry);
	free(l->role);
	free(l);
}

static void on_retry(evutil_socket_t fd, short what, void *arg)
{
	struct console_link *l = arg;

	if (l->freed)
		return free_now(l);
	link_free(l->link);
	l->link = NULL;
	connect_daemon(l);
}

struct console_link *console_link_new(struct event_base *base, const char *role, const struct console_link_ops *ops,
				      void *ctx)
{
	struct console_link *l = mem_zalloc(1, sizeof(*l));

	*l = (struct console_link){ .base = base, .ops = *ops, .ctx = ctx, .role = mem_strdup(role) };
	TAILQ_INIT(&l->requests);
	l->retry = evtimer_new(base, on_retry, l);
	if (!l->retry)
		abort();
	schedule_retry(l, 0);
	return l;
}

void console_link_free(struct console_link *l)
{
	if (!l || l->freed)
		return;
	l->freed = true;
	l->up = false;
	schedule_retry(l, 0);
}

bool console_link_is_up(const struct console_link *l) { return l->up; }

static void on_reply(void *ctx, struct jval result, struct jval error)
{
	struct request *q = ctx;
	struct console_link *l = q->of;

	TAILQ_REMOVE(&l->requests, q, entry);
	if (!l->freed)
		q->fn(q->ctx, result, error);
	free(q);
}

void console_link_send(struct console_link *l, const char *method, const struct buf *params, remote_reply_fn fn,
		       void *ctx)
{
	struct request *q = mem_zalloc(1, sizeof(*q));

	*q = (struct request){ .of = l, .fn = fn, .ctx = ctx };
	TAILQ_INSERT_TAIL(&l->requests, q, entry);
	link_send_once(l->link, method, params, on_reply, q);
}

void console_link_pause(struct console_link *l, bool paused)
{
	l->paused = paused;
	if (l->link && !l->broken)
		link_pause(l->link, paused);
}
