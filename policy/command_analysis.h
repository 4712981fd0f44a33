#ifndef BAILIFF_POLICY_UNDERSTAND_H
#define BAILIFF_POLICY_UNDERSTAND_H

/*
 * What a command would do, from its text alone. Pure: nothing is run, opened or looked up.
 *
 * The line (or argv) is split into simple commands. Wrappers (wrappers.def) are unwrapped: `sudo sh -c 'rm -rf x'`
 * gives `sudo sh -c …`, `sh -c …` and `rm -rf x`, the inner ones with their `parent`. A rule that denies or asks is
 * matched against all of them; allow rules must cover every command that is not COMMAND_TRANSPARENT (env, timeout, sh
 * -c …, which only run what is listed anyway).
 *
 * What cannot be determined is reported, never guessed: `unknown` has a bit for each reason (unknowns.def), per command
 * and for the whole line. Such a line may do anything: ask, do not allow. Some reasons are inherent in a program
 * (COMMAND_UNKNOWN_COVERED: ssh, python -c, source) and covered by a rule that allows just that command. Unknown words
 * (variables, substitutions, globs) are NULL in argv and do not make a command unknown by themselves; the tables treat
 * them as anything, so a command with such words is read_only only if its words do not matter.
 *
 * Where sh and bash parse a text differently, both results are listed (shell.h).
 *
 * Paths are made absolute textually: from cwd, as if every preceding `cd` succeeded; symbolic links are not resolved.
 * The sandbox enforces; this explains.
 */

#include <stdbool.h>
#include <stddef.h>

struct shell_arena;

#define COMMAND_COMMANDS_MAX 2000 /* more than that is COMMAND_UNKNOWN_TOO_MUCH */
#define COMMAND_NESTING_MAX 16    /* sh -c in sh -c … */

enum command_unknown {
#define UNKNOWN(NAME, name, covered, text) COMMAND_UNKNOWN_BIT_##NAME,
#include "policy/unknowns.def"
#undef UNKNOWN
	COMMAND_UNKNOWN_COUNT,
};
#define COMMAND_UNKNOWN(NAME) (1u << COMMAND_UNKNOWN_BIT_##NAME)
enum {
#define UNKNOWN(NAME, name, covered, text) COMMAND_UNKNOWN_COVERS_##NAME = (covered) << COMMAND_UNKNOWN_BIT_##NAME,
#include "policy/unknowns.def"
#undef UNKNOWN
	COMMAND_UNKNOWN_COVERED = 0
#define UNKNOWN(NAME, name, covered, text) | COMMAND_UNKNOWN_COVERS_##NAME
#include "policy/unknowns.def"
#undef UNKNOWN
};

/* What is known of a simple command, as bits. */
enum command_flag {
	COMMAND_WRAPPER = 1 << 0,       /* runs another command, which is in the list too */
	COMMAND_TRANSPARENT = 1 << 1,   /* … and changes nothing about it that a rule could mind */
	COMMAND_READ_ONLY = 1 << 2,     /* readonly.def: it and its redirections only read */
	COMMAND_FUNCTION_CALL = 1 << 3, /* calls a function of this text, whose body is in the list */
	COMMAND_CODE = 1 << 4,          /* carries or runs a program in another language: python -c, awk, make */
	COMMAND_REMOTE = 1 << 5,        /* what it runs, runs elsewhere: ssh, docker */
	COMMAND_EXECUTES =
		1 << 6, /* a variable or option makes it run something else: LD_PRELOAD=…, git -c core.pager=… */
	COMMAND_PRIVILEGED = 1 << 7, /* as another user: sudo, su, and what runs below them */
	COMMAND_NETWORK = 1 << 8,    /* network.def: talks to the network */
	COMMAND_ELSEWHERE = 1 << 9,  /* runs on another machine, as text of ssh: it can be refused; the rule that allows
					ssh allows it */
};

/* How bad it would be. */
enum command_harm { COMMAND_HARMLESS, COMMAND_RISKY, COMMAND_DESTRUCTIVE, COMMAND_CATASTROPHIC };

