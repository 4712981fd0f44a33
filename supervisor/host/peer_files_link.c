#include "supervisor/host/peer_files_link.h"

#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/loop/loop.h"
#include "supervisor/host/spawn_link.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TIMEOUT_S 15 /* longer than the helper's own timeout */
#define TRIES_MAX 4u
#define AGAIN_NS \
	2000000000ull /* a helper that ended later than this was stuck in a file system: a retry would not help */

struct peer_files_link {
	struct event_base *base;
	struct spawn_link *spawner;
	enum peer_files_op what;
	int request, client; /* kept for another attempt */
	unsigned tries;
	uint64_t began_ns;
	int fd;
	struct event *ev;
	const struct peer_files_link_events *on;
	void *ctx;
};

static void close_reply_socket(struct peer_files_link *l)
{
	if (l->ev)
		event_free(l->ev);
	l->ev = NULL;
	fd_close(&l->fd);
}

void peer_files_link_free(struct peer_files_link *l)
{
	if (!l)
		return;
	close_reply_socket(l);
	fd_close(&l->request);
	fd_close(&l->client);
	free(l);
}

/* Frees the link before the callback, which may start another request. */
static void finish_request(struct peer_files_link *l, const struct err *e)
{
	const struct peer_files_link_events *on = l->on;
	void *ctx = l->ctx;

	peer_files_link_free(l);
	on->over(ctx, e);
}

/* The reply comes from a process that runs as the peer, so it is untrusted. */
static bool is_proper(const struct peer_files_reply *a, ssize_t n, size_t nfds)
{
	return n == (ssize_t)sizeof *a && a->nwatch <= PEER_FILES_WATCH_MAX && nfds <= a->nwatch + 1 &&
	       memchr(a->path, 0, sizeof a->path);
}

static int send_request(struct peer_files_link *l);

static bool is_late(const struct peer_files_link *l) { return clock_boot_ns() - l->began_ns > AGAIN_NS; }

/*
 * The helper has exited, most likely with its spawner. A read is sent to the next one. A write is not repeated: it may
 * have taken effect, so the caller reads the file again to find out.
 */
static bool retry_request(struct peer_files_link *l)
{
	if (l->what == PEER_FILES_WRITE || l->tries >= TRIES_MAX || is_late(l))
		return false;
	close_reply_socket(l);
	return send_request(l) == 0;
}

/* Any number of replies, then PEER_FILES_END. Replies before a failure were delivered and stay valid. */
static void on_answer(evutil_socket_t fd, short what, void *ctx)
{
	struct peer_files_link *l = ctx;
	static struct peer_files_reply a; /* large; one thread, and `found` does not keep it */
	struct err e = ERR_INIT;

	for (;;) {
		int fds[PEER_FILES_WATCH_MAX + 1];
		size_t nfds = countof(fds);
		ssize_t n = what & EV_TIMEOUT ? 0 : fd_recv(l->fd, &a, sizeof a, fds, &nfds, MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0 && !(what & EV_TIMEOUT) && retry_request(l))
			return;
		if (n <= 0 || !is_proper(&a, n, nfds)) {
			err_set(&e, ERR_UNAVAILABLE, "%s",
				what & EV_TIMEOUT || (n <= 0 && is_late(l)) ? "its file system does not answer"
				: n <= 0                                    ? "the helper that reads it exited"
									    : "the helper sent an invalid reply");
			for (size_t i = 0; n > 0 && i < nfds; i++)
				fd_close(&fds[i]);
			finish_request(l, &e);
			return;
		}
		if (a.index == PEER_FILES_END) {
			if (a.error)
				err_set(&e, ERR_UNAVAILABLE,
					"too many helpers of this user wait for file systems that do not answer");
			finish_request(l, a.error ? &e : NULL);
			return;
		}
		l->on->found(l->ctx, &a, fds, nfds);
		for (size_t i = 0; i < nfds; i++)
			fd_close(&fds[i]);
	}
}

/* Each attempt has a reply socket of its own: a late reply to an earlier attempt cannot be mistaken for this one's. */
static int send_request(struct peer_files_link *l)
{
	const struct timeval timeout = { .tv_sec = TIMEOUT_S };
	const struct spawn_msg m = { .kind = SPAWN_PEER_FILES, .op = l->what };
	int pair[2], fds[PEER_FILES_FDS];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	l->fd = pair[0];
	fds[PEER_FILES_FD_REQUEST] = fcntl(l->request, F_DUPFD_CLOEXEC, 3);
	fds[PEER_FILES_FD_CLIENT] = fcntl(l->client, F_DUPFD_CLOEXEC, 3);
	fds[PEER_FILES_FD_REPLY] = pair[1];
	if (fds[PEER_FILES_FD_REQUEST] < 0 || fds[PEER_FILES_FD_CLIENT] < 0) {
		int saved = errno;
		for (size_t i = 0; i < PEER_FILES_FDS; i++)
			fd_close(&fds[i]);
		errno = saved;
		return -1;
	}
	l->tries++;
	l->ev = event_new(l->base, l->fd, EV_READ | EV_PERSIST, on_answer, l);
	loop_add(l->ev, &timeout);
	spawn_link_request(l->spawner, &m, fds, PEER_FILES_FDS);
	return 0;
}

struct peer_files_link *peer_files_link_new(struct event_base *base, struct spawn_link *spawner,
					    enum peer_files_op what, const void *request, size_t len, int peer_fd,
					    const struct peer_files_link_events *on, void *ctx)
{
	struct peer_files_link *l = mem_zalloc(1, sizeof *l);

	*l = (struct peer_files_link){ .base = base,
				       .spawner = spawner,
				       .what = what,
				       .began_ns = clock_boot_ns(),
				       .fd = -1,
				       .on = on,
				       .ctx = ctx };
	l->request = fd_memfd_sealed("bailiff-files", request, len);
	l->client = fcntl(peer_fd, F_DUPFD_CLOEXEC, 3);
	if (l->request >= 0 && l->client >= 0 && send_request(l) == 0)
		return l;
	int saved = errno;
	peer_files_link_free(l);
	errno = saved;
	return NULL;
}
