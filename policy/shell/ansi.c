/* $'…': the escapes of C, and bash's own. */

#include "policy/shell/parser.h"

#include <ctype.h>
#include <stdint.h>

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

static size_t encode_utf8(uint32_t c, char *out)
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	for (size_t i = n - 1; i > 0; i--, c >>= 6)
		out[i] = (char)(0x80 | (c & 0x3f));
	out[0] = (char)((n == 2 ? 0xc0 : n == 3 ? 0xe0 : 0xf0) | c);
	return n;
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
	if (c == 'x' || c == 'u' || c == 'U') {
		const char *after = parse_number(s + 1, end, 16, c == 'x' ? 2 : c == 'u' ? 4 : 8, &value);

		if (after > s + 1 && value <= 0x10ffff) {
			if (c == 'x')
				out[(*n)++] = (char)value;
			else
				*n += encode_utf8(value, out + *n);
			return after;
		}
	} else if (c == 'c' && s + 1 < end) {
		out[(*n)++] = (char)(s[1] & 0x1f);
		return s + 2;
	}
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
