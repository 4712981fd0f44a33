#ifndef BAILIFF_SUPERVISOR_HOST_WORKSPACE_POLICY_H
#define BAILIFF_SUPERVISOR_HOST_WORKSPACE_POLICY_H

/*
 * Policy that depends on the peer and the workspace: .bailiff/policy.json of the workspace and of the directories above
 * it (they can only tighten, so the file of an enclosing workspace still applies), and, with a system daemon, the
 * peer's own
 * ~/.config/bailiff/policy.json. The spawner opens the files as the peer (peer_files.h).
 *
 * Results are cached with descriptors of the directories and files. Each start compares their stamps, which involves no
 * other process, and reads the files again when one differs: a change applies to the next start. Because a directory
 * that was moved away together with its parents keeps its stamps, the files are also read again in the background every
 * few seconds.
 *
 * The same request finds paths nested in the workspace (workspace_repos.h), which no sandbox may write. Policy
 * files are protected as soon as they were seen. Repositories and hooks are protected if they existed at the first
 * request: a later one may be the work of a command, which could have put anything into it and must be able to continue
 * with it or remove it.
 *
 * A file that cannot be used leaves its previous version in effect. If there was none, nothing is started there until
 * the file is fixed: its author wanted to deny something, and what that was is unknown.
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
	bool peers;                                                     /* each peer has a file of its own */
	TAILQ_HEAD(workspace_policy_head, workspace_policy) workspaces; /* last used first */
	size_t count, kept;
};

void workspace_policies_init(struct workspace_policies *p, struct event_base *base, struct engine *engine,
			     struct spawn_link *spawner, const struct policy_files *files, bool peers);
void workspace_policies_done(struct workspace_policies *p);
/* ports.policy_of */
int workspace_policies_of(struct workspace_policies *p, const struct policy_key *at, const struct policy_rules **ret,
			  struct err *e);
/* ports.repos_of: as the last request found them; `nested` with policy files that apply below the workspace. */
void workspace_policies_repos(struct workspace_policies *p, uint32_t uid, const char *workspace, struct buf *nested,
			      struct buf *git);
/* ports.rules_of: as the last request found them. */
const struct policy_rules *workspace_policies_rules(struct workspace_policies *p, uint32_t uid, const char *workspace);
/* This peer's own file was written: its cached version is no longer valid. */
void workspace_policies_forget(struct workspace_policies *p, uint32_t uid);

#endif
