#ifndef BAILIFF_SUPERVISOR_PROXY_RELAY_H
#define BAILIFF_SUPERVISOR_PROXY_RELAY_H

struct served_sandbox;

/*
 * Serves a connected client. Takes ownership of fd. The connection is in the sandbox's list until it ends. All limits
 * (connections, time, buffers) are enforced inside; there is nothing to call afterwards.
 */
void relay_start(struct served_sandbox *b, int fd);

#endif
