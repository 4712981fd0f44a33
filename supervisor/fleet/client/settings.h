#ifndef BAILIFF_FLEET_CLIENT_SETTINGS_H
#define BAILIFF_FLEET_CLIENT_SETTINGS_H

/*
 * Where the fleet is and with which key this user signs: from the options, else from the environment, else from
 * ~/.config/bailiff/fleet.json, an object with url, creds, ca, cert, certKey and key. The file's credentials are used
 * only with the file's own server.
 */

#include "supervisor/fleet/fleet_key.h"

#include <limits.h>

struct cli;
struct err;

struct fleet_settings {
	char *url;
	char *creds;    /* of the connection: a .creds file or an nkey seed; the key's file by default; NULL = none */
	char *ca;       /* or NULL */
	char *cert;     /* this client's own; or NULL */
	char *cert_key; /* or NULL, as cert */
	char *key_file; /* may not exist */
	char seed[FLEET_SEED_TEXT];
	char key[FLEET_KEY_TEXT]; /* the public key; "" without a key file */
};

/* 0, or the exit status after an error with its remedy. */
int fleet_settings_read(struct cli *c, struct fleet_settings *ret);
void fleet_settings_done(struct fleet_settings *s);

/* ~/.config/bailiff/NAME */
char *fleet_settings_path(const char *name);

#endif
