#ifndef BAILIFF_SUPERVISOR_AUTHORITY_H
#define BAILIFF_SUPERVISOR_AUTHORITY_H

/*
 * Checks what the spawner does in root's name; see authority.c for the rules. Only a privileged daemon has root peers.
 * Nothing is checked for other peers, because their commands have no more rights than the daemon itself.
 */

#include "runtime/base/buf.h"
#include "supervisor/common/private_paths.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct err;
struct plan_head;

struct authority {
	struct private_paths own; /* the daemon's own files */
	char list[2][PATH_MAX];   /* root-owned files that list more directories; "" = none */
	int folder;               /* the daemon's state directory, which has the saved list; −1 = not saved */
	struct buf granted;       /* directories in which root worked, with times, NUL-terminated, oldest first */
	struct buf homes;         /* all users' homes, NUL-terminated, from the host's account file … */
	char root_home[PATH_MAX];
	int64_t accounts[4]; /* … and that file's stamp */
	struct buf listed;   /* paths from the lists, NUL-terminated */
	struct buf mounts;   /* of the current plan … */
	struct buf passed;   /* … and of the last one that passed for a present client, without help of a list … */
	int64_t passed_s;    /* … at this time; 0 = what it depends on has changed since */
};

/* The daemon's directories; any may be NULL. Grants are saved in `state` if only root can write there. */
void authority_init(struct authority *a, const char *run, const char *state, const char *config);
void authority_done(struct authority *a);

/* Whether the client of this socket, whose peer uid is 0, is still connected and still runs as root. */
bool authority_is_present(int client);
/* Checks a root peer's plan: 0, or −1 with ERR_NOT_ALLOWED. Records the directories if the client is present. */
int authority_check(struct authority *a, const struct plan_head *plan, int client, struct err *e);
/* A present root client authorises later commands in these NUL-terminated directories. */
int authority_grant(struct authority *a, int client, const char *paths, size_t len, struct err *e);

#endif
