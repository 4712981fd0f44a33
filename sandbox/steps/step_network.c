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
 * Hides the host's name; every sandbox has the same one. Podman's default filter denies this to a container without
 * CAP_SYS_ADMIN: the visible name is then the container's, which reveals nothing about the host.
 */
int step_hostname(struct step_context *c)
{
	static const char name[] = "bailiff";
	if (!step_confined(c) || sethostname(name, sizeof name - 1) == 0)
		return 0;
	return errno == EPERM && !c->privileged ? 0 : -1;
}

#define QUEUE 128

/* The proxy's listening socket: created here, in the sandbox's own namespace, and served from outside. */
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
 * The socket of the resolver that refuses all lookups. Best effort: without it lookups fail, too, but are not reported.
 */
static int open_resolver(void)
{
	const struct sockaddr_in at = { .sin_family = AF_INET,
					.sin_port = htons(53),
					.sin_addr = { htonl(INADDR_LOOPBACK) } };
	fd_auto int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return fd < 0 || bind(fd, (const struct sockaddr *)&at, sizeof at) < 0 ? -1 : fd_take(&fd);
}

/* Enters a prebuilt network namespace, or sets up the one that came with the clone. */
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
