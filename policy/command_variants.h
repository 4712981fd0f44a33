#ifndef BAILIFF_POLICY_COMMAND_VARIANTS_H
#define BAILIFF_POLICY_COMMAND_VARIANTS_H

/*
 * Other spellings of the command that a rule names. Only rules that deny or ask use them: an allow rule must match the
 * command as written.
 *
 *   git -C . push           options before the subcommand belong to the program: this is git push
 *   rm -r -f x, rm x -fr    options in another order, cluster or length: Bash(rm -rf:*) matches them
 *   npm run -s deploy       options between the words that Bash(npm run deploy:*) names
 *   gosu me rm x            the words of a program that is in no table, or of one that runs its operands
 *                           (launchers.def), contain another command; whether it runs is unknown
 *   mytool https://h/x      a host in the words of a program that is not known to connect to it
 */

#include "policy/args.h"
#include "policy/rule.h"

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct command_simple;

/*
 * Joins the program's name and the words from `from`; 0: all words as written. Returns where the known words end,
 * SIZE_MAX if all are known.
 */
size_t command_variants_join(const struct command_simple *c, size_t from, struct buf *out);

/* The same from the second operand, if the first may be the value of an unknown option: git --new-option x push. */
bool command_variants_second(const struct command_simple *c, struct buf *out);

typedef void command_variants_fn(void *ctx, const char *text);
/* Calls fn for each text in its words that may be a command of its own. */
void command_variants_each(const struct command_simple *c, command_variants_fn *fn, void *ctx);
/* Whether it may run its operands. Slow: check first whether a rule would apply. */
bool command_variants_may_run(const struct command_simple *c);

/* Whether a table covers the program and it is the system's: then its words and `unknown` show what it does. */
bool command_variants_is_seen(const struct command_simple *c);

#define COMMAND_VARIANTS_HOST_MAX 256
/*
 * The host of a URL that is the word, or that follows its first =; false: there is none, or the program only prints or
 * searches text.
 */
bool command_variants_host(const struct command_simple *c, const char *word, char ret[COMMAND_VARIANTS_HOST_MAX]);

/* Whether a pattern such as `rm -rf *` or `npm run deploy *` consists of words, with options or several operands. */
bool command_variants_has_words(const char *pattern);

/* A command whose words are parsed once, for many patterns: initialise `command`. */
struct command_variants_words {
	const struct command_simple *command;
	struct shell_arena *arena; /* NULL: not parsed yet */
	struct command_args args;
};

/* Whether an unknown word, from this one on, may be an option. */
bool command_variants_may_add_option(const struct command_simple *c, size_t from);
/* Whether the command has all options of the pattern, anywhere, and the same first operands. */
enum rule_match command_variants_words_match(struct command_variants_words *w, const char *pattern);
void command_variants_words_done(struct command_variants_words *w);

#endif
