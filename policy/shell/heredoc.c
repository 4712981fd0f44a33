/*
 * Here-documents: where they end, and which parts of them are run.
 *
 * The end of a document decides which of the following lines are commands, so it must be found exactly as the shell
 * finds it, or be reported as ambiguous. bash reads a document line by line: in an unquoted one a backslash at the end
 * of a line joins it with the next *before* it is compared with the delimiter, and before substitutions are parsed.
 * dash compares at the beginning of each line that is not continued, as a stream of characters, so a delimiter may span
 * lines; and tabs that <<- removes stay inside substitutions. Versions differ in more exotic cases: delimiters made of
 * expansions, `$'…'` or several lines. Those are ambiguous in every dialect. So is a document in a text with `$'…'`,
 * coproc or an array: shells end such words at different positions, or reject the line and then run the document's text
 * as commands.
 */

#include "policy/shell/parser.h"

#include <ctype.h>

#define HEREDOCS_MAX 64 /* whose text has not begun */

/* ---- the delimiter ---- */

/* Whether the $ here begins an expansion or a quote of its own. */
static bool dollar_expands(struct parser *p, int quote)
{
	const int next = parser_peek2(p);

	return next != PARSER_END &&
	       (next == '_' || isalnum(next) || strchr("({[@*#?$!-", next) || (!quote && strchr("'\"", next)));
}

/* Appends to a growing buffer of the arena. */
static void append_character(struct parser *p, char **out, size_t *n, size_t *capacity, int c)
{
	if (*n + 1 >= *capacity) {
		char *more = shell_arena_alloc(p->arena, *capacity = *capacity * 2 + 32);

		memcpy(more, *out, *n);
		*out = more;
	}
	(*out)[(*n)++] = (char)c;
}

/* Reads the delimiter: quotes are removed, nothing is expanded. */
static char *read_delimiter(struct parser *p, struct heredoc *h)
{
	char *out = shell_arena_alloc(p->arena, 1);
	size_t n = 0, capacity = 0;
	int quote = 0;

	for (int c;
	     (c = quote == '\'' ? (p->at < p->end ? (unsigned char)*p->at : PARSER_END) : parser_peek(p)) != PARSER_END;
	     p->at++) {
		if (!quote && parser_ends_word(c))
			break;
		if (quote ? c == quote : c == '\'' || c == '"') {
			quote = quote ? 0 : c;
			h->quoted = true;
			continue;
		}
		if (c == '\n' || (quote != '\'' && (c == '`' || (c == '$' && dollar_expands(p, quote)))))
			parser_ambiguous(p, "the delimiter of a here-document has an expansion or several lines");
		if (c == '\\' && quote != '\'' && p->at + 1 < p->end && (!quote || strchr("$`\"\\", p->at[1]))) {
			h->quoted = true;
			c = (unsigned char)*++p->at;
		}
		append_character(p, &out, &n, &capacity, c);
	}
	if (quote)
		parser_fail(p, "unterminated %c", quote);
	return out;
}

void heredoc_begin(struct parser *p, bool strip, struct shell_redirect *r)
{
	struct heredoc *h = shell_arena_alloc(p->arena, sizeof(*h)), **last = &p->pending;
	const char *from = p->at;

	p->heredocs++;
	h->delimiter = read_delimiter(p, h);
	if (p->at == from && !p->failed) {
		parser_unexpected(p);
		return;
	}
	if (strip && *h->delimiter == '\t')
		parser_ambiguous(p, "the delimiter of a here-document begins with a tab, which <<- removes from lines");
	h->strip = strip;
	r->body = h->body = shell_arena_alloc(p->arena, sizeof(*r->body));
	r->target = (struct shell_word){
		.value = h->delimiter, .plain = h->delimiter, .quoted = h->quoted, .offset = parser_offset(p, from)
	};
	for (size_t i = 0; *last; i++, last = &(*last)->next)
		if (i >= HEREDOCS_MAX) {
			parser_limit(p, "too many here-documents on a line");
			return;
		}
	*last = h;
}

/* ---- lines ---- */

/* The end of the line that begins at s. In an unquoted document continued lines are joined. */
static const char *line_end(const struct parser *p, const struct heredoc *h, const char *s)
{
	for (const char *from = s;; s++) {
		const char *nl = memchr(s, '\n', (size_t)(p->end - s));
		size_t slashes = 0;

		if (!nl)
			return p->end;
		while (nl - slashes > from && nl[-1 - (ptrdiff_t)slashes] == '\\')
			slashes++;
		if (h->quoted || slashes % 2 == 0)
			return nl;
		s = nl;
	}
}

/*
 * If the line, with its continued parts joined and without the tabs that <<- removes, begins with the delimiter,
 * returns the text after it.
 */
static const char *after_delimiter(const struct heredoc *h, const char *s, const char *end)
{
	const char *d = h->delimiter;
	bool tabs = h->strip;

	for (;; s++) {
		while (!h->quoted && end - s >= 2 && s[0] == '\\' && s[1] == '\n')
			s += 2;
		if (tabs && s < end && *s == '\t')
			continue;
		tabs = false;
		if (!*d)
			return s;
		if (s >= end || *s != *d++)
			return NULL;
	}
}

