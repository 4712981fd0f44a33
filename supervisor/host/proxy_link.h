#ifndef BAILIFF_SUPERVISOR_HOST_PROXY_LINK_H
#define BAILIFF_SUPERVISOR_HOST_PROXY_LINK_H

/*
 * The runtime's side of its link to the proxy (proxy/proxy_msg.h). What the proxy is to know is state of the holds,
 * told again whenever there is another proxy; what it reports goes to the engine. The proxy is asked for when a sandbox
 * first needs it.
 */

#include "supervisor/proxy/proxy_msg.h"

#include <stdbool.h>
#include <stddef.h>

struct config;
struct event;
struct process_io;
struct host_ports;

struct proxy_link {
	struct host_ports *host;
	int fd; /* −1 = there is no proxy, or it is being started anew */
	struct event *read_ev, *write_ev;
	const struct config *config; /* the caller's: names and credentials; NULL = none */
	size_t names_told, credentials_told;
	bool wanted, listening, synced;
};

void proxy_link_init(struct proxy_link *l, struct host_ports *w);
/* What the configuration says names lead to, and which credentials there are. */
void proxy_link_configure(struct proxy_link *l, const struct config *config);
/* From here on it is told about the holds; those of before a restart are all there. */
void proxy_link_listen(struct proxy_link *l);
void proxy_link_done(struct proxy_link *l);
/* The guard started another proxy, or this runtime. */
void proxy_link_replace(struct proxy_link *l, int fd);

const char *proxy_link_state(const struct proxy_link *l); /* "serving" … */

/* This hold's socket and rules are there, if it has any. */
void proxy_link_serve(struct proxy_link *l, struct process_io *h);
/* Its process is dead: true = host_ports_drained follows once everything about it has come. */
bool proxy_link_drain(struct proxy_link *l, struct process_io *h);
/* It goes. */
void proxy_link_remove(struct proxy_link *l, struct process_io *h);

#endif
