#include "sandbox/diff.h"

#include "runtime/base/buf.h"
#include "runtime/base/hash.h"
#include "runtime/base/mem.h"

#include <stdint.h>
#include <string.h>

#define EDITS_MAX 1000       /* the history needs memory quadratic in this */
#define WORK_MAX (32u << 20) /* line comparisons before the search gives up */

struct diff_line {
	const char *text;
	size_t len; /* including its newline, if any */
	uint64_t hash;
};

/* One of the two texts. */
struct diff_text {
	struct diff_line *lines;
	bool *changed; /* per line: removed from this text, or added in it */
	size_t count;
};

/* The lines of a hunk, [from, to) of each text. */
struct range {
	size_t a_from, a_to, b_from, b_to;
};

struct diff_search {
	const struct diff_line *a, *b;
	int n, m;     /* lines between the common prefix and suffix */
	int most;     /* edits before the search gives up */
	int *v;       /* furthest x on diagonal k, at v[k + most + 1] */
	int *history; /* v's diagonals −d … d before round d, one after another */
	uint64_t work;
};

bool diff_is_text(const char *p, size_t n) { return n == 0 || memchr(p, 0, n) == NULL; }

static void diff_text_split(struct diff_text *s, const char *p, size_t n)
{
	size_t count = 0;
	for (const char *at = p, *end = p + n; at < end; count++) {
		const char *nl = memchr(at, '\n', (size_t)(end - at));
		at = nl ? nl + 1 : end;
	}
	s->lines = mem_zalloc(count + 1, sizeof *s->lines);
	s->changed = mem_zalloc(count + 1, sizeof *s->changed);
	for (const char *at = p, *end = p + n; at < end;) {
		const char *nl = memchr(at, '\n', (size_t)(end - at));
		size_t len = nl ? (size_t)(nl - at) + 1 : (size_t)(end - at);
		s->lines[s->count++] = (struct diff_line){ .text = at, .len = len, .hash = hash64(at, len, 0) };
		at += len;
	}
}

static void diff_text_done(struct diff_text *s)
{
	free(s->lines);
	free(s->changed);
}

static bool same_line(const struct diff_line *a, const struct diff_line *b)
{
	return a->hash == b->hash && a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
}

/* The furthest point of diagonal k in round d: one edit from a neighbour, then along equal lines. */
static int advance_lines(struct diff_search *s, int d, int k)
{
	int *v = s->v + s->most + 1;
	int x = k == -d || (k != d && v[k - 1] < v[k + 1]) ? v[k + 1] : v[k - 1] + 1;
	while (x < s->n && x - k < s->m && same_line(&s->a[x], &s->b[x - k])) {
		x++;
		s->work++;
	}
	s->work++;
	v[k] = x;
	return x;
}

static int *history_of(const struct diff_search *s, int d)
{
	return s->history + (size_t)d * (size_t)d; /* rounds 0 … d−1 left 1 + 3 + … + (2d − 1) numbers */
}

/* The number of edits, or −1 if there are too many. */
static int count_edits(struct diff_search *s)
{
	for (int d = 0; d <= s->most && s->work < WORK_MAX; d++) {
		memcpy(history_of(s, d), s->v + s->most + 1 - d, (size_t)(2 * d + 1) * sizeof *s->v);
		for (int k = -d; k <= d; k += 2) {
			int x = advance_lines(s, d, k);
			if (x >= s->n && x - k >= s->m)
				return d;
		}
	}
	return -1;
}

/* Walks back through the rounds and marks the edited lines. */
static void mark_changes(const struct diff_search *s, int edits, bool *a_changed, bool *b_changed)
{
	int x = s->n, y = s->m;
	for (int d = edits; d > 0; d--) {
		const int *v = history_of(s, d) + d;
		int k = x - y;
		bool down = k == -d || (k != d && v[k - 1] < v[k + 1]);
		int from_k = down ? k + 1 : k - 1;
		int from_x = v[from_k], from_y = from_x - from_k;
		if (down)
			b_changed[from_y] = true;
		else
			a_changed[from_x] = true;
		x = from_x;
		y = from_y;
	}
}

