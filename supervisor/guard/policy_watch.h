#ifndef BAILIFF_GUARD_POLICY_WATCH_H
#define BAILIFF_GUARD_POLICY_WATCH_H

/*
 * Reports when a policy file was written, replaced, created (also with link(2)) or removed, and when a directory of its
 * path was created, replaced or removed. The directories are watched (inotify), since editors replace files. It is only
 * a hint to reload the policy: the target of a symbolic link elsewhere is not watched; SIGHUP still reloads that.
 */

#include <stdbool.h>
#include <stddef.h>

/* `files`: absolute paths, NULL = none. Returns −1 if nothing can be watched. */
int policy_watch_open(const char *const *files, size_t n);
/* Reads the queued events; true if one of the files was touched. If directories were replaced, *fd is another one. */
bool policy_watch_touched(int *fd, const char *const *files, size_t n);

#endif
