#ifndef BAILIFF_ENGINE_SANDBOX_SETUP_H
#define BAILIFF_ENGINE_SANDBOX_SETUP_H

/*
 * Between a request and its plan: which profile, what the request changes in it, and for which place. The result is
 * data only: the plan's part of it, and how facts and `bailiff sandbox show` tell it.
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

struct sandbox_setup {
	struct profile profile;       /* compiled */
	struct workspace workspace;   /* and the working directory */
	struct profile_mounts mounts; /* of the plan; they point into the profile */
	struct buf env;               /* what the environment begins with, as the port gives it */
};

/* ERR_NOT_FOUND, ERR_PERMISSION (with `field`), ERR_INVALID, ERR_UNAVAILABLE. */
int sandbox_setup_make(struct engine *g, const struct sandbox_request *r, const struct caller *c,
		       struct sandbox_setup *ret, struct err *e);
void sandbox_setup_done(struct sandbox_setup *f);
#define sandbox_setup_auto __attribute__((cleanup(sandbox_setup_done)))

/* sandboxProfile, as in sandbox.applied. */
void sandbox_setup_profile_json(const struct sandbox_setup *f, const struct process_limits *limits, struct jw *w);
/* [{"kind","path","optional"?,"owned"?}] */
void sandbox_setup_mounts_json(const struct sandbox_setup *f, struct jw *w);
/* For a request that asks for more than it may have: members of the error's data. */
void sandbox_setup_denial_json(const struct err *e, struct jw *w);

#endif
