#ifndef BAILIFF_FLEET_CREDS_H
#define BAILIFF_FLEET_CREDS_H

/*
 * A file with the secret of a connection or a submitter: an nkey seed alone, or the .creds file that NATS tools write,
 * with a user's JWT and its seed. It must be a regular file that only its owner can read.
 */

#include "supervisor/fleet/fleet_key.h"

#include <stdbool.h>

struct buf;
struct err;

struct fleet_creds {
	bool unsendable; /* the last signature (nats_connection.c) */
	char seed[FLEET_SEED_TEXT], key[FLEET_KEY_TEXT];
	char *jwt; /* NULL: a seed alone */
};

/* A regular file of at most 64 KiB. secret: others have no access to it. */
int fleet_file_read(const char *path, bool secret, struct buf *ret, struct err *e);
int fleet_creds_read(const char *path, struct fleet_creds *ret, struct err *e);
void fleet_creds_done(struct fleet_creds *c);

#endif
