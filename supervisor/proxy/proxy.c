/*
 * The proxy's process: its links to the guard and the runtime, and the list of sandboxes that it serves.
 *
 * It survives its runtime. When the link ends, connections continue under the rules that the proxy has, and reports
 * accumulate (traffic_report.h). The guard then passes the socket of the next runtime, which names the sandboxes that
 * it has taken over: PROXY_SERVE for a known key only claims it, and PROXY_SYNC drops those that were not claimed. So a
 * restart of the runtime breaks no connection.
 *
 * It does not survive itself: a new proxy gets everything from the runtime again. Any message that it does not expect
 * ends it, because the safe reaction to a peer in an unknown state is to stop serving, and a restart is cheap.
 */

#include "supervisor/proxy/proxy.h"
#include "supervisor/common/role_sandbox.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/loop/loop.h"
#include "supervisor/common/role_sandbox.h"
#include "supervisor/guard/guard_msg.h"
#include "supervisor/proxy/credential.h"
#include "supervisor/proxy/resolver.h"
#include "supervisor/proxy/served_sandbox.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/thread.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

struct proxy {
	struct event_base *base;
	struct resolver *resolver;
	struct credentials credentials, coming; /* in effect; received so far from a new runtime */
	bool configured;                        /* the current runtime has sent its whole configuration */
	LIST_HEAD(, served_sandbox) boxes;
	struct proxy_users users;
	int guard_fd, peer_fd; /* peer_fd −1: the runtime is restarting */
	struct event *guard_ev, *peer_ev, *room_ev;
};

/* An unexpected message means that the peer is broken or compromised. Exit; the guard starts a new proxy. */
static _Noreturn void exit_with_error(const char *what)
{
	log_error("%s; exiting", what);
	_exit(1);
}

static struct served_sandbox *served_sandbox_of(struct proxy *x, const struct plan_key *key)
{
	struct served_sandbox *b;

	LIST_FOREACH (b, &x->boxes, link)
		if (memcmp(&b->key, key, sizeof *key) == 0)
			return b;
	return NULL;
}

/* ---- messages to the runtime ---- */

/* false: not sent. If the socket is full, room_ev calls send_all_reports once it is writable again. */
static bool send_message(struct proxy *x, const struct proxy_msg *m)
{
	if (x->peer_fd < 0)
		return false;
	if (fd_send(x->peer_fd, m, sizeof *m, NULL, 0, MSG_NOSIGNAL | MSG_DONTWAIT) == 0)
		return true;
	if (errno == EAGAIN || errno == ENOBUFS)
		loop_add(x->room_ev, NULL);
	return false;
}

/* Replies about published ports. Those that ended or failed are removed once their reply is sent. */
static bool send_answers(struct proxy *x, struct served_sandbox *b)
{
	struct publication *p, *next;

	for (p = LIST_FIRST(&b->publications); p; p = next) {
		const struct proxy_msg m = publication_answer(p);

		next = LIST_NEXT(p, link);
		if (p->unsent && !send_message(x, &m))
			return false;
		p->unsent = false;
		if (p->ending || p->error)
			publication_free(p);
	}
	return true;
}

/* Sends the unsent reports of one sandbox; false: some are still unsent. */
static bool send_reports(struct proxy *x, struct served_sandbox *b)
{
	struct traffic_report_row *row;

	while ((row = traffic_report_next(&b->report))) {
		row->msg.key = b->key;
		if (!send_message(x, &row->msg))
			return false;
		traffic_report_sent(row);
	}
	if (!send_answers(x, b))
		return false;
	const struct proxy_msg ended = { .kind = PROXY_ENDED, .key = b->key };
	return !b->ending || send_message(x, &ended);
}

static void served_sandbox_drop(struct served_sandbox *b)
{
	LIST_REMOVE(b, link);
	served_sandbox_free(b);
}

static void send_all_reports(struct proxy *x)
{
	struct served_sandbox *b, *next;

	for (b = LIST_FIRST(&x->boxes); b; b = next) {
		next = LIST_NEXT(b, link);
		if (!send_reports(x, b))
			return;
		if (b->ending)
			served_sandbox_drop(b);
	}
}

