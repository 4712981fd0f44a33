#include "supervisor/host/root_grant.h"

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

struct root_grant {
	LIST_ENTRY(root_grant) link;
	struct root_grants *owner;
	struct event *ev;
	int fd;     /* end of file when it is recorded */
	int client; /* descriptor number of the client whose replies wait; −1 = none */
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

/*
 * The spawner closes its end of the pipe when it has recorded the grant; it sends nothing. The death of the spawner
 * looks the same: the replies are no longer delayed, and the grant may be missing.
 */
static void on_noted(evutil_socket_t fd, short what, void *ctx)
{
	struct root_grant *r = ctx;
	struct root_grants *g = r->owner;

	if (what & EV_TIMEOUT)
		log_warning("the spawner has not recorded root's authorisation; work that is done after the client "
			    "has disconnected may be denied");
	grant_free(r);
	if (g->settled)
		g->settled(g->ctx);
}

/* Best effort: without the record only work after the client's end is affected, which the log line says. */
void root_grants_request(struct root_grants *g, int client, const char *paths, size_t len, bool delay_reply)
{
	const struct spawn_msg m = { .kind = SPAWN_GRANT };
	const struct timeval timeout = { .tv_sec = TIMEOUT_S };
	int ends[2] = { -1, -1 };
	int fds[GRANT_FDS] = { fcntl(client, F_DUPFD_CLOEXEC, 3), fd_memfd_sealed("bailiff-grant", paths, len), -1 };
	struct root_grant *r = mem_zalloc(1, sizeof *r);

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0)
		fds[GRANT_FD_DONE] = ends[1];
	*r = (struct root_grant){ .owner = g, .fd = ends[0], .client = delay_reply ? client : -1 };
	LIST_INSERT_HEAD(&g->pending, r, link);
	r->ev = ends[0] < 0 ? NULL : event_new(g->base, ends[0], EV_READ, on_noted, r);
	if (fds[GRANT_FD_CLIENT] < 0 || fds[GRANT_FD_PATHS] < 0 || !r->ev) {
		log_warning("send root's authorisation to the spawner: %s", strerror(errno));
		grant_free(r);
		for (size_t i = 0; i < GRANT_FDS; i++)
			fd_close(&fds[i]);
		return;
	}
	loop_add(r->ev, &timeout);
	spawn_link_request(g->spawner, &m, fds, GRANT_FDS);
}
