#ifndef BAILIFF_FLEET_NATS_CONNECTION_H
#define BAILIFF_FLEET_NATS_CONNECTION_H

/* The connection of fleet_nats.c to the server: addresses, credentials, TLS and timeouts. */

#include <nats/nats.h>

struct err;
struct fleet_creds;
struct fleet_nats_options;

#define FLEET_NATS_WAIT_MS 5000 /* how long a call waits for the server */

/* `creds` is filled, and used by libnats whenever it connects again: it must live as long as the connection. */
int nats_connection_open(const struct fleet_nats_options *o, struct fleet_creds *creds, natsConnection **ret,
			 struct err *e);
/* ERR_UNAVAILABLE with libnats' reason. Returns −1. */
int nats_fail(struct err *e, natsStatus s, const char *what);

#endif
