/* Newlines, operators, reserved words and redirections. */

#include "policy/shell/parser.h"
#include "runtime/base/mem.h"

#include <ctype.h>

/* ---- newlines ---- */

/*
 * The bodies of here-documents begin after the newline that ends the line of their operators, in the order of the
 * operators. Every newline of the grammar is consumed here, so none of them is missed.
 */
static void take_newline(struct parser *p)
{
	p->at++;
	while (p->pending && !p->failed) {
		const struct heredoc *h = p->pending;

		p->pending = h->next;
		heredoc_body(p, h);
	}
}

void parser_skip_newlines(struct parser *p)
{
	for (;;) {
		parser_skip_blanks(p);
		if (parser_peek(p) != '\n')
			return;
		take_newline(p);
	}
}

/* ---- operators ---- */

/* Longer operators come before their prefixes; the first match is used. */
static const struct {
	const char *text;
	enum op op;
	bool bash; /* only in bash */
} operators[] = {
	{ ";;&", OP_CASE_TEST, true },
	{ ";;", OP_CASE_BREAK },
	{ ";&", OP_CASE_FALL, true },
	{ ";", OP_SEMI },
	{ "&&", OP_AND },
	{ "&>", OP_REDIRECT, true },
	{ "&", OP_AMP },
	{ "||", OP_OR },
	{ "|&", OP_PIPE_BOTH, true },
	{ "|", OP_PIPE },
	{ "(", OP_OPEN },
	{ ")", OP_CLOSE },
	{ "\n", OP_NEWLINE },
	{ "<", OP_REDIRECT },
	{ ">", OP_REDIRECT },
};

const char *parser_op_text(enum op op)
{
	for (size_t i = 0; i < countof(operators); i++)
		if (operators[i].op == op)
			return op == OP_NEWLINE ? "newline" : operators[i].text;
	return "end";
}

/* The position after s if the input continues with s; NULL otherwise. */
static const char *match_text(struct parser *p, const char *s)
{
	const char *saved = p->at, *after = NULL;

	while (*s && parser_peek(p) == (unsigned char)*s) {
		p->at++;
		s++;
	}
	if (!*s)
		after = p->at;
	p->at = saved;
	return after;
}

enum op parser_op(struct parser *p)
{
	parser_skip_blanks(p);
	int c = parser_peek(p);
	if (c == PARSER_END)
		return OP_END;
	if (!parser_ends_word(c))
		return OP_NONE;
	for (size_t i = 0; i < countof(operators); i++)
		if (*operators[i].text == c && match_text(p, operators[i].text)) {
			if (!operators[i].bash)
				return operators[i].op;
			/* A POSIX sh reads these characters as shorter operators, so the rows below are tried next. */
			p->script->bashisms = true;
			if (p->dialect == SHELL_BASH)
				return operators[i].op;
		}
	return OP_NONE;
}

void parser_take_op(struct parser *p, enum op op)
{
	if (op == OP_NEWLINE) {
		take_newline(p);
		return;
	}
	const char *after = match_text(p, parser_op_text(op));
	if (after)
		p->at = after;
}

/* Reserved words are recognised only where the grammar asks for one: `echo if` has none. */
static const struct {
	const char *text;
	enum keyword kw;
	bool bash;
} keywords[] = {
	{ "if", KW_IF },
	{ "then", KW_THEN },
	{ "elif", KW_ELIF },
	{ "else", KW_ELSE },
	{ "fi", KW_FI },
	{ "while", KW_WHILE },
	{ "until", KW_UNTIL },
	{ "do", KW_DO },
	{ "done", KW_DONE },
	{ "for", KW_FOR },
	{ "case", KW_CASE },
	{ "esac", KW_ESAC },
	{ "select", KW_SELECT, true },
	{ "function", KW_FUNCTION, true },
	{ "{", KW_OPEN },
	{ "}", KW_CLOSE },
	{ "!", KW_NOT },
	{ "time", KW_TIME, true },
	{ "coproc", KW_COPROC, true },
	{ "[[", KW_TEST, true },
	{ "in", KW_IN },
};

