#ifndef BAILIFF_POLICY_PARSER_H
#define BAILIFF_POLICY_PARSER_H

/*
 * Inside of policy/shell: the state of one reading. There is no token stream: the grammar looks at the characters where
 * it stands, because what they mean depends on where that is. parser.c reads characters, lexer.c operators; heredoc.c
 * here-documents; word.c words and expansions; brace.c what braces make of them; conditional.c [[ ]]; grammar.c
 * everything else.
 *
 * A mistake ends the input: parser_fail moves `at` to `end` for good, so every loop stops by itself and nobody has to
 * pass an error up.
 */

#include "policy/shell/arena.h"
#include "policy/shell/shell.h"

#define PARSER_END (-1)

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
	const char *text; /* the whole */
	size_t len;
	const char *at, *end;    /* what is being read: the whole, a here-document, or the copy that backquotes made */
	size_t fixed;            /* in such a copy: where it stands in the text, plus 1; otherwise 0 */
	struct heredoc *pending; /* whose bodies begin after the next newline */
	unsigned depth, context, pipelines;
	unsigned unclear; /* ${…} and here-documents around what is being read: shells disagree about \" in their
			     backquotes */
	const char *function;
	size_t scope;
	unsigned heredocs, compounds; /* begun so far */
	bool shifts_lines; /* $'…', $"…", coproc or an array was read: shells disagree about where such a line ends, or
			      reject it */
	size_t braces;     /* bytes that braces have made so far */
	bool failed, compound; /* the last command was a compound one */
	bool redirected;       /* … with redirections: no reserved word may follow directly */
	bool soft;             /* a mistake in a part that shells only look at when they get there: the rest is read */
	bool extglob;
	bool subscript, computes; /* a quoted [$( was seen; arithmetic was */
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

/* How a word is read. */
enum word_mode {
	WORD_PLAIN,
	WORD_PATTERN, /* right of == in [[ ]]: @(a|b) */
	WORD_REGEX,   /* right of =~ */
};

/* parser.c */
void parser_fail(struct parser *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void parser_limit(struct parser *p, const char *what);
void parser_forgive(struct parser *p); /* a mistake so far is one of a part: go on */
void parser_ambiguous(struct parser *p,
		      const char *what); /* shells may read this differently than we do: noted, and read on */
bool parser_enter(struct parser *p);     /* one level deeper; false: too deep, and failed */
void parser_leave(struct parser *p);
size_t parser_scope_enter(struct parser *p); /* returns the scope before, to be put back */
size_t parser_offset(const struct parser *p, const char *at);
int parser_peek(struct parser *p);         /* the character here; line continuations are skipped */
int parser_peek2(struct parser *p);        /* the one after it */
void parser_skip_blanks(struct parser *p); /* and comments; not newlines */
bool parser_ends_word(int c);
bool parser_is_name(int c);
void parser_sets(struct parser *p, const char *name, size_t len, const char *list,
		 size_t list_len); /* a variable, by something that is no assignment */
void parser_computes(struct parser *p, const char *from, const char *to); /* an expression */

/* lexer.c */
void parser_skip_newlines(struct parser *p);
enum op parser_op(struct parser *p); /* what operator stands here, after blanks */
void parser_take_op(struct parser *p, enum op op);
const char *parser_op_text(enum op op);
enum keyword parser_keyword(struct parser *p); /* a reserved word here, after blanks, unquoted and complete */
void parser_take_keyword(struct parser *p, enum keyword k);
void parser_unexpected(struct parser *p);
void parse_redirect(struct parser *p, struct shell_redirect *ret); /* at one, or at its number */
bool parser_at_redirect(struct parser *p);

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

/* word.c */
void parse_nested(struct parser *p, unsigned context); /* a list up to ) */
void parse_word_parts(struct parser *p, enum word_mode mode, struct word_parts *ret);
void parse_word_rest(struct parser *p, enum word_mode mode, struct word_parts *w); /* the rest of one that has begun */
void parse_subscript(struct parser *p); /* [ … ] with its nesting and quotes */
void parse_word(struct parser *p, enum word_mode mode, struct shell_word *ret); /* without expanding braces */
void parse_double_quoted(struct parser *p, struct word_parts *w,
			 int close);                           /* up to `close`, or the end for PARSER_END */
void parse_ansi(struct parser *p, struct word_parts *w);       /* ansi.c: after $' */
void parse_arithmetic(struct parser *p, struct word_parts *w); /* after ((: up to and with )) */
bool parser_is_arithmetic(struct parser *p);                   /* after ((: does it end with )) as arithmetic does? */

/* brace.c */
void expand_braces(struct parser *p, const struct word_parts *w, struct shell_word **words, size_t *count);

/* grammar.c */
size_t parse_list(struct parser *p); /* number of commands in it; stops before what closes it */
void parse_command(struct parser *p);
void parser_emit(struct parser *p, const struct shell_command *c);

/* conditional.c */
void parse_conditional(struct parser *p, struct shell_command *c); /* after [[ */

#endif
