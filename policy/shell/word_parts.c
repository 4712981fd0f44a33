/* A word as a list of parts, the parts of $'…', and the word that results from them. */

#include "policy/shell/parser.h"
#include "runtime/base/text.h"

#include <ctype.h>
#include <limits.h>
#include <stdint.h>

void word_parts_add(struct parser *p, struct word_parts *w, struct shell_part part)
{
	w->part = shell_arena_grow(p->arena, w->part, w->count, sizeof(*w->part));
	w->part[w->count++] = part;
	w->unknown |= part.unknown;
	w->quoted |= part.quoted;
}

void word_parts_add_literal(struct parser *p, struct word_parts *w, const char *s, size_t n, bool quoted)
{
	word_parts_add(p, w, (struct shell_part){ .kind = SHELL_PART_LITERAL, .quoted = quoted, .text = s, .len = n });
	/*
	 * A quoted a[$(…)] is text here, but if it reaches an arithmetic evaluation the shell runs the substitution in
	 * it (`hidden`).
	 */
	p->subscript |= quoted && n >= 3 && (memmem(s, n, "[$(", 3) || memmem(s, n, "[`", 2));
}

/* of=~/x: for bash a word in the form of an assignment, where ~ is expanded; the first part is split there. */
static struct word_parts with_tilde(struct parser *p, const struct word_parts *w)
{
	const struct shell_part *first = w->part;
	size_t n = 0;

	if (p->dialect != SHELL_BASH || !w->count || first->kind != SHELL_PART_LITERAL || first->quoted)
		return *w;
	while (n < first->len && parser_is_name(first->text[n]))
		n++;
	if (n == first->len && w->count > 1 && w->part[1].len > 2 &&
	    memcmp(w->part[1].text, "+=", 2) == 0) { /* += as a part of its own */
		struct word_parts appends = *w;

		appends.unknown |= memchr(w->part[1].text, '~', w->part[1].len) ? SHELL_TILDE : 0;
		p->script->bashisms |= appends.unknown != w->unknown;
		return appends;
	}
	if (!n || n + 1 >= first->len || first->text[n] != '=' || isdigit((unsigned char)*first->text))
		return *w;
	struct word_parts made = *w;
	if (memmem(first->text, first->len, ":~", 2))
		made.unknown |= SHELL_TILDE;
	if (first->text[n + 1] != '~')
		return made;
	p->script->bashisms = true;
	made.unknown |= SHELL_TILDE;
	if (n + 2 < first->len ? first->text[n + 2] != '/' : w->count > 1)
		return made; /* ~name, or the text after it is unknown */
	made.part = shell_arena_alloc(p->arena, (w->count + 2) * sizeof(*made.part));
	made.part[0] = made.part[2] = *first;
	made.part[0].len = n + 1;
	made.part[1] = (struct shell_part){ .kind = SHELL_PART_TILDE, .unknown = SHELL_TILDE, .text = "~", .len = 1 };
	made.part[2].text += n + 2;
	made.part[2].len -= n + 2;
	memcpy(made.part + 3, w->part + 1, (w->count - 1) * sizeof(*made.part));
	made.count += 2;
	return made;
}

void word_parts_finish(struct parser *p, const struct word_parts *written, struct shell_word *ret)
{
	const struct word_parts made = with_tilde(p, written), *w = &made;
	size_t n = 0;

	for (size_t i = 0; i < w->count; i++)
		n += w->part[i].len;
	char *plain = shell_arena_alloc(p->arena, n + 1);
	n = 0;
	for (size_t i = 0; i < w->count; i++) {
		memcpy(plain + n, w->part[i].text, w->part[i].len);
		n += w->part[i].len;
	}
	*ret = (struct shell_word){
		.plain = plain,
		.unknown = w->unknown | (w->glob ? SHELL_GLOB : 0),
		.quoted = w->quoted,
		.many = w->many || w->glob,
		.part = w->part,
		.nparts = w->count,
		.offset = w->offset,
	};
	/* One unknown part makes the whole word unknown: a caller that compares values must never see a guess. */
	ret->value = ret->unknown ? NULL : plain;
}

/* ---- $'…': the escapes of C, and bash's own ---- */

/* Reads up to `digits` digits and returns the position after them; the same position if there is none. */
static const char *parse_number(const char *s, const char *end, unsigned base, unsigned digits, uint32_t *ret)
{
	*ret = 0;
	for (; digits && s < end && isxdigit((unsigned char)*s); s++, digits--) {
		unsigned d = isdigit((unsigned char)*s) ? (unsigned)(*s - '0')
							: (unsigned)(tolower((unsigned char)*s) - 'a') + 10;

		if (d >= base)
			break;
		*ret = *ret * base + d;
	}
	return s;
}

/* Decodes one escape after its backslash; writes at most as many bytes as it reads, plus the backslash. */
static const char *parse_escape(const char *s, const char *end, char *out, size_t *n)
{
	static const char from[] = "abeEfnrtv\\'\"?", to[] = "\a\b\033\033\f\n\r\t\v\\'\"?";
	const char c = *s, *known = strchr(from, c);
	uint32_t value;

	if (known) {
		out[(*n)++] = to[known - from];
		return s + 1;
	}
	if (c >= '0' && c <= '7') {
		s = parse_number(s, end, 8, 3, &value);
		out[(*n)++] = (char)value;
		return s;
	}
	if (c == 'x' && s + 1 < end && s[1] == '{') {
		/* Any number of digits, of which the last byte counts, also none; the closing brace may be missing. */
		s = parse_number(s + 2, end, 16, UINT_MAX, &value);
		out[(*n)++] = (char)value;
		return s < end && *s == '}' ? s + 1 : s;
	}
	if (c == 'x' || c == 'u' || c == 'U') {
		const char *after = parse_number(s + 1, end, 16, c == 'x' ? 2 : c == 'u' ? 4 : 8, &value);

		if (after > s + 1 && value <= 0x10ffff) {
			if (c == 'x')
				out[(*n)++] = (char)value;
			else
				*n += text_utf8_encode(value, out + *n);
			return after;
		}
	} else if (c == 'c' && s + 1 < end) {
		out[(*n)++] = s[1] == '?' ? 0x7f : (char)(s[1] & 0x1f);
		return s[1] == '\\' && s + 2 < end && s[2] == '\\' ? s + 3 : s + 2;
	}
	/* An unknown escape stays as it is, with its backslash. */
	out[(*n)++] = '\\';
	out[(*n)++] = c;
	return s + 1;
}

void parse_ansi(struct parser *p, struct word_parts *w)
{
	const char *s = p->at, *end = s;

	while (end < p->end && *end != '\'')
		end += *end == '\\' ? 2 : 1;
	if (end >= p->end) {
		parser_fail(p, "unterminated $'");
		return;
	}
	/* \u80 is shorter than its encoding. */
	char *out = shell_arena_alloc(p->arena, 2 * (size_t)(end - s) + 1);
	size_t n = 0;
	while (s < end) {
		if (*s == '\\')
			s = parse_escape(s + 1, end, out, &n);
		else
			out[n++] = *s++;
	}
	const char *nul = memchr(out, '\0', n); /* the text after a NUL is dropped */
	word_parts_add_literal(p, w, out, nul ? (size_t)(nul - out) : n, true);
	p->at = end + 1;
}
