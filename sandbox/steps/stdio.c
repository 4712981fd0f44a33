#include "sandbox/steps/step.h"

#include <fcntl.h>
#include <unistd.h>

int step_stdio(struct step_context *c)
{
	int in = c->stdin_fd;
	if (in < 0) {
		in = open("/dev/null", O_RDONLY | O_CLOEXEC);
		if (in < 0) {
			step_path(c, "/dev/null");
			return -1;
		}
	}
	int err = c->stderr_fd >= 0 ? c->stderr_fd : c->stdout_fd;
	if (dup2(in, 0) < 0 || dup2(c->stdout_fd, 1) < 0 || dup2(err, 2) < 0)
		return -1;
	return 0;
}
