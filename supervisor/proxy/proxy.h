#ifndef BAILIFF_SUPERVISOR_PROXY_H
#define BAILIFF_SUPERVISOR_PROXY_H

/*
 * The proxy: the process behind the listening socket in each sandbox with network `allow`, and behind published ports
 * (publication.h). The guard starts it when the
 * runtime first needs it, under a uid of its own and without capabilities, with GUARD_FD_LINK and GUARD_FD_PEER (the
 * runtime) open. All its state can be sent to a new proxy: if it is killed, live connections break, and new ones work
 * as soon as its successor serves the sockets.
 */

/* The process's exit status. */
int proxy_main(void);

#endif
