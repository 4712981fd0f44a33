#include "supervisor/host/root_grant.h"

#include "runtime/base/buf.h"
#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/loop/loop.h"
#include "supervisor/host/spawn_link.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_S 2 /* a stuck spawner must not block replies to root */
#define TRIES_MAX 3u

struct root_grant {
	LIST_ENTRY(root_grant) link;
	struct root_grants *owner;
	struct event *ev;
	int fd;     /* a byte when the spawner has handled it; end of file without one: the spawner died before */
	int client; /* descriptor number of the client whose replies wait; −1 = none */
	int socket; /* a copy of the client's, for another try */
	struct buf paths;
	unsigned tries;
};

void root_grants_init(struct root_grants *g, struct event_base *base, struct spawn_link *spawner)
{
	*g = (struct root_grants){ .base = base, .spawner = spawner };
	LIST_INIT(&g->pending);
}

static void grant_free(struct root_grant *r)
{
	LIST_REMOVE(r, link);
	if (r->ev)
		event_free(r->ev);
	fd_close(&r->fd);
	fd_close(&r->socket);
	buf_done(&r->paths);
	free(r);
}

void root_grants_done(struct root_grants *g)
{
	while (!LIST_EMPTY(&g->pending))
		grant_free(LIST_FIRST(&g->pending));
}

bool root_grants_delay_reply(const struct root_grants *g, int client)
{
	const struct root_grant *r;

	LIST_FOREACH (r, &g->pending, link)
		if (r->client == client)
			return true;
	return false;
}

static void on_noted(evutil_socket_t fd, short what, void *ctx);

/* Sends it, also to the successor of a spawner that died. −1: it cannot be sent. */
static int grant_send(struct root_grant *r)
{
	const struct spawn_msg m = { .kind = SPAWN_GRANT };
	const struct timeval timeout = { .tv_sec = TIMEOUT_S };
	struct root_grants *g = r->owner;
	int ends[2] = { -1, -1 };
	int fds[GRANT_FDS] = { fcntl(r->socket, F_DUPFD_CLOEXEC, 3),
			       fd_memfd_sealed("bailiff-grant", r->paths.data, r->paths.len), -1 };

	r->tries++;
	if (r->ev)
		event_free(r->ev);
	fd_close(&r->fd);
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0)
		fds[GRANT_FD_DONE] = ends[1];
	r->fd = ends[0];
	r->ev = r->fd < 0 ? NULL : event_new(g->base, r->fd, EV_READ, on_noted, r);
	if (fds[GRANT_FD_CLIENT] < 0 || fds[GRANT_FD_PATHS] < 0 || !r->ev) {
		log_warning("send root's authorisation to the spawner: %s", strerror(errno));
		for (size_t i = 0; i < GRANT_FDS; i++)
			fd_close(&fds[i]);
		return -1;
	}
	loop_add(r->ev, &timeout);
	spawn_link_request(g->spawner, &m, fds, GRANT_FDS);
	return 0;
}

/* Until then the replies are delayed, so the client is still connected when its authorisation is recorded. */
static void on_noted(evutil_socket_t fd, short what, void *ctx)
{
	struct root_grant *r = ctx;
	struct root_grants *g = r->owner;
	char byte;
	const bool handled = !(what & EV_TIMEOUT) && read(fd, &byte, 1) == 1;

	if (!handled && !(what & EV_TIMEOUT) && r->tries < TRIES_MAX && grant_send(r) == 0)
		return;
	if (!handled)
		log_warning("the spawner has not recorded root's authorisation; work that is done after the client "
			    "has disconnected may be denied");
	grant_free(r);
	if (g->settled)
		g->settled(g->ctx);
}

/* Best effort: without the record only work after the client's end is affected, which the log line says. */
void root_grants_request(struct root_grants *g, int client, const char *paths, size_t len, bool delay_reply)
{
	struct root_grant *r = mem_zalloc(1, sizeof *r);

	*r = (struct root_grant){
		.owner = g, .fd = -1, .client = delay_reply ? client : -1, .socket = fcntl(client, F_DUPFD_CLOEXEC, 3)
	};
	buf_append(&r->paths, paths, len);
	LIST_INSERT_HEAD(&g->pending, r, link);
	if (grant_send(r) < 0)
		grant_free(r);
}
