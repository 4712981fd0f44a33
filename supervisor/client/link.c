#include "supervisor/client/link.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/loop/loop.h"

#include <event2/event.h>
#include <event2/event_struct.h>
#include <poll.h>

struct link {
	struct event_base *base;
	struct remote *remote;
	struct link_ops ops;
	void *ctx;
	struct event io, timer;
	int fd; /* the descriptor of `io`; −1: none */
	short events;
	bool paused, dead, in_turn;
};

static void arm_events(struct link *l);

/* `in_turn` defers rearming: callbacks may send requests, and one rearm afterwards covers them all. */
static void process_turn(struct link *l, short revents)
{
	struct err e = ERR_INIT;
	bool connected = l->fd >= 0;

	l->in_turn = true;
	if (remote_process_poll(l->remote, revents, &e) < 0) {
		l->dead = true;
		if (l->ops.lost)
			l->ops.lost(l->ctx, &e);
	}
	l->in_turn = false;
	arm_events(l);
	if (connected && l->fd < 0 && !l->dead && l->ops.disconnected)
		l->ops.disconnected(l->ctx);
}

static void on_io(evutil_socket_t fd, short what, void *arg)
{
	process_turn(arg, (short)((what & EV_READ ? POLLIN : 0) | (what & EV_WRITE ? POLLOUT : 0)));
}

static void on_timer(evutil_socket_t fd, short what, void *arg) { process_turn(arg, 0); }

/* Changes the event only if the descriptor or the interest changed; this runs after every request. */
static void arm_events(struct link *l)
{
	struct pollfd p = { .fd = -1 };
	int wait = l->dead ? -1 : remote_prepare_poll(l->remote, !l->paused, &p);

	if (p.fd != l->fd || p.events != l->events) {
		if (l->fd >= 0)
			event_del(&l->io);
		l->fd = p.fd;
		l->events = p.events;
		if (p.fd >= 0 && p.events) {
			short what = (short)((p.events & POLLIN ? EV_READ : 0) | (p.events & POLLOUT ? EV_WRITE : 0) |
					     EV_PERSIST);
			event_assign(&l->io, l->base, p.fd, what, on_io, l);
			loop_add(&l->io, NULL);
		}
	}
	if (wait >= 0) {
		const struct timeval tv = { .tv_sec = wait / 1000, .tv_usec = wait % 1000 * 1000 };
		loop_add(&l->timer, &tv);
	} else {
		event_del(&l->timer);
	}
}

static void on_connected(void *ctx)
{
	struct link *l = ctx;

	if (l->ops.connected)
		l->ops.connected(l->ctx);
}

static void on_event(void *ctx, struct jval event)
{
	struct link *l = ctx;

	if (l->ops.event)
		l->ops.event(l->ctx, event);
}

struct link *link_new(struct event_base *base, struct remote *r, const struct link_ops *ops, void *ctx)
{
	struct link *l = mem_zalloc(1, sizeof(*l));

	*l = (struct link){ .base = base, .remote = r, .ops = *ops, .ctx = ctx, .fd = -1 };
	event_assign(&l->io, base, -1, 0, on_io, l);
	evtimer_assign(&l->timer, base, on_timer, l);
	remote_listen(r, on_connected, on_event, l);
	arm_events(l);
	return l;
}

void link_free(struct link *l)
{
	if (!l)
		return;
	if (l->fd >= 0)
		event_del(&l->io);
	event_del(&l->timer);
	remote_free(l->remote);
	free(l);
}

void link_send(struct link *l, const char *method, const struct buf *params, remote_reply_fn fn, void *ctx)
{
	remote_send(l->remote, method, params, fn, ctx);
	if (!l->in_turn)
		arm_events(l);
}

void link_send_once(struct link *l, const char *method, const struct buf *params, remote_reply_fn fn, void *ctx)
{
	remote_send_once(l->remote, method, params, fn, ctx);
	if (!l->in_turn)
		arm_events(l);
}

struct remote *link_remote(struct link *l) { return l->remote; }

void link_pause(struct link *l, bool paused)
{
	l->paused = paused;
	if (!l->in_turn)
		arm_events(l);
}
