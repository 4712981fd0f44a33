#include "supervisor/host/proxy_link.h"

#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/loop/loop.h"
#include "sandbox/violation.h"
#include "supervisor/host/config.h"
#include "supervisor/host/host_ports.h"
#include "supervisor/host/process_io.h"
#include "supervisor/host/published_port.h"

#include <errno.h>
#include <event2/event.h>
#include <string.h>
#include <sys/socket.h>

/*
 * What the proxy has to be sent is not a queue but follows from flags: how much of the configuration was sent, whether
 * SYNC was, and for each process_io whether it and its published ports are served and their ends were sent. flush_state
 * sends whatever is missing, as far as the socket permits. For a new proxy the flags are reset, and the same function
 * sends everything again.
 *
 * A dead proxy loses the connections of sandboxes and reports that it had not sent: denials and byte counts of that
 * moment. Processes that wait for its last report are completed without it, because an end must not depend on the
 * proxy.
 */

void proxy_link_init(struct proxy_link *l, struct host_ports *w) { *l = (struct proxy_link){ .host = w, .fd = -1 }; }

void proxy_link_configure(struct proxy_link *l, const struct config *config) { l->config = config; }

/* ---- sending ---- */

/* false = not sent: retried when the socket is writable, or with another proxy. */
static bool send_message(struct proxy_link *l, const struct proxy_msg *m, const int *fds, size_t nfds)
{
	if (l->fd < 0)
		return false;
	if (fd_send(l->fd, m, sizeof *m, fds, nfds, MSG_NOSIGNAL | MSG_DONTWAIT) == 0)
		return true;
	if (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM || errno == ETOOMANYREFS)
		loop_add(l->write_ev, NULL);
	return false;
}

static bool has_socket(const struct process_io *h)
{
	return h->fds[GUARD_SLOT_NET] >= 0 && h->fds[GUARD_SLOT_NET_RULES] >= 0;
}

/* A walk over the process_ios; `full` stops it. */
struct round {
	struct proxy_link *link;
	bool full;
};

static void serve_one(void *ctx, const char *id, void *value)
{
	struct round *r = ctx;
	struct process_io *h = value;

	if (r->full || h->net_served || !has_socket(h))
		return;
	const struct proxy_msg m = { .kind = PROXY_SERVE, .key = h->key, .uid = h->names.uid };
	const int fds[] = { h->fds[GUARD_SLOT_NET], h->fds[GUARD_SLOT_NET_RULES] };
	h->net_served = send_message(r->link, &m, fds, countof(fds));
	r->full = !h->net_served;
}

static void publish_one(void *ctx, const char *id, void *value)
{
	struct round *r = ctx;
	struct process_io *h = value;
	struct published_port *p;

	if (r->full || !h->ports || h->net_ending)
		return;
	LIST_FOREACH (p, &h->ports->list, link) {
		struct proxy_msg m = { .kind = PROXY_PUBLISH,
				       .key = h->key,
				       .uid = h->names.uid,
				       .port = p->port,
				       .host_port = p->host_port };
		if (p->sent || r->full)
			continue;
		memcpy(m.address, p->address, sizeof m.address);
		p->sent = send_message(r->link, &m, &h->ports->dialer_fd, 1);
		r->full = !p->sent;
	}
}

static void unpublish_one(void *ctx, const char *id, void *value)
{
	struct round *r = ctx;
	struct process_io *h = value;
	struct published_port *p;

	if (r->full || !h->ports)
		return;
	LIST_FOREACH (p, &h->ports->list, link) {
		const struct proxy_msg m = { .kind = PROXY_UNPUBLISH, .key = h->key, .port = p->port };
		if (!p->ending || p->end_sent || r->full)
			continue;
		p->end_sent = send_message(r->link, &m, NULL, 0);
		r->full = !p->end_sent;
	}
}

static void end_one(void *ctx, const char *id, void *value)
{
	struct round *r = ctx;
	struct process_io *h = value;

	if (r->full || !h->net_ending || h->net_end_sent)
		return;
	const struct proxy_msg m = { .kind = PROXY_END, .key = h->key };
	h->net_end_sent = send_message(r->link, &m, NULL, 0);
	r->full = !h->net_end_sent;
}

/* In a sealed memfd, not in the message: the value is wiped here and passed only as a descriptor. */
static bool send_credential(struct proxy_link *l, const struct config_credential *given)
{
	const struct proxy_msg m = { .kind = PROXY_CREDENTIAL };
	struct proxy_credential c = { 0 };

	memcpy(c.name, given->name, sizeof c.name);
	memcpy(c.host, given->host, sizeof c.host);
	memcpy(c.header, given->header, sizeof c.header);
	memcpy(c.value, given->value, sizeof c.value);
	fd_auto int fd = fd_memfd_sealed("bailiff-credential", &c, sizeof c);
	explicit_bzero(&c, sizeof c);
	if (fd < 0) { /* out of descriptors or memory: as for a message that cannot be sent now */
		loop_add(l->write_ev, NULL);
		return false;
	}
	return send_message(l, &m, &fd, 1);
}

