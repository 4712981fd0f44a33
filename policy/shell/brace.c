/*
 * Brace expansion: {a,b} and {1..3} become several words before anything else is expanded. The braces, commas and dots
 * must be unquoted; the text between them may be anything. A word is treated as a row of pieces: each unquoted
 * character is one piece, and so is each quoted text or expansion. Matching braces are found once for the whole row;
 * the expansion then works on ranges of it.
 */

#include "policy/shell/parser.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>

#define PIECES_MAX 4096
#define BYTES_MAX (256u << 10) /* produced by all braces of one text */

/* Borrowed: a piece is a range of a part's text, so rows are copied without copying text. */
struct brace_piece {
	const struct shell_part *part;
	size_t from, len;
};

struct row {
	struct brace_piece *piece;
	size_t count, bytes;
};

struct rows {
	struct row *row;
	size_t count;
};

struct brace {
	struct parser *p;
	struct row all;
	size_t *close; /* for an opening brace: the index of the closing one; 0: none */
	bool *comma;   /* for an opening brace: it has a comma at its own level */
	unsigned depth;
	bool over;
};

/* The unquoted character that a piece is; −1: quoted text or an expansion. */
static int piece_character(const struct brace_piece *x)
{
	if (x->part->kind != SHELL_PART_LITERAL || x->part->quoted || x->len != 1)
		return -1;
	return (unsigned char)x->part->text[x->from];
}

/* Splits the word into pieces; false: there are too many. */
static bool row_init(struct brace *b, const struct word_parts *w)
{
	size_t n = 0;

	for (size_t i = 0; i < w->count; i++)
		n += w->part[i].kind == SHELL_PART_LITERAL && !w->part[i].quoted ? w->part[i].len : 1;
	if (n > PIECES_MAX)
		return false;
	b->all.piece = shell_arena_alloc(b->p->arena, n * sizeof(*b->all.piece));
	for (size_t i = 0; i < w->count; i++) {
		const struct shell_part *part = &w->part[i];
		const bool split = part->kind == SHELL_PART_LITERAL && !part->quoted;

		for (size_t k = 0; k < (split ? part->len : 1); k++)
			b->all.piece[b->all.count++] = (struct brace_piece){ part, split ? k : 0,
									     split ? 1 : part->len };
	}
	return true;
}

/* Finds the closing brace and a comma for every opening one, in one pass. */
static void match_braces(struct brace *b)
{
	const size_t n = b->all.count;
	size_t *open = shell_arena_alloc(b->p->arena, (n + 1) * sizeof(*open)), depth = 0;

	b->close = shell_arena_alloc(b->p->arena, (n + 1) * sizeof(*b->close));
	b->comma = shell_arena_alloc(b->p->arena, n + 1);
	for (size_t i = 0; i < n; i++) {
		int c = piece_character(&b->all.piece[i]);

		if (c == '{')
			open[depth++] = i;
		else if (c == ',' && depth)
			b->comma[open[depth - 1]] = true;
		else if (c == '}' && depth)
			b->close[open[--depth]] = i;
	}
}

/* {1..{2..3}4}: bash leaves all of it as it is, because the outer braces are not a sequence. */
static bool has_nested_in_sequence(const struct brace *b, size_t open)
{
	bool nested = false, dots = false;

	for (size_t i = open + 1; i < b->close[open]; i++) {
		if (b->close[i]) {
			nested = true;
			i = b->close[i];
		} else {
			dots |= piece_character(&b->all.piece[i]) == '.' &&
				piece_character(&b->all.piece[i + 1]) == '.';
		}
	}
	return nested && dots;
}

/* {a},b} expands to a} and b: for bash a brace pair without a comma is not closed yet. Such words are not expanded. */
static bool is_ambiguous(const struct brace *b)
{
	bool seen = false, comma = false;

	for (size_t i = 0; i < b->all.count; i++) {
		const int c = piece_character(&b->all.piece[i]);

		if (b->close[i] && !b->comma[i] && has_nested_in_sequence(b, i))
			return true;
		if (seen && comma && c == '}')
			return true;
		comma |= seen && c == ',';
		for (size_t k = 0; c == '}' && k < i && !seen; k++)
			seen = b->close[k] == i && !b->comma[k];
	}
	return false;
}

/* Appends the concatenation of three rows, unless the limits are reached. */
static void push_row(struct brace *b, struct rows *out, const struct row *pre, const struct row *mid,
		     const struct row *post)
{
	struct row r = { .count = pre->count + mid->count + post->count,
			 .bytes = pre->bytes + mid->bytes + post->bytes };

	/*
	 * Counts pieces as well as bytes: an empty quoted text takes memory, too. The total is of the whole text, since
	 * many words just below the limit would cost as much as one above it.
	 */
	b->p->braces += r.bytes + r.count;
	if (out->count >= SHELL_BRACES_MAX || b->p->braces > BYTES_MAX) {
		b->over = true;
		return;
	}
	r.piece = shell_arena_alloc(b->p->arena, r.count * sizeof(*r.piece) + 1);
	memcpy(r.piece, pre->piece, pre->count * sizeof(*r.piece));
	memcpy(r.piece + pre->count, mid->piece, mid->count * sizeof(*r.piece));
	memcpy(r.piece + pre->count + mid->count, post->piece, post->count * sizeof(*r.piece));
	out->row = shell_arena_grow(b->p->arena, out->row, out->count, sizeof(*out->row));
	out->row[out->count++] = r;
}

