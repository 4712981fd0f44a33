#include "runtime/base/fd.h"
#include "sandbox/loopback.h"
#include "sandbox/plan.h"
#include "sandbox/steps/step.h"

#include <errno.h>
#include <sched.h>

/* Enters a network namespace that was made ahead, or readies the one that came with the clone. */
int step_network(struct step_context *c)
{
	if (!step_confined(c) || c->plan->network == PLAN_NET_HOST)
		return 0;
	if (c->plan->network == PLAN_NET_ALLOW) {
		step_path(c, "allow");
		errno = EOPNOTSUPP;
		return -1;
	}
	if (c->net_fd >= 0) {
		int r = setns(c->net_fd, CLONE_NEWNET);
		fd_close(&c->net_fd);
		return r;
	}
	step_path(c, "lo");
	return loopback_up();
}
