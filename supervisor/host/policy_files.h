#ifndef BAILIFF_SUPERVISOR_HOST_POLICY_FILES_H
#define BAILIFF_SUPERVISOR_HOST_POLICY_FILES_H

/*
 * The policy files, as the guard hands them over: read at the start and at each SIGHUP, taken together or not at all. A
 * file that cannot be used leaves in force what was; where nothing was, no process is started until it is mended.
 * Either way it is said in a runtime.warning. A file that is another one than the last time, also before a restart, is
 * a policy.changed.
 */

#include "policy/hooks.h"
#include "policy/model_list.h"
#include "policy/profiles.h"
#include "policy/rules.h"
#include "supervisor/guard/guard_msg.h"

#include <stdbool.h>

struct engine;

struct policy_files {
	struct policy_profiles profiles; /* in force */
	struct model_list models;
	struct policy_rules rules;
	char *text[RULE_LAYERS]; /* of the files, for rule sets that have more of them; NULL = there is none */
	size_t len[RULE_LAYERS];
	unsigned generation; /* another one for each that was taken */
	struct policy_hooks hooks;
	bool loaded; /* some were, or there are none */
};

/* Files by enum guard_file: a descriptor, −1 = not there, −2 = there, but could not be opened. */
void policy_files_load(struct policy_files *p, const int files[GUARD_FILES], struct engine *engine);
/* The rules in force into an empty set, to which more is added. */
int policy_files_parse_again(const struct policy_files *p, struct policy_rules *ret, struct policy_hooks *ret_hooks,
			     struct err *e);
void policy_files_done(struct policy_files *p);

#endif
