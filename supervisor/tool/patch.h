#ifndef BAILIFF_TOOL_PATCH_H
#define BAILIFF_TOOL_PATCH_H

/*
 * A patch as a list of changes to files. Two formats are read: the envelope that coding agents write
 *
 *	*** Begin Patch
 *	*** Add File: path          every line after it with +
 *	*** Delete File: path
 *	*** Update File: path       then, optionally, *** Move to: path, and hunks:
 *	@@ a line to look for first
 *	 context / -removed / +added
 *	*** End of File             the hunk belongs at the end
 *	*** End Patch
 *
 * and unified diffs (also git's, with /dev/null, renames and a/ b/ prefixes).
 */

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct err;

#define PATCH_FILES_MAX 1000u
#define PATCH_HUNKS_MAX 10000u

struct patch_line {
	char kind;        /* ' ', '-' or '+' */
	const char *text; /* in the patch, without its newline */
	size_t len;
};

struct patch_hunk {
	struct patch_line *lines;
	size_t nlines;
	const char *after; /* first find this line; NULL = none */
	size_t after_len;
	size_t old_line; /* line number in a unified diff, from 1; 0 = not given */
	bool at_end;     /* *** End of File */
	bool no_newline; /* the last line of the new text has no newline */
};

enum patch_change { PATCH_ADD, PATCH_DELETE, PATCH_UPDATE };

struct patch_file {
	enum patch_change change;
	char *path, *move_to; /* move_to NULL = not moved */
	struct patch_hunk *hunks;
	size_t nhunks;
};

struct patch {
	struct patch_file *files;
	size_t nfiles;
};

/* The lines point into `text`. ERR_INVALID names the line. On failure nothing is left to free. */
int patch_parse(const char *text, size_t len, struct patch *ret, struct err *e);
void patch_done(struct patch *p);
#define patch_auto __attribute__((cleanup(patch_done)))

/*
 * Applies hunks to the text of a file. A hunk applies at its line number, else at the nearest match of its old lines,
 * else at the nearest match without trailing spaces. If every line of the text ends with a carriage return and the hunk
 * has none, added lines get one. ERR_CONFLICT names the hunk.
 */
int patch_text(const struct patch_file *f, const char *old, size_t old_len, struct buf *ret, struct err *e);

#endif
