#ifndef BAILIFF_SANDBOX_LANDLOCK_H
#define BAILIFF_SANDBOX_LANDLOCK_H

/*
 * The second wall: a Landlock domain of what a plan permits, so that a gap in the mounts is not a way out. It only
 * knows hierarchies and adds rights up from the root, so it cannot say "writable, but not this below": protected and
 * hidden paths inside a write root are the mounts' work alone. Nor does it know chmod, chown, attributes and times.
 *
 * Nothing here allocates.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct plan_head;

/* From which on the host's sockets are shut that lie, by name, in what is shown but may not be written. */
#define LANDLOCK_ABI_NAMED_SOCKETS 9

/* From which on the host's abstract sockets, and signals to processes outside, are shut. */
#define LANDLOCK_ABI_SCOPES 6

/* Whether the host's abstract sockets are out of reach on this network (enum plan_network) with this much of Landlock
 * in force. */
bool landlock_shuts_abstract_sockets(int abi, uint32_t network);

/* The kernel's version of it; 0 = it has none, or it is switched off. */
int landlock_abi(void);

/*
 * Confines this process and its children, which must have no_new_privs; for good. Paths are looked up from this
 * process's root, so the sandbox's root must be in place. `log`: refusals go to the kernel's audit. 0; or −1 with errno
 * and in *ret_path what it was about (of the plan, or static), NULL if nothing.
 */
int landlock_confine(int abi, const struct plan_head *plan, bool log, const char **ret_path);

#endif
