#include "sandbox/plan.h"
#include "sandbox/steps/step.h"

#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void drop_bounding_set(void)
{
	int cap = 0;
	while (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
		cap++;
}

static int clear_capabilities(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { { 0 }, { 0 } };
	return (int)syscall(SYS_capset, &head, none);
}

/*
 * Raw system calls: glibc's wrappers would signal all threads, and there is only one. A command of uid 0 keeps its
 * capabilities; everyone else's process, and the init that shares its uid, has none left, not even in the bounding set.
 */
int step_ids(struct step_context *c)
{
	if (c->uid != 0)
		drop_bounding_set();
	if (c->privileged) {
		if (syscall(SYS_setgroups, c->ngroups, c->groups) < 0 ||
		    syscall(SYS_setresgid, c->gid, c->gid, c->gid) < 0 ||
		    syscall(SYS_setresuid, c->uid, c->uid, c->uid) < 0)
			return -1;
	}
	if (c->uid != 0) {
		if (clear_capabilities() < 0)
			return -1;
		c->layers |= PLAN_LAYER_CAPABILITIES;
	}
	return 0;
}
