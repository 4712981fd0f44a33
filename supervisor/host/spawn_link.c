#include "supervisor/host/spawn_link.h"

#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/ports.h"
#include "runtime/loop/loop.h"

#include <errno.h>
#include <event2/event.h>
#include <sched.h>
#include <sys/socket.h>

/*
 * Three kinds of messages, by what happens when a spawner dies:
 *
 * - START, LIMIT and CHANGES stay in `requests` until they are answered. Unsent ones go to the next spawner; those that
 * were sent are reported as unanswered, because their outcome is unknown.
 * - PEER_FILES and GRANT have a socket or pipe of their own for the answer, which ends if the spawner dies. They are in
 *   `requests` only until they are sent.
 * - ANNOUNCE, CLEAN and MARK are sent without waiting, or not at all. The first two are optimisations or tidying; the
 *   audit reader repeats MARK.
 */

void spawn_link_init(struct spawn_link *l, int fd, const struct spawn_link_events *on, void *ctx)
{
	*l = (struct spawn_link){ .fd = fd, .on = on, .ctx = ctx, .answered_cpu = -1 };
	TAILQ_INIT(&l->requests);
}

static void request_free(struct spawn_link *l, struct spawn_request *r)
{
	TAILQ_REMOVE(&l->requests, r, link);
	for (size_t i = 0; i < r->nfds; i++)
		fd_close(&r->fds[i]);
	free(r);
}

static void events_drop(struct spawn_link *l)
{
	if (l->read_ev)
		event_free(l->read_ev);
	if (l->write_ev)
		event_free(l->write_ev);
	l->read_ev = l->write_ev = NULL;
}

void spawn_link_done(struct spawn_link *l)
{
	events_drop(l);
	while (!TAILQ_EMPTY(&l->requests))
		request_free(l, TAILQ_FIRST(&l->requests));
	fd_close(&l->fd);
}

/* The link itself failed: without another spawner no request would be answered. */
static void report_broken(struct spawn_link *l, const char *what)
{
	if (l->broken)
		return;
	log_error("the link to the spawner: %s; requesting another one", what);
	l->broken = true;
	if (l->read_ev)
		event_del(l->read_ev);
	l->on->broken(l->ctx);
}

/*
 * Sends queued requests in order. Stops at a full socket, to continue when it is writable, or at a dead one, to
 * continue on the next link. Descriptors are closed once they are sent; the request stays until it is answered.
 */
static void flush_requests(struct spawn_link *l)
{
	struct spawn_request *r, *next;

	for (r = TAILQ_FIRST(&l->requests); r; r = next) {
		next = TAILQ_NEXT(r, link);
		if (r->sent)
			continue;
		if (fd_send(l->fd, &r->msg, sizeof r->msg + r->msg.plan_len, r->fds, r->nfds,
			    MSG_NOSIGNAL | MSG_DONTWAIT) == 0) {
			if (r->msg.kind == SPAWN_PEER_FILES ||
			    r->msg.kind == SPAWN_GRANT) { /* answered on a socket of their own */
				request_free(l, r);
				continue;
			}
			r->sent = true;
			for (size_t i = 0; i < r->nfds; i++)
				fd_close(&r->fds[i]);
			r->nfds = 0;
			continue;
		}
		if (errno == EPIPE || errno == ECONNRESET || errno == EBADF)
			return; /* that spawner died, or there is none yet */
		if (errno != ETOOMANYREFS && !fd_recv_again(errno))
			report_broken(l, strerror(errno));
		else if (l->write_ev)
			loop_add(l->write_ev, NULL);
		return;
	}
}

/* Only sent requests: the spawner cannot answer one that it has not received. */
static struct spawn_request *request_of(struct spawn_link *l, const struct plan_key *key)
{
	struct spawn_request *r;

	TAILQ_FOREACH (r, &l->requests, link)
		if (r->sent && r->msg.key.attempt == key->attempt && strcmp(r->msg.key.id, key->id) == 0)
			return r;
	return NULL;
}

