/*
 * Words: quotes are removed, expansions become parts without a value, and the commands inside them are parsed
 * immediately by the same grammar. The texts of parts are slices of the input, so a word is not copied before it is
 * complete. Which characters are special depends on the surroundings, so quotes, ${…}, $((…)), subscripts and
 * here-documents have loops of their own here. All of them call parse_dollar and parse_backquotes, the two ways to a
 * command inside of a word: a construct that skipped its text instead would hide commands.
 */

#include "policy/shell/parser.h"

#include <ctype.h>

#define ARITHMETIC_MAX (64 << 10) /* bytes of ((…)) and $((…)) */

/*
 * Ends an expansion that began at `from`. Unquoted it may be split into several words or vanish, except for <(…), which
 * is always one path.
 */
static void add_expansion(struct parser *p, struct word_parts *w, const char *from, unsigned why, bool quoted)
{
	if (p->failed)
		return;
	word_parts_add(p, w,
		       (struct shell_part){ .kind = SHELL_PART_EXPANSION,
					    .quoted = quoted,
					    .unknown = why,
					    .text = from,
					    .len = (size_t)(p->at - from) });
	w->many |= !quoted && !(why & SHELL_PROCESS);
}

/* ---- substitutions ---- */

/* A list up to the closing bracket. */
static void parse_nested(struct parser *p, unsigned context)
{
	const unsigned saved = p->context;
	struct heredoc *pending = p->pending;

	if (!parser_enter(p))
		return;
	const size_t scope = parser_scope_enter(p);
	p->at++; /* ( */
	/*
	 * Here-documents of the enclosing line wait: their text begins after that line, not inside of the substitution.
	 */
	p->pending = NULL;
	p->context |= context;
	const unsigned heredocs = p->heredocs, compounds = p->compounds;
	const size_t count = parse_list(p);
	/*
	 * bash 5.2 prints the parsed command and parses it again; after a here-document it omits a semicolon: `git;
	 * push` becomes `git push`.
	 */
	if (p->heredocs > heredocs && (count > 1 || p->compounds > compounds))
		parser_ambiguous(p, "$(…) has a here-document and other commands");
	p->context = saved;
	p->scope = scope;
	if (parser_op(p) != OP_CLOSE)
		parser_unexpected(p);
	else
		p->at++;
	/*
	 * Here-documents without a text before the parenthesis: newer versions of bash read it after the enclosing
	 * line, others take it as empty.
	 */
	if (p->pending)
		parser_ambiguous(p, "a here-document in $(…) does not begin before the closing parenthesis");
	struct heredoc **last = &pending;
	while (*last)
		last = &(*last)->next;
	*last = p->pending;
	p->pending = pending;
	parser_leave(p);
}

/* <(…) and >(…): the commands inside run; the word is a path in /dev/fd. */
static void parse_process_substitution(struct parser *p, struct word_parts *w)
{
	const char *from = p->at;

	p->script->bashisms = p->script->crosses = true;
	p->at++;
	(void)parser_peek(p);
	parse_nested(p, SHELL_IN_SUBSTITUTION);
	add_expansion(p, w, from, SHELL_PROCESS, false);
}

/* The text between backquotes, without the backslashes that escape characters there. */
static char *unescape_backquotes(struct parser *p, bool quoted, size_t *ret_len)
{
	const char *end = p->at;

	while (end < p->end && *end != '`')
		end += *end == '\\' ? 2 : 1;
	if (end >= p->end) {
		parser_fail(p, "unterminated `");
		return NULL;
	}
	char *out = shell_arena_alloc(p->arena, (size_t)(end - p->at) + 1);
	size_t n = 0;
	/* "${x#`\"`}": whether the backquotes remove the backslash depends on the shell. */
	if (quoted && p->unclear && memmem(p->at, (size_t)(end - p->at), "\\\"", 2))
		parser_ambiguous(p, "a quoted double quote in `…` inside of ${…} or a here-document");
	for (; p->at < end; p->at++) {
		if (*p->at == '\\' && p->at[1] == '\n') {
			p->at++; /* removed before anything else */
			continue;
		}
		if (*p->at == '\\' && (strchr("$`\\", p->at[1]) || (quoted && p->at[1] == '"')))
			p->at++;
		out[n++] = *p->at;
	}
	p->at++;
	*ret_len = n;
	return out;
}

