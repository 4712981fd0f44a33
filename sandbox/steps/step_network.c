/* The steps for the network and UTS namespaces. */

#include "sandbox/steps/step.h"

#include "runtime/base/fd.h"
#include "sandbox/loopback.h"
#include "sandbox/plan.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

/*
 * Nothing of the host's name inside, and the same for every sandbox. Podman's default filter refuses this to a
 * container without CAP_SYS_ADMIN: the name that is seen then is the container's, which says nothing of the host's.
 */
int step_hostname(struct step_context *c)
{
	static const char name[] = "bailiff";
	if (!step_confined(c) || sethostname(name, sizeof name - 1) == 0)
		return 0;
	return errno == EPERM && !c->privileged ? 0 : -1;
}

#define QUEUE 128

/* The way out: made here, where the namespace is the sandbox's own, and served from outside of it. */
static int listen_inside(struct step_context *c)
{
	const struct sockaddr_in at = { .sin_family = AF_INET,
					.sin_port = htons(PLAN_PROXY_PORT),
					.sin_addr = { htonl(INADDR_LOOPBACK) } };
	fd_auto int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind(fd, (const struct sockaddr *)&at, sizeof at) < 0 || listen(fd, QUEUE) < 0) {
		step_path(c, "the proxy's socket");
		return -1;
	}
	c->listen_fd = fd_take(&fd);
	return 0;
}

/*
 * Where lookups are refused by name. Only the reason that people are told depends on it: without it a lookup fails all
 * the same.
 */
static int open_resolver(void)
{
	const struct sockaddr_in at = { .sin_family = AF_INET,
					.sin_port = htons(53),
					.sin_addr = { htonl(INADDR_LOOPBACK) } };
	fd_auto int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return fd < 0 || bind(fd, (const struct sockaddr *)&at, sizeof at) < 0 ? -1 : fd_take(&fd);
}

/* Enters a network namespace that was made ahead, or readies the one that came with the clone. */
int step_network(struct step_context *c)
{
	if (!step_confined(c) || c->plan->network == PLAN_NET_HOST)
		return 0;
	if (c->net_fd >= 0 ? setns(c->net_fd, CLONE_NEWNET) < 0 : loopback_up() < 0) {
		step_path(c, "lo");
		return -1;
	}
	fd_close(&c->net_fd);
	c->resolver_fd = open_resolver();
	return c->plan->network == PLAN_NET_ALLOW ? listen_inside(c) : 0;
}
