#ifndef BAILIFF_SUPERVISOR_SPAWNER_PREBUILT_KEY_H
#define BAILIFF_SUPERVISOR_SPAWNER_PREBUILT_KEY_H

/*
 * What a dedicated prebuilt sandbox is built for: a plan without its command, and a peer. A peer with other groups, or
 * a plan with another HOME or one path more, has another key.
 */

#include "sandbox/host_fingerprint.h"
#include "sandbox/plan.h"
#include "supervisor/spawner/prebuilt_msg.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct spawn_identity;

struct prebuilt_key {
	struct plan_head *plan; /* NULL = none */
	uid_t uid;              /* the peer's */
	gid_t gid;
	size_t ngroups;
	gid_t groups[PREBUILT_MSG_GROUPS_MAX];
};

/* Not with a terminal, copy-on-write, or a plan or peer too large for one message. */
bool prebuilt_key_supported(const struct plan_head *plan, const struct spawn_identity *id);
int prebuilt_key_init(struct prebuilt_key *f, const struct plan_head *plan, const struct spawn_identity *id);
void prebuilt_key_done(struct prebuilt_key *f);
bool prebuilt_key_matches(const struct prebuilt_key *f, const struct plan_head *plan, const struct spawn_identity *id);
/* The command runs as an id of its own, because the peer is root. */
bool prebuilt_key_is_mapped(const struct prebuilt_key *f);
/* Whether a sandbox with this fingerprint is what would be built now. */
bool prebuilt_key_is_current(const struct prebuilt_key *f, const struct host_fingerprint *s,
			     struct fingerprint_folders *folders, bool privileged);

#endif
