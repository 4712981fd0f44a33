#ifndef BAILIFF_CLIENT_AUTOSTART_H
#define BAILIFF_CLIENT_AUTOSTART_H

#include "runtime/base/buf.h"

#include <sys/types.h>

struct err;
struct home;

/*
 * Starts a daemon for this user (`bailiffd --embedded`, found next to this program, else in PATH) and waits until it
 * reports that it is ready. A failure is not final: another daemon may have been started at the same moment, so the
 * caller still tries to connect and reports this error only if that fails, too. ERR_SANDBOX is final: no daemon can run
 * on this kernel.
 */
int autostart_start(const struct home *h, struct err *e);

/*
 * Forks a launcher that from now on starts daemons for this process, which can then give up fork and exec (gateways
 * do). The launcher takes no arguments, finds the home like this process would, keeps none of its descriptors, and
 * exits with it.
 */
int autostart_delegate(struct err *e);

/* The same without blocking: begin, then poll. All zeroes: not begun, or finished. */
struct autostart {
	pid_t pid; /* −1: started by the launcher of autostart_delegate */
	int stderr_fd;
	struct buf printed;
};
int autostart_begin(const struct home *h, struct autostart *ret, struct err *e);
/* 1: not ready yet; 0: ready; −1: failed. The last two free it. */
int autostart_poll(struct autostart *x, struct err *e);
/* Stops polling; the daemon still starts. */
void autostart_done(struct autostart *x);

#endif
