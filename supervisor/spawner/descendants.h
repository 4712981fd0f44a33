#ifndef BAILIFF_SUPERVISOR_SPAWNER_DESCENDANTS_H
#define BAILIFF_SUPERVISOR_SPAWNER_DESCENDANTS_H

/*
 * The descendants of a process, as /proc shows them. The list is a snapshot: processes can fork during the scan, so a
 * caller that needs all of them repeats it until it has reaped the last one. That ends only if orphans cannot leave the
 * tree, that is, if `root` is pid 1 or a child subreaper.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * `process_fd` is the open directory /proc/PID, which identifies the process even if its pid is used again; `stat` is
 * the text of its stat file. Both are valid only during the call.
 */
typedef void (*descendant_fn)(void *ctx, int process_fd, const char *stat);
/*
 * `spared`: children of `root` that are left out, with everything below them. False: /proc could not be read
 * completely, so some may be missing.
 */
bool descendants_each(pid_t root, const pid_t *spared, size_t nspared, descendant_fn fn, void *ctx);
/*
 * Sends SIGKILL to each of them. False = none is alive. Zombies may be left: one that is traced by a process elsewhere
 * can be reaped only when that one has waited for it or is gone.
 */
bool descendants_kill(pid_t root, const pid_t *spared, size_t nspared);

#endif
