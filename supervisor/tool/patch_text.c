#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "supervisor/tool/patch.h"

#include <string.h>

/*
 * Hunks are located in the old text, which does not change while they are applied: line numbers need no correction for
 * earlier hunks. They apply in order and do not overlap, since each one is searched behind the end of the one before.
 *
 * Every place is tried with an exact comparison before any is tried with a loose one. A loose match ignores trailing
 * white space only: indentation decides what code means. Context lines are copied from the file and not from the patch,
 * so a loose match does not change lines that the patch does not mention.
 */

struct text_line {
	const char *text;
	size_t len; /* without the newline */
};

struct text_lines {
	struct text_line *line;
	size_t count;
	bool ended; /* the last line ends with a newline */
};

static void split_lines(const char *p, size_t len, struct text_lines *ret)
{
	const char *end = p + len;
	size_t cap = 0;

	*ret = (struct text_lines){ .ended = len && p[len - 1] == '\n' };
	while (p < end) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));

		if (ret->count == cap) {
			cap = cap ? 2 * cap : 64;
			ret->line = mem_realloc(ret->line, cap * sizeof(*ret->line));
		}
		ret->line[ret->count++] = (struct text_line){ p, (size_t)((nl ? nl : end) - p) };
		p = nl ? nl + 1 : end;
	}
}

static size_t trimmed_length(const char *p, size_t n)
{
	while (n && (p[n - 1] == ' ' || p[n - 1] == '\t' || p[n - 1] == '\r'))
		n--;
	return n;
}

static bool line_equals(struct text_line a, const char *p, size_t n, bool loose)
{
	size_t an = loose ? trimmed_length(a.text, a.len) : a.len, bn = loose ? trimmed_length(p, n) : n;

	return an == bn && memcmp(a.text, p, an) == 0;
}

/* Whether the hunk's old lines match at `at`. `loose`: trailing spaces are ignored. */
static bool hunk_fits(const struct text_lines *t, const struct patch_hunk *h, size_t at, bool loose)
{
	for (size_t i = 0; i < h->nlines; i++) {
		if (h->lines[i].kind == '+')
			continue;
		if (at >= t->count || !line_equals(t->line[at], h->lines[i].text, h->lines[i].len, loose))
			return false;
		at++;
	}
	return true;
}

static size_t old_count(const struct patch_hunk *h)
{
	size_t n = 0;

	for (size_t i = 0; i < h->nlines; i++)
		n += h->lines[i].kind != '+';
	return n;
}

/* Finds the match nearest to `wanted`, not before `from`. */
static bool find_nearest_match(const struct text_lines *t, const struct patch_hunk *h, size_t from, size_t wanted,
			       bool loose, size_t *ret)
{
	if (wanted < from)
		wanted = from;
	for (size_t d = 0; wanted + d <= t->count || (wanted >= d && wanted - d >= from); d++) {
		if (wanted + d <= t->count && hunk_fits(t, h, wanted + d, loose)) {
			*ret = wanted + d;
			return true;
		}
		if (d && wanted >= d && wanted - d >= from && hunk_fits(t, h, wanted - d, loose)) {
			*ret = wanted - d;
			return true;
		}
	}
	return false;
}

static bool find_header(const struct text_lines *t, const struct patch_hunk *h, size_t *from)
{
	for (int loose = 0; loose < 2; loose++)
		for (size_t i = *from; i < t->count; i++)
			if (line_equals(t->line[i], h->after, h->after_len, loose)) {
				*from = i + 1;
				return true;
			}
	return false;
}

/* Finds where the hunk applies; −1 = nowhere. */
static int locate_hunk(const struct text_lines *t, const struct patch_hunk *h, size_t from, size_t *ret,
		       const char **ret_why)
{
	size_t old = old_count(h);

	*ret_why = "its lines are not there";
	if (h->after && !find_header(t, h, &from)) {
		*ret_why = "the line after @@ is not there";
		return -1;
	}
	if (!old) {
		/* Only additions: insert at the line number, after the header, or at the end. */
		*ret = h->old_line ? (h->old_line < t->count ? h->old_line : t->count) : h->after ? from : t->count;
		return *ret >= from ? 0 : -1;
	}
	for (int loose = 0; loose < 2; loose++) {
		if (h->at_end && t->count >= old && t->count - old >= from && hunk_fits(t, h, t->count - old, loose)) {
			*ret = t->count - old;
			return 0;
		}
		if (find_nearest_match(t, h, from, h->old_line ? h->old_line - 1 : from, loose, ret))
			return 0;
	}
	return -1;
}

/* The output so far, and whether its last line ends with a newline. */
struct writer {
	struct buf *out;
	const struct text_lines *old;
	bool newline;
	bool returned; /* a carriage return was added to the last line */
};

static void copy_line(struct writer *w, size_t at)
{
	buf_append(w->out, w->old->line[at].text, w->old->line[at].len);
	buf_byte(w->out, '\n');
	w->newline = at + 1 < w->old->count || w->old->ended;
	w->returned = false;
}

static void add_line(struct writer *w, const struct patch_line *l, bool newline, bool returns)
{
	buf_append(w->out, l->text, l->len);
	buf_str(w->out, returns ? "\r\n" : "\n");
	w->newline = newline;
	w->returned = returns;
}

static bool has_return(const char *p, size_t n) { return n && p[n - 1] == '\r'; }

/*
 * Whether every line of the text ends with a carriage return and none of the hunk's does: its author did not see them.
 * A unified diff without context lines is taken literally.
 */
static bool lacks_returns(const struct text_lines *t, const struct patch_hunk *h)
{
	if (h->old_line && !old_count(h))
		return false;
	for (size_t i = 0; i < h->nlines; i++)
		if (has_return(h->lines[i].text, h->lines[i].len))
			return false;
	for (size_t i = 0; i < t->count; i++)
		if (!has_return(t->line[i].text, t->line[i].len) && (i + 1 < t->count || t->ended))
			return false;
	return t->count > !t->ended;
}

int patch_text(const struct patch_file *f, const char *old, size_t old_len, struct buf *ret, struct err *e)
{
	struct text_lines t;
	struct writer w = { .out = ret, .old = &t, .newline = true };
	size_t at = 0;
	int r = 0;

	split_lines(old, old_len, &t);
	for (size_t i = 0; r == 0 && i < f->nhunks; i++) {
		const struct patch_hunk *h = &f->hunks[i];
		const char *why;
		size_t where;

		if (locate_hunk(&t, h, at, &where, &why) < 0) {
			r = err_because(e, ERR_CONFLICT, REASON_PATCH_STALE, "hunk %zu of '%.200s' does not apply: %s",
					i + 1, f->path, why);
			break;
		}
		while (at < where)
			copy_line(&w, at++);
		bool returns = lacks_returns(&t, h);
		for (size_t k = 0; k < h->nlines; k++) {
			if (h->lines[k].kind == '+')
				add_line(&w, &h->lines[k], !h->no_newline, returns);
			else if (h->lines[k].kind == ' ')
				copy_line(&w, at); /* as in the file, including its trailing spaces */
			at += h->lines[k].kind != '+';
		}
	}
	while (r == 0 && at < t.count)
		copy_line(&w, at++);
	if (r == 0 && !w.newline && ret->len) {
		ret->len -= w.returned ? 2 : 1;
		ret->data[ret->len] = '\0';
	}
	free(t.line);
	return r;
}
