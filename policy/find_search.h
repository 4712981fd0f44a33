#ifndef BAILIFF_POLICY_FIND_SEARCH_H
#define BAILIFF_POLICY_FIND_SEARCH_H

/*
 * Where a `find` searches, and which names the files have that it prints, removes or gives to a command. A rule about
 * .env does not concern `find src -name '*.c' -exec grep x {} +`.
 */

#include "policy/args.h"

struct shell_arena;

#define FIND_SEARCH_NAMES_MAX 64u /* more names are any name: each is compared with every rule */

struct find_search {
	const struct command_word *start; /* count words; without any it is the working directory */
	size_t count;
	size_t expression; /* index of the first word behind them */
	const char *const *name;
	size_t nnames; /* globs, of which each file matches one; 0: any name */
};

const struct find_search *find_search_of(const struct command_word *word, size_t count, struct shell_arena *arena);
/* Whether the word of an expression has a value in the next word, which then is no test or action. */
bool find_search_takes_value(const char *word);
/* Whether all names are those of files, so that nothing is below what is found. */
bool find_search_finds_files(const struct find_search *s);
/* What a word with {} is in a command that find runs: some path below the folders that are searched. */
struct command_word find_search_file(const struct find_search *s, const struct command_word *w,
				     struct shell_arena *arena);

#endif
