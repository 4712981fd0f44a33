#ifndef BAILIFF_POLICY_FILE_NAME_H
#define BAILIFF_POLICY_FILE_NAME_H

/* What the text of a name says about the file. Nothing is looked up. */

#include <stdbool.h>

struct shell_arena;

/*
 * Whether a name, or a glob of names, is usually that of a file and not of a folder: .env and .env.local, or it has an
 * extension.
 */
bool file_name_is_usual(const char *name);
/* The last part of a path. */
const char *file_name_of(const char *path);
/*
 * A glob for the last names of the paths that a pattern matches whose * crosses slashes, such as that of find -path: a
 * name ends as the pattern does.
 */
const char *file_name_of_pattern(const char *pattern, struct shell_arena *arena);

#endif
