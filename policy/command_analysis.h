#ifndef BAILIFF_POLICY_COMMAND_ANALYSIS_H
#define BAILIFF_POLICY_COMMAND_ANALYSIS_H

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

#define COMMAND_COMMANDS_MAX 2000 /* more commands are COMMAND_UNKNOWN_TOO_MUCH */
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

/* Properties of a simple command, as bits. */
enum command_flag {
	COMMAND_WRAPPER = 1 << 0,       /* runs another command, which is in the list as well */
	COMMAND_TRANSPARENT = 1 << 1,   /* … and changes nothing about it that matters to a rule */
	COMMAND_READ_ONLY = 1 << 2,     /* readonly.def: it and its redirections only read */
	COMMAND_FUNCTION_CALL = 1 << 3, /* calls a function that the text defines; its body is in the list */
	COMMAND_CODE = 1 << 4,          /* contains or runs a program in another language: python -c, awk, make */
	COMMAND_REMOTE = 1 << 5,        /* runs its command on another machine or in a container: ssh, docker */
	COMMAND_EXECUTES = 1 << 6, /* a variable or option makes it run other code: LD_PRELOAD=…, git -c core.pager=… */
	COMMAND_PRIVILEGED = 1 << 7, /* runs as another user: sudo, su, and the commands inside them */
	COMMAND_NETWORK = 1 << 8,    /* network.def: uses the network */
	COMMAND_ELSEWHERE = 1 << 9,  /* runs on another machine, as text of ssh: rules can deny it; the rule that allows
					ssh allows it */
};

/* The harm that a command would do. */
enum command_harm { COMMAND_HARMLESS, COMMAND_RISKY, COMMAND_DESTRUCTIVE, COMMAND_CATASTROPHIC };

/* Where its output goes, as bits. */
enum command_output {
	COMMAND_OUTPUT_STORED = 1 << 0, /* by a redirection into a file, or what may be one */
	COMMAND_ERRORS_STORED = 1 << 1, /* the error messages only */
	COMMAND_OUTPUT_MOVED = 1 << 2,  /* to another descriptor */
	COMMAND_FILE_WRITTEN = 1 << 3,  /* its words name a file that it writes */
};

struct command_simple {
	const char *name;          /* of the program, without directories; NULL: unknown */
	const char *const *argv;   /* argc elements; NULL for an unknown word */
	const char *const *plain;  /* the same, with unknown words as written */
	const bool *option;        /* argc elements: whether an unknown word may be an option, or expand to one */
	size_t argc;               /* 0: only assignments and redirections */
	size_t operand;            /* index of the first word after the program that is not an option; 0: none */
	size_t splits;             /* index of the first word that may be split into several, or vanish; 0: none */
	const char *text;          /* the words, quoted where needed: rules match this text, and people see it */
	const char *writes;        /* its redirections to files, in the same notation; NULL: none */
	const char *const *assign; /* "NAME=value" before the command, unknown values as written */
	size_t nassign;
	int parent;                  /* index of the wrapper; −1: none */
	const char *const *wrappers; /* names of the wrappers around it, outermost first */
	size_t nwrappers;
	unsigned context; /* enum shell_context of policy/shell/shell.h */
	/* As in struct shell_command, but numbered in the whole line. A wrapped command has the place of its wrapper.
	 */
	unsigned pipeline, stage, outermost;
	bool alone;
	unsigned output;  /* enum command_output */
	unsigned flags;   /* enum command_flag */
	unsigned unknown; /* COMMAND_UNKNOWN(…) */
	enum command_harm harm;
	const char *impact;  /* what would be lost; set with harm */
	const char *advice;  /* how to recover or avoid it; set with harm */
	size_t line, column; /* in the text; 0 for argv */
};

/* How a path is accessed, as bits. */
enum command_access {
	COMMAND_READS = 1 << 0,
	COMMAND_WRITES = 1 << 1,
	COMMAND_DELETES = 1 << 2,    /* removed, moved away or overwritten */
	COMMAND_RECURSES = 1 << 3,   /* including everything below it */
	COMMAND_REDIRECTED = 1 << 4, /* by a redirection of the shell: no word of the command names it */
	COMMAND_WITHIN = 1 << 5,     /* if it is a folder, some of the files below it; with RECURSES it is one */
	COMMAND_SEARCHED = 1 << 6,   /* some of the files below it: what find finds, what git tracks */
	COMMAND_LISTS = 1 << 7,      /* the names of everything below it, and not the files */
};

struct command_path {
	const char *path; /* absolute and clean; if not exact, the known part of it, or the path as written */
	const char *word; /* as written in the command */
	bool exact;       /* false: contains a variable, a glob, or an unknown directory */
	bool unknown;     /* may be any path: what a variable or a substitution in it expands to is not in the text */
	bool lost;        /* … or is, but the analysis has given up */
	bool outside;     /* not in the workspace; also true if that is unknown */
	unsigned access;
	const char *const *name; /* globs of nnames names: of what is below it, only files with one of these */
	size_t nnames;           /* 0: any */
	size_t command;          /* index */
};

struct command_host {
	const char *host;   /* NULL: not in the words */
	unsigned port;      /* 0: the default port */
	const char *intent; /* download upload install shell connect listen */
	size_t command;
};

struct command_facts {
	struct command_simple *command;
	size_t ncommands;
	struct command_path *path;
	size_t npaths;
	struct command_path *named; /* paths in words whose use is unknown; access: possibly read, possibly written */
	size_t nnamed;
	struct command_host *host;
	size_t nhosts;
	bool crosses;     /* output may reach any command of the line, not only those of its pipeline */
	unsigned unknown; /* of all commands and of the line */
	unsigned flags; /* of any command; COMMAND_READ_ONLY only if all commands have it, nothing is unknown, and there
			   is at least one */
	enum command_harm harm; /* the worst */
	const char *impact;     /* of the worst */
	const char *advice;
	const char
		*variable; /* the first variable set that makes programs run other code (exec_vars.def); NULL: none */
	const char *const *env; /* "NAME=value" of such variables of the caller's, shown with the command; filled in by
				   the caller of the analysis */
	size_t nenv;
	char error[160]; /* "1:7: …" if the text is malformed; the commands before that position are listed */
	struct shell_arena *arena;
};

struct analysis_options {
	const char *cwd;        /* absolute, clean */
	const char *workspace;  /* absolute, clean; NULL: cwd */
	const char *home;       /* what ~ expands to; NULL: unknown */
	const char *const *env; /* "NAME=value" that the caller sets for the command */
	size_t nenv;
	const char *const *writable; /* folders that it can write; NULL: unknown */
	size_t nwritable;
	bool terminal; /* it has a terminal, at which a person may type */
};

/* Analyses a line for sh -c. Never fails: text that cannot be parsed is reported as unknown. */
void command_analyse_line(const char *line, size_t len, const struct analysis_options *o, struct command_facts *ret);
/* Analyses a program with its arguments. */
void command_analyse_argv(const char *const *argv, size_t argc, const struct analysis_options *o,
			  struct command_facts *ret);
void command_facts_done(struct command_facts *f);
#define command_facts_auto __attribute__((cleanup(command_facts_done)))

/* Whether this variable makes programs run or load other code. value NULL: unknown. */
bool command_variable_matters(const char *name, const char *value);
/*
 * Whether every directory of a PATH is absolute and none is equal to or below one of the `count` directories in
 * `writable`.
 */
bool command_path_is_fixed(const char *value, const char *const *writable, size_t count);

#endif
