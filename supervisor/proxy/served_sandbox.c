#include "supervisor/proxy/served_sandbox.h"

#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/loop/loop.h"
#include "supervisor/proxy/connection.h"
#include "supervisor/proxy/relay.h"

#include <errno.h>
#include <event2/event.h>
#include <string.h>
#include <sys/socket.h>

/* Limits the work of one callback, so a sandbox with many new clients does not starve the others. */
#define ACCEPTS_A_TURN 16
#define RETRY_MS 100

/* The socket stays readable, so polling it would spin. */
static void accept_later(struct served_sandbox *b)
{
	const struct timeval later = { .tv_usec = RETRY_MS * 1000 };

	event_del(b->ev);
	loop_add(b->retry, &later);
}

static void on_client(evutil_socket_t fd, short what, void *ctx)
{
	struct served_sandbox *b = ctx;

	for (int i = 0; i < ACCEPTS_A_TURN; i++) {
		/*
		 * At the limit, stop polling the socket; on_connection_ended resumes it. Clients wait in the backlog
		 * meanwhile.
		 */
		if (b->count >= SERVED_CONNECTIONS_MAX) {
			b->paused = true;
			event_del(b->ev);
			return;
		}
		if (b->user->connections >= USER_CONNECTIONS_MAX) {
			accept_later(b);
			return;
		}
		int client = accept4(b->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (client >= 0) {
			b->count++;
			b->user->connections++;
			relay_start(b, client);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			accept_later(b);
		return;
	}
}

static void on_retry(evutil_socket_t fd, short what, void *ctx)
{
	struct served_sandbox *b = ctx;

	if (b->ev && !b->paused)
		loop_add(b->ev, NULL);
}

static void on_connection_ended(struct served_sandbox *b)
{
	b->count--;
	b->user->connections--;
	if (b->paused && b->ev) {
		b->paused = false;
		loop_add(b->ev, NULL);
	}
}

static struct proxy_user *user_take(struct proxy_users *users, uint32_t uid)
{
	struct proxy_user *u;

	LIST_FOREACH (u, users, link)
		if (u->uid == uid)
			break;
	if (!u) {
		u = mem_zalloc(1, sizeof *u);
		u->uid = uid;
		LIST_INSERT_HEAD(users, u, link);
	}
	u->sandboxes++;
	return u;
}

static void user_release(struct proxy_user *u)
{
	if (--u->sandboxes > 0)
		return;
	LIST_REMOVE(u, link);
	free(u);
}

struct served_sandbox *served_sandbox_new(struct event_base *base, struct resolver *resolver,
					  const struct credentials *credentials, struct proxy_users *users,
					  const struct plan_key *key, uint32_t uid, void (*on_change)(void *ctx),
					  void *ctx)
{
	struct served_sandbox *b = mem_zalloc(1, sizeof *b);

	b->base = base;
	b->resolver = resolver;
	b->credentials = credentials;
	b->key = *key;
	b->user = user_take(users, uid);
	b->fd = -1;
	b->on_change = on_change;
	b->ctx = ctx;
	b->connection_ended = on_connection_ended;
	LIST_INIT(&b->connections);
	LIST_INIT(&b->publications);
	dialer_link_init(&b->dialer);
	return b;
}

void served_sandbox_listen(struct served_sandbox *b, int fd, struct host_rules *rules)
{
	b->fd = fd;
	b->rules = *rules;
	*rules = (struct host_rules){ 0 };
	fd_nonblock(fd, true);
	b->ev = event_new(b->base, fd, EV_READ | EV_PERSIST, on_client, b);
	b->retry = evtimer_new(b->base, on_retry, b);
	loop_add(b->ev, NULL);
}

void served_sandbox_close(struct served_sandbox *b)
{
	struct connection *c;
	struct publication *p;

	if (b->ev)
		event_free(b->ev);
	if (b->retry)
		event_free(b->retry);
	b->ev = b->retry = NULL;
	fd_close(&b->fd);
	/* connection_free removes the connection from the list. */
	while ((c = LIST_FIRST(&b->connections)))
		connection_free(c);
	while ((p = LIST_FIRST(&b->publications)))
		publication_free(p);
	dialer_link_done(b);
}

void served_sandbox_free(struct served_sandbox *b)
{
	served_sandbox_close(b);
	host_rules_done(&b->rules);
	traffic_report_done(&b->report);
	user_release(b->user);
	free(b);
}
