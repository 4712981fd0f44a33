#include "supervisor/host/guard_link.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/loop/loop.h"

#include <errno.h>
#include <event2/event.h>
#include <sys/socket.h>
#include <unistd.h>

void guard_link_init(struct guard_link *l, int fd, const struct guard_link_events *on, void *ctx)
{
	*l = (struct guard_link){ .fd = fd, .on = on, .ctx = ctx };
}

/* Releases of members wait this long if there is no deposit, and until there are this many of them. */
#define MEMBERS_WAIT_S 1
#define MEMBERS_MAX 64

static void send_release(struct guard_link *l, const struct plan_key *key, enum guard_release how);

static void release_all(struct guard_link *l)
{
	for (size_t i = 0; i < l->nlater; i++)
		send_release(l, &l->later[i].key, l->later[i].how);
	l->nlater = 0;
}

void guard_link_done(struct guard_link *l)
{
	release_all(l);
	if (l->ev)
		event_free(l->ev);
	if (l->later_ev)
		event_free(l->later_ev);
	free(l->later);
	*l = (struct guard_link){ .fd = l->fd };
}

/* Without the guard nothing may survive: commands die with it, and the runtime exits. */
static void guard_is_gone(const char *what)
{
	log_error("the guard died (%s): exiting", what);
	_exit(1);
}

/*
 * Retries while the kernel is short of memory or too many descriptors are in flight. Giving up is not an option: a lost
 * deposit could not be recovered after a crash.
 */
static void guard_link_send(struct guard_link *l, const struct guard_msg *m, const int *fds, size_t n)
{
	int r;

	do
		r = fd_send(l->fd, m, sizeof *m, fds, n, MSG_NOSIGNAL);
	while (r < 0 && (errno == EINTR || errno == ETOOMANYREFS || errno == ENOBUFS || errno == ENOMEM));
	if (r < 0)
		guard_is_gone(strerror(errno));
}

/* −2 = the file exists but cannot be opened, −1 = it does not exist. */
static void handle_reload(struct guard_link *l, const struct guard_msg *m, const int *fds, size_t nfds)
{
	int files[GUARD_FILES];
	size_t k = 0;

	for (int i = 0; i < GUARD_FILES; i++) {
		files[i] = m->index & 1u << i ? -2 : -1;
		if (m->value & 1u << i && k < nfds)
			files[i] = fds[k++];
	}
	l->on->reload(l->ctx, files, m->token);
}

static void dispatch_message(struct guard_link *l, const struct guard_msg *m, int *fds, size_t nfds)
{
	switch (m->kind) {
	case GUARD_RELEASED: l->on->released(l->ctx, &m->key, m->value != 0); break;
	case GUARD_PEER:
		if (nfds == 1)
			l->on->peer(l->ctx, (enum guard_role)m->index, fd_take(&fds[0]));
		break;
	case GUARD_STOP: l->on->stop(l->ctx); break;
	case GUARD_RELOAD: handle_reload(l, m, fds, nfds); break;
	case GUARD_FLEET_IS: l->on->fleet(l->ctx, m->pid); break;
	default: log_error("unexpected message %u from the guard", m->kind);
	}
}

/* 1 = a message was handled, 0 = none was there. */
static int receive_message(struct guard_link *l, int flags)
{
	int fds[GUARD_SLOT_COUNT];
	size_t nfds = GUARD_SLOT_COUNT;
	struct guard_msg m;
	ssize_t n = fd_recv(l->fd, &m, sizeof m, fds, &nfds, flags);

	if (n < 0 && fd_recv_again(errno))
		return 0;
	if (n != (ssize_t)sizeof m)
		guard_is_gone(n < 0 ? strerror(errno) : "end of file");
	dispatch_message(l, &m, fds, nfds);
	for (size_t i = 0; i < nfds; i++)
		fd_close(&fds[i]);
	return 1;
}

void guard_link_receive(struct guard_link *l) { receive_message(l, 0); }

static void on_readable(evutil_socket_t fd, short what, void *ctx)
{
	struct guard_link *l = ctx;

	while (receive_message(l, MSG_DONTWAIT) > 0)
		;
}

static void on_later(evutil_socket_t fd, short what, void *ctx) { release_all(ctx); }

void guard_link_listen(struct guard_link *l, struct event_base *base)
{
	l->later_ev = event_new(base, -1, 0, on_later, l);
	l->ev = event_new(base, l->fd, EV_READ | EV_PERSIST, on_readable, l);
	loop_add(l->ev, NULL);
}

static void deposit(struct guard_link *l, const struct plan_key *key, uint32_t slots, const int fds[GUARD_SLOT_COUNT],
		    enum guard_deposit what)
{
	const struct guard_msg m = { .kind = GUARD_DEPOSIT, .slots = slots, .value = what, .key = *key };
	int given[GUARD_SLOT_COUNT];
	size_t n = 0;

	for (int i = 0; i < GUARD_SLOT_COUNT; i++)
		if (slots & (1u << i))
			given[n++] = fds[i];
	guard_link_send(l, &m, given, n);
	release_all(l); /* the guard is awake anyway */
}

