#ifndef BAILIFF_SUPERVISOR_SPAWNER_DESCENDANTS_H
#define BAILIFF_SUPERVISOR_SPAWNER_DESCENDANTS_H

/*
 * The processes below one of them, as /proc shows them: children, their children, and so on. The list is a snapshot; a
 * caller that needs all of them repeats the scan until it has reaped the last one.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * `process_fd` is the open directory /proc/PID, which identifies the process even if its pid is used again; `stat` is
 * the text of its stat file. Both are valid only during the call.
 */
typedef void (*descendant_fn)(void *ctx, int process_fd, const char *stat);
/* `spared`: children of `root` that are left out, with everything below them. */
void descendants_each(pid_t root, const pid_t *spared, size_t nspared, descendant_fn fn, void *ctx);
/* Sends SIGKILL to each of them; false = there was none. */
bool descendants_kill(pid_t root, const pid_t *spared, size_t nspared);

#endif
