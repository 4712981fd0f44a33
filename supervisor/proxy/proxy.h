#ifndef BAILIFF_SUPERVISOR_PROXY_H
#define BAILIFF_SUPERVISOR_PROXY_H

/*
 * The proxy: the process behind the listening socket in each sandbox with network `allow`. It is started by the guard
 * when the runtime first wants it, under a uid of its own and without capabilities, with GUARD_FD_LINK and
 * GUARD_FD_PEER (the runtime) in place. It holds no state that cannot be told to another one: when it is killed, live
 * connections break, and new ones work as soon as the next one serves.
 */

/* The process's exit status. */
int proxy_main(void);

#endif
