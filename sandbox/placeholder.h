#ifndef BAILIFF_SANDBOX_PLACEHOLDER_H
#define BAILIFF_SANDBOX_PLACEHOLDER_H

/*
 * How a placeholder is recognised: an empty file or directory on the host that stands for a path which does not exist,
 * as long as sandboxes need something to mount on (supervisor/spawner/placeholder_helper.h). Checks whether a path
 * exists must ignore placeholders: one is removed when the last command that needs it ends, with whatever was mounted
 * on it.
 */

#include <stdbool.h>
#include <sys/stat.h>

/* Modes that nothing else uses. */
#define PLACEHOLDER_FILE_MODE (S_ISVTX | 0400)
#define PLACEHOLDER_FOLDER_MODE (S_ISVTX | 0500)

static inline bool placeholder_is(const struct stat *st)
{
	return (S_ISREG(st->st_mode) && (st->st_mode & 07777) == PLACEHOLDER_FILE_MODE && st->st_size == 0) ||
	       (S_ISDIR(st->st_mode) && (st->st_mode & 07777) == PLACEHOLDER_FOLDER_MODE);
}

#endif
