#ifndef BAILIFF_GUARD_POLICY_WATCH_H
#define BAILIFF_GUARD_POLICY_WATCH_H

/*
 * Reports when a policy file was written, replaced, created or removed. The directories are watched (inotify), since
 * editors replace files. It is only a hint to reload the policy: a directory that does not exist at the start, or the
 * target of a symbolic link elsewhere, is not watched; SIGHUP still reloads those.
 */

#include <stdbool.h>
#include <stddef.h>

/* `files`: absolute paths, NULL = none. Returns −1 if nothing can be watched. */
int policy_watch_open(const char *const *files, size_t n);
/* Reads the queued events; true if one of the files was touched. */
bool policy_watch_touched(int fd, const char *const *files, size_t n);

#endif