static struct row row_range(const struct brace *b, size_t from, size_t to)
{
	struct row r = { .piece = b->all.piece + from, .count = to - from };

	for (size_t i = 0; i < r.count; i++)
		r.bytes += r.piece[i].len;
	return r;
}

/* Appends a row with this text as its only piece. */
static void push_text(struct brace *b, struct rows *out, const char *text)
{
	struct shell_part *part = shell_arena_alloc(b->p->arena, sizeof(*part));
	const struct row none = { .piece = b->all.piece };
	struct brace_piece piece;

	part->text = shell_arena_strdup(b->p->arena, text);
	part->len = strlen(text);
	piece = (struct brace_piece){ part, 0, part->len };
	push_row(b, out, &none, &(struct row){ .piece = &piece, .count = 1, .bytes = part->len }, &none);
}

struct sequence {
	long from, to, step;
	int width;
	bool letters;
};

/* "1..10", "a..e", "01..10..3" */
static bool sequence_read(const char *s, struct sequence *q)
{
	char *end;
	const char *dots = strstr(s, ".."), *second;

	if (!dots || dots == s)
		return false;
	second = dots + 2;
	q->step = 1;
	if (dots == s + 1 && isalpha((unsigned char)*s) && isalpha((unsigned char)*second) &&
	    (!second[1] || strncmp(second + 1, "..", 2) == 0)) {
		q->letters = true;
		q->from = (unsigned char)*s;
		q->to = (unsigned char)*second;
		end = (char *)(uintptr_t)(second + 1);
	} else {
		q->from = strtol(s, &end, 10);
		if (end != dots || isspace((unsigned char)*s) || isspace((unsigned char)*second))
			return false;
		q->to = strtol(second, &end, 10);
		if (end == second)
			return false;
		const bool zero = (*s == '0' && dots > s + 1) || (*second == '0' && end > second + 1) ||
				  strncmp(s, "-0", 2) == 0;
		q->width = zero ? (int)(dots - s > end - second ? dots - s : end - second) : 0;
	}
	if (strncmp(end, "..", 2) == 0) {
		const char *step = end + 2;

		q->step = strtol(step, &end, 10);
		if (end == step || isspace((unsigned char)*step))
			return false;
	}
	return !*end && labs(q->from) < 1000000000 && labs(q->to) < 1000000000 && labs(q->step) < 1000000000;
}

/* Expands {1..3} and {a..e}; false: the braces contain no sequence. */
static bool expand_sequence(struct brace *b, size_t open, size_t close, struct rows *out)
{
	char text[64], item[40];
	size_t n = 0;
	struct sequence q = { 0 };

	for (size_t i = open + 1; i < close; i++) {
		int c = piece_character(&b->all.piece[i]);

		if (c < 0 || n + 1 >= sizeof(text))
			return false;
		text[n++] = (char)c;
	}
	text[n] = '\0';
	if (!sequence_read(text, &q))
		return false;
	/* {Z..a} contains a backslash and a backquote, which quote or run what follows. */
	b->over |= q.letters && !isupper((int)q.from) != !isupper((int)q.to);
	/* bash ignores the sign of a step, and treats 0 as 1. */
	const long step = q.step ? labs(q.step) : 1;
	for (long i = q.from; !b->over && (q.from <= q.to ? i <= q.to : i >= q.to);
	     i += q.from <= q.to ? step : -step) {
		if (q.letters)
			(void)snprintf(item, sizeof(item), "%c", (char)i);
		else
			(void)snprintf(item, sizeof(item), "%0*ld", q.width > 30 ? 30 : q.width, i);
		push_text(b, out, item);
	}
	return true;
}

