#ifndef BAILIFF_SUPERVISOR_PROXY_PUBLICATION_H
#define BAILIFF_SUPERVISOR_PROXY_PUBLICATION_H

/*
 * A published port: a listening socket on the host whose connections lead to a port of a sandbox's loopback.
 *
 * For each connection the proxy requests an unconnected socket from the sandbox's init (struct dialer_link,
 * supervisor/spawner/dialer.h), connects it to 127.0.0.1 or, if nothing listens there, to ::1, and copies the bytes in
 * both directions without parsing them. A half-closed connection stays open in the other direction. While one end does
 * not read, reading from the other stops.
 *
 * A sandbox has one dialer link and a list of publications, which own their connections. One thread: the event loop.
 */

#include "supervisor/proxy/proxy_msg.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct event;
struct served_sandbox;
struct published_connection;

#define PUBLICATION_CONNECTIONS_MAX 128u
#define PUBLICATIONS_MAX 32u /* of one sandbox */

/* The link to the sandbox's init, and the connections that wait for one of its sockets. */
struct dialer_link {
	int fd; /* −1 = none, or the init has ended */
	struct event *ev;
	TAILQ_HEAD(published_connections, published_connection) waiting;
};

struct publication {
	LIST_ENTRY(publication) link;
	struct served_sandbox *sandbox;
	uint16_t port, host_port; /* in the sandbox; on the host: 0 = not listening */
	char address[48];         /* on the host */
	int fd;                   /* −1 = failed or ended */
	struct event *ev, *retry;
	LIST_HEAD(, published_connection) connections;
	unsigned count;
	bool paused;  /* at the limit of connections */
	bool claimed; /* named by the current runtime */
	bool ending;  /* removed once UNPUBLISHED has been sent */
	bool unsent;  /* PUBLISHED or UNPUBLISHED has to be sent */
	int error;    /* why it is not listening; it is removed once this has been sent */
};

void dialer_link_init(struct dialer_link *d);
/* Uses this socket from now on (taken). Requests without a reply are sent again. */
void dialer_link_replace(struct served_sandbox *b, int fd);
void dialer_link_done(struct served_sandbox *b);

struct publication *publication_find(struct served_sandbox *b, uint32_t port);
/* Listens; a failure is in ->error. host_port 0 = the kernel chooses. */
struct publication *publication_new(struct served_sandbox *b, const char *address, uint16_t host_port, uint16_t port);
/* Closes the listening socket and all connections. Their traffic is in the sandbox's report. */
void publication_close(struct publication *p);
void publication_free(struct publication *p);
/* PUBLISHED or UNPUBLISHED */
struct proxy_msg publication_answer(const struct publication *p);

#endif
