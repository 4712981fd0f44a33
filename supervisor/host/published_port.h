#ifndef BAILIFF_SUPERVISOR_HOST_PUBLISHED_PORT_H
#define BAILIFF_SUPERVISOR_HOST_PUBLISHED_PORT_H

/*
 * The published ports of a process: state of its process_io that proxy_link.c sends to the proxy, also to a restarted
 * one. The host port that the proxy chose is kept, so a restarted proxy listens on the same one.
 *
 * The runtime connects the proxy with the init: it creates a pair of sockets, sends one end to the init (STATUS_DIALER)
 * and the other with each PROXY_PUBLISH. A restarted runtime creates another pair; both sides use the newest.
 */

#include "runtime/engine/core/ports.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct process_io;

struct published_port {
	LIST_ENTRY(published_port) link;
	char address[48];
	uint16_t port, host_port; /* host_port 0 = the proxy chooses */
	bool sent;                /* to the current proxy */
	bool reported;            /* the engine knows that it is listening */
	bool ending, end_sent;    /* UNPUBLISHED is awaited */
};

struct published_ports {
	int dialer_fd; /* the proxy's end; the init has the other one */
	LIST_HEAD(, published_port) list;
};

/* The ports `publish` and `unpublish` (ports.h); proxy_link_publish follows. */
int published_port_add(struct process_io *io, const struct port_publication *p);
int published_port_end(struct process_io *io, uint16_t port);

struct published_port *published_port_find(const struct process_io *io, uint32_t port);
void published_port_remove(struct published_port *p);
bool published_ports_known(const struct process_io *io); /* the current proxy has at least one of them */
void published_ports_free(struct process_io *io);

#endif
