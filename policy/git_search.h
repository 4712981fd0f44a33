#ifndef BAILIFF_POLICY_GIT_SEARCH_H
#define BAILIFF_POLICY_GIT_SEARCH_H

/*
 * Which files a git command prints: those that git tracks, or only some of them. `git diff src/x.c` is not about .env,
 * `git diff` may be, and `git diff --stat` prints no file. The path of REVISION:PATH is not in here (path_words.c).
 */

#include "policy/args.h"

struct shell_arena;

struct git_search {
	bool prints;                      /* the content of files */
	bool greps;                       /* it is git grep */
	bool all;                         /* … of any file of the repository; otherwise only of npaths … */
	const struct command_word **path; /* … these, which are paths */
	size_t npaths;
};

struct git_search git_search_of(const struct command_word *word, size_t count, struct shell_arena *arena);

#endif
