#ifndef BAILIFF_SUPERVISOR_HOST_POLICY_FILES_H
#define BAILIFF_SUPERVISOR_HOST_POLICY_FILES_H

/*
 * The policy files that the guard hands over: read at the start and at each SIGHUP, installed together or not at all.
 * If a file cannot be used, the previous version stays in effect; without one, no process is started until the file is
 * fixed. Either way there is a runtime.warning. A file that differs from the last time, also from before a restart, is
 * a policy.changed event.
 */

#include "policy/hooks.h"
#include "policy/model_list.h"
#include "policy/profiles.h"
#include "policy/rules.h"
#include "supervisor/guard/guard_msg.h"

#include <stdbool.h>

struct engine;

struct policy_files {
	struct policy_profiles profiles; /* in effect */
	struct model_list models;
	struct policy_rules rules;
	char *text[RULE_LAYERS]; /* of the files, for combining them with workspace policies; NULL = no file */
	size_t len[RULE_LAYERS];
	unsigned generation; /* changes with each version that is installed */
	struct policy_hooks hooks;
	bool loaded; /* files were installed, or there are none */
};

/* Files by enum guard_file: a descriptor, −1 = does not exist, −2 = cannot be opened. token: of guard_link.h. */
void policy_files_load(struct policy_files *p, const int files[GUARD_FILES], uint32_t token, struct engine *engine);
/* Parses the files in effect again into an empty rule set, to which more is added. */
int policy_files_parse_again(const struct policy_files *p, struct policy_rules *ret, struct policy_hooks *ret_hooks,
			     struct err *e);
void policy_files_done(struct policy_files *p);

#endif
