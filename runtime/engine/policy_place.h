#ifndef BAILIFF_ENGINE_POLICY_PLACE_H
#define BAILIFF_ENGINE_POLICY_PLACE_H

/*
 * Which rules hold depends on who asks and where (ports.h: policy_of). Where the files of a place are still being looked at, whatever
 * needs them waits here, in the order in which it came.
 */

#include "policy/rules.h"

struct buf;
struct caller;
struct confinement;
struct engine;
struct err;
struct sandbox_request;
struct start_hold;

/* As ports.policy_of. The workspace of a request without a sandbox is looked for, too. */
int policy_place_rules(struct engine *g, const struct confinement *f, const struct sandbox_request *r, const struct caller *c, uint64_t since_ns,
		       const struct policy_rules **ret, struct err *e);
/* Goes on with `go` when they are known. Takes the hold. */
void policy_place_wait(struct engine *g, const struct confinement *f, const struct sandbox_request *r, struct start_hold *h,
		       void (*go)(struct engine *g, struct start_hold *h));
/* The same for anything else, of which uid and workspace are known. */
void policy_place_await(struct engine *g, uint32_t uid, const char *workspace, void (*go)(struct engine *g, void *ctx), void *ctx);
/* Of the environment that commands of a uid begin with (ports.h: base_env); "" = none. */
const char *policy_place_home(const struct buf *env);
/* What the mode becomes by what the place's files say. */
enum permission_mode policy_place_mode(const struct policy_rules *rules, enum permission_mode mode);
/* All who wait are refused: the daemon stops. */
void policy_place_stop(struct engine *g);

#endif
