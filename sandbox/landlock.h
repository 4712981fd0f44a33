#ifndef BAILIFF_SANDBOX_LANDLOCK_H
#define BAILIFF_SANDBOX_LANDLOCK_H

/*
 * The second layer of defence: a Landlock domain of what a plan permits, so that a gap in the mounts is not a way out.
 * Landlock only has hierarchies and adds rights up from the root, so it cannot express "writable, except this below":
 * protected and hidden paths inside a write root are enforced by the mounts alone. It does not restrict chmod, chown,
 * attributes or times, either.
 *
 * Nothing here allocates.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct plan_head;

/* From this version on, sockets of the host that are visible by path but not writable cannot be connected to. */
#define LANDLOCK_ABI_NAMED_SOCKETS 9

/* From this version on, the host's abstract sockets and signals to processes outside are blocked. */
#define LANDLOCK_ABI_SCOPES 6

/*
 * Whether the host's abstract sockets are out of reach on this network (enum plan_network) with this Landlock version
 * in effect.
 */
bool landlock_shuts_abstract_sockets(int abi, uint32_t network);

/* The kernel's Landlock version; 0 = not supported, or switched off. */
int landlock_abi(void);

/*
 * Permanently confines this process and its children, which must have no_new_privs. Paths are resolved from this
 * process's root, so the sandbox's root must be in place. `log`: denials go to the kernel's audit. Returns 0, or −1
 * with errno and, in *ret_path, the path concerned (of the plan, or static), or NULL.
 */
int landlock_confine(int abi, const struct plan_head *plan, bool log, const char **ret_path);

#endif