/* Parses `…` from an unescaped copy of its text; an error in it affects only this part. */
static void parse_backquotes(struct parser *p, struct word_parts *w, bool quoted)
{
	const char *from = p->at++, *at, *end = p->end;
	const size_t fixed = p->fixed;
	const unsigned context = p->context, depth = p->depth;
	struct heredoc *pending = p->pending;
	size_t n = 0;
	char *text = unescape_backquotes(p, quoted, &n);

	if (!text || !parser_enter(p))
		return;
	at = p->at;
	/* The copy has no positions of its own in the text; everything in it is reported at the opening backquote. */
	p->fixed = parser_offset(p, from) + 1;
	p->at = text;
	p->end = text + n;
	p->pending = NULL;
	p->context |= SHELL_IN_SUBSTITUTION;
	const size_t scope = parser_scope_enter(p);
	parse_list(p);
	if (!p->failed && parser_op(p) != OP_END)
		parser_unexpected(p);
	p->scope = scope;
	p->depth = depth;
	p->end = end;
	p->fixed = fixed;
	/* After end was restored, so that a parse that stays failed (a limit) stops at the real end. */
	parser_forgive(p);
	p->at = p->failed ? end : at;
	p->context = context;
	p->pending = pending;
	add_expansion(p, w, from, SHELL_SUBSTITUTION, quoted);
}

/*
 * The position of the )) that ends an expression in bash: quotes hide parentheses there. NULL: it is not an expression.
 */
static const char *arithmetic_end(const struct parser *p)
{
	size_t depth = 0;

	if (p->failed)
		return NULL;
	/*
	 * Longer ones are not searched: otherwise each level of nested parentheses would scan to the end, in quadratic
	 * time.
	 */
	const char *end = p->end - p->at > ARITHMETIC_MAX ? p->at + ARITHMETIC_MAX : p->end;
	for (const char *s = p->at; s < end; s++) {
		if (*s == '\\') {
			s++;
		} else if (*s == '\'' || *s == '"' || *s == '`') {
			const char quote = *s++;

			while (s < end && *s != quote)
				s += *s == '\\' && quote != '\'' ? 2 : 1;
		} else if (*s == '(') {
			depth++;
		} else if (*s == ')' && depth-- == 0) {
			const char *close = s;

			for (s++; p->end - s >= 2 && s[0] == '\\' && s[1] == '\n';)
				s += 2;
			return s < p->end && *s == ')' ? close : NULL;
		}
	}
	return NULL;
}

bool parser_is_arithmetic(struct parser *p) { return arithmetic_end(p) != NULL; }

static void parse_dollar(struct parser *p, struct word_parts *w, bool quoted);

/*
 * Parses an expression up to `close` (']', ')' for the first of two, or the end). Only the commands in it are parsed,
 * the expression itself is not evaluated.
 */
static void parse_expression(struct parser *p, struct word_parts *w, int open, int close)
{
	struct word_parts inner = { 0 };
	const char *from = p->at;
	size_t depth = 0;

	p->computes = true;
	if (!parser_enter(p))
		return;
	for (int c; (c = parser_peek(p)) != close || depth;) {
		if (c == PARSER_END && close == PARSER_END)
			break;
		if (c == PARSER_END) {
			parser_fail(p, "unterminated arithmetic");
			return;
		}
		if (c == '$') {
			parse_dollar(p, &inner, true);
			continue;
		}
		if (c == '`') {
			parse_backquotes(p, &inner, true);
			continue;
		}
		depth += c == open;
		depth -= c == close;
		p->at += c == '\\' && p->at + 1 < p->end ? 2 : 1;
	}
	parser_computes(p, from, p->at);
	p->at += close != PARSER_END;
	w->unknown |= inner.unknown & SHELL_EVALUATES;
	parser_leave(p);
}

void parse_arithmetic(struct parser *p, struct word_parts *w)
{
	const char *close = p->dialect == SHELL_BASH ? arithmetic_end(p) : NULL, *end = p->end;

	if (close) {
		for (const char *s = p->at; s < close && !p->script->bashisms; s++)
			p->script->bashisms = strchr("'\"", *s) != NULL;
		p->end = close;
		parse_expression(p, w, 0, PARSER_END);
		p->end = end;
		p->at = p->failed ? end : close + 1;
	} else {
		parse_expression(p, w, '(', ')'); /* for dash, quotes have no meaning there */
	}
	if (parser_peek(p) != ')')
		parser_unexpected(p);
	else
		p->at++;
}