/* Expands the first braces of a range, and the rest of the range for each alternative. */
static void expand_row(struct brace *b, size_t from, size_t to, struct rows *out)
{
	const struct row none = { .piece = b->all.piece };
	struct rows middle = { 0 }, post = { 0 };
	size_t open = from;

	if (b->over || ++b->depth > SHELL_DEPTH_MAX) {
		b->over = true;
		return;
	}
	for (; open < to; open++)
		if (b->close[open] && b->close[open] < to &&
		    (b->comma[open] || expand_sequence(b, open, b->close[open], &middle)))
			break;
	const struct row pre = row_range(b, from, open);
	if (open >= to) {
		push_row(b, out, &pre, &none, &none);
		b->depth--;
		return;
	}
	const size_t close = b->close[open];
	if (b->comma[open])
		for (size_t i = open + 1, start = i; i <= close; i++) {
			if (i == close || piece_character(&b->all.piece[i]) == ',') {
				expand_row(b, start, i, &middle);
				start = i + 1;
			} else if (b->close[i] && b->close[i] < close) {
				i = b->close[i];
			}
		}
	expand_row(b, close + 1, to, &post);
	for (size_t i = 0; i < middle.count && !b->over; i++)
		for (size_t k = 0; k < post.count && !b->over; k++)
			push_row(b, out, &pre, &middle.row[i], &post.row[k]);
	b->depth--;
}

/* The word stays in the list without a value: its real words may be anything. */
static void forget_value(struct shell_word *w, unsigned why)
{
	w->value = NULL;
	w->unknown |= why;
	w->many = true;
}

/*
 * Braces are expanded before variables, so text that they join is an expansion that the original does not have:
 * {a$,b}c becomes a$c, {$,b}{x@P} becomes ${x@P}, {$x,b}c the variable xc.
 */
static unsigned joins_expansion(const struct brace_piece *x, const struct brace_piece *next)
{
	const int c = piece_character(next);
	const char *name = x->part->text + 1;

	if (piece_character(x) == '$')
		return SHELL_BRACES | SHELL_EVALUATES;
	if (x->part->kind == SHELL_PART_EXPANSION && !x->part->quoted && x->len > 1 &&
	    (isalpha((unsigned char)*name) || *name == '_') && (isalnum(c) || c == '_'))
		return SHELL_BRACES;
	return 0;
}

/* Joins the pieces of a row to a word; neighbours from the same text become one part. */
static void row_to_word(struct parser *p, const struct word_parts *w, const struct row *r, struct shell_word *ret)
{
	struct word_parts made = { .offset = w->offset, .quoted = w->quoted };
	unsigned joined = 0;

	for (size_t i = 0; i < r->count; i++) {
		const struct brace_piece *x = &r->piece[i];
		struct shell_part *last = made.count ? &made.part[made.count - 1] : NULL;

		joined |= i + 1 < r->count ? joins_expansion(x, x + 1) : 0;
		if (piece_character(x) >= 0) {
			made.glob |= strchr("*?", piece_character(x)) ||
				     (piece_character(x) == ']' && made.open_bracket);
			made.open_bracket |= piece_character(x) == '[';
			made.unknown |= i == 0 && piece_character(x) == '~' ? SHELL_TILDE
									    : 0; /* {,a}~: a home directory */
		}
		made.many |= x->part->kind == SHELL_PART_EXPANSION && !x->part->quoted &&
			     !(x->part->unknown & SHELL_PROCESS);
		made.unknown |= x->part->unknown;
		if (last && last->kind == SHELL_PART_LITERAL && last->quoted == x->part->quoted &&
		    last->text + last->len == x->part->text + x->from) {
			last->len += x->len;
			continue;
		}
		made.part = shell_arena_grow(p->arena, made.part, made.count, sizeof(*made.part));
		made.part[made.count] = *x->part;
		made.part[made.count].text += x->from;
		made.part[made.count++].len = x->len;
	}
	word_parts_finish(p, &made, ret);
	if (joined)
		forget_value(ret, joined);
}

void expand_braces(struct parser *p, const struct word_parts *w, struct shell_word **words, size_t *count)
{
	struct brace b = { .p = p };
	struct rows out = { 0 };

	if (w->brace && p->dialect == SHELL_BASH) {
		b.over = !row_init(&b, w);
		if (!b.over) {
			match_braces(&b);
			b.over = is_ambiguous(&b);
		}
		if (!b.over)
			expand_row(&b, 0, b.all.count, &out);
	}
	if (b.over || out.count < 2) {
		*words = shell_arena_grow(p->arena, *words, *count, sizeof(**words));
		struct shell_word *one = &(*words)[(*count)++];

		if (out.count == 1 && !b.over) {
			p->script->bashisms |= out.row[0].count != b.all.count; /* {1..1} */
			row_to_word(p, w, &out.row[0], one);
		} else {
			word_parts_finish(p, w, one);
		}
		if (b.over)
			forget_value(one, SHELL_BRACES);
		return;
	}
	p->script->bashisms = true;
	for (size_t i = 0; i < out.count; i++) {
		if (!out.row[i].bytes && !w->quoted)
			continue; /* the empty alternative of {a,} produces no word */
		*words = shell_arena_grow(p->arena, *words, *count, sizeof(**words));
		struct shell_word *made = &(*words)[(*count)++];
		row_to_word(p, w, &out.row[i], made);
		if (!out.row[i].bytes) /* {,'a'} produces no word for the empty alternative, {'',a} an empty one */
			forget_value(made, SHELL_BRACES);
	}
}
