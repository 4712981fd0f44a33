#ifndef BAILIFF_SUPERVISOR_HOST_BASE_ENV_H
#define BAILIFF_SUPERVISOR_HOST_BASE_ENV_H

/*
 * The environment that commands start with: nothing of the daemon's own. User data comes from the system's accounts;
 * the result for the last uid is cached while /etc/passwd is unchanged, but only briefly, because accounts may come
 * from elsewhere.
 */

#include "runtime/base/buf.h"

#include <stdint.h>

struct base_env {
	uint32_t uid;
	uint64_t until_ns; /* CLOCK_BOOTTIME; 0 = nothing cached */
	uint64_t ino;      /* of /etc/passwd */
	int64_t changed_s, changed_ns;
	struct buf text; /* "K=V" strings, each with its NUL */
};

void base_env_done(struct base_env *v);
/* Appends it. */
void base_env_get(struct base_env *v, uint32_t uid, struct buf *out);

#endif
