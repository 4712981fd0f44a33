#ifndef BAILIFF_POLICY_READING_H
#define BAILIFF_POLICY_READING_H

/* Inside of understand.c and what it calls: one command line while it is being understood. */

#include "policy/args.h"
#include "policy/shell/arena.h"
#include "policy/shell/shell.h"
#include "policy/understand.h"

struct computed_name;

/* computed.c: names that arithmetic uses, and what they may be */
struct computed {
	struct computed_name *name;
	size_t count, looks;
	bool open; /* it uses something of which nothing is known */
};

struct reading {
	struct command_facts *facts;
	struct shell_arena *arena;
	const struct understand_options *o;
	const char *workspace;
	size_t budget;     /* bytes of text that may still be read */
	bool home_changed; /* the text sets HOME */
	struct computed computed;
};

/* One simple command while facts are taken from it. */
struct reading_command {
	size_t index; /* in facts */
	const struct command_args *args;
	const struct shell_redirect *redirect;
	size_t nredirects;
	const char *cwd; /* NULL: not known */
};

static inline struct command_simple *reading_simple(const struct reading *r, size_t index)
{
	return &r->facts->command[index];
}

/* understand.c: a word of the shell, with the home folder put in where it is known */
struct command_word reading_word(struct reading *r, const struct shell_word *w);

/* paths.c */
/* Returns the roles of its operands (paths.def); NULL: no row is about it. */
const char *paths_of_command(struct reading *r, const struct reading_command *c);
bool paths_has_role(const char *roles, size_t i, size_t n); /* operand i of n is a path */
void paths_of_redirects(struct reading *r,
			const struct reading_command *c); /* only these: of what is judged elsewhere */
/* From cwd, without . and ..; NULL: not known */
const char *paths_absolute(struct reading *r, const char *cwd, const char *path);
/* What `cd` with these operands makes of cwd; NULL: not known. */
const char *paths_after_cd(struct reading *r, const struct command_args *a, const char *cwd);
bool paths_harmless_target(const char *path); /* /dev/null and the like */

/* named.c */
void named_of_command(struct reading *r, const struct reading_command *c, const char *roles, bool wraps);
void named_of_assignment(struct reading *r, size_t index, const char *cwd, const struct shell_word *value);
void named_of_script(struct reading *r, const struct shell_script *s, const char *cwd); /* what loops are given */

/* network.c */
void network_of_command(struct reading *r, const struct reading_command *c);

/* harm.c */
void harm_of_command(struct reading *r, const struct reading_command *c);
void harm_raise(struct reading *r, size_t index, enum command_harm level, const char *impact, const char *advice);
void harm_of_line(struct reading *r,
		  const struct shell_script *s); /* what only shows in the whole: pipes into shells, fork bombs */

/* computed.c */
void computed_text(struct reading *r, const char *text, size_t len);         /* of an expression */
void computed_value(struct reading *r, const char *name, const char *value); /* as written; NULL: not known */
void computed_of_script(struct reading *r, const struct shell_script *s);
void computed_of_command(struct reading *r, const struct command_args *a);
bool computed_is_open(const struct computed *c); /* something may be run by computing */

/* traits.c */
void traits_of_command(struct reading *r,
		       const struct reading_command *c); /* read-only, code, remote, options that execute */
void traits_of_text(struct reading *r, const struct shell_script *s); /* what is of no command: for PATH in … */
bool traits_does_more(const struct command_args *a);                  /* a wrapper, than to run what is inside */
bool traits_is_system_program(const char *word); /* a plain name, or a path in the system's folders */
/* For this command alone, and with this value as written: IFS=: read x; PYTHONPATH=src pytest, which runs the project's
 * code anyway. */
bool traits_is_harmless(struct reading *r, size_t index, const char *name, const char *plain, const char *cwd);
void traits_of_name(
	struct reading *r,
	const char *name); /* a variable gets some value, by no command in particular; NULL: not known which */
void traits_of_assignment(struct reading *r, size_t index, const char *name,
			  const char *value); /* value NULL: not known */

#endif
