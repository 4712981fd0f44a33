#ifndef BAILIFF_POLICY_ARGS_H
#define BAILIFF_POLICY_ARGS_H

/*
 * The words of one command, parsed as its own option parser would: options, their values, operands. Which options take
 * a value is in option_values.def.
 *
 * The tables of this folder (harms.def, readonly.def, command_paths.def …) begin with a pattern on such words:
 *
 *   rm|unlink            the program is one of these names; * ? as in globs
 *   -r|-R|--recursive    has one of these options, in a cluster (-fr) or alone; long ones also abbreviated (--rec, --r)
 *   =push|fetch          the next operand is one of these: `git =remote =remove`; * ? as in globs
 *   @of=*                some word after the program matches
 *   ^*drop table*        the same, ignoring case
 *   #2                   has at least two operands
 *   ~--version|-V        the only word after the program is one of these
 *   !…                   negates the rest of the term; false if unknown words could change the result
 *
 * All terms of a pattern must be true. An unknown word never matches a term.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct find_search;
struct shell_arena;
struct shell_word;

struct command_word {
	const char *value;               /* NULL: unknown */
	const char *plain;               /* with expansions as written; never NULL */
	unsigned unknown;                /* enum shell_unknown */
	bool many;                       /* may expand to several words, or to none */
	bool lead;                       /* the first character of `plain` is certain */
	const struct shell_word *from;   /* the word of the shell; NULL: it is not one */
	const struct find_search *found; /* it is a file that find finds there; NULL: it is not */
};

struct command_option {
	char letter;      /* or … */
	const char *name; /* … the name of a long one, without dashes; may be abbreviated */
	size_t name_len;
	const char *value;                     /* in the same word or the next; NULL: none, or unknown */
	const struct command_word *value_word; /* if the value is a separate word … */
	const struct command_word *word;       /* … otherwise the word with the option */
};

struct command_args {
	const struct command_word *word;
	size_t count;
	const char *name; /* of the program, without directories; NULL: unknown */
	struct command_option *option;
	size_t noptions;
	const struct command_word **operand;
	size_t noperands;
	uint64_t letters[2]; /* the set of option letters */
	bool open;           /* an unknown word could be an option, or several words */
	bool splits;         /* an unknown word may be split into several words, or vanish */
};

/* `word` is borrowed and must outlive `a`; the rest is allocated in the arena. */
void args_init(struct command_args *a, const struct command_word *word, size_t count, struct shell_arena *arena);
bool args_match(const struct command_args *a, const char *pattern);
/* Matches only the names of the pattern: a quick test to skip a row. */
bool args_named(const char *name, const char *pattern);
/* Whether a list separated by blanks contains the word of n bytes. */
bool args_word_in(const char *list, const char *word, size_t n);
/* The first characters of the pattern's names, as a set of their lower six bits; never empty. */
uint64_t args_first_characters(const char *pattern);
const struct command_option *args_option(const struct command_args *a, char letter, const char *name);
const char *args_basename(const char *path);
/* name=value, as before a command. */
bool args_is_assignment(const char *s);
/* Whether a path is of an open descriptor, such as /dev/stdin, in any spelling: what it has is in no file. */
bool args_is_descriptor(const char *path);

/*
 * False: the pattern does not name this program. `first` belongs to the row of a table; it is 0 at first, and then has
 * the first characters of the row's names, so that most rows are skipped without a look at their text.
 */
static inline bool args_may_name(const char *name, const char *pattern, uint64_t *first)
{
	uint64_t set = __atomic_load_n(first, __ATOMIC_RELAXED);

	if (!set) {
		set = args_first_characters(pattern);
		__atomic_store_n(first, set, __ATOMIC_RELAXED);
	}
	return set >> (*name & 63) & 1;
}

#endif
