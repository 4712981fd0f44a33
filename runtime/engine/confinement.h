#ifndef BAILIFF_ENGINE_CONFINEMENT_H
#define BAILIFF_ENGINE_CONFINEMENT_H

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

struct confinement {
	struct profile profile;       /* compiled */
	struct workspace workspace;   /* and the working directory */
	struct profile_mounts mounts; /* of the plan; they point into the profile */
	struct buf env;               /* what the environment begins with, as the port gives it */
};

/* ERR_NOT_FOUND, ERR_PERMISSION (with `field`), ERR_INVALID, ERR_UNAVAILABLE. */
int confinement_make(struct engine *g, const struct sandbox_request *r, const struct caller *c, struct confinement *ret,
		     struct err *e);
void confinement_done(struct confinement *f);
#define confinement_auto __attribute__((cleanup(confinement_done)))

/* sandboxProfile, as in sandbox.applied. */
void confinement_profile_json(const struct confinement *f, const struct process_limits *limits, struct jw *w);
/* [{"kind","path","optional"?,"owned"?}] */
void confinement_mounts_json(const struct confinement *f, struct jw *w);
/* For a request that asks for more than it may have: members of the error's data. */
void confinement_denial_json(const struct err *e, struct jw *w);

#endif
