#ifndef BAILIFF_SUPERVISOR_HOST_ROOT_GRANT_H
#define BAILIFF_SUPERVISOR_HOST_ROOT_GRANT_H

/*
 * A root client may request work that is done later, possibly after it has disconnected. The spawner records the
 * authorisation while the client is still connected (supervisor/spawner/authority.c). Replies to that client can be
 * delayed until then, so that the client does not disconnect too early.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

struct event_base;
struct root_grant;
struct spawn_link;

struct root_grants {
	struct event_base *base;
	struct spawn_link *spawner;
	LIST_HEAD(, root_grant) pending; /* not recorded yet */
	void (*settled)(void *ctx);      /* one is no longer pending; may be NULL */
	void *ctx;
};

void root_grants_init(struct root_grants *g, struct event_base *base, struct spawn_link *spawner);
void root_grants_done(struct root_grants *g);
/* Directories, each with its NUL, in which commands may run for this client's peer. */
void root_grants_request(struct root_grants *g, int client, const char *paths, size_t len, bool delay_reply);
/* Whether replies to this client are delayed. */
bool root_grants_delay_reply(const struct root_grants *g, int client);

#endif
