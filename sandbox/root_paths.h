#ifndef BAILIFF_SANDBOX_ROOT_PATHS_H
#define BAILIFF_SANDBOX_ROOT_PATHS_H

/*
 * Paths where a command of root's must not write unless root has listed them, because writing there is equivalent to
 * being root; and the parts of them that it may read with root's ids. Enforced by the spawner
 * (supervisor/spawner/authority.c).
 */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* Whether it is in a system directory or contains one; the same for the usual locations of homes. */
bool root_path_is_system(const char *path);
bool root_path_is_home(const char *path);
/* Whether it is a value that account files use for accounts without a home. */
bool root_path_is_no_home(const char *path);
/* What the shipped profiles show, read-only, of root's own home. */
bool root_path_is_toolchain(const char *home, const char *path);
/* What they hide of that, one path per call; the cursor begins at 0, and false = no more. */
bool root_path_next_credentials(const char *home, size_t *cursor, char ret[PATH_MAX]);

#endif
