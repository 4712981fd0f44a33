#ifndef BAILIFF_SUPERVISOR_DAEMON_VERSION_H
#define BAILIFF_SUPERVISOR_DAEMON_VERSION_H

/*
 * `bailiffd --version`: the build, the libraries that it runs with, and the features of this kernel (sandbox/kernel.h).
 * It probes the kernel with the rights of the caller and needs neither a home nor a running daemon.
 */

struct buf;

void version_json(struct buf *out);

#endif
