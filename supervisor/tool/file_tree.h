#ifndef BAILIFF_TOOL_FILE_TREE_H
#define BAILIFF_TOOL_FILE_TREE_H

/*
 * The regular files below a directory, for glob and grep: depth first, sorted by name in each directory, so that equal
 * trees give equal results. Links are not followed. Skipped are .git and, unless requested, what .gitignore files
 * exclude: those in the tree, and those between it and the root of its repository.
 *
 * Patterns: * and ? stop at a slash, [a-z] is a class, ** as a component is any number of directories, {a,b} are
 * alternatives. A pattern without a slash applies to names in every directory.
 */

#include <stdbool.h>
#include <stddef.h>

struct err;

struct path_pattern {
	char **alternative;
	size_t count;
};
int path_pattern_init(struct path_pattern *p, const char *field, const char *text, struct err *e);
/* `path` is relative to the directory that the pattern applies to. */
bool path_pattern_matches(const struct path_pattern *p, const char *path);
void path_pattern_done(struct path_pattern *p);
/* One alternative, without braces. */
bool path_glob(const char *pattern, const char *path);

/* A file of the tree. `shown` begins like the start that was given, `below` is relative to it. False ends the walk. */
struct tree_file {
	const char *path, *shown, *below;
};
typedef bool file_tree_fn(void *ctx, const struct tree_file *f);

struct file_tree {
	const char *start; /* a directory, or one file */
	bool ignored_too;  /* also what .gitignore files exclude */
	file_tree_fn *visit;
	void *ctx;
	bool truncated; /* result: the limits on entries or depth were reached */
};
/* ERR_NOT_FOUND or ERR_SYS if there is no such start; directories that cannot be read are skipped. */
int file_tree_walk(struct file_tree *t, struct err *e);

#endif
