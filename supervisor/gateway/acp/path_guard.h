#ifndef BAILIFF_GATEWAY_PATH_GUARD_H
#define BAILIFF_GATEWAY_PATH_GUARD_H

/*
 * Detects whether a path named the same file during an interval, while another program opens it by its name and
 * processes that are not trusted may exchange its directories for links.
 *
 * Every directory of the path is watched (inotify), from the root down, and only then the path is resolved, without
 * following links. A directory entry is changed under the lock of its directory, which is released after the event was
 * queued. So if the path still names the file in the end, and no event about one of its names has arrived, then it
 * named the file all the time. A directory that this user cannot write need not be watched: a sandbox of the same user
 * cannot write it either.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PATH_GUARD_MAX 64 /* components */

struct path_guard {
	int watch; /* inotify; −1 = not active */
	char *path;
	uint64_t device, inode;
	struct {
		int wd;
		const char *name; /* in `path`, up to the next slash */
	} entry[PATH_GUARD_MAX];
	size_t nentries;
};

/* False: `path` is not a path without links to this regular file, or it cannot be watched. */
bool path_guard_begin(struct path_guard *g, const char *path, uint64_t device, uint64_t inode);
/* True: from the return of path_guard_begin until now the path named the file. Ends the guard. */
bool path_guard_end(struct path_guard *g);
void path_guard_done(struct path_guard *g);

#endif
