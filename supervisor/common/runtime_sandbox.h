#ifndef BAILIFF_SUPERVISOR_COMMON_RUNTIME_SANDBOX_H
#define BAILIFF_SUPERVISOR_COMMON_RUNTIME_SANDBOX_H

/*
 * The runtime parses what strangers send, so it gives up what it never needs before it serves: executing programs,
 * making processes, tracing, mounts, namespaces, keys, kernel modules and the like. A taken-over runtime is left with
 * the descriptors it has and the messages that guard and spawner check.
 */

struct err;

int runtime_sandbox_enter(struct err *e);

#endif
