#ifndef BAILIFF_FLEET_CREDS_H
#define BAILIFF_FLEET_CREDS_H

/*
 * A file with the secret of a connection or a submitter: an nkey seed alone, or the .creds file that NATS tools write,
 * with a user's JWT and its seed. It must be a regular file that only its owner can read.
 */

#include "supervisor/fleet/fleet_key.h"

struct err;

struct fleet_creds {
	char seed[FLEET_SEED_TEXT], key[FLEET_KEY_TEXT];
	char *jwt; /* NULL: a seed alone */
};

int fleet_creds_read(const char *path, struct fleet_creds *ret, struct err *e);
void fleet_creds_done(struct fleet_creds *c);

#endif
