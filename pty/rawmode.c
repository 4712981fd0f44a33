#include "pty/rawmode.h"

#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define DRAIN_NS 500000000ull

/* Used by the crash handlers. */
static struct rawmode *volatile active;

static const int crashes[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };

static int set_termios(int fd, const struct termios *t)
{
	int r;

	do
		r = tcsetattr(fd, TCSANOW, t);
	while (r < 0 && errno == EINTR);
	return r;
}

/*
 * Only async-signal-safe calls. The program crashes all the same, with the signal and the core file that it would have
 * had.
 */
static void on_crash(int sig)
{
	struct rawmode *m = active;

	if (m && m->on)
		(void)tcsetattr(m->fd, TCSANOW, &m->saved);
	raise(sig); /* SA_RESETHAND: now with the default action */
}

static void watch_crashes(bool on)
{
	struct sigaction sa = { .sa_handler = on ? on_crash : SIG_DFL, .sa_flags = on ? SA_RESETHAND | SA_NODEFER : 0 };

	sigemptyset(&sa.sa_mask);
	for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++)
		sigaction(crashes[i], &sa, NULL);
}

int rawmode_enter(struct rawmode *m, int fd, enum rawmode_kind kind, char wake, struct err *e)
{
	struct termios t;

	/* In the background the terminal belongs to the shell: this stops us until we are in the foreground. */
	if (tcgetpgrp(fd) > 0 && tcgetpgrp(fd) != getpgrp())
		kill(0, SIGTTOU);
	if (tcgetattr(fd, &t) < 0)
		return err_sys(e, errno, "read the terminal's settings");
	*m = (struct rawmode){ .fd = fd, .saved = t };
	if (kind == RAWMODE_KEYS)
		cfmakeraw(&t);
	else if (kind == RAWMODE_LINES)
		t.c_cc[VEOL] = (cc_t)wake;
	else
		t.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ECHONL);
	/*
	 * The handlers are set before the terminal changes: a crash in between restores settings that are still the
	 * same.
	 */
	active = m;
	m->on = true;
	watch_crashes(true);
	if (set_termios(fd, &t) < 0) {
		int errnum = errno;

		m->on = false;
		active = NULL;
		watch_crashes(false);
		return err_sys(e, errnum, "change the terminal's settings");
	}
	return 0;
}

void rawmode_leave(struct rawmode *m)
{
	if (!m->on)
		return;
	/* A background process that changes its terminal is stopped with SIGTTOU; that must not happen during a
	 * restore. */
	sigset_t stop, old;

	sigemptyset(&stop);
	sigaddset(&stop, SIGTTOU);
	sigprocmask(SIG_BLOCK, &stop, &old);
	(void)set_termios(m->fd, &m->saved);
	sigprocmask(SIG_SETMASK, &old, NULL);
	m->on = false;
	active = NULL;
	watch_crashes(false);
}

/* A terminal answers in order, so the answer to a query of ours is the last of it. */
void rawmode_drain(struct rawmode *m, int out_fd)
{
	static const char query[] = "\033[5n", answer[] = "\033[0n";
	const uint64_t until = clock_mono_ns() + DRAIN_NS;
	struct pollfd p = { .fd = m->fd, .events = POLLIN };
	size_t matched = 0;
	char c;

	if (!m->on || fd_write_all(out_fd, query, sizeof(query) - 1) < 0)
		return;
	while (answer[matched]) {
		uint64_t now = clock_mono_ns();

		if (now >= until || poll(&p, 1, (int)((until - now) / 1000000 + 1)) <= 0 || read(m->fd, &c, 1) != 1)
			return;
		matched = c == answer[matched] ? matched + 1 : c == answer[0];
	}
}

bool rawmode_size(int fd, unsigned *ret_rows, unsigned *ret_cols)
{
	struct winsize ws = { 0 };

	if (ioctl(fd, TIOCGWINSZ, &ws) < 0 || ws.ws_row == 0 || ws.ws_col == 0)
		return false;
	*ret_rows = ws.ws_row;
	*ret_cols = ws.ws_col;
	return true;
}
