#ifndef BAILIFF_SANDBOX_INIT_NAME_H
#define BAILIFF_SANDBOX_INIT_NAME_H

/*
 * The task name (comm) of every sandbox's init, by which daemons recognise each other's sandboxes
 * (supervisor/control/peer.h).
 *
 * Pid 1 of a pid namespace cannot be replaced, and its name is written by itself alone: the kernel refuses a write to
 * another process's comm, and the init is not dumpable, so it cannot be traced either. A command cannot leave its pid
 * namespace, so it cannot shed this.
 */
#define SANDBOX_INIT_NAME "bailiff-init"

#endif
