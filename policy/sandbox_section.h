#ifndef BAILIFF_POLICY_SANDBOX_SECTION_H
#define BAILIFF_POLICY_SANDBOX_SECTION_H

/*
 * The section `sandbox` of policy files, in the names of other tools. It applies to every profile with a sandbox:
 *
 *   network     {"allowedDomains": [HOST, …], "deniedDomains": [HOST, …]}: the denied hosts apply to all profiles, the
 *               allowed ones to those whose network is `allow` already, and to the default profile
 *   filesystem  {"denyRead": [PATH, …], "allowRead": …, "denyWrite": …, "allowWrite": …}: hidden with what the profile
 *               shows below; shown, also there; read-only; a write root, in profiles that have some
 *
 * PATH is absolute, begins with ~, or is relative to the workspace; it has no wildcards except for everything in a
 * folder at its end.
 */

#include "sandbox/host_rule.h"
#include "sandbox/profile.h"

#include <stdbool.h>

struct err;
struct json_t;
struct policy_text;

struct sandbox_section {
	struct host_rules hosts;
	struct profile_lists paths; /* not applied here: profile_apply_lists, after the profile is expanded */
	unsigned files;             /* that were added */
	bool partial;               /* it has members that this version ignores */
};

/* `s` must be zeroed; `sandbox` may be NULL. On failure release it as well. */
int sandbox_section_read(struct sandbox_section *s, const struct policy_text *f, const struct json_t *sandbox,
			 struct err *e);
/* Adds that of a less important file. */
void sandbox_section_add(struct sandbox_section *s, const struct sandbox_section *more);
/* Adds the hosts to a profile. */
void sandbox_section_apply_hosts(const struct sandbox_section *s, struct profile *p);
void sandbox_section_done(struct sandbox_section *s);

#endif
