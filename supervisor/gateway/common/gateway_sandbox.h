#ifndef BAILIFF_GATEWAY_GATEWAY_SANDBOX_H
#define BAILIFF_GATEWAY_GATEWAY_SANDBOX_H

struct err;

/*
 * Enters the sandbox in which every gateway serves (supervisor/common/role_sandbox.h): it cannot create processes,
 * execute programs, write files, or open sockets other than those to the daemon; sockets that already listen stay
 * usable. Directories can be listed everywhere, because clients name workspaces. `readable`, a file or NULL, is
 * readable together with its directory.
 *
 * Call it before serving. It first forks a launcher, outside the sandbox, that can still start a daemon
 * (supervisor/client/autostart.h).
 */
int gateway_sandbox_enter(const char *readable, struct err *e);

#endif
