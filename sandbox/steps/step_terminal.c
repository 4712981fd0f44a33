#include "sandbox/plan.h"
#include "sandbox/steps/step.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>

/*
 * Runs after `pivot`, so that it comes from the sandbox's own devpts and has a name inside; after `ids`, so that it
 * belongs to the command; before Landlock, which would restrict the device's ioctls. The master is for the runtime (see
 * init.c).
 */
int step_terminal(struct step_context *c)
{
	const struct winsize size = { .ws_row = (unsigned short)c->plan->tty_rows,
				      .ws_col = (unsigned short)c->plan->tty_cols };
	struct termios t;
	int unlock = 0;

	if (!(c->plan->flags & PLAN_TTY))
		return 0;
	step_path(c, "/dev/ptmx");
	/* Non-blocking for the runtime, which shares this open file description. */
	c->master_fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	if (c->master_fd < 0 || ioctl(c->master_fd, TIOCSPTLCK, &unlock) < 0)
		return -1;
	/* Opened through the master, not by name: independent of what is mounted on /dev/pts outside of a sandbox. */
	c->slave_fd = ioctl(c->master_fd, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (c->slave_fd < 0 || ioctl(c->slave_fd, TIOCSWINSZ, &size) < 0 || tcgetattr(c->slave_fd, &t) < 0)
		return -1;
	/* The kernel's defaults are sane, except that they do not assume multi-byte characters. */
	t.c_iflag |= IUTF8;
	return tcsetattr(c->slave_fd, TCSANOW, &t);
}
