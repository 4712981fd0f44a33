#ifndef BAILIFF_GATEWAY_GATEWAY_SANDBOX_H
#define BAILIFF_GATEWAY_GATEWAY_SANDBOX_H

struct err;

/*
 * Enters the sandbox that every gateway serves in (supervisor/common/role_sandbox.h): no process, no program, no file
 * that can be written, no socket but those to the daemon and those that listen already. Directories can be listed
 * everywhere, because clients name workspaces; `readable`, a file or NULL, can be read with its directory. Before, a
 * launcher is forked that can still start a daemon (supervisor/client/autostart.h).
 */
int gateway_sandbox_enter(const char *readable, struct err *e);

#endif
