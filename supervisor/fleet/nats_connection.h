#ifndef BAILIFF_FLEET_NATS_CONNECTION_H
#define BAILIFF_FLEET_NATS_CONNECTION_H

/* The connection of fleet_nats.c to the server: addresses, credentials, TLS and timeouts. */

#include "supervisor/fleet/fleet_key.h"

#include <nats/nats.h>
#include <stdbool.h>

struct err;
struct fleet_creds;
struct fleet_nats_options;

#define FLEET_NATS_WAIT_MS 5000 /* how long a call waits for the server */

/*
 * Answers come to subjects below _INBOX.KEY, with the public key that authenticates the connection: so the server can
 * let every user subscribe to its own answers only. Below _INBOX without credentials.
 */
#define FLEET_INBOX "_INBOX."
#define FLEET_INBOX_TEXT 128

/* `creds` is filled, and used by libnats whenever it connects again: it must live as long as the connection. */
int nats_connection_open(const struct fleet_nats_options *o, struct fleet_creds *creds, natsConnection **ret,
			 struct err *e);
/* A new subject for answers to a connection with these credentials. */
natsStatus nats_connection_inbox(const struct fleet_creds *creds, char ret[FLEET_INBOX_TEXT]);
/* Whether the last thing that went wrong is that the server denied something; then e names it. */
bool nats_connection_denied(natsConnection *nc, struct err *e);
/* ERR_UNAVAILABLE with libnats' reason. Returns −1. */
int nats_fail(struct err *e, natsStatus s, const char *what);

#endif
