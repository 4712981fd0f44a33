#ifndef BAILIFF_ENGINE_POLICY_LOOKUP_H
#define BAILIFF_ENGINE_POLICY_LOOKUP_H

/*
 * The rules that apply to a request depend on its uid and workspace (ports.h: policy_of). Requests that need policy
 * files which are still being read wait here and continue in the order of their arrival.
 */

#include "policy/rules.h"

#include <limits.h>

struct buf;
struct caller;
struct sandbox_setup;
struct engine;
struct err;
struct git_key;
struct policy_key;
struct sandbox_request;

/* As ports.policy_of, but fails while the policy files of the host or the daemon are unusable. Every lookup of rules
 * must use this function. */
int policy_lookup_of(struct engine *engine, const struct policy_key *at, const struct policy_rules **ret,
		     struct err *e);
/*
 * Finds the workspace whose policy files apply in the folder, which may be NULL. "" = none: the home directory and its
 * parents cannot be a workspace. 1: it is being searched for; wait for *ret (policy_lookup_await). −1: a path is
 * invalid, or the file system does not answer. A `given` workspace that does not contain the folder is ignored.
 */
int policy_lookup_workspace(struct engine *engine, const struct git_key *at, const char *given, char ret[PATH_MAX],
			    struct err *e);
/* policy_lookup_of for a request, with or without a sandbox. */
int policy_lookup_rules(struct engine *engine, const struct sandbox_setup *f, const struct sandbox_request *r,
			const struct caller *c, uint64_t since_ns, const struct policy_rules **ret, struct err *e);
/* The workspace whose policy files apply to a request, with or without a sandbox. */
int policy_lookup_find_workspace(struct engine *engine, const struct sandbox_setup *f, const struct sandbox_request *r,
				 const struct caller *c, char ret[PATH_MAX], struct err *e);
/* Calls `go` once, when the policy files of this workspace have been read, the folder was searched, or the daemon
 * stops. */
void policy_lookup_await(struct engine *engine, uint32_t uid, const char *workspace,
			 void (*go)(struct engine *engine, void *ctx), void *ctx);
/* HOME in a base environment (ports.h: base_env); "" = none. Points into `env`. */
const char *policy_lookup_home(const struct buf *env);
/* The mode after the workspace's policy files have tightened it. */
enum permission_mode policy_lookup_mode(const struct policy_rules *rules, enum permission_mode mode);
/* The daemon stops: continues all waiting requests, which then reject themselves. */
void policy_lookup_stop(struct engine *engine);

/* The mode that was set for a session, or else the host's. MODE_PLAN if the session's mode cannot be read. */
enum permission_mode permission_mode_of(struct engine *engine, const char *session_id);
/* The sequence number of the last policy.changed that a policy file caused in this run. */
uint64_t policy_sequence(const struct engine *engine);
/* reload_policy by this client is in progress, so that policy.changed names it; NULL = no longer. */
void policy_reloading(struct engine *engine, const struct caller *c);
void policy_init(struct engine *engine);
void policy_done(struct engine *engine);

#endif
