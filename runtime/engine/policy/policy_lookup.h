#ifndef BAILIFF_ENGINE_POLICY_LOOKUP_H
#define BAILIFF_ENGINE_POLICY_LOOKUP_H

/*
 * Which rules hold depends on who asks and where (ports.h: policy_of). Where the files of a place are still being
 * looked at, whatever needs them waits here, in the order in which it came.
 */

#include "policy/rules.h"

#include <limits.h>

struct buf;
struct caller;
struct sandbox_setup;
struct engine;
struct err;
struct policy_key;
struct sandbox_request;

/* As ports.policy_of; while the host's or the daemon's own file cannot be used, nothing is known. Every question about
 * rules goes through here. */
int policy_lookup_of(struct engine *g, const struct policy_key *at, const struct policy_rules **ret, struct err *e);
/*
 * The workspace whose files count for work in `cwd`. "": none, for the home and what holds it cannot be one. −1: these
 * are no paths that a workspace could be looked for by. A `given` one that does not hold cwd does not count.
 */
int policy_lookup_workspace(const char *cwd, const char *given, const char *home, char ret[PATH_MAX], struct err *e);
/* policy_place_of a request. The workspace of one without a sandbox is looked for, too. */
int policy_lookup_rules(struct engine *g, const struct sandbox_setup *f, const struct sandbox_request *r,
			const struct caller *c, uint64_t since_ns, const struct policy_rules **ret, struct err *e);
/* The workspace whose files apply to a request, also of one without a sandbox. */
int policy_lookup_find_workspace(const struct sandbox_setup *f, const struct sandbox_request *r, char ret[PATH_MAX],
				 struct err *e);
/* Calls `go` when the files of this workspace have been read. */
void policy_lookup_await(struct engine *g, uint32_t uid, const char *workspace, void (*go)(struct engine *g, void *ctx),
			 void *ctx);
/* Of the environment that commands of a uid begin with (ports.h: base_env); "" = none. */
const char *policy_lookup_home(const struct buf *env);
/* What the mode becomes by what the place's files say. */
enum permission_mode policy_lookup_mode(const struct policy_rules *rules, enum permission_mode mode);
/* All waiting requests are rejected: the daemon stops. */
void policy_lookup_stop(struct engine *g);

/* The mode that a session has been given; the host's, where it has none. */
enum permission_mode permission_mode_of(struct engine *g, const char *session_id);
/* The number of the last policy.changed that a policy file caused. */
uint64_t policy_sequence(const struct engine *g);
void policy_init(struct engine *g);
void policy_done(struct engine *g);

#endif