/* Whether a part of a continued line equals the delimiter for a shell that does not join lines first. */
static bool resembles_delimiter(const struct heredoc *h, const char *s, const char *end)
{
	const size_t n = strlen(h->delimiter);

	for (const char *nl; (nl = memchr(s, '\n', (size_t)(end - s))); s = nl + 1) {
		while (h->strip && s < nl && *s == '\t')
			s++;
		if ((size_t)(nl - s) >= n && (size_t)(nl - s) <= n + 1 && memcmp(s, h->delimiter, n) == 0)
			return true;
	}
	while (h->strip && s < end && *s == '\t')
		s++;
	return (size_t)(end - s) == n && memcmp(s, h->delimiter, n) == 0;
}

/* Whether the line ends the document; marks the script as ambiguous where shells disagree. */
static bool is_last_line(struct parser *p, const struct heredoc *h, const char *s, const char *end)
{
	const char *rest = after_delimiter(h, s, end);
	const bool is = rest == end;

	if (memchr(s, '\n', (size_t)(end - s)) && (is || resembles_delimiter(h, s, end))) {
		p->script->bashisms = true;
		if (p->dialect == SHELL_POSIX)
			parser_ambiguous(p, "a continued line of a here-document may be its delimiter");
	}
	/*
	 * In $(…) bash also ends a document at a line that begins with the delimiter and has the closing parenthesis.
	 */
	if (rest && !is && p->context & SHELL_IN_SUBSTITUTION && memchr(rest, ')', (size_t)(end - rest)))
		parser_ambiguous(p, "a closing parenthesis follows the delimiter of a here-document");
	return is;
}

/* ---- the text ---- */

/*
 * The document as bash stores it: continued lines joined, and without the tabs of <<-. Returns the text itself if that
 * changes nothing.
 */
static const char *join_lines(struct parser *p, const struct heredoc *h, const char *s, const char *end,
			      size_t *ret_len)
{
	*ret_len = (size_t)(end - s);
	if (!(h->strip && memchr(s, '\t', *ret_len)) && (h->quoted || !memmem(s, *ret_len, "\\\n", 2)))
		return s;
	char *out = shell_arena_alloc(p->arena, *ret_len + 1);
	size_t n = 0;
	for (bool tabs = h->strip; s < end; s++) {
		if (!h->quoted && *s == '\\' && s + 1 < end) {
			if (s[1] != '\n') {
				out[n++] = *s;
				out[n++] = s[1];
				tabs = false;
			}
			s++;
			continue;
		}
		if (tabs && *s == '\t')
			continue;
		tabs = h->strip && *s == '\n';
		out[n++] = *s;
	}
	*ret_len = n;
	return out;
}

/* The input that a command gets from an unquoted document without expansions. */
static char *unescape_line(struct parser *p, const char *s, size_t len)
{
	char *out = shell_arena_alloc(p->arena, len + 1);
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		if (s[i] == '\\' && i + 1 < len && strchr("$`\\", s[i + 1]))
			i++;
		out[n++] = s[i];
	}
	return out;
}

/* Parses the substitutions of an unquoted document. Returns whether its text is known. */
static bool read_expansions(struct parser *p, const char *from, const char *to, const char *text, size_t len)
{
	struct word_parts w = { .offset = parser_offset(p, from) };
	const char *at = p->at, *end = p->end;
	const size_t fixed = p->fixed;
	const unsigned depth = p->depth;
	const bool copied = text != from;
	const size_t count = p->script->count;

	if (p->dialect == SHELL_POSIX) {
		text = from;
		len = (size_t)(to - from);
	} else if (copied) {
		p->script->bashisms = true;
		p->fixed = parser_offset(p, from) + 1;
	}
	/*
	 * The document is parsed like a double-quoted text, in which a double quote has no meaning. The rest of the
	 * input is set aside meanwhile.
	 */
	p->at = text;
	p->end = text + len;
	p->unclear++;
	parse_double_quoted(p, &w, PARSER_END);
	p->unclear--;
	p->at = at;
	p->end = end;
	p->fixed = fixed;
	p->depth = depth;
	p->script->crosses |= p->script->count > count;
	if (p->failed)
		w.unknown |= SHELL_SUBSTITUTION;
	parser_forgive(p);
	return !w.unknown;
}

void heredoc_body(struct parser *p, const struct heredoc *h)
{
	const char *from = p->at, *to = p->end, *next = p->end;
	size_t len;

	for (const char *s = p->at, *nl; s < p->end; s = nl < p->end ? nl + 1 : nl) {
		nl = line_end(p, h, s);
		if (is_last_line(p, h, s, nl)) {
			to = s;
			next = nl < p->end ? nl + 1 : nl;
			break;
		}
	}
	const char *text = join_lines(p, h, from, to, &len);
	if (h->quoted)
		*h->body = shell_arena_strndup(p->arena, text, len);
	else if (read_expansions(p, from, to, text, len))
		*h->body = unescape_line(p, text, len);
	/* Without the delimiter the document extends to the end, as in the shells, which warn about that at most. */
	p->at = p->failed ? p->end : next;
}
