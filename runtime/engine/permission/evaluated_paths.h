#ifndef BAILIFF_ENGINE_EVALUATED_PATHS_H
#define BAILIFF_ENGINE_EVALUATED_PATHS_H

/*
 * The paths that a start of a tool, or a call without a process, names: absolute where that is possible, with their
 * access. Rules about files are matched against these. A relative path without a directory is not exact, so that rules
 * treat it with caution.
 */

#include "policy/command_analysis.h"

#include <stddef.h>

struct start_request;
struct tool_paths;

struct evaluated_paths {
	struct command_path *path;
	char **text;
	size_t count;
};

/* Relative paths are those of cwd; "" = unknown. `word` of a path refers to the request's or the call's text. */
void evaluated_paths_of_start(const struct start_request *r, const char *cwd, struct evaluated_paths *ret);
void evaluated_paths_of_call(const char *tool, const struct tool_paths *named, const char *cwd,
			     struct evaluated_paths *ret);
void evaluated_paths_done(struct evaluated_paths *p);

#endif
