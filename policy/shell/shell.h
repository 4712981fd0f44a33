#ifndef BAILIFF_POLICY_SHELL_H
#define BAILIFF_POLICY_SHELL_H

/*
 * Parses shell text without running it: lists every simple command that it contains, wherever it is.
 *
 * The parser follows the shell's own grammar: quotes, continuation lines, nested substitutions, here-documents and
 * braces are parsed by its rules, not by searching for operators. A command in a substitution, a condition, a
 * function's body or a here-document is in the list like any other; `context` says where it was. Nothing that depends
 * on the environment is expanded: a word with a variable, a substitution or a glob has no value, and `unknown` has the
 * reason. Aliases are not expanded.
 *
 * There are two dialects, because the same text can mean different things: bash parses `((rm -rf x))` as arithmetic, a
 * POSIX sh as a nested subshell. `bashisms` is set if the dialects may differ; a caller that does not know the shell
 * parses both.
 *
 * The script owns all memory, which shell_script_done frees. Time and memory are linear in the text: its length, the
 * depth of nesting, the number of commands and the result of brace expansion are limited.
 *
 * A list without a dangerous command proves something only if the text is well formed, `ambiguous` is NULL, `hidden` is
 * false, and the words that matter have values.
 */

#include <stdbool.h>
#include <stddef.h>

#define SHELL_TEXT_MAX (1u << 20)
#define SHELL_DEPTH_MAX 100
#define SHELL_COMMANDS_MAX 20000
#define SHELL_BRACES_MAX 512 /* maximum of words from one word with braces */

enum shell_dialect { SHELL_BASH, SHELL_POSIX };

/* Why a word has no value, as bits. */
enum shell_unknown {
	SHELL_VARIABLE = 1 << 0,     /* $x ${x} $1 $@ */
	SHELL_SUBSTITUTION = 1 << 1, /* $(…) `…` */
	SHELL_ARITHMETIC = 1 << 2,   /* $((…)) $[…] */
	SHELL_PROCESS = 1 << 3,      /* <(…) >(…) */
	SHELL_GLOB = 1 << 4,         /* unquoted * ? […] */
	SHELL_TILDE = 1 << 5,        /* ~ or ~user at the beginning */
	SHELL_BRACES = 1 << 6,       /* braces that would expand to too many words */
	SHELL_ARRAY = 1 << 7,        /* a=(…) */
	SHELL_EVALUATES = 1 << 8,    /* ${x@P}, ${ …;}: the value of a variable is run as code */
};

enum shell_part_kind { SHELL_PART_LITERAL, SHELL_PART_TILDE, SHELL_PART_EXPANSION };

struct shell_part {
	enum shell_part_kind kind;
	bool quoted;
	unsigned unknown; /* one bit of shell_unknown, if it is not literal */
	const char *text; /* literal: without quotes; otherwise as written */
	size_t len;
};

struct shell_word {
	const char *value; /* the value that the command gets; NULL if the text does not determine it */
	const char *plain; /* the same with expansions as written, for people and patterns; never NULL */
	unsigned unknown;
	bool quoted; /* at least partly */
	bool many;   /* may expand to several words, or to none */
	const struct shell_part *part;
	size_t nparts;
	size_t offset; /* in the text */
};

enum shell_redirect_op {
	SHELL_READ,        /* <   */
	SHELL_WRITE,       /* >   */
	SHELL_CLOBBER,     /* >|  */
	SHELL_APPEND,      /* >>  */
	SHELL_READ_WRITE,  /* <>  */
	SHELL_DUP_IN,      /* <&  */
	SHELL_DUP_OUT,     /* >&  */
	SHELL_BOTH,        /* &>  */
	SHELL_BOTH_APPEND, /* &>> */
	SHELL_HEREDOC,     /* << <<- */
	SHELL_HERESTRING,  /* <<< */
};

struct shell_redirect {
	enum shell_redirect_op op;
	int fd;                   /* −1: the operator's default; 10: chosen by the shell, for {v} */
	struct shell_word target; /* a here-document's delimiter */
	const char **
		body; /* the text of a here-document or here-string; *body is NULL if that is unknown. Otherwise NULL */
};

