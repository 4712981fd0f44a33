#ifndef BAILIFF_SUPERVISOR_PROXY_SERVED_SANDBOX_H
#define BAILIFF_SUPERVISOR_PROXY_SERVED_SANDBOX_H

/*
 * A sandbox whose traffic the proxy serves: its listening socket, rules, connections, published ports and unsent
 * reports. A sandbox without network `allow` has no listening socket (fd −1) and no rules.
 *
 * Its connections refer to it, so served_sandbox_free closes them first. `resolver` and `credentials` are borrowed and
 * outlive it, like the list of users; on_change may run during any callback of a connection and must not free the
 * sandbox (proxy.c defers that).
 */

#include "sandbox/host_rule.h"
#include "supervisor/proxy/publication.h"
#include "supervisor/proxy/traffic_report.h"

#include <stdbool.h>
#include <sys/queue.h>

struct connection;
struct event;
struct event_base;
struct credentials;
struct resolver;

#define SERVED_CONNECTIONS_MAX 256u
/* Of all sandboxes of one user, to published ports, too: the others need descriptors and memory of this process. */
#define USER_CONNECTIONS_MAX 4096u

struct proxy_user {
	LIST_ENTRY(proxy_user) link;
	uint32_t uid;
	unsigned sandboxes, connections;
};
LIST_HEAD(proxy_users, proxy_user);

struct served_sandbox {
	LIST_ENTRY(served_sandbox) link;
	struct plan_key key;
	struct proxy_user *user;
	int fd;
	struct event *ev, *retry;
	struct host_rules rules;
	struct traffic_report report;
	LIST_HEAD(, connection) connections;
	LIST_HEAD(, publication) publications;
	struct dialer_link dialer;
	unsigned count;
	bool paused;  /* at the limit of connections: further ones wait in the socket's backlog */
	bool claimed; /* named by the current runtime */
	bool ending;  /* ENDED has not been sent yet */
	struct event_base *base;
	struct resolver *resolver;
	const struct credentials *credentials;
	void (*on_change)(void *ctx); /* called when there is something to report */
	void *ctx;
	void (*connection_ended)(struct served_sandbox *b); /* called by each connection after its end */
};

struct served_sandbox *served_sandbox_new(struct event_base *base, struct resolver *resolver,
					  const struct credentials *credentials, struct proxy_users *users,
					  const struct plan_key *key, uint32_t uid, void (*on_change)(void *ctx),
					  void *ctx);
/* Serves its socket by these rules; takes ownership of both. */
void served_sandbox_listen(struct served_sandbox *b, int fd, struct host_rules *rules);
/* Stops serving: closes the socket and all connections. Their traffic can still be reported. */
void served_sandbox_close(struct served_sandbox *b);
void served_sandbox_free(struct served_sandbox *b);

#endif
