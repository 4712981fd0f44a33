#ifndef BAILIFF_BASE_PATH_H
#define BAILIFF_BASE_PATH_H

/*
 * Absolute paths as strings, compared by components, never by a prefix of bytes: "/home/anna" is not below "/home/an".
 * Only the text is considered. Symbolic links are the business of the code that opens the path.
 */

#include <limits.h>
#include <stdbool.h>

struct err;

/* Removes //, ., .. and a trailing /, like `cd`. ERR_INVALID if it is not absolute or too long. */
int path_clean(const char *path, char ret[PATH_MAX], struct err *e);
/* Whether path is dir or below it; both must be clean. */
bool path_within(const char *dir, const char *path);
/* For sorting: a directory comes before its content. */
int path_compare(const char *a, const char *b);
/* Replaces a path by its parent; false for "/". */
bool path_up(char path[PATH_MAX]);
/* Copies the component after the slash at *at and advances *at after it. −1 with ENAMETOOLONG. */
int path_step(const char **at, char name[NAME_MAX + 1]);

#endif
