#ifndef BAILIFF_SUPERVISOR_DAEMON_VERSION_H
#define BAILIFF_SUPERVISOR_DAEMON_VERSION_H

/* What `bailiffd --version` says: the build, the libraries that it runs with, and what this kernel offers
 * (sandbox/kernel.h). */

struct buf;

void version_json(struct buf *out);

#endif
