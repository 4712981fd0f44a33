#include "supervisor/proxy/publication.h"

#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/loop/loop.h"
#include "sandbox/net_address.h"
#include "supervisor/proxy/served_sandbox.h"
#include "supervisor/spawner/dialer.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define BACKLOG 128
#define DIAL_S 10 /* from the request for a socket until it is connected */
#define ACCEPTS_A_TURN 16
#define RETRY_MS 100
#define READ_MAX (64u * 1024)
#define OUTPUT_HIGH (256u * 1024)
#define OUTPUT_LOW (64u * 1024)

enum end { END_CLIENT, END_SERVER, END_COUNT };

struct published_connection {
	LIST_ENTRY(published_connection) link;
	TAILQ_ENTRY(published_connection) wait_link;
	struct publication *publication;
	struct event *timer; /* until it is connected */
	int family;          /* of the socket that it waits for, or that is being connected */
	bool waits;          /* in the dialer link's list */
	bool established;
	/* [END_CLIENT]: accepted on the host; [END_SERVER]: connected in the sandbox */
	struct bufferevent *bev[END_COUNT];
	uint64_t bytes[END_COUNT]; /* received from this end */
	bool eof[END_COUNT];       /* this end has closed its half … */
	bool shut[END_COUNT];      /* … and everything before that was sent to this one */
};

/* ---- connections ---- */

static void on_publication_ready(struct publication *p);

static void stop_waiting(struct published_connection *c)
{
	if (c->waits)
		TAILQ_REMOVE(&c->publication->sandbox->dialer.waiting, c, wait_link);
	c->waits = false;
}

static void free_connection(struct published_connection *c)
{
	struct publication *p = c->publication;
	struct served_sandbox *b = p->sandbox;

	if (c->established) {
		traffic_report_port(&b->report, p->port, c->bytes[END_SERVER], c->bytes[END_CLIENT]);
		b->on_change(b->ctx);
	}
	stop_waiting(c);
	for (int i = 0; i < END_COUNT; i++)
		if (c->bev[i])
			bufferevent_free(c->bev[i]);
	event_free(c->timer);
	LIST_REMOVE(c, link);
	free(c);
	p->count--;
	b->user->connections--;
	on_publication_ready(p);
}

