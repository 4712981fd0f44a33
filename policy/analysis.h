#ifndef BAILIFF_POLICY_READING_H
#define BAILIFF_POLICY_READING_H

/* Inside of command_analysis.c and what it calls: one command line while it is being understood. */

#include "policy/args.h"
#include "policy/command_analysis.h"
#include "policy/shell/arena.h"
#include "policy/shell/shell.h"

struct arithmetic_name;

/* arithmetic.c: names that arithmetic uses, and what they may be */
struct arithmetic {
	struct arithmetic_name *name;
	size_t count, looks;
	bool open; /* it uses something of which nothing is known */
};

struct analysis {
	struct command_facts *facts;
	struct shell_arena *arena;
	const struct analysis_options *o;
	const char *workspace;
	size_t budget;     /* bytes of text that may still be read */
	bool home_changed; /* the text sets HOME */
	struct arithmetic arithmetic;
};

/* One simple command while facts are taken from it. */
struct analysis_command {
	size_t index; /* in facts */
	const struct command_args *args;
	const struct shell_redirect *redirect;
	size_t nredirects;
	const char *cwd; /* NULL: not known */
};

static inline struct command_simple *analysis_simple(const struct analysis *r, size_t index)
{
	return &r->facts->command[index];
}

/* command_analysis.c: a word of the shell, with the home folder put in where it is known */
struct command_word analysis_word(struct analysis *r, const struct shell_word *w);

/* command_paths.c */
/* Returns the roles of its operands (command_paths.def); NULL: no row is about it. */
const char *command_paths_of_command(struct analysis *r, const struct analysis_command *c);
bool command_paths_has_role(const char *roles, size_t i, size_t n); /* operand i of n is a path */
void command_paths_of_redirects(struct analysis *r,
				const struct analysis_command *c); /* only these: of what is judged elsewhere */
/* From cwd, without . and ..; NULL: not known */
const char *command_paths_absolute(struct analysis *r, const char *cwd, const char *path);
/* What `cd` with these operands makes of cwd; NULL: not known. */
const char *command_paths_after_cd(struct analysis *r, const struct command_args *a, const char *cwd);
bool command_paths_harmless_target(const char *path); /* /dev/null and the like */

/* path_words.c */
void path_words_of_command(struct analysis *r, const struct analysis_command *c, const char *roles, bool wraps);
void path_words_of_assignment(struct analysis *r, size_t index, const char *cwd, const struct shell_word *value);
void path_words_of_script(struct analysis *r, const struct shell_script *s, const char *cwd); /* what loops are given */

/* network.c */
void network_of_command(struct analysis *r, const struct analysis_command *c);

/* harm.c */
void harm_of_command(struct analysis *r, const struct analysis_command *c);
void harm_raise(struct analysis *r, size_t index, enum command_harm level, const char *impact, const char *advice);
void harm_of_line(struct analysis *r,
		  const struct shell_script *s); /* what only shows in the whole: pipes into shells, fork bombs */

/* arithmetic.c */
void arithmetic_text(struct analysis *r, const char *text, size_t len);         /* of an expression */
void arithmetic_value(struct analysis *r, const char *name, const char *value); /* as written; NULL: not known */
void arithmetic_of_script(struct analysis *r, const struct shell_script *s);
void arithmetic_of_command(struct analysis *r, const struct command_args *a);
bool arithmetic_is_open(const struct arithmetic *c); /* something may be run by computing */

/* command_class.c */
void command_class_of_command(struct analysis *r,
			      const struct analysis_command *c); /* read-only, code, remote, options that execute */
void command_class_of_text(struct analysis *r, const struct shell_script *s); /* what is of no command: for PATH in … */
bool command_class_does_more(const struct command_args *a); /* a wrapper, than to run what is inside */
bool command_class_is_system_program(const char *word);     /* a plain name, or a path in the system's folders */
/* For this command alone, and with this value as written: IFS=: read x; PYTHONPATH=src pytest, which runs the project's
 * code anyway. */
bool command_class_is_harmless(struct analysis *r, size_t index, const char *name, const char *plain, const char *cwd);
void command_class_of_name(
	struct analysis *r,
	const char *name); /* a variable gets some value, by no command in particular; NULL: not known which */
void command_class_of_assignment(struct analysis *r, size_t index, const char *name,
				 const char *value); /* value NULL: not known */

#endif
