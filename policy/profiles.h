#ifndef BAILIFF_POLICY_PROFILES_H
#define BAILIFF_POLICY_PROFILES_H

/*
 * The profiles that a request can name: those of the policy files (`profiles {NAME: {…}}`) and the shipped ones. A file
 * is accepted as a whole or not at all; an error names file, line and key.
 *
 *   extends       another profile; default workspace. The other members add to it or replace its values
 *   readRoots, writeRoots, hidden
 *                 paths; ~ is the caller's home directory, $WORKSPACE the workspace; ? at the end: it may be missing
 *   protect       read-only in a write root; a relative path applies to every write root
 *   network       none | host | {"allow": [HOST, …], "deny": [HOST, …], "credentials": [NAME, …]}; syntax of hosts:
 *                 sandbox/host_rule.h; credentials are defined in the daemon's configuration
 *   tmpBytes      a number, or "512M"
 *   memoryBytes … limits of the whole tree: every row of sandbox/plan_limits.def
 *   require       layers without which a request is rejected: namespaces mounts landlock seccomp capabilities cgroup
 *                 abstractSockets
 *   cow           copy-on-write
 *
 * The section `sandbox` applies to every profile (sandbox_section.h).
 */

#include "policy/sandbox_section.h"

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct err;
struct profile;

struct policy_profiles {
	struct profile **profile; /* the host's first */
	size_t count;
	struct sandbox_section section; /* of all files */
};

void policy_profiles_done(struct policy_profiles *s);
/*
 * Adds the profiles of one file. Call it with the more important file first: a profile that exists is not replaced. On
 * failure nothing is added.
 */
int policy_profiles_parse(struct policy_profiles *s, const char *file, const char *text, size_t len, struct err *e);
/* Copies a profile; ERR_NOT_FOUND lists the existing names. */
int policy_profiles_get(const struct policy_profiles *s, const char *name, struct profile *ret, struct err *e);

#endif