/* $( begins a substitution, $(( arithmetic, unless it does not end with )) as that does. */
static void parse_parenthesis(struct parser *p, struct word_parts *w, const char *from, bool quoted)
{
	if (parser_peek2(p) == '(') {
		const char *open = p->at;

		p->at++;
		(void)parser_peek(p);
		p->at++;
		if (p->dialect == SHELL_POSIX || parser_is_arithmetic(p)) {
			parse_arithmetic(p, w);
			add_expansion(p, w, from, SHELL_ARITHMETIC, quoted);
			return;
		}
		p->at = open;
		parser_ambiguous(p, "$(( is not arithmetic");
	}
	parse_nested(p, SHELL_IN_SUBSTITUTION);
	add_expansion(p, w, from, SHELL_SUBSTITUTION, quoted);
}

/* ---- ${…} ---- */

static void parse_single_quoted(struct parser *p, struct word_parts *w)
{
	const char *from = ++p->at, *end = memchr(from, '\'', (size_t)(p->end - from));

	if (!end) {
		parser_fail(p, "unterminated '");
		return;
	}
	word_parts_add_literal(p, w, from, (size_t)(end - from), true);
	p->at = end + 1;
}

/* Parses the name and the operator. After # % / ^ , quotes mean the same as outside of "". */
static bool parse_parameter_head(struct parser *p, bool quoted, unsigned *why)
{
	int c = parser_peek(p);

	if (c == ' ' || c == '\t' || c == '\n' || c == '|') {
		*why |= SHELL_EVALUATES;
		return true;
	}
	const bool indirect = c == '!';
	p->script->bashisms |= indirect;
	if (c == '!' || (c == '#' && parser_peek2(p) != '}'))
		p->at++;
	const char *name = p->at;
	if (parser_is_name(parser_peek(p))) {
		while (parser_is_name(parser_peek(p)))
			p->at++;
		const bool sets = parser_peek(p) == '=' || (parser_peek(p) == ':' && parser_peek2(p) == '=');
		if (sets && indirect)
			*why |= SHELL_EVALUATES; /* ${!x:=…} sets the variable that x names */
		else if (sets)
			parser_sets(p, name, (size_t)(p->at - name), NULL, 0);
	} else if (parser_peek(p) != '}' && parser_peek(p) != PARSER_END && strchr("@*#?$!-", parser_peek(p)))
		p->at++;
	c = parser_peek(p);
	/* Operators of bash only: for other shells the quotes after them have no special meaning. */
	if (c != PARSER_END && strchr("/^,@[", c))
		p->script->bashisms = true;
	return !quoted || (c != PARSER_END && strchr(p->dialect == SHELL_BASH ? "#%/^,@[" : "#%", c));
}

/*
 * ${x@P}, ${x[1]@P}, with any continuation lines: the value is expanded like a prompt, including substitutions.
 */
static bool is_prompt(const char *from, const char *end)
{
	char last[2] = { 0 };

	for (size_t n = 0; end > from && n < sizeof(last);) {
		if (end - from >= 2 && end[-1] == '\n' && end[-2] == '\\')
			end -= 2;
		else
			last[n++] = *--end;
	}
	return last[0] == 'P' && last[1] == '@';
}

