#ifndef BAILIFF_POLICY_DISGUISE_H
#define BAILIFF_POLICY_DISGUISE_H

/*
 * Other spellings of the command that a rule names. Only rules that deny or ask use them: an allow rule must match the
 * command as written.
 *
 *   git -C . push           options before the subcommand are the program's own: it is git push
 *   rm -r -f x, rm x -fr    options in another order, cluster or length: Bash(rm -rf:*) is about them
 *   gosu me rm x            a program that is in no table, or one that runs what it is given (launchers.def), has the
 *                           words of another command: whether it
 *                           runs them is not known
 *   mytool https://h/x      a host in words of a program that is not known to reach it
 */

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct command_simple;

/* The words joined with blanks, those from the first operand on if `subcommand`; returns where the known ones end,
 * SIZE_MAX if all are. */
size_t command_variants_join(const struct command_simple *c, bool subcommand, struct buf *out);

/* The same from the second operand on, if the first may be the value of an option that is not known: git --new-option x
 * push. */
bool command_variants_second(const struct command_simple *c, struct buf *out);

typedef void command_variants_fn(void *ctx, const char *text);
/* Each text among its words that may be a command by itself. */
void command_variants_each(const struct command_simple *c, command_variants_fn *fn, void *ctx);
/* Whether it may run what it is given; slow, so look for a rule first. */
bool command_variants_may_run(const struct command_simple *c);

/* Whether a table is about the program, and it is the system's: what it does then shows in its words and in `unknown`.
 */
bool command_variants_is_seen(const struct command_simple *c);

#define COMMAND_VARIANTS_HOST_MAX 256
/* The host of a URL that the word, or what follows the first = of it, is; false: it is none, or the program only shows
 * or searches text. */
bool command_variants_host(const struct command_simple *c, const char *word, char ret[COMMAND_VARIANTS_HOST_MAX]);

/* A pattern such as `rm -rf *`, which begins with words and names options. */
bool command_variants_has_options(const char *pattern);
/* The command has all of its options, and the same first operands. */
bool command_variants_options_match(const char *pattern, const struct command_simple *c);

#endif
