#ifndef BAILIFF_BASE_PATH_H
#define BAILIFF_BASE_PATH_H

/* Paths as texts: absolute ones only, compared component by component, never by prefix of bytes. */

#include <limits.h>
#include <stdbool.h>

struct err;

/* Without //, ., .. and a trailing /: what `cd` makes of it. ERR_INVALID if it is not absolute or too long. */
int path_clean(const char *path, char ret[PATH_MAX], struct err *e);
/* path is dir, or lies in it; both clean. */
bool path_within(const char *dir, const char *path);
/* For sorting: a folder comes before what is in it. */
int path_compare(const char *a, const char *b);
/* The parent, in place; false at "/". */
bool path_up(char path[PATH_MAX]);
/* `*at` stands before a slash: the name behind that, and `*at` goes behind the name. −1 with ENAMETOOLONG. */
int path_step(const char **at, char name[NAME_MAX + 1]);

#endif
