/*
 * The state of one parse: errors, depth and characters.
 *
 * A backslash before a newline is removed, even in the middle of an operator or a name, so characters are read through
 * parser_peek, except where the shell takes such a pair as text: in single quotes, comments and quoted here-documents.
 *
 * Errors are of three kinds. A syntax error ends the parse. An error in a part that the shell parses only when it runs
 * it (backquotes, a here-document) is forgiven: it is reported, and the rest of the text is parsed, because the shell
 * would run that rest. A limit is ours and not the shell's; it is never forgiven, because the commands behind it are
 * unknown.
 */

#include "policy/shell/parser.h"

#include <ctype.h>
#include <stdarg.h>

/* Line and column of an offset in the parsed text, both from 1. */
static void shell_position(const char *text, size_t len, size_t offset, size_t *ret_line, size_t *ret_column)
{
	size_t line = 1, start = 0;

	if (offset > len)
		offset = len;
	for (const char *nl; start < offset && (nl = memchr(text + start, '\n', offset - start)); line++)
		start = (size_t)(nl - text) + 1;
	*ret_line = line;
	*ret_column = offset - start + 1;
}

void parser_fail(struct parser *p, const char *fmt, ...)
{
	va_list ap;

	if (!p->failed) {
		struct shell_error *e = &p->script->error;

		p->failed = true;
		if (e->message[0] && !e->limit) { /* an error of a part, forgiven: the first one is reported */
			p->at = p->end;
			return;
		}
		va_start(ap, fmt);
		(void)vsnprintf(e->message, sizeof(e->message), fmt, ap);
		va_end(ap);
		/* Before the position moves to the end. */
		shell_position(p->text, p->len, parser_offset(p, p->at), &e->line, &e->column);
	}
	p->at = p->end;
}

void parser_limit(struct parser *p, const char *what)
{
	if (!p->failed)
		p->script->error.limit = true;
	parser_fail(p, "%s", what);
}

void parser_forgive(struct parser *p)
{
	if (!p->failed || p->script->error.limit)
		return;
	p->failed = false;
	p->soft = true;
}

void parser_ambiguous(struct parser *p, const char *what)
{
	if (!p->script->ambiguous)
		p->script->ambiguous = what;
}

/* Every recursion goes through here, so the depth of the C stack is limited. */
bool parser_enter(struct parser *p)
{
	if (p->depth++ < SHELL_DEPTH_MAX)
		return true;
	parser_limit(p, "nested too deeply");
	return false;
}

void parser_leave(struct parser *p) { p->depth--; }

size_t parser_scope_enter(struct parser *p)
{
	struct shell_script *s = p->script;
	const size_t before = p->scope;

	s->scope = shell_arena_grow(p->arena, s->scope, s->nscopes, sizeof(*s->scope));
	s->scope[s->nscopes] = before;
	p->scope = s->nscopes++;
	return before;
}

/* In a copy every position is that of the copy's beginning in the text. */
size_t parser_offset(const struct parser *p, const char *at)
{
	return p->fixed ? p->fixed - 1 : (size_t)(at - p->text);
}

int parser_peek(struct parser *p)
{
	if (p->failed)
		return PARSER_END;
	/*
	 * Skips continuation lines here and not in a pass before the parse: inside single quotes and quoted
	 * here-documents they are text, and offsets must refer to the original.
	 */
	while (p->end - p->at >= 2 && p->at[0] == '\\' && p->at[1] == '\n')
		p->at += 2;
	return p->at < p->end ? (unsigned char)*p->at : PARSER_END;
}

int parser_peek2(struct parser *p)
{
	if (parser_peek(p) == PARSER_END)
		return PARSER_END;
	const char *s = p->at + 1;
	while (p->end - s >= 2 && s[0] == '\\' && s[1] == '\n')
		s += 2;
	return s < p->end ? (unsigned char)*s : PARSER_END;
}

void parser_skip_blanks(struct parser *p)
{
	for (int c; (c = parser_peek(p)) == ' ' || c == '\t';)
		p->at++;
	/*
	 * A comment begins only where a word could begin, which is where this is called. A backslash at its end does
	 * not continue it.
	 */
	if (parser_peek(p) == '#')
		while (p->at < p->end && *p->at != '\n')
			p->at++;
}

bool parser_ends_word(int c) { return c == PARSER_END || strchr(" \t\n;&|()<>", c) != NULL; }

bool parser_is_name(int c) { return c == '_' || (c != PARSER_END && c < 0x80 && isalnum(c)); }

void parser_sets(struct parser *p, const char *name, size_t len, const char *list, size_t list_len)
{
	struct shell_script *s = p->script;

	s->set = shell_arena_grow(p->arena, s->set, s->nset, sizeof(*s->set));
	s->set[s->nset++] = (struct shell_set){ .name = shell_arena_strndup(p->arena, name, len),
						.list = list ? shell_arena_strndup(p->arena, list, list_len) : NULL };
}

void parser_computes(struct parser *p, const char *from, const char *to)
{
	struct shell_script *s = p->script;

	p->computes = true;
	if (p->failed || to <= from)
		return;
	s->computes = shell_arena_grow(p->arena, s->computes, s->ncomputes, sizeof(*s->computes));
	s->computes[s->ncomputes++] = (struct shell_text){ .text = from, .len = (size_t)(to - from) };
}
