#ifndef BAILIFF_SUPERVISOR_AUTHORITY_H
#define BAILIFF_SUPERVISOR_AUTHORITY_H

/*
 * What the spawner does in root's name: see authority.c for the rules. Only a daemon with privileges has root peers;
 * for all others nothing is checked here, because a command then has no more rights than the daemon itself.
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
	char list[2][PATH_MAX];   /* root-owned files that name more folders; "" = none */
	int folder;               /* the daemon's state, where `granted` is kept; −1 = nowhere */
	struct buf granted;       /* folders that root worked in and when, each with its NUL, the oldest first */
	struct buf homes;         /* of everybody, each with its NUL, from the host's list of accounts … */
	char root_home[PATH_MAX];
	int64_t accounts[4]; /* … and that file's outer marks */
	struct buf listed;   /* what the lists name, each with its NUL */
};

/* The daemon's folders; any may be NULL. What was authorised is kept in `state`, if that is root's alone. */
void authority_init(struct authority *a, const char *run, const char *state, const char *config);
void authority_done(struct authority *a);

/* Whether the client behind this socket, whose peer is uid 0, is still connected and still root. */
bool authority_is_present(int client);
/* A plan for a root peer: 0, or ERR_NOT_ALLOWED. Remembers what a present one works in. */
int authority_check(struct authority *a, const struct plan_head *plan, int client, struct err *e);
/* A present root peer lets commands be run later in these folders (each with its NUL). */
int authority_grant(struct authority *a, int client, const char *paths, size_t len, struct err *e);

#endif
