#ifndef BAILIFF_SUPERVISOR_SPAWNER_DIALER_H
#define BAILIFF_SUPERVISOR_SPAWNER_DIALER_H

/*
 * Published ports, the part inside the sandbox. A socket belongs to the network namespace in which it was created, so
 * the init creates unconnected TCP sockets on request and sends them to the proxy, which connects them to a port of the
 * sandbox's loopback. The init never handles the bytes, and the proxy needs no access to the namespace.
 *
 * The requests arrive on a SOCK_SEQPACKET socket that the runtime sends to the init (STATUS_DIALER) and whose other end
 * it sends to the proxy (PROXY_PUBLISH). One message per request and per reply; replies have the order of the requests.
 *
 * No allocation, no locale: the init runs with little memory and next to the command.
 */

#include "sandbox/status.h"

#include <stdbool.h>
#include <stdint.h>

struct dialer_msg {
	uint32_t family; /* AF_INET, AF_INET6 */
	int32_t error;   /* reply: 0 with one descriptor, or an errno without */
};

/* Replies to the requests that have arrived. false: the other end was closed. */
bool dialer_answer(int fd);

/* Finds the TCP ports on which a process of this network namespace listens. */
struct listening_ports {
	struct status_ports ports; /* as of the last check that returned true */
	uint64_t in_use;           /* TCP sockets at the last complete check */
	unsigned skipped;          /* checks since then */
};

/*
 * Updates the set; true = it has changed. `except`: a port that is not reported (the proxy's). Only ports that the
 * proxy can reach are reported: those on 127.0.0.1, ::1 and on every address.
 */
bool listening_ports_check(struct listening_ports *l, uint16_t except);

/* The part of an init's loop: requests for sockets, and a check of the listening ports about once a second. */
struct port_watch {
	bool on;       /* the network namespace is the sandbox's own */
	int dialer_fd; /* −1 = no port is published */
	struct listening_ports listening;
	uint64_t check_at_ms;
};

void port_watch_init(struct port_watch *w, bool on);
/* Takes DIALER with its descriptor, and PORTS: the runtime was restarted and requests the set again. */
void port_watch_take(struct port_watch *w, const struct status_msg *m, int *fd);
/* The time until the next check, at most `other` (both in milliseconds; −1 = none). */
int port_watch_timeout(const struct port_watch *w, int other);
/* After poll: answers requests if the dialer is readable, and sends PORTS if the set has changed. */
void port_watch_run(struct port_watch *w, bool readable, int status_fd);

/* One line of /proc/net/tcp or tcp6: the port of a listening socket that the proxy can reach, else 0. */
uint16_t listening_ports_parse(const char *line);

#endif