static void on_writable(evutil_socket_t fd, short what, void *ctx) { send_all_reports(ctx); }

/*
 * Callback of connections and sandboxes. Sending may free the sandbox that calls this, so it is deferred to the event
 * loop.
 */
static void on_report(void *ctx)
{
	struct proxy *x = ctx;

	if (x->room_ev)
		event_active(x->room_ev, EV_WRITE, 0);
}

/* ---- messages from the runtime ---- */

/* The seals make sure that the sender cannot change the rules after they were validated. */
static bool read_rules(int fd, struct host_rules *ret)
{
	struct host_rules s = { 0 };
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) < 0 ||
	    st.st_size % (off_t)sizeof(struct host_rule) ||
	    st.st_size > (off_t)(HOST_RULES_MAX * sizeof(struct host_rule)))
		return false;
	s.count = (size_t)st.st_size / sizeof(struct host_rule);
	s.rule = mem_zalloc(s.count + 1, sizeof *s.rule);
	bool ok = pread(fd, s.rule, (size_t)st.st_size, 0) == (ssize_t)st.st_size;
	for (size_t i = 0; ok && i < s.count; i++)
		ok = host_rule_valid(&s.rule[i]);
	if (ok)
		*ret = s;
	else
		host_rules_done(&s);
	return ok;
}

/* On any other kind of socket accept4 would fail again and again while it is readable. */
static bool is_listening(int fd)
{
	int value = 0;
	socklen_t len = sizeof value;

	return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &len) == 0 && value;
}

/* The sandbox of this key, known from the previous runtime or new. */
static struct served_sandbox *claim_sandbox(struct proxy *x, const struct proxy_msg *m)
{
	struct served_sandbox *b = served_sandbox_of(x, &m->key);

	if (!b) {
		b = served_sandbox_new(x->base, x->resolver, &x->credentials, &x->users, &m->key, m->uid, on_report, x);
		LIST_INSERT_HEAD(&x->boxes, b, link);
	}
	b->claimed = true;
	return b;
}

static void on_serve(struct proxy *x, const struct proxy_msg *m, int *fds)
{
	struct served_sandbox *b = claim_sandbox(x, m);
	struct host_rules rules = { 0 };

	/* Served for the previous runtime: its rules do not change while a command runs, so the new copy is dropped. */
	if (b->fd >= 0 || b->ending)
		return;
	if (!is_listening(fds[0]) || !read_rules(fds[1], &rules))
		exit_with_error("invalid message from the runtime: no listening socket or no rules");
	served_sandbox_listen(b, fd_take(&fds[0]), &rules);
}

/* A new runtime, which claims its publications, always has another link to the init: the newest one is used. */
static void on_publish(struct proxy *x, const struct proxy_msg *m, int *fds)
{
	struct served_sandbox *b = claim_sandbox(x, m);

	if (!memchr(m->address, 0, sizeof m->address) || m->port == 0 || m->port > UINT16_MAX ||
	    m->host_port > UINT16_MAX)
		exit_with_error("invalid message from the runtime: malformed address or port");
	if (b->ending)
		return;
	dialer_link_replace(b, fd_take(&fds[0]));
	struct publication *p = publication_find(b, m->port);
	if (p && (p->error || p->ending || strcmp(p->address, m->address) != 0 ||
		  (m->host_port && m->host_port != p->host_port))) {
		publication_free(p);
		p = NULL;
	}
	if (p)
		p->claimed = p->unsent = true;
	else
		publication_new(b, m->address, (uint16_t)m->host_port, (uint16_t)m->port);
	on_report(x);
}

static void on_unpublish(struct proxy *x, const struct proxy_msg *m, int *fds)
{
	struct served_sandbox *b = served_sandbox_of(x, &m->key);
	struct publication *p = b ? publication_find(b, m->port) : NULL;
	const struct proxy_msg unknown = { .kind = PROXY_UNPUBLISHED, .key = m->key, .port = m->port };

	if (!p) {
		send_message(x, &unknown);
		return;
	}
	publication_close(p);
	p->ending = p->unsent = true;
	on_report(x);
}

