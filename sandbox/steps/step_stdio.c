#include "sandbox/steps/step.h"

#include <fcntl.h>
#include <unistd.h>

static int connect(int in, int out, int err)
{
	return dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0 ? -1 : 0;
}

int step_stdio(struct step_context *c)
{
	if (c->slave_fd >= 0)
		return connect(c->slave_fd, c->slave_fd, c->slave_fd);
	int in = c->stdin_fd;
	if (in < 0) {
		in = open("/dev/null", O_RDONLY | O_CLOEXEC);
		if (in < 0) {
			step_path(c, "/dev/null");
			return -1;
		}
	}
	int err = c->stderr_fd >= 0 ? c->stderr_fd : c->stdout_fd;
	return connect(in, c->stdout_fd, err);
}