void guard_link_deposit(struct guard_link *l, const struct plan_key *key, uint32_t slots,
			const int fds[GUARD_SLOT_COUNT])
{
	deposit(l, key, slots, fds, GUARD_DEPOSIT_OTHER);
}

void guard_link_deposit_member(struct guard_link *l, const struct plan_key *key, uint32_t slots,
			       const int fds[GUARD_SLOT_COUNT])
{
	deposit(l, key, slots, fds, GUARD_DEPOSIT_MEMBER);
}

static void send_key(struct guard_link *l, enum guard_kind kind, const struct plan_key *key, uint32_t slots)
{
	const struct guard_msg m = { .kind = kind, .slots = slots, .key = *key };

	guard_link_send(l, &m, NULL, 0);
}

void guard_link_withdraw(struct guard_link *l, const struct plan_key *key, uint32_t slots)
{
	send_key(l, GUARD_WITHDRAW, key, slots);
}

void guard_link_kill(struct guard_link *l, const struct plan_key *key) { send_key(l, GUARD_KILL, key, 0); }

static void send_release(struct guard_link *l, const struct plan_key *key, enum guard_release how)
{
	const struct guard_msg m = { .kind = GUARD_RELEASE, .value = how, .key = *key };

	guard_link_send(l, &m, NULL, 0);
}

void guard_link_release(struct guard_link *l, const struct plan_key *key) { send_release(l, key, GUARD_RELEASE_INIT); }

void guard_link_release_later(struct guard_link *l, const struct plan_key *key, enum guard_release how)
{
	const struct timeval wait = { .tv_sec = MEMBERS_WAIT_S };

	if (!l->later_ev) {
		send_release(l, key, how);
		return;
	}
	if (l->nlater == l->later_size) {
		l->later_size = l->later_size ? 2 * l->later_size : 16;
		l->later = mem_realloc(l->later, l->later_size * sizeof *l->later);
	}
	l->later[l->nlater++] = (struct guard_later){ .key = *key, .how = how };
	if (how != GUARD_RELEASE_MEMBER || l->nlater >= MEMBERS_MAX)
		event_active(l->later_ev, EV_TIMEOUT, 0);
	else if (!event_pending(l->later_ev, EV_TIMEOUT, NULL))
		loop_add(l->later_ev, &wait);
}

void guard_link_ready(struct guard_link *l, uint64_t grace_ms)
{
	const struct guard_msg m = { .kind = GUARD_READY,
				     .value = grace_ms < UINT32_MAX ? (uint32_t)grace_ms : UINT32_MAX };

	guard_link_send(l, &m, NULL, 0);
}

void guard_link_want_restart(struct guard_link *l, enum guard_role role)
{
	const struct guard_msg m = { .kind = GUARD_WANT_RESTART, .index = role };

	guard_link_send(l, &m, NULL, 0);
}

void guard_link_want_proxy(struct guard_link *l)
{
	const struct plan_key none = { 0 };

	send_key(l, GUARD_WANT_PROXY, &none, 0);
}

uint32_t guard_link_want_reload(struct guard_link *l)
{
	const struct guard_msg m = { .kind = GUARD_WANT_RELOAD, .value = ++l->reload_token };

	guard_link_send(l, &m, NULL, 0);
	return m.value;
}

/*
 * Blocks. EMSGSIZE means that descriptors of an item were lost because this process has no free ones: the hand-over
 * fails as a whole, since a process without its descriptors could be neither served nor ended.
 */
int guard_link_next(struct guard_link *l, uint32_t *index, struct guard_item *ret, struct err *e)
{
	struct guard_msg m = { .kind = GUARD_NEXT, .index = *index };

	guard_link_send(l, &m, NULL, 0);
	for (;;) {
		int fds[GUARD_SLOT_COUNT];
		size_t nfds = GUARD_SLOT_COUNT, k = 0;
		ssize_t n = fd_recv(l->fd, &m, sizeof m, fds, &nfds, 0);

		if (n < 0 && fd_recv_again(errno))
			continue;
		if (n < 0 && errno == EMSGSIZE)
			return err_sys(e, EMFILE, "take over descriptors from the guard");
		if (n != (ssize_t)sizeof m)
			guard_is_gone(n < 0 ? strerror(errno) : "end of file");
		if (m.kind == GUARD_END)
			return 1;
		if (m.kind != GUARD_ITEM) { /* another message came in between */
			dispatch_message(l, &m, fds, nfds);
			for (size_t i = 0; i < nfds; i++)
				fd_close(&fds[i]);
			continue;
		}
		*ret = (struct guard_item){ .key = m.key, .pid = m.pid };
		for (int i = 0; i < GUARD_SLOT_COUNT; i++)
			ret->fds[i] = (m.slots & (1u << i)) && k < nfds ? fds[k++] : -1;
		while (k < nfds)
			fd_close(&fds[k++]);
		*index = m.index;
		return 0;
	}
}
