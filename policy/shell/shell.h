#ifndef BAILIFF_POLICY_SHELL_H
#define BAILIFF_POLICY_SHELL_H

/*
 * Shell text taken apart, never run: every simple command that it contains, wherever it stands.
 *
 * The reading is the shell's own: quotes, continuation lines, nested substitutions, here-documents and braces are read
 * by its rules, not by searching for operators. A command in a substitution, a condition, a function's body or a
 * here-document is in the list like any other; `context` says where it stood. Nothing is expanded that depends on the
 * world: a word with a variable, a substitution or a glob has no value, and `unknown` says why. Aliases are not
 * expanded.
 *
 * Two readings exist because the same text can mean different things: what bash takes as arithmetic, `((rm -rf x))`, is
 * a nested subshell to a plain sh. `bashisms` tells whether the readings may differ; who does not know the shell reads
 * both.
 *
 * Everything belongs to the script and goes with shell_script_done. Time and memory are linear in the text: its length,
 * the depth of nesting and the number of commands are limited, and so is what braces expand to.
 */

#include <stdbool.h>
#include <stddef.h>

#define SHELL_TEXT_MAX (1u << 20)
#define SHELL_DEPTH_MAX 100
#define SHELL_COMMANDS_MAX 20000
#define SHELL_BRACES_MAX 512 /* words that one word with braces may become */

enum shell_dialect { SHELL_BASH, SHELL_POSIX };

/* Why a word has no value, as bits. */
enum shell_unknown {
	SHELL_VARIABLE = 1 << 0,     /* $x ${x} $1 $@ */
	SHELL_SUBSTITUTION = 1 << 1, /* $(…) `…` */
	SHELL_ARITHMETIC = 1 << 2,   /* $((…)) $[…] */
	SHELL_PROCESS = 1 << 3,      /* <(…) >(…) */
	SHELL_GLOB = 1 << 4,         /* unquoted * ? […] */
	SHELL_TILDE = 1 << 5,        /* ~ or ~user at the beginning */
	SHELL_BRACES = 1 << 6,       /* braces that would become too many words */
	SHELL_ARRAY = 1 << 7,        /* a=(…) */
	SHELL_EVALUATES = 1 << 8,    /* ${x@P}, ${ …;}: the value of a variable is run as code */
};

enum shell_part_kind { SHELL_PART_LITERAL, SHELL_PART_TILDE, SHELL_PART_EXPANSION };

struct shell_part {
	enum shell_part_kind kind;
	bool quoted;
	unsigned unknown; /* one bit of shell_unknown, for what is not literal */
	const char *text; /* literal: without its quotes; otherwise as written */
	size_t len;
};

struct shell_word {
	const char *value; /* what the command is given; NULL if that cannot be known from the text */
	const char *plain; /* the same with expansions as written; for people and patterns, never NULL */
	unsigned unknown;
	bool quoted; /* some of it */
	bool many;   /* may become several words, or none */
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
	int fd;                   /* −1: the operator's own; 10: one that the shell chooses, for {v} */
	struct shell_word target; /* a here-document's delimiter */
	const char **body; /* of a here-document or here-string; *body is NULL where it is not known. Otherwise NULL */
};

struct shell_assignment {
	const char *name;
	struct shell_word value;
	bool append; /* += */
};

/* Where a command stands, as bits. */
enum shell_context {
	SHELL_IN_PIPE_FROM = 1 << 0, /* its input may come from a pipe of this text */
	SHELL_IN_PIPE_TO = 1 << 1,   /* its output may go to one */
	SHELL_IN_SUBSHELL = 1 << 2,
	SHELL_IN_SUBSTITUTION = 1 << 3, /* $(…) `…` <(…) >(…) */
	SHELL_IN_CONDITION = 1 << 4,    /* of if, while, until; or after && and || */
	SHELL_IN_BRANCH = 1 << 5,       /* may be left out: then, else, a case */
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
	const char *function; /* whose body it is in, or NULL */
	size_t scope; /* subshells and substitutions are scopes of their own: `cd` in one is not felt outside. 0: the
			 text */
	size_t offset;
};

struct shell_text {
	const char *text;
	size_t len;
};

/* A variable that gets a value without an assignment: for x in …, ${x:=…} */
struct shell_set {
	const char *name;
	const char *list; /* of `for`, as written; NULL: not known */
};

/* A definition: whether it was carried out when something with its name is called, `context`, `scope` and `offset`
 * tell. */
struct shell_function {
	const char *name;
	size_t first;     /* the first command of its body */
	unsigned context; /* of the definition itself */
	size_t scope, offset;
};

struct shell_error {
	size_t line, column; /* from 1; column in bytes */
	char message[120];
	bool limit; /* too long, too deep, too much: not a matter of syntax */
};

struct shell_arena;

struct shell_script {
	struct shell_command *command;
	size_t count;
	struct shell_function *function; /* defined in the text */
	size_t nfunctions;
	struct shell_set *set;
	size_t nset;
	struct shell_text *computes; /* expressions, as written */
	size_t ncomputes;
	size_t *scope; /* for each scope the one around it */
	size_t nscopes;
	bool bashisms;         /* the other dialect may read it differently */
	const char *ambiguous; /* why shells may read the text differently than this reading; NULL: they do not */
	bool hidden; /* a[$(…)] stands somewhere as plain text, and something computes: arithmetic would run it */
	struct shell_error error;
	struct shell_arena *arena; /* its own; NULL after shell_parse_into */
};

/*
 * 0: the text is well formed. 1: it is not, or is beyond a limit; `error` says where and why, and the script still has
 * the commands up to there, because shells run the lines before a mistake. A mistake inside of backquotes or a
 * here-document spoils only that: the rest is there, too.
 */
int shell_parse(const char *text, size_t len, enum shell_dialect dialect, struct shell_script *ret);
/* The same with the memory of somebody else, who need not call shell_script_done. */
int shell_parse_into(struct shell_arena *a, const char *text, size_t len, enum shell_dialect dialect,
		     struct shell_script *ret);
void shell_script_done(struct shell_script *s);
/* From 1; for offsets of the text that was parsed. */
void shell_position(const char *text, size_t len, size_t offset, size_t *ret_line, size_t *ret_column);

#endif