/* The request is freed before the callback, which may send another one with the same key. */
static void handle_reply(struct spawn_link *l, const struct spawn_msg *m, int *fds, size_t nfds)
{
	struct spawn_request *r = request_of(l, &m->key);

	if (!r && m->kind == SPAWN_CHANGED)
		return; /* the request of an earlier runtime */
	if (!r) {
		log_error("the spawner replied for %.39s without a request", m->key.id);
		return;
	}
	request_free(l, r);
	if (m->kind == SPAWN_STARTED && nfds == 1)
		l->on->started(l->ctx, m, fd_take(&fds[0]));
	else if (m->kind == SPAWN_LIMITED)
		l->on->limited(l->ctx, m);
	else if (m->kind == SPAWN_FAILED)
		l->on->failed(l->ctx, m);
	else if (m->kind == SPAWN_CHANGED && l->on->changed)
		l->on->changed(l->ctx, m);
}

/* 1 = a message, 0 = none now, −1 = the spawner is dead or will be killed. */
static int receive_message(struct spawn_link *l, int flags, uint32_t *ret_kind)
{
	struct spawn_msg m;
	int fds[2];
	size_t nfds = 2;
	ssize_t n = fd_recv(l->fd, &m, sizeof m, fds, &nfds, flags);

	if (n < 0 && fd_recv_again(errno))
		return 0;
	if (n == 0)
		l->broken = true; /* the guard restarts it */
	else if (n < 0)
		report_broken(l, errno == EMSGSIZE ? "descriptors of a message were lost" : strerror(errno));
	else if (n != (ssize_t)sizeof m)
		report_broken(l, "a message of the wrong size");
	if (n != (ssize_t)sizeof m)
		return -1;
	*ret_kind = m.kind;
	m.key.id[sizeof m.key.id - 1] = '\0';
	m.path[sizeof m.path - 1] = '\0';
	if (m.kind != SPAWN_SYNCED)
		handle_reply(l, &m, fds, nfds);
	for (size_t i = 0; i < nfds; i++)
		fd_close(&fds[i]);
	return 1;
}

static void on_readable(evutil_socket_t fd, short what, void *ctx)
{
	struct spawn_link *l = ctx;
	uint32_t kind;
	int r;

	while ((r = receive_message(l, MSG_DONTWAIT, &kind)) > 0)
		;
	if (r < 0 && l->read_ev)
		event_del(l->read_ev); /* the guard will send another link */
}

static void on_writable(evutil_socket_t fd, short what, void *ctx) { flush_requests(ctx); }

void spawn_link_listen(struct spawn_link *l, struct event_base *base)
{
	l->base = base;
	l->read_ev = event_new(base, l->fd, EV_READ | EV_PERSIST, on_readable, l);
	l->write_ev = event_new(base, l->fd, EV_WRITE, on_writable, l);
	loop_add(l->read_ev, NULL);
	flush_requests(l);
}

/*
 * A start that the dead spawner did not answer may or may not have happened: the host decides with the guard's help
 * (`unanswered`). Requests about changes fail with ECONNRESET. Unsent requests simply go to the new spawner.
 */
void spawn_link_replace(struct spawn_link *l, int fd)
{
	struct spawn_requests lost = TAILQ_HEAD_INITIALIZER(lost);
	struct spawn_request *r, *next;
	uint32_t kind;

	while (l->fd >= 0 && receive_message(l, MSG_DONTWAIT, &kind) > 0)
		; /* replies from before it died */
	events_drop(l);
	fd_close(&l->fd);
	l->broken = false;
	/* Collected before anything is sent on the new link and before callbacks run: a follow-up request that a
	 * callback adds belongs to the new spawner. */
	for (r = TAILQ_FIRST(&l->requests); r; r = next) {
		next = TAILQ_NEXT(r, link);
		if (!r->sent)
			continue;
		TAILQ_REMOVE(&l->requests, r, link);
		TAILQ_INSERT_TAIL(&lost, r, link);
	}
	l->fd = fd;
	if (l->base)
		spawn_link_listen(l, l->base);
	while ((r = TAILQ_FIRST(&lost))) {
		const struct spawn_msg gone = { .kind = SPAWN_CHANGED, .error = ECONNRESET, .key = r->msg.key };
		bool was_start = r->msg.kind == SPAWN_START || r->msg.kind == SPAWN_LIMIT;

		TAILQ_REMOVE(&lost, r, link);
		free(r); /* its descriptors were sent */
		if (was_start)
			l->on->unanswered(l->ctx, &gone.key);
		else if (l->on->changed)
			l->on->changed(l->ctx, &gone);
	}
}

