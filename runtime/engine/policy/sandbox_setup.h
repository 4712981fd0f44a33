#ifndef BAILIFF_ENGINE_SANDBOX_SETUP_H
#define BAILIFF_ENGINE_SANDBOX_SETUP_H

/*
 * From a request to the sandbox part of its plan: selects the profile, applies the request's changes and expands it for
 * the workspace. The result is plain data, used for the plan, for facts and for `bailiff sandbox show`.
 */

#include "runtime/base/buf.h"
#include "sandbox/profile.h"
#include "sandbox/workspace.h"

struct engine;
struct err;
struct jw;
struct caller;
struct sandbox_request;
struct process_limits;
struct plan_head;

struct compiled_profile;

struct sandbox_setup {
	struct profile profile;            /* compiled; belongs to `compiled` */
	struct workspace workspace;        /* and the working directory */
	char *git_left_out;                /* the workspace's .git file names it, and it is not accessible; or NULL */
	struct profile_mounts mounts;      /* of the plan; point into `profile` */
	struct compiled_profile *compiled; /* shared with later setups from the same input */
	struct buf env;                    /* base environment (ports.h: base_env) */
};

/*
 * Whether what the setup reads of the caller's folders is known. 1: it is not; wait for ret_folder
 * (policy_lookup_await). −1: it cannot be known, because a file system does not answer.
 */
int sandbox_setup_lookup(struct engine *engine, const struct sandbox_request *r, const struct caller *c,
			 uint64_t since_ns, char ret_folder[PATH_MAX], struct err *e);
/* ERR_NOT_FOUND, ERR_PERMISSION (with `field`), ERR_INVALID, ERR_UNAVAILABLE. */
int sandbox_setup_make(struct engine *engine, const struct sandbox_request *r, const struct caller *c,
		       struct sandbox_setup *ret, struct err *e);
void sandbox_setup_done(struct sandbox_setup *f);
void sandbox_setup_forget(struct engine *engine); /* the compiled profiles that are kept */
#define sandbox_setup_auto __attribute__((cleanup(sandbox_setup_done)))

/*
 * A hash of the sandbox: equal for two plans if and only if a command with one may run in the sandbox that was made
 * with the other. `plan` is one that was made from the setup; the profile determines all that is hashed, so it keeps
 * the hash.
 */
const char *sandbox_setup_hash(const struct sandbox_setup *f, const struct plan_head *plan);
/* Whether the working directory is the sandbox's own and deleted with it. */
bool sandbox_setup_cwd_is_private(const struct sandbox_setup *f);
/* The member sandboxProfile of sandbox.applied. */
void sandbox_setup_profile_json(const struct sandbox_setup *f, const struct process_limits *limits, struct jw *w);
/* Members of the error's data, for a request that exceeds the caller's rights. */
void sandbox_setup_denial_json(const struct err *e, struct jw *w);

/*
 * Work of a root client may start after the client has disconnected: a task, a job's items, a start that waits for an
 * approval or hooks. The spawner then starts only commands in directories that were authorised while the client was
 * connected. These functions register them; for other users they do nothing.
 *
 * `delay_reply`: the client may get its reply and disconnect before anything is started, so the reply waits until the
 * spawner has recorded the authorisation. Replies to whole requests always do.
 */
void root_authorise(struct engine *engine, const struct sandbox_setup *f, const struct caller *c, bool delay_reply);
void root_authorise_request(struct engine *engine, const struct sandbox_request *r, const struct caller *c);

#endif