struct command_simple {
	const char *name;          /* of the program, without folders; NULL if not known */
	const char *const *argv;   /* argc of them; NULL where a word is not known */
	const char *const *plain;  /* the same, with unknown words as written */
	size_t argc;               /* 0: only assignments and redirections */
	size_t operand;            /* index of the first word behind the program that is no option; 0: there is none */
	const char *text;          /* the words, quoted where needed: what rules match and people see */
	const char *writes;        /* its redirections into files, written alike; NULL: there are none */
	const char *const *assign; /* "NAME=value" before the command, unknown values as written */
	size_t nassign;
	int parent;                  /* index of the wrapper, −1: none */
	const char *const *wrappers; /* names of the wrappers around it, the outermost first */
	size_t nwrappers;
	unsigned context; /* enum shell_context of policy/shell/shell.h */
	unsigned flags;   /* enum command_flag */
	unsigned unknown; /* COMMAND_UNKNOWN(…) */
	enum command_harm harm;
	const char *impact;  /* what would be lost, with harm */
	const char *advice;  /* how to get it back or avoid it, with harm */
	size_t line, column; /* in the text; 0 for argv */
};

/* What happens to a path, as bits. */
enum command_access {
	COMMAND_READS = 1 << 0,
	COMMAND_WRITES = 1 << 1,
	COMMAND_DELETES = 1 << 2,    /* removed, moved away or overwritten whole */
	COMMAND_RECURSES = 1 << 3,   /* and everything below */
	COMMAND_REDIRECTED = 1 << 4, /* by the shell: no word of the command names it */
};

struct command_path {
	const char *
		path; /* absolute and clean; if not exact, what is known of it: as written where even that is nothing */
	const char *word; /* as the command has it */
	bool exact;       /* false: has a variable, a glob, or a folder that is not known */
	bool outside;     /* not in the workspace; true as well if that is not known */
	unsigned access;
	size_t command; /* index */
};

struct command_host {
	const char *host;   /* NULL: not in the words */
	unsigned port;      /* 0: the usual one */
	const char *intent; /* download upload install shell connect listen */
	size_t command;
};

struct command_facts {
	struct command_simple *command;
	size_t ncommands;
	struct command_path *path;
	size_t npaths;
	struct command_path *named; /* paths in words of which it is not known what is done with them; access: perhaps
				       read, perhaps written */
	size_t nnamed;
	struct command_host *host;
	size_t nhosts;
	unsigned unknown; /* of all commands together, and of the line */
	unsigned flags; /* any command's; COMMAND_READ_ONLY only if it is true of all, nothing is unknown, and there is
			   one */
	enum command_harm harm; /* the worst */
	const char *impact;     /* of the worst */
	const char *advice;
	const char
		*variable; /* the first that is set and makes programs run something else (exec_vars.def); NULL: none */
	const char *const
		*env; /* "NAME=value" of the caller's that do, to be shown with the command; the judge's to fill in */
	size_t nenv;
	char error[160]; /* "1:7: …" if the text is not well formed; the commands up to there are listed */
	struct shell_arena *arena;
};

struct analysis_options {
	const char *cwd;        /* absolute, clean */
	const char *workspace;  /* absolute, clean; NULL: cwd */
	const char *home;       /* what ~ stands for; NULL: not known */
	const char *const *env; /* "NAME=value" that the caller sets for the command */
	size_t nenv;
	bool terminal; /* it has one, at which somebody may type */
};

/* A line for sh -c. Never fails: what cannot be read is unknown. */
void command_analyse_line(const char *line, size_t len, const struct analysis_options *o, struct command_facts *ret);
/* A program and its arguments. */
void command_analyse_argv(const char *const *argv, size_t argc, const struct analysis_options *o,
			  struct command_facts *ret);
void command_facts_done(struct command_facts *f);
#define command_facts_auto __attribute__((cleanup(command_facts_done)))

/* Would programs run or load something else with this variable? value NULL: it is not known. */
bool command_variable_matters(const char *name, const char *value);
/* Of a PATH: every folder is absolute and none is in (or is) a folder of `writable`, count of them. */
bool command_path_is_fixed(const char *value, const char *const *writable, size_t count);

#endif