/* ${…}: the name, the operator, and the commands inside of the operator's words. */
static void parse_parameter(struct parser *p, struct word_parts *w, const char *from, bool quoted)
{
	struct word_parts inner = { 0 };
	unsigned why = SHELL_VARIABLE;

	if (!parser_enter(p))
		return;
	p->at++;
	p->unclear++;
	const bool indirect = parser_peek(p) == '!';
	const bool quotes = parse_parameter_head(p, quoted, &why);
	/* ${!x}, ${a[x]}, ${s:x}; not ${x:-y} and similar */
	const int next = parser_peek(p);
	const bool computes = next == '[' ||
			      (next == ':' && (parser_peek2(p) == PARSER_END || !strchr("-=?+", parser_peek2(p))));
	const char *head = indirect ? from + 2 : p->at;
	for (int c; (c = parser_peek(p)) != '}';) {
		if (c == PARSER_END) {
			parser_fail(p, "unterminated ${");
			return;
		}
		if (c == '\\')
			p->at += p->at + 1 < p->end ? 2 : 1;
		else if (c == '\'' && quotes)
			parse_single_quoted(p, &inner);
		else if (c == '"') {
			p->at++;
			parse_double_quoted(p, &inner, '"');
		} else if (c == '$')
			parse_dollar(p, &inner, quoted);
		else if (c == '`')
			parse_backquotes(p, &inner, quoted);
		else if ((c == '<' || c == '>') && !quoted && p->dialect == SHELL_BASH && parser_peek2(p) == '(')
			parse_process_substitution(p, &inner);
		else
			p->at++;
	}
	if (computes || indirect)
		parser_computes(p, head, p->at);
	if (is_prompt(from, p->at))
		why |= SHELL_EVALUATES;
	p->at++;
	p->unclear--;
	parser_leave(p);
	add_expansion(p, w, from, why | (inner.unknown & SHELL_EVALUATES), quoted);
}

/* Everything that begins with a dollar sign. */
static void parse_dollar(struct parser *p, struct word_parts *w, bool quoted)
{
	const char *from = p->at++;
	int c = parser_peek(p);
	const bool bash = p->dialect == SHELL_BASH;

	if (c == '{') {
		parse_parameter(p, w, from, quoted);
	} else if (c == '(') {
		parse_parenthesis(p, w, from, quoted);
	} else if (parser_is_name(c) && !isdigit(c)) {
		while (parser_is_name(parser_peek(p)))
			p->at++;
		add_expansion(p, w, from, SHELL_VARIABLE, quoted);
	} else if (c != PARSER_END && (isdigit(c) || strchr("@*#?$!-", c))) {
		p->at++;
		add_expansion(p, w, from, SHELL_VARIABLE, quoted && c != '@');
	} else if (c == '[' || (!quoted && (c == '\'' || c == '"'))) {
		p->script->bashisms = true;
		p->shifts_lines |= c != '[';
		if (!bash) {
			word_parts_add_literal(p, w, from, 1, quoted);
		} else if (c == '[') {
			p->at++;
			parse_expression(p, w, '[', ']');
			add_expansion(p, w, from, SHELL_ARITHMETIC, quoted);
		} else if (c == '\'') {
			p->at++;
			parse_ansi(p, w);
		} /* $"…": ordinary double quotes follow */
	} else {
		word_parts_add_literal(p, w, from, 1, quoted);
	}
}

void parse_double_quoted(struct parser *p, struct word_parts *w, int close)
{
	const char *protects = close == '"' ? "$`\"\\" : "$`\\";

	w->quoted = true;
	for (;;) {
		int c = parser_peek(p);

		if (c == close && !p->failed) {
			p->at += c != PARSER_END;
			return;
		}
		if (c == PARSER_END) {
			parser_fail(p, "unterminated \"");
			return;
		}
		if (c == '$') {
			parse_dollar(p, w, true);
		} else if (c == '`') {
			parse_backquotes(p, w, true);
		} else {
			const char *from = p->at;

			if (c == '\\' && p->at + 1 < p->end) {
				from += strchr(protects, p->at[1]) != NULL;
				p->at += 2;
			} else {
				while (p->at < p->end && !strchr("$`\\", *p->at) && (unsigned char)*p->at != close)
					p->at++;
				p->at += p->at == from;
			}
			word_parts_add_literal(p, w, from, (size_t)(p->at - from), true);
		}
	}
}

/* ---- words ---- */

/* ~ and ~name up to a / or the end. */
static bool parse_tilde(struct parser *p, struct word_parts *w)
{
	const char *from = p->at;
	size_t n = 1;
	int c;

	for (p->at++; parser_is_name(c = parser_peek(p)) || c == '.' || c == '+' || c == '-'; p->at++)
		n++;
	const bool is = c == '/' || c == ':' || parser_ends_word(c);
	char *text = shell_arena_alloc(p->arena, n + 1);
	p->at = from;
	if (!is)
		return false;
	for (size_t i = 0; i < n; i++, p->at++)
		text[i] = (char)parser_peek(p);
	word_parts_add(p, w,
		       (struct shell_part){ .kind = SHELL_PART_TILDE, .unknown = SHELL_TILDE, .text = text, .len = n });
	return true;
}