static void on_end(struct proxy *x, const struct proxy_msg *m, int *fds)
{
	struct served_sandbox *b = served_sandbox_of(x, &m->key);
	const struct proxy_msg ended = { .kind = PROXY_ENDED, .key = m->key };

	/*
	 * This proxy never served the sandbox, for instance because it was started afterwards. The runtime waits for
	 * ENDED all the same.
	 */
	if (!b) {
		send_message(x, &ended);
		return;
	}
	served_sandbox_close(b);
	b->ending = true;
	on_report(x);
}

static void drop_unclaimed_ports(struct served_sandbox *b)
{
	struct publication *p, *next;

	for (p = LIST_FIRST(&b->publications); p; p = next) {
		next = LIST_NEXT(p, link);
		if (!p->claimed)
			publication_free(p);
	}
}

static void on_sync(struct proxy *x, const struct proxy_msg *m, int *fds)
{
	struct served_sandbox *b, *next;

	for (b = LIST_FIRST(&x->boxes); b; b = next) {
		next = LIST_NEXT(b, link);
		if (!b->claimed)
			served_sandbox_drop(b);
		else
			drop_unclaimed_ports(b);
	}
}

static void on_name(struct proxy *x, const struct proxy_msg *m, int *fds)
{
	char name[HOST_NAME_MAX_LEN + 1];
	struct net_address a;

	if (memchr(m->host, 0, sizeof m->host) && memchr(m->address, 0, sizeof m->address) &&
	    host_name_clean(m->host, strlen(m->host), name) && net_address_parse(m->address, &a))
		resolver_fix(x->resolver, name, &a);
	else
		exit_with_error("invalid message from the runtime: malformed host name");
}

static void on_credential(struct proxy *x, const struct proxy_msg *m, int *fds)
{
	struct proxy_credential c;

	if (pread(fds[0], &c, sizeof c, 0) != (ssize_t)sizeof c || !credentials_add(&x->coming, &c))
		exit_with_error("invalid message from the runtime: malformed credential");
	/* No secret stays on the stack. */
	explicit_bzero(&c, sizeof c);
}

/*
 * The first message that is not configuration completes it: the fixed names and credentials received so far replace the
 * previous runtime's. Until then those stay in effect, because commands keep running while the runtime restarts.
 */
static void complete_configuration(struct proxy *x)
{
	if (x->configured)
		return;
	x->configured = true;
	resolver_fixed(x->resolver);
	x->credentials = x->coming;
	explicit_bzero(&x->coming, sizeof x->coming);
}

static const struct {
	enum proxy_kind kind;
	size_t nfds;
	bool has_key;
	bool configures;
	void (*handle)(struct proxy *x, const struct proxy_msg *m, int *fds);
} handlers[] = {
	{ PROXY_NAME, 0, false, true, on_name },
	{ PROXY_SERVE, 2, true, false, on_serve },
	{ PROXY_SYNC, 0, false, false, on_sync },
	{ PROXY_END, 0, true, false, on_end },
	{ PROXY_CREDENTIAL, 1, false, true, on_credential },
	{ PROXY_PUBLISH, 1, true, false, on_publish },
	{ PROXY_UNPUBLISH, 0, true, false, on_unpublish },
};

static void dispatch_message(struct proxy *x, const struct proxy_msg *m, int *fds, size_t nfds)
{
	for (size_t i = 0; i < countof(handlers); i++) {
		if (handlers[i].kind != m->kind)
			continue;
		if (nfds != handlers[i].nfds || (handlers[i].has_key && !plan_key_valid(&m->key)))
			exit_with_error("invalid message from the runtime: wrong descriptors or key");
		if (!handlers[i].configures)
			complete_configuration(x);
		else if (x->configured)
			exit_with_error("unexpected message from the runtime: its configuration is complete");
		handlers[i].handle(x, m, fds);
		return;
	}
	exit_with_error("invalid message from the runtime: unknown kind");
}

