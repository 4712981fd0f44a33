#ifndef BAILIFF_GUARD_POLICY_WATCH_H
#define BAILIFF_GUARD_POLICY_WATCH_H

/*
 * Says when a policy file was written, replaced, made or removed. The folders are watched (inotify), since editors
 * replace files. It is only a hint to load the policy again: a folder that is not there at the start, or a file that a
 * symbolic link leads to elsewhere, is not watched, and SIGHUP loads them as ever.
 */

#include <stdbool.h>
#include <stddef.h>

/* `files`: absolute paths, NULL = none. −1: nothing can be watched. */
int policy_watch_open(const char *const *files, size_t n);
/* Reads what came; true: one of the files was touched. */
bool policy_watch_touched(int fd, const char *const *files, size_t n);

#endif
