#include "supervisor/spawner/netpool.h"

#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "sandbox/loopback.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

void netpool_init(struct netpool *p, bool privileged)
{
	*p = (struct netpool){ .home = privileged ? open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC) : -1 };
}

void netpool_done(struct netpool *p)
{
	while (p->count > 0)
		fd_close(&p->fd[--p->count]);
	fd_close(&p->home);
}

int netpool_take(struct netpool *p)
{
	p->asked = true;
	return p->count > 0 ? p->fd[--p->count] : -1;
}

bool netpool_wants(const struct netpool *p) { return p->asked && p->home >= 0 && p->count < NETPOOL_MAX; }

void netpool_fill(struct netpool *p)
{
	if (unshare(CLONE_NEWNET) < 0) {
		log_info("no network namespaces are made ahead: %s", strerror(errno));
		netpool_done(p);
		return;
	}
	int fd = loopback_up() < 0 ? -1 : open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (setns(p->home, CLONE_NEWNET) < 0) {
		log_error("return to the own network namespace: %s; leaving", strerror(errno));
		_exit(1);
	}
	if (fd < 0)
		netpool_done(p);
	else
		p->fd[p->count++] = fd;
}