static void peer_close(struct proxy *x)
{
	if (x->peer_ev)
		event_free(x->peer_ev);
	if (x->room_ev)
		event_free(x->room_ev);
	x->peer_ev = x->room_ev = NULL;
	fd_close(&x->peer_fd);
}

static void on_peer(evutil_socket_t sock, short what, void *ctx)
{
	struct proxy *x = ctx;

	for (;;) {
		struct proxy_msg m;
		int fds[2] = { -1, -1 };
		size_t nfds = countof(fds);
		ssize_t n = fd_recv(x->peer_fd, &m, sizeof m, fds, &nfds, MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n == 0 || (n < 0 && errno == ECONNRESET)) {
			peer_close(x); /* the guard passes the next runtime's socket */
			return;
		}
		if (n != (ssize_t)sizeof m)
			exit_with_error("invalid message from the runtime: wrong size");
		dispatch_message(x, &m, fds, nfds);
		for (size_t i = 0; i < nfds; i++)
			fd_close(&fds[i]);
	}
}

static void peer_open(struct proxy *x, int fd)
{
	struct served_sandbox *b;
	struct publication *p;

	peer_close(x);
	x->peer_fd = fd;
	x->peer_ev = event_new(x->base, fd, EV_READ | EV_PERSIST, on_peer, x);
	x->room_ev = event_new(x->base, fd, EV_WRITE, on_writable, x);
	loop_add(x->peer_ev, NULL);
	/*
	 * What the previous runtime configured stays in effect until the new configuration is complete; a half-received
	 * one is dropped.
	 */
	x->configured = false;
	resolver_fix(x->resolver, NULL, NULL);
	explicit_bzero(&x->coming, sizeof x->coming);
	LIST_FOREACH (b, &x->boxes, link) {
		b->claimed = false;
		traffic_report_resend(&b->report);
		LIST_FOREACH (p, &b->publications, link)
			p->claimed = false;
	}
	on_report(x);
}

/* ---- the guard ---- */

static void on_guard(evutil_socket_t sock, short what, void *ctx)
{
	struct proxy *x = ctx;
	struct guard_msg m;
	int fd = -1;
	size_t nfds = 1;
	ssize_t n = fd_recv(x->guard_fd, &m, sizeof m, &fd, &nfds, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	/* The guard is gone, and the daemon with it. */
	if (n <= 0)
		_exit(0);
	if (n != (ssize_t)sizeof m || m.kind != GUARD_PEER || nfds != 1)
		exit_with_error("an unexpected message from the guard");
	peer_open(x, fd);
}

int proxy_main(void)
{
	struct proxy x = { .guard_fd = GUARD_FD_LINK, .peer_fd = -1 };
	struct err e = ERR_INIT;
	const struct guard_msg ready = { .kind = GUARD_READY };

	signal(SIGPIPE, SIG_IGN);
	fd_raise_nofile();
	fd_cloexec(GUARD_FD_LINK, true);
	fd_cloexec(GUARD_FD_PEER, true);
	/* A compromised proxy can use the network, which it needs anyway, and nothing else. */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 || role_sandbox_enter(ROLE_SANDBOX_PROXY, NULL, 0, &e) < 0) {
		log_error("%s", e.message);
		return 1;
	}
	x.base = event_base_new();
	if (!x.base)
		return 1;
	x.resolver = resolver_new(x.base);
	LIST_INIT(&x.boxes);
	LIST_INIT(&x.users);
	x.guard_ev = event_new(x.base, x.guard_fd, EV_READ | EV_PERSIST, on_guard, &x);
	loop_add(x.guard_ev, NULL);
	peer_open(&x, GUARD_FD_PEER);
	if (fd_send(x.guard_fd, &ready, sizeof ready, NULL, 0, MSG_NOSIGNAL) < 0)
		return 1;
	(void)loop_run(x.base); /* the loop returns only on failure; the guard starts a new proxy */
	return 1;
}
