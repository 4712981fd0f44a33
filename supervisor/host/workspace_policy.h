#ifndef BAILIFF_SUPERVISOR_HOST_WORKSPACE_POLICY_H
#define BAILIFF_SUPERVISOR_HOST_WORKSPACE_POLICY_H

/*
 * Policy that depends on who asks and where: .bailiff/policy.json of the workspace and of the folders above it (they
 * may only tighten, so one that a nested workspace would leave behind still counts), and, where the daemon is the
 * system's, the peer's own
 * ~/.config/bailiff/policy.json. The files are opened as the peer, by the spawner (look.h).
 *
 * What was found is kept with descriptors of the folders and the file. Each start compares their stamps, which asks
 * nobody, and looks again when one is another; a file that was changed counts for the next start. So that a folder that
 * was moved away with all above it is noticed as well, there is a look in the background every few seconds.
 *
 * A look also finds what is nested in the workspace (sandbox/nested_repos.h), which no sandbox may write. Policies are
 * protected as soon as they have been seen. Repositories and hooks are if they were there when the place was looked at
 * first: one that came later may well be the work of a command, which could have put anything into it and must be able
 * to go on with it, or take it away.
 *
 * A file that cannot be used leaves in force what it said before. If it said nothing before, nothing is started there
 * until it is mended: somebody wanted to forbid something, and what that was is not known.
 */

#include "runtime/engine/core/ports.h"

#include <stdbool.h>
#include <sys/queue.h>

struct buf;
struct engine;
struct err;
struct event_base;
struct workspace_policy;
struct policy_files;
struct spawn_link;

struct workspace_policies {
	struct event_base *base;
	struct engine *engine;
	struct spawn_link *spawner;
	const struct policy_files *files;
	bool peers;                                                     /* each has a file of its own */
	TAILQ_HEAD(workspace_policy_head, workspace_policy) workspaces; /* the last used first */
	size_t count, kept;
};

void workspace_policies_init(struct workspace_policies *p, struct event_base *base, struct engine *engine,
			     struct spawn_link *spawner, const struct policy_files *files, bool peers);
void workspace_policies_done(struct workspace_policies *p);
/* ports.policy_of */
int workspace_policies_of(struct workspace_policies *p, const struct policy_key *at, const struct policy_rules **ret,
			  struct err *e);
/* ports.nested_of: what was found at the last look, and files that hold below. */
void workspace_policies_nested(struct workspace_policies *p, uint32_t uid, const char *workspace, struct buf *out);
/* The user's file of this peer was written: what is known of it is not true any more. */
void workspace_policies_forget(struct workspace_policies *p, uint32_t uid);

#endif
