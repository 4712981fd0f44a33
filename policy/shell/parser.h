#ifndef BAILIFF_POLICY_PARSER_H
#define BAILIFF_POLICY_PARSER_H

/*
 * Private to policy/shell: the state of one parse. There is no token stream: the grammar examines the characters at its
 * position, because their meaning depends on the position. parser.c reads characters; lexer.c operators; heredoc.c
 * here-documents; word.c words and expansions; brace.c expands braces; conditional.c parses [[ ]]; grammar.c everything
 * else.
 *
 * A syntax error ends the input: parser_fail moves `at` to `end` permanently, so every loop stops and no function has
 * to return an error.
 *
 * The parse prefers false alarms to misses: a command that is listed but never runs costs a question, one that runs
 * without being listed is a bypass of the policy. So where shells disagree, either both dialects are parsed
 * (`bashisms`), or the text is reported as ambiguous.
 *
 * Invariants: `at` never moves beyond `end`; every recursion passes parser_enter; every function that replaces end,
 * fixed, context, scope or pending for a nested text restores them before it returns, even after an error.
 */

#include "policy/shell/arena.h"
#include "policy/shell/shell.h"

#define PARSER_END (-1)

/*
 * A here-document whose operator was parsed and whose text was not. `body` is the redirection's, which gets the text
 * later.
 */
struct heredoc {
	const char **body;
	const char *delimiter;
	bool quoted, strip;
	struct heredoc *next;
};

struct parser {
	struct shell_script *script;
	struct shell_arena *arena;
	enum shell_dialect dialect;
	const char *text; /* the whole text */
	size_t len;
	const char *at, *end;    /* the input: the text, a here-document, or the unescaped copy of a backquoted text */
	size_t fixed;            /* in such a copy: its offset in the text, plus 1; otherwise 0 */
	struct heredoc *pending; /* here-documents whose bodies begin after the next newline */
	unsigned depth, context;
	unsigned unclear; /* nesting in ${…} and here-documents: shells disagree about \" in backquotes there */
	const char *function;
	size_t scope;
	unsigned heredocs, compounds; /* seen so far */
	bool shifts_lines; /* $'…', $"…", coproc or an array was parsed: shells disagree about where such a line ends,
			      or reject it */
	size_t braces;     /* bytes that brace expansion has produced so far */
	bool failed, compound; /* the last command was a compound one */
	bool redirected;       /* … with redirections: no reserved word may follow directly */
	bool timed;            /* the word `time` and its options are directly in front of the next command */
	bool soft; /* an error in a part that shells parse only when they run it: the rest is still parsed */
	bool extglob;
	bool subscript, computes; /* a quoted [$( was seen; arithmetic was seen */
};

enum op {
	OP_NONE,
	OP_END,
	OP_NEWLINE,
	OP_SEMI,
	OP_AMP,
	OP_AND,
	OP_OR,
	OP_PIPE,
	OP_PIPE_BOTH,
	OP_OPEN,
	OP_CLOSE,
	OP_CASE_BREAK,
	OP_CASE_FALL,
	OP_CASE_TEST,
	OP_REDIRECT,
};

enum keyword {
	KW_NONE,
	KW_IF,
	KW_THEN,
	KW_ELIF,
	KW_ELSE,
	KW_FI,
	KW_WHILE,
	KW_UNTIL,
	KW_DO,
	KW_DONE,
	KW_FOR,
	KW_CASE,
	KW_ESAC,
	KW_SELECT,
	KW_FUNCTION,
	KW_OPEN,
	KW_CLOSE,
	KW_NOT,
	KW_TIME,
	KW_COPROC,
	KW_TEST,
	KW_IN,
};

/* How a word is parsed. */
enum word_mode {
	WORD_PLAIN,
	WORD_PATTERN, /* right of == in [[ ]]: @(a|b) */
	WORD_REGEX,   /* right of =~ */
};

/* parser.c */
void parser_fail(struct parser *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void parser_limit(struct parser *p, const char *what);
void parser_forgive(struct parser *p); /* turns an error so far into one of a part, and continues */
/* Records that shells may parse this differently than we do; parsing continues. */
void parser_ambiguous(struct parser *p, const char *what);
bool parser_enter(struct parser *p); /* one level deeper; false: too deep, and the parse has failed */
void parser_leave(struct parser *p);
size_t parser_scope_enter(struct parser *p); /* returns the previous scope, which the caller restores */
size_t parser_offset(const struct parser *p, const char *at);
int parser_peek(struct parser *p);         /* the character here; line continuations are skipped */
int parser_peek2(struct parser *p);        /* the one after it */
void parser_skip_blanks(struct parser *p); /* skips blanks and comments, but not newlines */
bool parser_ends_word(int c);
bool parser_is_name(int c);
void parser_sets(struct parser *p, const char *name, size_t len, const char *list,
		 size_t list_len); /* records a variable that is set without an assignment */
void parser_computes(struct parser *p, const char *from, const char *to); /* records an expression */

/* lexer.c */
void parser_skip_newlines(struct parser *p);
enum op parser_op(struct parser *p); /* the operator here, after blanks */
void parser_take_op(struct parser *p, enum op op);
const char *parser_op_text(enum op op);
enum keyword parser_keyword(struct parser *p); /* a reserved word here, after blanks, unquoted and complete */
void parser_take_keyword(struct parser *p, enum keyword k);
void parser_unexpected(struct parser *p);
void parse_redirect(struct parser *p, struct shell_redirect *ret); /* at a redirection, or at its number */
bool parser_at_redirect(struct parser *p);
/* At the first word of a command that began with redirections, `op` the first; timed: directly after `time`. */
void parser_check_moved_word(struct parser *p, bool timed, enum shell_redirect_op op);

/* heredoc.c */
void heredoc_begin(struct parser *p, bool strip, struct shell_redirect *r); /* at the delimiter */
void heredoc_body(struct parser *p, const struct heredoc *h);               /* at the first line of its text */

/* word_parts.c */
struct word_parts {
	struct shell_part *part;
	size_t count;
	unsigned unknown;
	bool quoted, many, glob, open_bracket, brace;
	size_t offset;
};
void word_parts_add(struct parser *p, struct word_parts *w, struct shell_part part);
void word_parts_add_literal(struct parser *p, struct word_parts *w, const char *s, size_t n, bool quoted);
void word_parts_finish(struct parser *p, const struct word_parts *w, struct shell_word *ret);
void parse_ansi(struct parser *p, struct word_parts *w); /* after $' */

/* word.c */
void parse_word_parts(struct parser *p, enum word_mode mode, struct word_parts *ret);
void parse_word_rest(struct parser *p, enum word_mode mode, struct word_parts *w); /* continues a word that has begun */
void parse_subscript(struct parser *p); /* [ … ] with its nesting and quotes */
void parse_word(struct parser *p, enum word_mode mode, struct shell_word *ret); /* without expanding braces */
void parse_double_quoted(struct parser *p, struct word_parts *w,
			 int close);                           /* up to `close`, or the end for PARSER_END */
void parse_arithmetic(struct parser *p, struct word_parts *w); /* after ((: up to and with )) */
bool parser_is_arithmetic(struct parser *p);                   /* after ((: does it end with )) as arithmetic does? */

/* brace.c */
void expand_braces(struct parser *p, const struct word_parts *w, struct shell_word **words, size_t *count);

/* grammar.c */
size_t parse_list(struct parser *p); /* number of commands in it; stops before the closing word */

/* conditional.c */
void parse_conditional(struct parser *p, struct shell_command *c); /* after [[ */

#endif
