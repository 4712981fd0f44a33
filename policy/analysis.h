#ifndef BAILIFF_POLICY_ANALYSIS_H
#define BAILIFF_POLICY_ANALYSIS_H

/*
 * One command line while it is being analysed: the state that command_analysis.c and the files below it share. Private
 * to policy/. Each file adds one kind of finding to `facts`; command_analysis.c calls them for every simple command.
 */

#include "policy/args.h"
#include "policy/command_analysis.h"
#include "policy/shell/arena.h"
#include "policy/shell/shell.h"

struct arithmetic_name;
struct variable;

/* The names that arithmetic expressions use, and whether their values are known to be numbers (arithmetic.c). */
struct arithmetic {
	struct arithmetic_name *name;
	size_t count, looks;
	bool open; /* an expression uses an unknown value */
};

/* The variables that the text sets (variables.h). */
struct variables {
	struct variable *variable;
	size_t count, work, texts;
	bool lost; /* it may set any */
};

struct analysis {
	struct command_facts *facts;
	struct shell_arena *arena;
	const struct analysis_options *o;
	const char *workspace;
	const char *cwd;    /* of the command that is analysed; NULL: unknown */
	size_t budget;      /* bytes of text that may still be parsed */
	bool home_changed;  /* the text sets HOME */
	unsigned pipelines; /* numbers that are taken */
	struct arithmetic arithmetic;
	struct variables variables;
};

/* One simple command while it is analysed. */
struct analysis_command {
	size_t index; /* in facts */
	const struct command_args *args;
	const struct shell_redirect *redirect;
	size_t nredirects;
	const char *cwd;         /* NULL: unknown */
	const char *const *name; /* globs of nnames names: of what is below a folder, it uses files with one of these */
	size_t nnames;           /* 0: any */
};

static inline struct command_simple *analysis_simple(const struct analysis *r, size_t index)
{
	return &r->facts->command[index];
}

/* Converts a word of the shell, with the home directory inserted if it is known. */
struct command_word analysis_word(struct analysis *r, const struct shell_word *w);
/* The value of a part that refers to the home directory, if that is known. */
const char *analysis_known_part(const struct analysis *r, const struct shell_part *p);

/* ---- command_paths.c ---- */

/* Adds the paths that a command names. Returns the roles of its operands (command_paths.def); NULL: no row matches. */
const char *command_paths_of_command(struct analysis *r, const struct analysis_command *c);
/* Whether operand i of n is a path. */
bool command_paths_has_role(const char *roles, size_t i, size_t n);
/* Whether it is unknown if operand i of n is a path: the argument of a script. */
bool command_paths_may_be(const char *roles, size_t i, size_t n);
/* Adds only the paths of redirections: for commands whose operands are analysed elsewhere. */
void command_paths_of_redirects(struct analysis *r, const struct analysis_command *c);
/* Makes a path absolute, from cwd, and removes . and ..; NULL: unknown. */
const char *command_paths_absolute(struct analysis *r, const char *cwd, const char *path);
/* The working directory after `cd` with these operands; NULL: unknown. */
const char *command_paths_after_cd(struct analysis *r, const struct command_args *a, const char *cwd);
/* /dev/null and similar: writing there changes nothing. */
bool command_paths_harmless_target(const char *path);

/* ---- path_words.c: paths in words whose use is unknown ---- */

void path_words_of_command(struct analysis *r, const struct analysis_command *c, const char *roles, bool wraps);
void path_words_of_assignment(struct analysis *r, size_t index, const char *cwd, const struct shell_word *value);
/* The lists of `for` loops. */
void path_words_of_script(struct analysis *r, const struct shell_script *s, const char *cwd);

/* ---- listed_names.c ---- */

void listed_names_of_line(struct analysis *r);

/* ---- network.c ---- */

void network_of_command(struct analysis *r, const struct analysis_command *c);

/* ---- harm.c ---- */

void harm_of_command(struct analysis *r, const struct analysis_command *c);
/* Harm that only the whole line shows: pipes into shells, fork bombs. */
void harm_of_line(struct analysis *r, const struct shell_script *s);

/* ---- exec_variables.c ---- */

/* An assignment in front of one command; value NULL: unknown. */
void exec_variables_of_assignment(struct analysis *r, size_t index, const char *name, const char *value);
/* A variable that is set, but not for one particular command; NULL: its name is unknown. */
void exec_variables_of_name(struct analysis *r, const char *name);
/* Variables that the text sets without an assignment: for PATH in … */
void exec_variables_of_script(struct analysis *r, const struct shell_script *s);
/* Whether this word, behind `skip` bytes, adds to PATH only folders that the command cannot write. */
bool exec_variables_is_fixed_path(struct analysis *r, const char *name, const struct shell_word *w, size_t skip);
/*
 * Whether an assignment with this value as written is harmless for this command: IFS=: read x; PYTHONPATH=src pytest,
 * which runs the project's code anyway.
 */
bool exec_variables_is_harmless(struct analysis *r, size_t index, const char *name, const char *plain, const char *cwd);

/* ---- arithmetic.c ---- */

/* Adds a variable's value as written; NULL: unknown. */
void arithmetic_value(struct analysis *r, const char *name, const char *value);
/* Adds the subscripts in a name or a value; list: also those of its elements. */
void arithmetic_subscripts(struct analysis *r, const char *text, bool list);
void arithmetic_of_script(struct analysis *r, const struct shell_script *s);
void arithmetic_of_command(struct analysis *r, const struct command_args *a);
/* Whether evaluating an expression may run a command. */
bool arithmetic_is_open(const struct arithmetic *c);

/* ---- command_class.c ---- */

/* Sets flags and unknowns: read-only, code, remote, options that execute. */
void command_class_of_command(struct analysis *r, const struct analysis_command *c);
/* Whether a wrapper does more than run the inner command. */
bool command_class_does_more(const struct command_args *a);
/* Whether the program is a name without a directory, or a path in the system's directories. */
bool command_class_is_system_program(const char *word);

#endif
