#ifndef BAILIFF_POLICY_WRAPPER_H
#define BAILIFF_POLICY_WRAPPER_H

/* Programs that run a command given in their own words: finds that command (wrappers.def). */

#include "policy/args.h"

struct shell_arena;

#define WRAPPER_INNER_MAX 16

struct wrapper_inner {
	const struct command_word *word; /* program and arguments … */
	size_t count;
	const char *text; /* … or text for a shell */
	bool bash_only;   /* the shell is certainly bash */
};

struct wrapper_found {
	bool wraps; /* it is a wrapper, whether or not it contains a command */
	bool transparent, privileged;
	bool remote;               /* the inner command runs on another machine */
	const char *const *assign; /* NAME=value that it sets */
	size_t nassign;
	struct wrapper_inner inner[WRAPPER_INNER_MAX];
	size_t ninner;
	unsigned unknown; /* COMMAND_UNKNOWN(…) */
	bool moves;       /* changes to another directory: … */
	const char *cwd;  /* … this one; NULL: unknown */
	bool reads_stdin; /* a shell that reads its commands from standard input */
};

void wrapper_find(const struct command_word *word, size_t count, struct shell_arena *arena, struct wrapper_found *ret);

#endif
