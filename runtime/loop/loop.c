#include "runtime/loop/loop.h"

#include "runtime/base/log.h"

#include <errno.h>
#include <event2/bufferevent.h>
#include <unistd.h>

static _Noreturn void exit_for_restart(int fd)
{
	log_error("cannot watch descriptor %d: %s; exiting for a restart", fd, strerror(errno));
	_exit(1);
}

void loop_add(struct event *ev, const struct timeval *tv)
{
	if (event_add(ev, tv) < 0)
		exit_for_restart((int)event_get_fd(ev));
}

void loop_enable(struct bufferevent *bev, short what)
{
	if (bufferevent_enable(bev, what) < 0)
		exit_for_restart((int)bufferevent_getfd(bev));
}

int loop_run(struct event_base *base)
{
	if (event_base_dispatch(base) >= 0)
		return 0;
	log_error("the event loop failed: %s", strerror(errno));
	return -1;
}
