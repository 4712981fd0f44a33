#ifndef BAILIFF_SANDBOX_INIT_NAME_H
#define BAILIFF_SANDBOX_INIT_NAME_H

/*
 * The task name (comm) of every sandbox's init, by which daemons recognise each other's sandboxes
 * (supervisor/control/peer.h).
 *
 * Pid 1 of a pid namespace cannot be replaced, and only it can change its name: the kernel denies writes to another
 * process's comm, and the init is not dumpable, so it cannot be traced. A command cannot leave its pid namespace, so it
 * cannot remove this mark.
 */
#define SANDBOX_INIT_NAME "bailiff-init"

#endif
