#ifndef BAILIFF_SUPERVISOR_PROXY_BOX_H
#define BAILIFF_SUPERVISOR_PROXY_BOX_H

/* One sandbox that is served: its listening socket, its rules, its connections, and what is to be told of it. */

#include "sandbox/host_rule.h"
#include "supervisor/proxy/traffic_report.h"

#include <stdbool.h>
#include <sys/queue.h>

struct connection;
struct event;
struct event_base;
struct credentials;
struct resolver;

#define SERVED_CONNECTIONS_MAX 256u

struct served_sandbox {
	LIST_ENTRY(served_sandbox) link;
	struct plan_key key;
	int fd;
	struct event *ev, *retry;
	struct host_rules rules;
	struct traffic_report report;
	LIST_HEAD(, connection) connections;
	unsigned count;
	bool paused;  /* too many connections: the rest waits in the socket's queue */
	bool claimed; /* named on the link to the runtime at hand */
	bool ending;  /* ENDED is owed */
	struct event_base *base;
	struct resolver *resolver;
	const struct credentials *credentials;
	void (*news)(void *ctx); /* there is something to report */
	void *ctx;
};

/* Takes the descriptor; rules are taken over. */
struct served_sandbox *served_sandbox_new(struct event_base *base, struct resolver *resolver,
					  const struct credentials *credentials, const struct plan_key *key, int fd,
					  struct host_rules *rules, void (*news)(void *ctx), void *ctx);
/* Stops serving: closes the socket and all connections. What they did can still be told. */
void served_sandbox_close(struct served_sandbox *b);
void served_sandbox_free(struct served_sandbox *b);
/* A connection of it ended. */
void served_sandbox_connection_ended(struct served_sandbox *b);

#endif
