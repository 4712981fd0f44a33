#ifndef BAILIFF_POLICY_PROFILES_H
#define BAILIFF_POLICY_PROFILES_H

/*
 * The profiles that can be asked for: those of the policy files (`profiles {NAME: {…}}`) and the shipped ones. A file
 * is taken whole or not at all; what is wrong is named by file, line and key.
 *
 *   extends       another profile; default workspace. The rest is added to it or replaces what it says.
 *   readRoots, writeRoots, hidden    paths; ~ is the caller's home, $WORKSPACE the workspace; one that ends in ? may
 *                                    be missing
 *   protect       read-only in a write root; a relative path is meant in every write root
 *   network       none | host | {"allow": [HOST, …], "deny": [HOST, …], "credentials": [NAME, …]}
 *                 (sandbox/host_rule.h says how
 *                 hosts are written; credentials are the daemon's configuration's)
 *   tmpBytes      a number, or "512M"
 *   memoryBytes, memoryHighBytes, pids, cpus, ioWeight, ioReadBps, ioWriteBps    limits of the whole tree
 *     (sandbox/plan_limits.def)
 *   require       layers without which it is refused: namespaces mounts landlock seccomp capabilities cgroup
 *                 abstractSockets
 *   cow           write to a copy
 *
 * `sandbox {network {allowedDomains, deniedDomains}}` are hosts for every profile: the denied ones whatever the profile
 * allows, the allowed ones where the network is `allow` already, and in the default profile.
 */

#include "sandbox/host_rule.h"

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct err;
struct profile;

struct policy_profiles {
	struct profile **profile; /* the host's first */
	size_t count;
	struct host_rules hosts; /* sandbox.network.allowedDomains and deniedDomains, of all files */
	bool partial;            /* a file has sections that this version ignores */
};

void policy_profiles_done(struct policy_profiles *s);
/*
 * Adds the profiles of one file. Call it with the more important file first: a profile that exists is not replaced. On
 * failure nothing is added.
 */
int policy_profiles_parse(struct policy_profiles *s, const char *file, const char *text, size_t len, struct err *e);
/* Copies a profile; ERR_NOT_FOUND lists the existing names. */
int policy_profiles_get(const struct policy_profiles *s, const char *name, struct profile *ret, struct err *e);
/* "workspace, readonly, …": those of the files first. */
void policy_profiles_names(const struct policy_profiles *s, struct buf *out);

#endif
