#ifndef BAILIFF_POLICY_WRAPPER_H
#define BAILIFF_POLICY_WRAPPER_H

/* Programs that run a command which is in their own words: what that command is (wrappers.def). */

#include "policy/args.h"

struct shell_arena;

#define WRAPPER_INNER_MAX 16

struct wrapper_inner {
	const struct command_word *word; /* program and arguments … */
	size_t count;
	const char *text; /* … or text for a shell */
	bool bash_only;   /* for a shell that is bash for certain */
};

struct wrapper_found {
	bool wraps; /* it is a wrapper, whether or not it has something inside */
	bool transparent, privileged;
	bool remote;               /* what is inside runs on another machine */
	const char *const *assign; /* NAME=value that it sets */
	size_t nassign;
	struct wrapper_inner inner[WRAPPER_INNER_MAX];
	size_t ninner;
	unsigned unknown; /* COMMAND_UNKNOWN(…) */
	bool moves;       /* to another folder: … */
	const char *cwd;  /* … this one; NULL: not known */
	bool reads_stdin; /* a shell that takes its commands from standard input */
};

void wrapper_find(const struct command_word *word, size_t count, struct shell_arena *arena, struct wrapper_found *ret);

#endif