struct shell_assignment {
	const char *name;
	struct shell_word value;
	bool append; /* += */
};

/* Where a command is in the text, as bits. */
enum shell_context {
	SHELL_IN_PIPE_FROM = 1 << 0, /* its input may come from a pipe in this text */
	SHELL_IN_PIPE_TO = 1 << 1,   /* its output may go to one */
	SHELL_IN_SUBSHELL = 1 << 2,
	SHELL_IN_SUBSTITUTION = 1 << 3, /* $(…) `…` <(…) >(…) */
	SHELL_IN_CONDITION = 1 << 4,    /* of if, while, until; or after && and || */
	SHELL_IN_BRANCH = 1 << 5,       /* may be skipped: then, else, a case */
	SHELL_IN_LOOP = 1 << 6,
	SHELL_IN_FUNCTION = 1 << 7, /* runs when `function` is called */
	SHELL_IN_BACKGROUND = 1 << 8,
};

enum shell_kind {
	SHELL_SIMPLE,   /* words, assignments, redirections; any of them may be missing */
	SHELL_TEST,     /* [[ … ]], its words with the brackets */
	SHELL_COMPUTE,  /* (( … )): the word "((" */
	SHELL_COMPOUND, /* the redirections of a group, loop or other compound command; no words */
};

struct shell_command {
	enum shell_kind kind;
	struct shell_word *word;
	size_t nwords;
	struct shell_assignment *assignment;
	size_t nassignments;
	struct shell_redirect *redirect;
	size_t nredirects;
	unsigned context;
	unsigned pipeline;    /* commands of one pipeline share a number; 0: none */
	unsigned stage;       /* in it, from 0 */
	unsigned outermost;   /* the number of the pipeline around all others; 0: none */
	bool alone;           /* it is all of its stage */
	const char *function; /* the function whose body contains it, or NULL */
	size_t scope; /* subshells and substitutions have their own scopes: `cd` in one has no effect outside. 0: the
			 whole text */
	size_t offset;
};

struct shell_text {
	const char *text;
	size_t len;
};

/* A variable that gets a value without an assignment: for x in …, ${x:=…} */
struct shell_set {
	const char *name;
	const char *list; /* of `for`, as written; NULL: unknown */
};

/*
 * A function definition. `context`, `scope` and `offset` determine whether it is in effect where its name is called.
 */
struct shell_function {
	const char *name;
	size_t first;     /* the first command of its body */
	unsigned context; /* of the definition itself */
	size_t scope, offset;
};

struct shell_error {
	size_t line, column; /* from 1; column in bytes */
	char message[120];
	bool limit; /* too long, too deep, too many: a limit of ours and not a syntax error */
};

struct shell_arena;

struct shell_script {
	struct shell_command *command;
	size_t count;
	struct shell_function *function; /* the functions that the text defines */
	size_t nfunctions;
	struct shell_set *set;
	size_t nset;
	struct shell_text *computes; /* expressions, as written */
	size_t ncomputes;
	unsigned pipelines; /* their number */
	size_t *scope;      /* for each scope, the enclosing one */
	size_t nscopes;
	bool bashisms;         /* the other dialect may parse it differently */
	const char *ambiguous; /* why shells may parse the text differently than this parser; NULL: they do not */
	bool hidden;           /* a[$(…)] occurs as plain text, and there is arithmetic, which would run it */
	bool crosses; /* output may reach a command of another pipeline: >(…), coproc, $(…) in a here-document */
	struct shell_error error;
	struct shell_arena *arena; /* owned; NULL after shell_parse_into */
};

/*
 * 0: the text is well formed. 1: it is malformed or exceeds a limit; `error` has the position and the reason, and the
 * script contains the commands before it, because shells run the lines before an error. An error inside backquotes or a
 * here-document affects only that part: the rest is in the list.
 */
int shell_parse(const char *text, size_t len, enum shell_dialect dialect, struct shell_script *ret);
/* The same with the caller's arena; shell_script_done is not needed. */
int shell_parse_into(struct shell_arena *a, const char *text, size_t len, enum shell_dialect dialect,
		     struct shell_script *ret);
void shell_script_done(struct shell_script *s);

#endif
