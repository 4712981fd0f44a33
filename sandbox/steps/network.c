#include "runtime/base/fd.h"
#include "sandbox/plan.h"
#include "sandbox/steps/step.h"

#include <errno.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/* A new network namespace has a loopback interface that is down; programs expect to talk to themselves. */
int step_network(struct step_context *c)
{
	if (!step_confined(c) || c->plan->network == PLAN_NET_HOST)
		return 0;
	if (c->plan->network == PLAN_NET_ALLOW) {
		step_path(c, "allow");
		errno = EOPNOTSUPP;
		return -1;
	}
	fd_auto int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq r = { .ifr_name = "lo" };
	r.ifr_flags = IFF_UP | IFF_RUNNING;
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &r) < 0) {
		step_path(c, "lo");
		return -1;
	}
	return 0;
}
