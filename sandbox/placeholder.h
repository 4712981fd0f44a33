#ifndef BAILIFF_SANDBOX_PLACEHOLDER_H
#define BAILIFF_SANDBOX_PLACEHOLDER_H

/*
 * How a placeholder is known: an empty file or folder that stands for a path which does not exist, on the host, for as
 * long as sandboxes need something to mount on (supervisor/spawner/placeholder_helper.h). Whoever asks whether a path
 * exists asks about the user's own; a placeholder goes when the last command that needs it ends, and whatever was
 * mounted on it goes too.
 */

#include <stdbool.h>
#include <sys/stat.h>

/* Modes that nobody gives to anything else. */
#define PLACEHOLDER_FILE_MODE (S_ISVTX | 0400)
#define PLACEHOLDER_FOLDER_MODE (S_ISVTX | 0500)

static inline bool placeholder_is(const struct stat *st)
{
	return (S_ISREG(st->st_mode) && (st->st_mode & 07777) == PLACEHOLDER_FILE_MODE && st->st_size == 0) ||
	       (S_ISDIR(st->st_mode) && (st->st_mode & 07777) == PLACEHOLDER_FOLDER_MODE);
}

#endif