/* The client gets a reset instead of an orderly end, which would look like an empty response. */
static void fail_connection(struct published_connection *c)
{
	const struct linger reset = { .l_onoff = 1 };

	setsockopt(bufferevent_getfd(c->bev[END_CLIENT]), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
	free_connection(c);
}

static void on_timeout(evutil_socket_t fd, short what, void *ctx) { fail_connection(ctx); }

static enum end end_of(const struct published_connection *c, const struct bufferevent *bev)
{
	return bev == c->bev[END_CLIENT] ? END_CLIENT : END_SERVER;
}

static size_t output_length(const struct published_connection *c, enum end at)
{
	return evbuffer_get_length(bufferevent_get_output(c->bev[at]));
}

/* Passes the end of one direction on once all of its bytes are sent. May free the connection. */
static void pass_eof(struct published_connection *c, enum end to)
{
	if (c->eof[!to] && !c->shut[to] && output_length(c, to) == 0) {
		c->shut[to] = true;
		shutdown(bufferevent_getfd(c->bev[to]), SHUT_WR);
	}
	if (c->shut[END_CLIENT] && c->shut[END_SERVER])
		free_connection(c);
}

static void on_bytes(struct bufferevent *bev, void *ctx)
{
	struct published_connection *c = ctx;
	enum end from = end_of(c, bev);
	struct evbuffer *in = bufferevent_get_input(bev);

	c->bytes[from] += evbuffer_get_length(in);
	evbuffer_add_buffer(bufferevent_get_output(c->bev[!from]), in);
	if (output_length(c, !from) >= OUTPUT_HIGH)
		bufferevent_disable(bev, EV_READ); /* on_drained resumes */
}

static void on_drained(struct bufferevent *bev, void *ctx)
{
	struct published_connection *c = ctx;
	enum end to = end_of(c, bev);

	if (!c->established)
		return;
	if (!c->eof[!to])
		loop_enable(c->bev[!to], EV_READ);
	pass_eof(c, to);
}

static void request_socket(struct published_connection *c, int family);

static void on_connected(struct published_connection *c)
{
	c->established = true;
	event_del(c->timer);
	loop_enable(c->bev[END_CLIENT], EV_READ);
	loop_enable(c->bev[END_SERVER], EV_READ);
}

/* Nothing listens on this address, or the kernel lacks the family. */
static void try_next_family(struct published_connection *c)
{
	if (c->bev[END_SERVER])
		bufferevent_free(c->bev[END_SERVER]);
	c->bev[END_SERVER] = NULL;
	if (c->family == AF_INET)
		request_socket(c, AF_INET6);
	else
		fail_connection(c);
}

static void on_event(struct bufferevent *bev, short what, void *ctx)
{
	struct published_connection *c = ctx;
	enum end at = end_of(c, bev);

	if (what & BEV_EVENT_CONNECTED) {
		on_connected(c);
	} else if (!c->established && at == END_SERVER) {
		try_next_family(c);
	} else if (what & BEV_EVENT_EOF && c->established) {
		c->eof[at] = true;
		pass_eof(c, !at);
	} else {
		fail_connection(c);
	}
}

static struct bufferevent *wire_socket(struct published_connection *c, int fd)
{
	const int one = 1;
	struct bufferevent *bev = bufferevent_socket_new(c->publication->sandbox->base, fd, BEV_OPT_CLOSE_ON_FREE);

	if (!bev)
		abort();
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
	bufferevent_setcb(bev, on_bytes, on_drained, on_event, c);
	bufferevent_set_max_single_read(bev, READ_MAX);
	bufferevent_set_max_single_write(bev, READ_MAX);
	bufferevent_setwatermark(bev, EV_WRITE, OUTPUT_LOW, 0);
	/* Reading begins when both ends are connected. */
	loop_enable(bev, EV_WRITE);
	bufferevent_disable(bev, EV_READ);
	return bev;
}

static void start_connection(struct publication *p, int fd)
{
	struct published_connection *c = mem_zalloc(1, sizeof *c);
	const struct timeval limit = { .tv_sec = DIAL_S };

	c->publication = p;
	LIST_INSERT_HEAD(&p->connections, c, link);
	p->count++;
	p->sandbox->user->connections++;
	c->timer = evtimer_new(p->sandbox->base, on_timeout, c);
	if (!c->timer)
		abort();
	loop_add(c->timer, &limit);
	c->bev[END_CLIENT] = wire_socket(c, fd);
	request_socket(c, AF_INET);
}

/* ---- sockets from the sandbox ---- */

static bool send_request(const struct dialer_link *d, int family)
{
	const struct dialer_msg request = { .family = (uint32_t)family };

	return d->fd >= 0 && fd_send(d->fd, &request, sizeof request, NULL, 0, MSG_NOSIGNAL | MSG_DONTWAIT) == 0;
}

static void request_socket(struct published_connection *c, int family)
{
	struct dialer_link *d = &c->publication->sandbox->dialer;

	c->family = family;
	c->waits = true;
	TAILQ_INSERT_TAIL(&d->waiting, c, wait_link);
	/* Not sent, because the runtime is about to pass another link: dialer_link_replace sends it, or time runs out.
	 */
	(void)send_request(d, family);
}

/* The sandbox is not trusted: it must be a TCP socket of the requested family. */
static bool is_tcp_socket(int fd, int family)
{
	static const int names[] = { SO_TYPE, SO_PROTOCOL, SO_DOMAIN };
	const int expected[] = { SOCK_STREAM, IPPROTO_TCP, family };

	for (size_t i = 0; i < countof(names); i++) {
		int value = -1;
		socklen_t len = sizeof value;
		if (getsockopt(fd, SOL_SOCKET, names[i], &value, &len) < 0 || value != expected[i])
			return false;
	}
	return true;
}

static void connect_socket(struct published_connection *c, int fd)
{
	struct sockaddr_storage to;
	struct net_address a;

	net_address_parse(c->family == AF_INET ? "127.0.0.1" : "::1", &a);
	size_t len = net_address_sockaddr(&a, c->publication->port, &to);
	if (!is_tcp_socket(fd, c->family) || fd_nonblock(fd, true) < 0 ||
	    (connect(fd, (struct sockaddr *)&to, (socklen_t)len) < 0 && errno != EINPROGRESS)) {
		fd_close(&fd);
		try_next_family(c);
		return;
	}
	c->bev[END_SERVER] = wire_socket(c, fd);
	bufferevent_socket_connect(c->bev[END_SERVER], NULL, 0); /* the outcome is an event */
}

static void on_dialed(struct served_sandbox *b, const struct dialer_msg *reply, int fd)
{
	struct published_connection *c;

	TAILQ_FOREACH (c, &b->dialer.waiting, wait_link)
		if (c->family == (int)reply->family)
			break;
	if (!c) {
		fd_close(&fd); /* its connection has ended in the meantime, or it was requested twice */
		return;
	}
	stop_waiting(c);
	if (fd >= 0)
		connect_socket(c, fd);
	else
		try_next_family(c);
}

static void close_dialer(struct dialer_link *d)
{
	if (d->ev)
		event_free(d->ev);
	d->ev = NULL;
	fd_close(&d->fd);
}

static void on_dialer(evutil_socket_t sock, short what, void *ctx)
{
	struct served_sandbox *b = ctx;

	for (unsigned i = 0; i < PUBLICATION_CONNECTIONS_MAX && b->dialer.fd >= 0; i++) {
		struct dialer_msg reply;
		int fd = -1;
		size_t nfds = 1;
		ssize_t n = fd_recv(b->dialer.fd, &reply, sizeof reply, &fd, &nfds, MSG_DONTWAIT);

		if (n < 0 && fd_recv_again(errno))
			return;
		/* The init is gone, or has another link already; the runtime reports which. */
		if (n != (ssize_t)sizeof reply) {
			fd_close(&fd);
			close_dialer(&b->dialer);
			return;
		}
		on_dialed(b, &reply, fd);
	}
}

void dialer_link_init(struct dialer_link *d)
{
	*d = (struct dialer_link){ .fd = -1 };
	TAILQ_INIT(&d->waiting);
}

void dialer_link_replace(struct served_sandbox *b, int fd)
{
	struct published_connection *c;

	close_dialer(&b->dialer);
	b->dialer.fd = fd;
	b->dialer.ev = event_new(b->base, fd, EV_READ | EV_PERSIST, on_dialer, b);
	loop_add(b->dialer.ev, NULL);
	TAILQ_FOREACH (c, &b->dialer.waiting, wait_link)
		(void)send_request(&b->dialer, c->family);
}

void dialer_link_done(struct served_sandbox *b) { close_dialer(&b->dialer); }

/* ---- the listening socket ---- */

/* The socket stays readable: polling it would spin. */
static void accept_later(struct publication *p)
{
	const struct timeval later = { .tv_usec = RETRY_MS * 1000 };

	event_del(p->ev);
	loop_add(p->retry, &later);
}

static void on_client(evutil_socket_t sock, short what, void *ctx)
{
	struct publication *p = ctx;

	for (int i = 0; i < ACCEPTS_A_TURN; i++) {
		if (p->count >= PUBLICATION_CONNECTIONS_MAX) {
			p->paused = true; /* further clients wait in the backlog */
			event_del(p->ev);
			return;
		}
		if (p->sandbox->user->connections >= USER_CONNECTIONS_MAX) {
			accept_later(p);
			return;
		}
		int fd = accept4(p->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			start_connection(p, fd);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
			accept_later(p);
		return;
	}
}

static void on_retry(evutil_socket_t fd, short what, void *ctx)
{
	struct publication *p = ctx;

	if (!p->paused)
		loop_add(p->ev, NULL);
}

/* A connection has ended. */
static void on_publication_ready(struct publication *p)
{
	if (!p->paused || !p->ev)
		return;
	p->paused = false;
	loop_add(p->ev, NULL);
}

/* 0 or an errno. */
static int listen_on_host(struct publication *p)
{
	const int one = 1;
	struct sockaddr_storage at, bound = { 0 };
	socklen_t len = sizeof bound;
	struct net_address a, found;

	if (!net_address_parse(p->address, &a))
		return EINVAL;
	size_t n = net_address_sockaddr(&a, p->host_port, &at);
	fd_auto int fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return errno;
	/* For a proxy that takes the port over from a dead one, whose connections may linger. */
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (at.ss_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
	if (bind(fd, (struct sockaddr *)&at, (socklen_t)n) < 0 || listen(fd, BACKLOG) < 0 ||
	    getsockname(fd, (struct sockaddr *)&bound, &len) < 0 || !net_address_of((struct sockaddr *)&bound, &found))
		return errno;
	p->host_port = ntohs(bound.ss_family == AF_INET ? ((struct sockaddr_in *)&bound)->sin_port
							: ((struct sockaddr_in6 *)&bound)->sin6_port);
	p->fd = fd_take(&fd);
	return 0;
}

struct publication *publication_find(struct served_sandbox *b, uint32_t port)
{
	struct publication *p;

	LIST_FOREACH (p, &b->publications, link)
		if (p->port == port)
			return p;
	return NULL;
}

struct publication *publication_new(struct served_sandbox *b, const char *address, uint16_t host_port, uint16_t port)
{
	struct publication *p = mem_zalloc(1, sizeof *p), *other;
	unsigned count = 0;

	*p = (struct publication){ .sandbox = b, .port = port, .host_port = host_port, .fd = -1 };
	LIST_INIT(&p->connections);
	snprintf(p->address, sizeof p->address, "%s", address);
	LIST_FOREACH (other, &b->publications, link)
		count++;
	p->error = count >= PUBLICATIONS_MAX ? EMFILE : listen_on_host(p);
	LIST_INSERT_HEAD(&b->publications, p, link);
	p->claimed = p->unsent = true;
	if (p->error)
		return p;
	p->ev = event_new(b->base, p->fd, EV_READ | EV_PERSIST, on_client, p);
	p->retry = evtimer_new(b->base, on_retry, p);
	if (!p->ev || !p->retry)
		abort();
	loop_add(p->ev, NULL);
	return p;
}

void publication_close(struct publication *p)
{
	struct published_connection *c;

	if (p->ev)
		event_free(p->ev);
	if (p->retry)
		event_free(p->retry);
	p->ev = p->retry = NULL;
	fd_close(&p->fd);
	/* A client that has everything the server sent gets an orderly end. */
	while ((c = LIST_FIRST(&p->connections)))
		c->shut[END_CLIENT] ? free_connection(c) : fail_connection(c);
}

void publication_free(struct publication *p)
{
	publication_close(p);
	LIST_REMOVE(p, link);
	free(p);
}

struct proxy_msg publication_answer(const struct publication *p)
{
	return (struct proxy_msg){
		.kind = p->ending ? PROXY_UNPUBLISHED : PROXY_PUBLISHED,
		.key = p->sandbox->key,
		.port = p->port,
		.host_port = p->host_port,
		.reason = (uint32_t)p->error,
	};
}