/* Parses literal characters and those of a pattern. */
static void parse_run(struct parser *p, struct word_parts *w)
{
	const char *from = p->at;

	for (; p->at < p->end && (p->at == from || !strchr(" \t\n;&|()<>\\'\"$`@?*+!", *p->at)); p->at++) {
		const char c = *p->at;

		w->glob |= c == '*' || c == '?' || (c == ']' && w->open_bracket);
		w->open_bracket |= c == '[';
		w->brace |= c == '{';
	}
	word_parts_add_literal(p, w, from, (size_t)(p->at - from), false);
}

/* In parentheses of a pattern or a regular expression every character belongs to it; in the latter also | < >. */
static bool ends_here(struct parser *p, enum word_mode mode, size_t parens, int c)
{
	if (parens && c != PARSER_END)
		return false;
	if (!parser_ends_word(c))
		return false;
	if (mode == WORD_REGEX && ((c == '|' && parser_peek2(p) != '|') || c == '(' || c == '<' || c == '>'))
		return false;
	return !((c == '<' || c == '>') && p->dialect == SHELL_BASH && parser_peek2(p) == '(');
}

void parse_subscript(struct parser *p)
{
	struct word_parts inner = { 0 };
	const char *from = p->at;
	size_t depth = 0;

	p->computes = true;
	if (!parser_enter(p))
		return;
	for (int c; (c = parser_peek(p)) != PARSER_END;) {
		if (c == '$') {
			parse_dollar(p, &inner, false);
		} else if (c == '`') {
			parse_backquotes(p, &inner, false);
		} else if (c == '\'') {
			parse_single_quoted(p, &inner);
		} else if (c == '"') {
			p->at++;
			parse_double_quoted(p, &inner, '"');
		} else {
			p->at += c == '\\' && p->at + 1 < p->end ? 2 : 1;
			depth += c == '[';
			if (c == ']' && --depth == 0) {
				parser_computes(p, from, p->at);
				parser_leave(p);
				return;
			}
		}
	}
	parser_fail(p, "unterminated [");
}

/* A tilde is special only at the beginning of a word. */
void parse_word_parts(struct parser *p, enum word_mode mode, struct word_parts *w)
{
	*w = (struct word_parts){ .offset = parser_offset(p, p->at) };
	if (parser_peek(p) == '~')
		parse_tilde(p, w);
	parse_word_rest(p, mode, w);
}

void parse_word_rest(struct parser *p, enum word_mode mode, struct word_parts *w)
{
	size_t parens = 0;

	for (int c; !ends_here(p, mode, parens, c = parser_peek(p)) && c != PARSER_END;) {
		const bool pattern = strchr("?*+@!", c) && parser_peek2(p) == '(' && (mode != WORD_PLAIN || p->extglob);

		if (c == '\\') {
			const size_t n = p->at + 1 < p->end ? 2 : 1;

			if (n == 1)
				parser_ambiguous(p, "a backslash at the end");
			word_parts_add_literal(p, w, p->at + n - 1, 1, true);
			p->at += n;
		} else if (c == '\'') {
			parse_single_quoted(p, w);
		} else if (c == '"') {
			p->at++;
			parse_double_quoted(p, w, '"');
		} else if (c == '$') {
			parse_dollar(p, w, false);
		} else if (c == '`') {
			parse_backquotes(p, w, false);
		} else if ((c == '<' || c == '>') && p->dialect == SHELL_BASH && parser_peek2(p) == '(') {
			parse_process_substitution(p, w);
		} else if (pattern || c == '(' || (parens && c == ')')) {
			parens = c == ')' ? parens - 1 : parens + 1;
			w->glob = true;
			word_parts_add_literal(p, w, p->at, 1, false);
			p->at++;
			if (pattern && parser_peek(p) == '(')
				p->at++;
		} else {
			parse_run(p, w);
		}
	}
	if (parens)
		parser_fail(p, "unterminated (");
}

void parse_word(struct parser *p, enum word_mode mode, struct shell_word *ret)
{
	struct word_parts w;

	parse_word_parts(p, mode, &w);
	word_parts_finish(p, &w, ret);
}
