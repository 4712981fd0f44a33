#ifndef BAILIFF_CLIENT_DAEMON_PROGRAM_H
#define BAILIFF_CLIENT_DAEMON_PROGRAM_H

struct buf;
struct err;

/* bailiffd, next to this program or installed, else the bare name for a search in PATH. The caller frees it. */
char *daemon_program_path(void);
/*
 * Appends the output of `bailiffd --version --json`: its build, its libraries and the features of this kernel. Does not
 * start a daemon.
 */
int daemon_program_describe(struct buf *ret, struct err *e);

#endif
