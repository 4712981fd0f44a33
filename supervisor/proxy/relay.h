#ifndef BAILIFF_SUPERVISOR_PROXY_RELAY_H
#define BAILIFF_SUPERVISOR_PROXY_RELAY_H

struct served_sandbox;

/*
 * Serves a connected client. Takes ownership of fd. The connection is in the sandbox's list until it ends. It limits
 * time and buffers itself; the number of connections is the caller's business.
 */
void relay_start(struct served_sandbox *b, int fd);

#endif