static void compare_lines(struct diff_text *a, struct diff_text *b)
{
	size_t head = 0, tail = 0, least = a->count < b->count ? a->count : b->count;
	while (head < least && same_line(&a->lines[head], &b->lines[head]))
		head++;
	while (tail < least - head && same_line(&a->lines[a->count - 1 - tail], &b->lines[b->count - 1 - tail]))
		tail++;
	struct diff_search s = { .a = a->lines + head,
				 .b = b->lines + head,
				 .n = (int)(a->count - head - tail),
				 .m = (int)(b->count - head - tail) };
	int edits = -1;
	if (s.n > 0 && s.m > 0) {
		s.most = s.n + s.m < EDITS_MAX ? s.n + s.m : EDITS_MAX;
		s.v = mem_zalloc(2 * (size_t)s.most + 4, sizeof *s.v);
		s.history = mem_zalloc(((size_t)s.most + 1) * ((size_t)s.most + 1), sizeof *s.history);
		edits = count_edits(&s);
		if (edits >= 0)
			mark_changes(&s, edits, a->changed + head, b->changed + head);
		free(s.v);
		free(s.history);
	}
	if (edits < 0) {
		memset(a->changed + head, true, (size_t)s.n);
		memset(b->changed + head, true, (size_t)s.m);
	}
}

/* ---- hunks ---- */

static void put_line(struct buf *out, char sign, const struct diff_line *l)
{
	buf_byte(out, sign);
	buf_append(out, l->text, l->len);
	if (l->text[l->len - 1] != '\n')
		buf_str(out, "\n\\ No newline at end of file\n");
}

/* "3,4"; a count of 1 is omitted, and an empty range names the line before it. */
static void put_range(struct buf *out, char sign, size_t from, size_t to)
{
	size_t n = to - from;
	buf_printf(out, "%c%zu", sign, n ? from + 1 : from);
	if (n != 1)
		buf_printf(out, ",%zu", n);
}

static void put_hunk(struct buf *out, const struct diff_text *a, const struct diff_text *b, const struct range *r)
{
	size_t i = r->a_from, j = r->b_from;
	buf_str(out, "@@ ");
	put_range(out, '-', r->a_from, r->a_to);
	buf_byte(out, ' ');
	put_range(out, '+', r->b_from, r->b_to);
	buf_str(out, " @@\n");
	while (i < r->a_to || j < r->b_to) {
		if (i < r->a_to && a->changed[i])
			put_line(out, '-', &a->lines[i++]);
		else if (j < r->b_to && b->changed[j])
			put_line(out, '+', &b->lines[j++]);
		else {
			put_line(out, ' ', &a->lines[i++]);
			j++;
		}
	}
}

static bool at_change(const struct diff_text *s, size_t i) { return i < s->count && s->changed[i]; }

static bool put_hunks(const struct diff_text *a, const struct diff_text *b, struct buf *out)
{
	struct range r = { 0 };
	bool open = false;
	size_t i = 0, j = 0, equal = 0;
	while (i < a->count || j < b->count) {
		if (!at_change(a, i) && !at_change(b, j)) {
			i++;
			j++;
			equal++;
			continue;
		}
		if (open && equal > 2 * DIFF_CONTEXT) {
			r.a_to += DIFF_CONTEXT;
			r.b_to += DIFF_CONTEXT;
			put_hunk(out, a, b, &r);
			open = false;
		}
		if (!open) {
			size_t before = equal < DIFF_CONTEXT ? equal : DIFF_CONTEXT;
			r.a_from = i - before;
			r.b_from = j - before;
			open = true;
		}
		while (at_change(a, i))
			i++;
		while (at_change(b, j))
			j++;
		r.a_to = i;
		r.b_to = j;
		equal = 0;
	}
	if (open) {
		size_t after = equal < DIFF_CONTEXT ? equal : DIFF_CONTEXT;
		r.a_to += after;
		r.b_to += after;
		put_hunk(out, a, b, &r);
	}
	return open || r.a_to || r.b_to;
}

bool diff_unified(const char *a, size_t an, const char *b, size_t bn, struct buf *out)
{
	struct diff_text left = { 0 }, right = { 0 };
	diff_text_split(&left, a, an);
	diff_text_split(&right, b, bn);
	compare_lines(&left, &right);
	bool differ = put_hunks(&left, &right, out);
	diff_text_done(&left);
	diff_text_done(&right);
	return differ;
}

static bool needs_escape(unsigned char c) { return c < ' ' || c == 0x7f || c == '"' || c == '\\'; }

void diff_name(const char *side, const char *path, struct buf *out)
{
	static const char named[] = "abtnvfr"; /* starting at BEL */
	bool quote = false;
	for (const char *p = path; *p; p++)
		quote |= needs_escape((unsigned char)*p);
	if (quote)
		buf_byte(out, '"');
	buf_append(out, side, strlen(side));
	for (const char *p = path; *p; p++) {
		unsigned char c = (unsigned char)*p;
		if (!needs_escape(c))
			buf_byte(out, *p);
		else if (c >= '\a' && c <= '\r')
			buf_printf(out, "\\%c", named[c - '\a']);
		else if (c == '"' || c == '\\')
			buf_printf(out, "\\%c", c);
		else
			buf_printf(out, "\\%03o", c);
	}
	if (quote)
		buf_byte(out, '"');
}
