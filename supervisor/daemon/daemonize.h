#ifndef BAILIFF_SUPERVISOR_DAEMON_DAEMONIZE_H
#define BAILIFF_SUPERVISOR_DAEMON_DAEMONIZE_H

struct err;

/*
 * Into the background: the caller goes on in a child with a session of its own, stdin and stdout at /dev/null and
 * stderr at log_fd. *ret_ready_fd is where one byte says that the daemon serves. The process that was invoked does not
 * come back: it waits for that byte and exits 0; or, if the child ends without it, prints what was logged and exits 1.
 */
int daemonize(int log_fd, int *ret_ready_fd, struct err *e);

#endif