/* Requests keep their order: a request is never sent before one that was queued earlier. */
static void queue_request(struct spawn_link *l, const struct spawn_msg *m, const void *plan, const int *fds,
			  size_t nfds)
{
	struct spawn_request *r = mem_zalloc(1, sizeof *r + m->plan_len);

	r->msg = *m;
	if (m->plan_len)
		memcpy(r->plan, plan, m->plan_len);
	if (nfds)
		memcpy(r->fds, fds, nfds * sizeof *fds);
	r->nfds = nfds;
	TAILQ_INSERT_TAIL(&l->requests, r, link);
	flush_requests(l);
}

/* The CPU tells the spawner which one to avoid (supervisor/spawner/cpu_affinity.h). */
void spawn_link_start(struct spawn_link *l, const struct spawn_launch *s, const struct port_expected *x)
{
	const struct spawn_msg m = { .kind = SPAWN_START,
				     .flags = s->flags,
				     .key = *s->key,
				     .plan_len = s->plan ? (uint32_t)s->plan_len : 0,
				     .token = x->token,
				     .hint = x->hint,
				     .cpu = sched_getcpu() };

	queue_request(l, &m, s->plan, s->fds, s->nfds);
}

void spawn_link_limit(struct spawn_link *l, const struct spawn_launch *s, const struct plan_key *holder, int32_t pid)
{
	const struct spawn_msg m = { .kind = SPAWN_LIMIT,
				     .flags = s->flags,
				     .key = *s->key,
				     .holder = *holder,
				     .pid = pid,
				     .plan_len = s->plan ? (uint32_t)s->plan_len : 0 };

	queue_request(l, &m, s->plan, s->fds, s->nfds);
}

struct port_expected spawn_link_announce(struct spawn_link *l, uint64_t hint)
{
	struct spawn_msg m = { .kind = SPAWN_ANNOUNCE, .hint = hint, .token = ++l->expected, .cpu = sched_getcpu() };

	if (l->fd < 0 || fd_send(l->fd, &m, sizeof m, NULL, 0, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		m.token = 0;
	return (struct port_expected){ .hint = hint, .token = m.token };
}

void spawn_link_request(struct spawn_link *l, const struct spawn_msg *m, const int *fds, size_t nfds)
{
	queue_request(l, m, NULL, fds, nfds);
}

const char *spawn_link_state(const struct spawn_link *l) { return l->broken ? "restarting" : "ok"; }

void spawn_link_answered(struct spawn_link *l) { l->answered_cpu = sched_getcpu(); }

void spawn_link_remove_leaf(struct spawn_link *l, const struct plan_key *key)
{
	const struct spawn_msg m = { .kind = SPAWN_CLEAN, .key = *key, .cpu = l->answered_cpu };

	/* May be lost with a dying spawner or a full socket: an empty directory stays until the guard's next start.
	 */
	if (l->fd >= 0 && fd_send(l->fd, &m, sizeof m, NULL, 0, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		log_debug("ask the spawner to clean up after %s: %s", key->id, strerror(errno));
}

bool spawn_link_mark(struct spawn_link *l, uint64_t token)
{
	const struct spawn_msg m = { .kind = SPAWN_MARK, .token = token };

	return l->fd >= 0 && fd_send(l->fd, &m, sizeof m, NULL, 0, MSG_NOSIGNAL | MSG_DONTWAIT) == 0;
}

/* Blocks; replies to earlier requests are handled on the way. */
int spawn_link_sync(struct spawn_link *l)
{
	const struct spawn_msg m = { .kind = SPAWN_SYNC };
	uint32_t kind = 0;

	if (fd_send(l->fd, &m, sizeof m, NULL, 0, MSG_NOSIGNAL) < 0)
		return 1;
	for (;;) {
		int r = receive_message(l, 0, &kind);
		if (r < 0)
			return 1;
		if (r > 0 && kind == SPAWN_SYNCED)
			return 0;
	}
}
