#include "supervisor/host/proxy_link.h"

#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/loop/loop.h"
#include "sandbox/violation.h"
#include "supervisor/host/config.h"
#include "supervisor/host/host_ports.h"
#include "supervisor/host/process_io.h"

#include <errno.h>
#include <event2/event.h>
#include <string.h>
#include <sys/socket.h>

/*
 * What the proxy has to be sent is not a queue but follows from flags: how much of the configuration was sent, whether
 * SYNC was, and for each process_io whether it is served and whether its end was sent. flush_state sends whatever is
 * missing, as far as the socket permits. For a new proxy the flags are reset, and the same function sends everything
 * again.
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
	const struct proxy_msg m = { .kind = PROXY_SERVE, .key = h->key };
	const int fds[] = { h->fds[GUARD_SLOT_NET], h->fds[GUARD_SLOT_NET_RULES] };
	h->net_served = send_message(r->link, &m, fds, countof(fds));
	r->full = !h->net_served;
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
	return fd >= 0 && send_message(l, &m, &fd, 1);
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
	if (!r.full && !l->synced)
		r.full = !(l->synced = send_message(l, &sync, NULL, 0));
	if (!r.full)
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

	engine_on_traffic(l->host->engine, id, &t);
}

static void dispatch_report(struct proxy_link *l, struct proxy_msg *m)
{
	m->key.id[sizeof m->key.id - 1] = m->host[sizeof m->host - 1] = m->address[sizeof m->address - 1] = '\0';
	struct process_io *h = strmap_get(&l->host->process_ios, m->key.id);
	if (!h || h->key.attempt != m->key.attempt)
		return; /* the process has ended in the meantime */
	if (m->kind == PROXY_REFUSED) {
		on_refused(l, process_io_blamed(h, 0, 0)->key.id, m);
	} else if (m->kind == PROXY_TRAFFIC) {
		on_traffic(l, process_io_blamed(h, 0, 0)->key.id, m);
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

struct waiting {
	char (*ids)[PLAN_KEY_MAX];
	size_t count;
};

static void forget_one(void *ctx, const char *id, void *value)
{
	struct waiting *s = ctx;
	struct process_io *h = value;

	h->net_served = h->net_end_sent = false;
	if (!h->net_ending)
		return;
	h->net_ending = false;
	memcpy(s->ids[s->count++], h->key.id, PLAN_KEY_MAX);
}

/* The reports of a dead proxy are lost: processes that wait for its last report are completed without it. */
static void drop_proxy(struct proxy_link *l)
{
	struct waiting s = { .ids = mem_zalloc(l->host->process_ios.count + 1, PLAN_KEY_MAX) };

	if (l->read_ev)
		event_free(l->read_ev);
	if (l->write_ev)
		event_free(l->write_ev);
	l->read_ev = l->write_ev = NULL;
	fd_close(&l->fd);
	l->synced = false;
	l->names_sent = l->credentials_sent = 0;
	strmap_each(&l->host->process_ios, forget_one, &s);
	for (size_t i = 0; i < s.count; i++)
		l->host->drained(l->host, s.ids[i]);
	free(s.ids);
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

void proxy_link_serve(struct proxy_link *l, struct process_io *h)
{
	if (!has_socket(h))
		return;
	h->net_served = false;
	if (!l->wanted)
		guard_link_want_proxy(&l->host->guard);
	l->wanted = true;
	flush_state(l);
}

bool proxy_link_drain(struct proxy_link *l, struct process_io *h)
{
	if (l->fd < 0 || !h->net_served)
		return false;
	h->net_ending = true;
	flush_state(l);
	return true;
}

void proxy_link_remove(struct proxy_link *l, struct process_io *h)
{
	const struct proxy_msg m = { .kind = PROXY_END, .key = h->key };

	if (h->net_served && !h->net_end_sent)
		send_message(l, &m, NULL, 0); /* if it is lost, the next SYNC leaves the process out */
}