enum keyword parser_keyword(struct parser *p)
{
	parser_skip_blanks(p);
	int c = parser_peek(p);
	/* The first letters of all reserved words; most words end here. */
	if (c == PARSER_END || !strchr("itefwudcs{}![", c))
		return KW_NONE;
	for (size_t i = 0; i < countof(keywords); i++) {
		const char *after = *keywords[i].text == c ? match_text(p, keywords[i].text) : NULL;

		if (!after)
			continue;
		const char *saved = p->at;
		p->at = after;
		bool whole = parser_ends_word(parser_peek(p));
		p->at = saved;
		if (!whole)
			continue;
		/* In other shells `time` is a program that does the same. */
		p->script->bashisms |= keywords[i].bash && keywords[i].kw != KW_TIME;
		return keywords[i].bash && p->dialect != SHELL_BASH ? KW_NONE : keywords[i].kw;
	}
	return KW_NONE;
}

void parser_take_keyword(struct parser *p, enum keyword k)
{
	for (size_t i = 0; i < countof(keywords); i++)
		if (keywords[i].kw == k) {
			const char *after = match_text(p, keywords[i].text);

			if (after)
				p->at = after;
			return;
		}
}

void parser_unexpected(struct parser *p)
{
	enum op op = parser_op(p);

	if (op == OP_END)
		parser_fail(p, "unexpected end");
	else if (op == OP_NEWLINE)
		parser_fail(p, "unexpected newline");
	else if (op != OP_NONE)
		parser_fail(p, "unexpected '%c'", parser_peek(p));
	else {
		const char *s = p->at;

		while (s < p->end && s - p->at < 24 && !parser_ends_word((unsigned char)*s))
			s++;
		parser_fail(p, "unexpected '%.*s'", (int)(s - p->at), p->at);
	}
}

/* ---- redirections ---- */

/* Up to a } that is followed by an operator of redirections, or to what ends a word. */
static bool is_in_subscript(struct parser *p)
{
	const int c = parser_peek(p), next = c == '}' ? parser_peek2(p) : 0;

	return c != PARSER_END && !strchr(" \t\n;&|()<>", c) && next != '<' && next != '>';
}

/* The position after "12" or "{name}" directly before < or >, and the number; NULL: there is no descriptor here. */
static const char *descriptor_end(struct parser *p, int *ret_fd)
{
	const char *from = p->at, *after = NULL;
	int c = parser_peek(p), fd = -1;
	size_t n = 0;

	if (c == '{' && p->dialect == SHELL_BASH) {
		bool subscript = false, name = true;

		/* A subscript is an expression, which may assign variables: {a[PATH=0]}> */
		for (p->at++; (c = parser_peek(p)) == '_' || c == '[' || c == ']' ||
			      (c > 0 && c < 0x80 && isalnum(c)) || (subscript && is_in_subscript(p));
		     p->at++, n++) {
			name &= n || !isdigit(c);
			subscript |= c == '[' || c == ']';
		}
		if (c == '}' && n && name)
			p->at++;
		else
			n = 0;
		/* {v[1]}> is a descriptor if the subscript is valid, which only the shell can decide. */
		if (n && subscript && (parser_peek(p) == '<' || parser_peek(p) == '>'))
			parser_ambiguous(p, "a redirection to an array's element");
	} else {
		for (fd = 0; (c = parser_peek(p)) != PARSER_END && isdigit(c); p->at++, n++)
			/* Saturates, so that a long row of digits does not overflow. */
			fd = fd > 9999 ? fd : fd * 10 + (c - '0');
	}
	c = parser_peek(p);
	if (n && (c == '<' || c == '>'))
		after = p->at;
	p->at = from;
	/* For dash only a single digit is a descriptor: in 12> and {v}> the text before the operator is a word. */
	if (after && (fd < 0 || n > 1)) {
		p->script->bashisms = true;
		if (p->dialect != SHELL_BASH)
			return NULL;
	}
	if (after && ret_fd)
		*ret_fd = fd;
	return after;
}

