#include "supervisor/spawner/role.h"

#include "runtime/base/log.h"
#include "supervisor/common/options.h"
#include "supervisor/common/process_title.h"
#include "supervisor/spawner/spawner.h"

#include <stdio.h>
#include <string.h>

#define EXIT_USAGE 2
#define PREBUILT_DEFAULT 2

int spawner_role(const struct options *o, struct process_title *t)
{
	uint64_t user = 0, zygotes = PREBUILT_DEFAULT;
	process_title_set(t, "bailiffd: spawner");
	log_setup("bailiffd spawner", o->verbose ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO,
		  o->log_format && strcmp(o->log_format, "json") == 0);
	if ((o->user && options_number("user", o->user, UINT32_MAX - 1, &user, NULL) < 0) ||
	    (o->zygotes && options_number("zygotes", o->zygotes, PREBUILT_WANTED_MAX, &zygotes, NULL) < 0))
		return EXIT_USAGE;
	struct cgroup_base base = { 0 };
	snprintf(base.path, sizeof base.path, "%s", o->cgroup_base ? o->cgroup_base : "");
	snprintf(base.why, sizeof base.why, "%s", o->cgroup_why ? o->cgroup_why : "");
	snprintf(base.fix, sizeof base.fix, "%s", o->cgroup_fix ? o->cgroup_fix : "");
	const struct spawner_options s = {
		.runtime_uid = (uid_t)user,
		.cgroup_tag = o->cgroup_tag ? o->cgroup_tag : "bailiff",
		.cgroup_base = &base,
		.title = t,
		.allow_host = o->allow_host,
		.zygotes = (unsigned)zygotes,
		.audit = o->audit_state && strcmp(o->audit_state, "on") == 0,
		.policy_file = o->policy_file,
		.run_dir = o->run_dir,
		.state_dir = o->state_dir,
		.config_dir = o->config_dir,
	};
	return spawner_main(&s);
}
