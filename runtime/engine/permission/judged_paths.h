#ifndef BAILIFF_ENGINE_JUDGED_PATHS_H
#define BAILIFF_ENGINE_JUDGED_PATHS_H

/* The paths that a start of a tool names, absolute, with their access: what rules about files are matched against. */

#include "policy/command_analysis.h"

#include <stddef.h>

struct start_request;

struct judged_paths {
	struct command_path *path;
	char **text;
	size_t count;
};

/* Relative paths are those of cwd. */
void judged_paths_make(const struct start_request *r, const char *cwd, struct judged_paths *ret);
void judged_paths_done(struct judged_paths *p);

#endif