/* false = not completely sent yet. */
static bool send_configuration(struct proxy_link *l)
{
	for (; l->config && l->names_sent < l->config->nproxy_hosts; l->names_sent++) {
		const struct config_host *h = &l->config->proxy_hosts[l->names_sent];
		struct proxy_msg m = { .kind = PROXY_NAME };
		memcpy(m.host, h->host, sizeof m.host);
		memcpy(m.address, h->address, sizeof m.address);
		if (!send_message(l, &m, NULL, 0))
			return false;
	}
	for (; l->config && l->credentials_sent < l->config->ncredentials; l->credentials_sent++)
		if (!send_credential(l, &l->config->credentials[l->credentials_sent]))
			return false;
	return true;
}

/*
 * Sends whatever this proxy has not got yet, in order: configuration, sandboxes, SYNC (after it the proxy drops what
 * was not named), then ends. A full socket stops it; on_writable continues.
 */
static void flush_state(struct proxy_link *l)
{
	struct round r = { .link = l };
	const struct proxy_msg sync = { .kind = PROXY_SYNC };

	if (l->fd < 0 || !l->listening)
		return;
	if (!send_configuration(l))
		return;
	strmap_each(&l->host->process_ios, serve_one, &r);
	strmap_each(&l->host->process_ios, publish_one, &r);
	if (!r.full && !l->synced)
		r.full = !(l->synced = send_message(l, &sync, NULL, 0));
	strmap_each(&l->host->process_ios, unpublish_one, &r);
	strmap_each(&l->host->process_ios, end_one, &r);
}

static void on_writable(evutil_socket_t fd, short what, void *ctx) { flush_state(ctx); }

/* ---- reports ---- */

static void on_refused(struct proxy_link *l, const char *id, const struct proxy_msg *m)
{
	struct violation v = {
		.kind = "network",
		.operation = "connect",
		.source = "proxy",
		.reason = proxy_reason_text(m->reason),
		.count = m->count,
		.port = m->port ? (int32_t)m->port : -1,
	};

	memcpy(v.host, m->host, sizeof v.host);
	snprintf(v.address, sizeof v.address, "%.47s", m->address);
	engine_on_violation(l->host->engine, id, &v);
}

static void on_traffic(struct proxy_link *l, const char *id, const struct proxy_msg *m)
{
	const struct port_traffic t = {
		.host = m->host, .port = m->port, .connections = m->count, .sent = m->sent, .received = m->received
	};

	if (m->kind == PROXY_TRAFFIC)
		engine_on_traffic(l->host->engine, id, &t);
	else
		engine_on_port_traffic(l->host->engine, m->key.id, &t);
}

/* A failure removes it, so that it can be published again. */
static void on_published(struct proxy_link *l, struct process_io *h, const struct proxy_msg *m)
{
	struct published_port *p = published_port_find(h, m->port);
	uint16_t port = (uint16_t)m->port, host_port = (uint16_t)m->host_port;

	if (!p || p->ending)
		return;
	bool known = p->reported;
	p->reported = true;
	p->host_port = host_port;
	if (m->reason)
		published_port_remove(p);
	if (m->reason || !known)
		engine_on_published(l->host->engine, m->key.id, port, host_port, (int)m->reason);
}

static void on_unpublished(struct proxy_link *l, struct process_io *h, const struct proxy_msg *m)
{
	struct published_port *p = published_port_find(h, m->port);

	if (!p || !p->end_sent)
		return;
	published_port_remove(p);
	engine_on_unpublished(l->host->engine, m->key.id, (uint16_t)m->port);
}

static void dispatch_report(struct proxy_link *l, struct proxy_msg *m)
{
	m->key.id[sizeof m->key.id - 1] = m->host[sizeof m->host - 1] = m->address[sizeof m->address - 1] = '\0';
	struct process_io *h = strmap_get(&l->host->process_ios, m->key.id);
	if (!h || h->key.attempt != m->key.attempt)
		return; /* the process has ended in the meantime */
	if (m->kind == PROXY_REFUSED) {
		on_refused(l, process_io_blamed(h, 0, 0)->key.id, m);
	} else if (m->kind == PROXY_TRAFFIC || m->kind == PROXY_PORT_TRAFFIC) {
		on_traffic(l, process_io_blamed(h, 0, 0)->key.id, m);
	} else if (m->kind == PROXY_PUBLISHED) {
		on_published(l, h, m);
	} else if (m->kind == PROXY_UNPUBLISHED) {
		on_unpublished(l, h, m);
	} else if (m->kind == PROXY_ENDED && h->net_ending) {
		h->net_ending = false;
		l->host->drained(l->host, m->key.id);
	}
}