bool parser_at_redirect(struct parser *p)
{
	enum op op = parser_op(p);

	if (op == OP_REDIRECT) /* <( begins a word */
		return p->dialect != SHELL_BASH || parser_peek2(p) != '(' || parser_peek(p) == '&';
	return op == OP_NONE && descriptor_end(p, NULL) != NULL;
}

/* Like the operators: longer ones first. */
static const struct {
	const char *text;
	enum shell_redirect_op op;
	bool bash;
} redirects[] = {
	{ "&>>", SHELL_BOTH_APPEND, true },
	{ "&>", SHELL_BOTH, true },
	{ "<<<", SHELL_HERESTRING, true },
	{ "<<-", SHELL_HEREDOC },
	{ "<<", SHELL_HEREDOC },
	{ "<&", SHELL_DUP_IN },
	{ "<>", SHELL_READ_WRITE },
	{ "<", SHELL_READ },
	{ ">>", SHELL_APPEND },
	{ ">&", SHELL_DUP_OUT },
	{ ">|", SHELL_CLOBBER },
	{ ">", SHELL_WRITE },
};

void parse_redirect(struct parser *p, struct shell_redirect *r)
{
	r->fd = -1;
	const char *after = descriptor_end(p, &r->fd);
	if (after) {
		if (parser_peek(p) == '{') { /* {v}>file sets v to a number of at least 10 */
			parser_sets(p, p->at + 1, strcspn(p->at + 1, "[}\\"), NULL, 0);
			r->fd = 10;
		}
		p->at = after;
	}
	for (size_t i = 0; i < countof(redirects); i++) {
		const char *end = match_text(p, redirects[i].text);

		if (!end)
			continue;
		p->script->bashisms |= redirects[i].bash;
		if (redirects[i].bash && p->dialect != SHELL_BASH)
			continue;
		p->at = end;
		r->op = redirects[i].op;
		parser_skip_blanks(p);
		if (r->op == SHELL_HEREDOC) {
			heredoc_begin(p, redirects[i].text[2] == '-', r);
			return;
		}
		/* For bash <&- is complete, and a word may follow without a blank. */
		if ((r->op == SHELL_DUP_IN || r->op == SHELL_DUP_OUT) && parser_peek(p) == '-') {
			p->script->bashisms |= !parser_ends_word(parser_peek2(p));
			if (p->dialect == SHELL_BASH) {
				r->target = (struct shell_word){ .value = "-",
								 .plain = "-",
								 .offset = parser_offset(p, p->at) };
				p->at++;
				return;
			}
		}
		if (parser_ends_word(parser_peek(p)) &&
		    !(p->dialect == SHELL_BASH && parser_peek2(p) == '(' && strchr("<>", parser_peek(p)))) {
			parser_unexpected(p);
			return;
		}
		parse_word(p, WORD_PLAIN, &r->target);
		if (r->op == SHELL_HERESTRING) {
			r->body = shell_arena_alloc(p->arena, sizeof(*r->body));
			*r->body = r->target.value;
		}
		return;
	}
	parser_unexpected(p);
}

/*
 * The first word of a command that begins with redirections. bash prints what it has parsed of a substitution, with the
 * redirections behind the words, and parses that again: $(>f ! cmd) is `! cmd >f`, and $(time >f -p cmd) is `time -p
 * cmd >f`. Elsewhere the reserved word, or the option, is the name of a command.
 */
void parser_check_moved_word(struct parser *p, bool timed, enum shell_redirect_op op)
{
	parser_skip_blanks(p);
	const int first = parser_peek(p);
	const bool plain = first > 0 && first < 0x80 && (isalnum(first) || strchr("_/.~$\"'", first));

	if (parser_keyword(p) != KW_NONE)
		parser_ambiguous(p, "a reserved word after a redirection");
	else if (timed && ((!plain && parser_op(p) == OP_NONE) || op == SHELL_HEREDOC))
		parser_ambiguous(p, "an option or a here-document after time and a redirection");
}
