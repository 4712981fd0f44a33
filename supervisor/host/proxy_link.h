#ifndef BAILIFF_SUPERVISOR_HOST_PROXY_LINK_H
#define BAILIFF_SUPERVISOR_HOST_PROXY_LINK_H

/*
 * The runtime's side of its link to the proxy (proxy/proxy_msg.h). What the proxy needs is state of the process_ios and
 * is sent again to every restarted proxy; its reports go to the engine. The proxy is started when a sandbox first needs
 * it.
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
	int fd; /* −1 = no proxy, or it is being restarted */
	struct event *read_ev, *write_ev;
	const struct config *config; /* the caller's: names and credentials; NULL = none */
	size_t names_sent, credentials_sent;
	bool wanted, listening, synced;
};

void proxy_link_init(struct proxy_link *l, struct host_ports *w);
/* Fixed addresses of host names, and credentials, from the configuration. */
void proxy_link_configure(struct proxy_link *l, const struct config *config);
/* Starts sending process_ios to the proxy. Called once those from before a restart are all adopted. */
void proxy_link_listen(struct proxy_link *l);
void proxy_link_done(struct proxy_link *l);
/* The guard started another proxy, or restarted this runtime. */
void proxy_link_replace(struct proxy_link *l, int fd);

const char *proxy_link_state(const struct proxy_link *l); /* "serving" … */

/* This process's socket and rules have arrived, if it has any. */
void proxy_link_serve(struct proxy_link *l, struct process_io *h);
/* The published ports of a process have changed. */
void proxy_link_publish(struct proxy_link *l);
/* Its process is dead: true = host_ports.drained follows once all its reports have arrived. */
bool proxy_link_drain(struct proxy_link *l, struct process_io *h);
/* It is about to be freed. */
void proxy_link_remove(struct proxy_link *l, struct process_io *h);

#endif