/* 1 = a message, 0 = none now, −1 = the proxy is dead. */
static int receive_report(struct proxy_link *l)
{
	struct proxy_msg m;
	int none[1];
	size_t nfds = 0;
	ssize_t n = fd_recv(l->fd, &m, sizeof m, none, &nfds, MSG_DONTWAIT);

	if (n < 0 && fd_recv_again(errno))
		return 0;
	if (n != 0 && n != (ssize_t)sizeof m) /* a live proxy with a broken link would never be replaced */
		guard_link_want_restart(&l->host->guard, GUARD_PROXY);
	if (n != (ssize_t)sizeof m)
		return -1;
	dispatch_report(l, &m);
	return 1;
}

/* Processes that wait for the last report, and ports that wait to be unpublished. */
struct waiting {
	struct waiting_for {
		char id[PLAN_KEY_MAX];
		uint16_t port; /* 0 = the last report */
	} * row;
	size_t count;
};

static void add_waiting(struct waiting *s, const char *id, uint16_t port)
{
	s->row = mem_realloc(s->row, (s->count + 1) * sizeof *s->row);
	s->row[s->count].port = port;
	memcpy(s->row[s->count++].id, id, PLAN_KEY_MAX);
}

static void forget_one(void *ctx, const char *id, void *value)
{
	struct waiting *s = ctx;
	struct process_io *h = value;
	struct published_port *p, *next;

	h->net_served = h->net_end_sent = false;
	for (p = h->ports ? LIST_FIRST(&h->ports->list) : NULL; p; p = next) {
		next = LIST_NEXT(p, link);
		p->sent = false;
		if (!p->ending)
			continue;
		add_waiting(s, h->key.id, p->port);
		published_port_remove(p);
	}
	if (!h->net_ending)
		return;
	h->net_ending = false;
	add_waiting(s, h->key.id, 0);
}

/* The reports of a dead proxy are lost: whatever waits for one is completed without it. */
static void drop_proxy(struct proxy_link *l)
{
	struct waiting s = { 0 };

	if (l->read_ev)
		event_free(l->read_ev);
	if (l->write_ev)
		event_free(l->write_ev);
	l->read_ev = l->write_ev = NULL;
	fd_close(&l->fd);
	l->synced = false;
	l->names_sent = l->credentials_sent = 0;
	strmap_each(&l->host->process_ios, forget_one, &s);
	for (size_t i = 0; i < s.count; i++) {
		if (s.row[i].port)
			engine_on_unpublished(l->host->engine, s.row[i].id, s.row[i].port);
		else
			l->host->drained(l->host, s.row[i].id);
	}
	free(s.row);
}

static void on_readable(evutil_socket_t fd, short what, void *ctx)
{
	struct proxy_link *l = ctx;
	int r;

	while ((r = receive_report(l)) > 0)
		continue;
	if (r < 0)
		drop_proxy(l); /* the guard will send another link */
}

/* ---- the link itself ---- */

void proxy_link_replace(struct proxy_link *l, int fd)
{
	while (l->fd >= 0 && receive_report(l) > 0)
		continue; /* reports from before it died */
	drop_proxy(l);
	l->fd = fd;
	l->wanted = true;
	l->read_ev = event_new(l->host->base, fd, EV_READ | EV_PERSIST, on_readable, l);
	l->write_ev = event_new(l->host->base, fd, EV_WRITE, on_writable, l);
	loop_add(l->read_ev, NULL);
	flush_state(l);
}

void proxy_link_listen(struct proxy_link *l)
{
	l->listening = true;
	flush_state(l);
}

void proxy_link_done(struct proxy_link *l)
{
	if (l->read_ev)
		event_free(l->read_ev);
	if (l->write_ev)
		event_free(l->write_ev);
	fd_close(&l->fd);
}

const char *proxy_link_state(const struct proxy_link *l)
{
	return l->fd >= 0 ? "serving" : l->wanted ? "starting" : "not needed so far";
}

static void want_proxy(struct proxy_link *l)
{
	if (!l->wanted)
		guard_link_want_proxy(&l->host->guard);
	l->wanted = true;
}

void proxy_link_serve(struct proxy_link *l, struct process_io *h)
{
	if (!has_socket(h))
		return;
	h->net_served = false;
	want_proxy(l);
	flush_state(l);
}

void proxy_link_publish(struct proxy_link *l)
{
	want_proxy(l);
	flush_state(l);
}

bool proxy_link_drain(struct proxy_link *l, struct process_io *h)
{
	if (l->fd < 0 || (!h->net_served && !published_ports_known(h)))
		return false;
	h->net_ending = true;
	flush_state(l);
	return true;
}

void proxy_link_remove(struct proxy_link *l, struct process_io *h)
{
	const struct proxy_msg m = { .kind = PROXY_END, .key = h->key };

	if ((h->net_served || published_ports_known(h)) && !h->net_end_sent)
		send_message(l, &m, NULL, 0); /* if it is lost, the next SYNC leaves the process out */
	published_ports_free(h);
}
