#ifndef BAILIFF_SUPERVISOR_DAEMON_DAEMONIZE_H
#define BAILIFF_SUPERVISOR_DAEMON_DAEMONIZE_H

struct err;

/*
 * Goes into the background: the caller continues in a child with its own session, stdin and stdout at /dev/null and
 * stderr at log_fd. A byte written to *ret_ready_fd reports that the daemon serves. The invoked process does not
 * return: it waits for that byte and exits 0; if the child ends without it, it prints what was logged and exits 1.
 */
int daemonize(int log_fd, int *ret_ready_fd, struct err *e);

#endif
