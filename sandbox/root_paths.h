#ifndef BAILIFF_SANDBOX_ROOT_PATHS_H
#define BAILIFF_SANDBOX_ROOT_PATHS_H

/*
 * Places where a command of root's writes nothing unless root has listed them, and what of them it may read with root's
 * ids: what is written there is as good as root. The spawner sees to that (supervisor/spawner/authority.c).
 */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* In a system folder, or around one; the same for the places where homes are as a rule. */
bool root_path_is_system(const char *path);
bool root_path_is_home(const char *path);
/* What stands in the list of accounts for those that have no home. */
bool root_path_is_no_home(const char *path);
/* What the shipped profiles show, read-only, of root's own home; and what of that they hide: false = there is no such
 * number. */
bool root_path_is_toolchain(const char *home, const char *path);
bool root_path_credentials(const char *home, size_t index, char ret[PATH_MAX]);

#endif
