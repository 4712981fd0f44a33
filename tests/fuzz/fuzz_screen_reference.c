/*
 * The screen model against another terminal emulator, libtsm, on the sequences that both understand. The input chooses
 * sequences instead of containing them, so that nearly all inputs are in the subset: bytes from space to tilde,
 * carriage return, newline, backspace and tab are themselves, a byte from 0x80 on is a row of `operations`, followed by
 * its arguments. Then every cell (character, colours, attributes) and the cursor must be the same.
 *
 * Where libtsm differs from xterm it gets other bytes (`reference`) that have the effect that xterm's documentation
 * describes, or the operation is left out: see docs/proof.md.
 */

#if __has_include(<libtsm.h>)

#include "pty/screen.h"
#include "runtime/base/buf.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"

#include <jansson.h>
#include <libtsm.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ROWS_MAX 9u
#define COLS_MAX 18u
#define OPERATIONS_MAX 400 /* of an input */

/* ---- the two terminals ---- */

enum { BOLD = 1, UNDERLINE = 2, BLINK = 4, REVERSE = 8 };

/* What is compared of a cell. Colours: a palette index below 16, 0x1rrggbb, or DEFAULT_COLOUR. */
struct cell {
	uint32_t character; /* 0 = blank, which has no attributes that matter but its background */
	uint32_t fg, bg;
	unsigned attributes;
};
#define DEFAULT_COLOUR UINT32_MAX
#define RGB 0x1000000u

struct terminals {
	struct screen *ours;
	struct tsm_screen *reference;
	struct tsm_vte *parser;
	unsigned rows, cols, top, bottom; /* of the scroll region */
	bool origin, alternate, saved_origin, no_wrap;
	struct buf written;                       /* what ours got, for the report */
	struct cell cells[2][ROWS_MAX][COLS_MAX]; /* ours, the reference's */
};

static void ignore_reply(struct tsm_vte *vte, const char *text, size_t n, void *ctx) {}

static void start(struct terminals *t)
{
	const struct screen_limits limits = { .lines = 3, .bytes = 4096 };

	t->ours = screen_new(t->rows, t->cols, &limits);
	if (tsm_screen_new(&t->reference, NULL, NULL) < 0 ||
	    tsm_vte_new(&t->parser, t->reference, ignore_reply, NULL, NULL, NULL) < 0 ||
	    tsm_screen_resize(t->reference, t->cols, t->rows) < 0)
		abort();
	/* its default of G1 has accents, and it restores nothing if nothing was saved */
	tsm_vte_input(t->parser, "\033)B\0337", 5);
}

static void end(struct terminals *t)
{
	buf_done(&t->written);
	screen_free(t->ours);
	tsm_vte_unref(t->parser);
	tsm_screen_unref(t->reference);
}

static void feed(struct terminals *t, const char *ours, const char *reference)
{
	buf_str(&t->written, ours);
	screen_feed(t->ours, ours, strlen(ours));
	tsm_vte_input(t->parser, reference, strlen(reference));
}

/* ---- cells ---- */

static uint32_t palette_colour(unsigned index)
{
	static const uint8_t levels[] = { 0, 0x5f, 0x87, 0xaf, 0xd7, 0xff };

	if (index < 16)
		return index;
	if (index >= 232)
		return RGB | (8 + (index - 232) * 10) * 0x10101u;
	index -= 16;
	return RGB | (uint32_t)levels[index / 36] << 16 | (uint32_t)levels[index / 6 % 6] << 8 | levels[index % 6];
}

static uint32_t our_colour(const json_t *run, const char *key)
{
	const json_t *colour = json_object_get(run, key);

	if (!colour)
		return DEFAULT_COLOUR;
	if (json_is_integer(colour))
		return palette_colour((unsigned)json_integer_value(colour));
	return RGB | (uint32_t)strtoul(json_string_value(colour) + 1, NULL, 16);
}

static void add_run(struct terminals *t, unsigned row, unsigned *col, const json_t *run)
{
	const char *text = json_string_value(json_object_get(run, "text"));
	unsigned width = json_object_get(run, "width") ? 2 : 1;
	struct cell c = {
		.fg = our_colour(run, "fg"),
		.bg = our_colour(run, "bg"),
		.attributes = (json_object_get(run, "bold") ? BOLD : 0) |
			      (json_object_get(run, "underline") ? UNDERLINE : 0) |
			      (json_object_get(run, "blink") ? BLINK : 0) |
			      (json_object_get(run, "reverse") ? REVERSE : 0),
	};

	for (size_t len; *text; text += len, *col += width) {
		len = text_utf8_len(text, strlen(text));
		if (!len || *col + width > t->cols)
			abort();
		c.character = text_utf8_code(text, len);
		t->cells[0][row][*col] = c;
	}
}

static void collect_ours(struct terminals *t)
{
	buf_auto struct buf text = BUF_INIT;
	struct jw w = jw_on(&text);

	screen_cells(t->ours, 0, &w);
	json_auto_t *rows = json_loadb(text.data, text.len, 0, NULL);
	if (json_array_size(rows) != t->rows)
		abort();
	for (unsigned r = 0; r < t->rows; r++) {
		json_t *row = json_array_get(rows, r), *run;
		unsigned col = 0;
		size_t i;

		for (unsigned c = 0; c < t->cols; c++)
			t->cells[0][r][c] = (struct cell){ .fg = DEFAULT_COLOUR, .bg = DEFAULT_COLOUR };
		json_array_foreach (row, i, run)
			add_run(t, r, &col, run);
	}
}

static uint32_t reference_colour(int code, uint8_t r, uint8_t g, uint8_t b)
{
	if (code >= 0)
		return code < 16 ? (uint32_t)code : DEFAULT_COLOUR;
	return RGB | (uint32_t)r << 16 | (uint32_t)g << 8 | b;
}

/* Two characters of line drawing that the reference shows as similar ones. */
static uint32_t as_xterm(uint32_t character)
{
	return character == 0x22c5 ? 0xb7 : character == 0x2666 ? 0x25c6 : character;
}

static int on_cell(struct tsm_screen *screen, uint64_t id, const uint32_t *text, size_t len, unsigned width, unsigned x,
		   unsigned y, const struct tsm_screen_attr *a, tsm_age_t age, void *ctx)
{
	struct terminals *t = ctx;

	t->cells[1][y][x] = (struct cell){
		.character = len ? as_xterm(text[0]) : 0,
		.fg = reference_colour(a->fccode, a->fr, a->fg, a->fb),
		.bg = reference_colour(a->bccode, a->br, a->bg, a->bb),
		.attributes = (a->bold ? BOLD : 0u) | (a->underline ? UNDERLINE : 0u) | (a->blink ? BLINK : 0u) |
			      (a->inverse ? REVERSE : 0u),
	};
	return 0;
}

static void report(const struct terminals *t, const char *what, unsigned row, unsigned col)
{
	for (int side = 0; side < 2; side++) {
		fprintf(stderr, "%s:\n", side ? "libtsm" : "ours");
		for (unsigned r = 0; r < t->rows; r++) {
			for (unsigned c = 0; c < t->cols; c++) {
				char text[5] = "";
				uint32_t character = t->cells[side][r][c].character;

				text_utf8_encode(character ? character : ' ', text);
				fputs(text, stderr);
			}
			fputs("|\n", stderr);
		}
		const struct cell *c = &t->cells[side][row][col];
		fprintf(stderr, "row %u, column %u: character %#x fg %#x bg %#x attributes %#x\n", row, col,
			c->character, c->fg, c->bg, c->attributes);
	}
	fprintf(stderr, "%s differs after:\n", what);
	for (size_t i = 0; i < t->written.len; i++) {
		unsigned char c = (unsigned char)t->written.data[i];

		fprintf(stderr, c < 0x20 || c > 0x7e ? "\\%03o" : "%c", c);
	}
	fputs("\n", stderr);
	abort();
}

/* The reference gives all of the pen to erased cells, xterm and ours the colours alone. */
static bool same_cell(const struct cell *ours, const struct cell *reference)
{
	if (ours->bg != reference->bg)
		return false;
	if (!reference->character)
		return !ours->character || ours->character == ' ';
	return ours->character == reference->character && ours->fg == reference->fg &&
	       ours->attributes == reference->attributes;
}

static void compare(struct terminals *t)
{
	struct screen_info i;
	unsigned x, y;

	tsm_vte_input(t->parser, "\033[?25l", 6); /* otherwise the cursor's cell is reversed */
	collect_ours(t);
	tsm_screen_draw(t->reference, on_cell, t);
	for (unsigned r = 0; r < t->rows; r++)
		for (unsigned c = 0; c < t->cols; c++)
			if (!same_cell(&t->cells[0][r][c], &t->cells[1][r][c]))
				report(t, "cell", r, c);
	screen_info(t->ours, &i);
	x = tsm_screen_get_cursor_x(t->reference);
	y = tsm_screen_get_cursor_y(t->reference);
	if (i.cursor_row != y || i.cursor_col != (x < t->cols ? x : t->cols - 1)) {
		fprintf(stderr, "cursor: ours %u,%u libtsm %u,%u\n", i.cursor_row, i.cursor_col, y, x);
		report(t, "cursor", y, x < t->cols ? x : t->cols - 1);
	}
}

/* ---- operations ---- */

/* Formats take the arguments in their order; each is a byte of the input modulo 24. */
static const struct operation {
	const char *ours;
	const char *reference; /* NULL = the same */
	unsigned arguments;
	bool anywhere; /* also after the last column was written, where terminals disagree about most sequences */
} operations[] = {
	{ "\033[%uA", NULL, 1 },
	{ "\033[%uB", NULL, 1 },
	{ "\033[%uC", NULL, 1 },
	{ "\033[%uD", NULL, 1 },
	{ "\033[%u;%uH", NULL, 2 },
	{ "\033[%u;%uf", NULL, 2 },
	{ "\033[%ud", NULL, 1 },
	{ "\033[%uI", NULL, 1 },
	{ "\033[%uZ", NULL, 1 },
	{ "\033[%uE", "\033[%uB\r", 1 },
	{ "\033[%uF", "\033[%uA\r", 1 },
	{ "\033[%u@", NULL, 1 },
	{ "\033[%uP", NULL, 1 },
	{ "\033[%uX", NULL, 1 },
	{ "\033[%uS", NULL, 1 },
	{ "\033[%uT", NULL, 1 },
	{ "\033[J", NULL, 0 },
	{ "\033[1J", NULL, 0 },
	{ "\033[2J", NULL, 0 },
	{ "\033[K", NULL, 0 },
	{ "\033[1K", NULL, 0 },
	{ "\033[2K", NULL, 0 },
	{ "\033[4h", NULL, 0, true },
	{ "\033[4l", NULL, 0, true },
	{ "\033H", NULL, 0 },
	{ "\033[g", NULL, 0 },
	{ "\033[3g", NULL, 0 },
	{ "\033[0m", NULL, 0, true },
	{ "\033[1m", NULL, 0, true },
	{ "\033[4m", NULL, 0, true },
	{ "\033[7m", NULL, 0, true },
	{ "\033[22;24m", NULL, 0, true },
	{ "\033[27m", NULL, 0, true },
	{ "\033[31;44m", NULL, 0, true },
	{ "\033[39;49m", NULL, 0, true },
	{ "\033[92;103m", NULL, 0, true },
	{ "\033[38;5;1%um", NULL, 1, true },
	{ "\033[48;5;2%um", NULL, 1, true },
	{ "\033(0", NULL, 0, true },
	{ "\033(B", NULL, 0, true },
	{ "\033)0", NULL, 0, true },
	{ "\016", NULL, 0, true },
	{ "\017", NULL, 0, true },
	{ "\xc4\x93", NULL, 0, true },     /* ē */
	{ "\xe2\x82\xac", NULL, 0, true }, /* € */
};
/* After the rows of the table: those that need the size or the state. */
enum {
	REGION = countof(operations),
	WHOLE_REGION,
	ORIGIN,
	NO_ORIGIN,
	COLUMN,
	COLUMN_HPA,
	INSERT_LINES,
	DELETE_LINES,
	INDEX,
	NEXT_LINE,
	REVERSE_INDEX,
	SAVE,
	SAVE_SCO,
	RESTORE,
	RESTORE_SCO,
	WRAP,
	NO_WRAP,
	ALTERNATE,
	NORMAL,
	REPEAT,
	CODES
};

static unsigned next(const uint8_t **p, const uint8_t *end_of) { return *p < end_of ? *(*p)++ : 0; }

/* Moves the cursor to the last column if the next character would be written to the next row. */
static void settle(struct terminals *t)
{
	char text[32];
	unsigned row = tsm_screen_get_cursor_y(t->reference) - (t->origin ? t->top : 0) + 1;

	if (tsm_screen_get_cursor_x(t->reference) < t->cols)
		return;
	snprintf(text, sizeof(text), "\033[%u;%uH", row, t->cols);
	feed(t, text, text);
}

/* An operation of the table. */
static void operate(struct terminals *t, const struct operation *o, const uint8_t **p, const uint8_t *end_of)
{
	char ours[64], reference[64];
	unsigned a = o->arguments > 0 ? next(p, end_of) % 24 : 0, b = o->arguments > 1 ? next(p, end_of) % 24 : 0;

	if (!o->anywhere)
		settle(t);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(ours, sizeof(ours), o->ours, a, b);
	snprintf(reference, sizeof(reference), o->reference ? o->reference : o->ours, a, b);
#pragma GCC diagnostic pop
	feed(t, ours, reference);
}

/* The reference does not move the cursor to the origin when the region or the mode is set, as xterm does. */
static void set_region(struct terminals *t, unsigned first, unsigned last)
{
	char ours[32], reference[48];
	unsigned top = first % t->rows + 1, bottom = last % t->rows + 1;

	if (top >= bottom)
		return;
	snprintf(ours, sizeof(ours), "\033[%u;%ur", top, bottom);
	snprintf(reference, sizeof(reference), "%s\033[H", ours);
	t->top = top - 1;
	t->bottom = bottom - 1;
	feed(t, ours, reference);
}

static void set_origin(struct terminals *t, bool on)
{
	t->origin = on;
	feed(t, on ? "\033[?6h" : "\033[?6l", on ? "\033[?6h\033[H" : "\033[?6l\033[H");
}

/* The reference counts the row of CHA from the origin twice, and does not know HPA. */
static void set_column(struct terminals *t, unsigned column, char final)
{
	char ours[32], reference[32];
	unsigned row = tsm_screen_get_cursor_y(t->reference) - (t->origin ? t->top : 0) + 1;

	snprintf(ours, sizeof(ours), "\033[%u%c", column % 24, final);
	snprintf(reference, sizeof(reference), "\033[%u;%uH", row, column % 24);
	feed(t, ours, reference);
}

/* The reference moves the cursor to the first column, xterm does not. */
static void edit_lines(struct terminals *t, unsigned lines, char final)
{
	char ours[32], reference[48];
	unsigned row = tsm_screen_get_cursor_y(t->reference) - (t->origin ? t->top : 0) + 1,
		 col = tsm_screen_get_cursor_x(t->reference) + 1;

	snprintf(ours, sizeof(ours), "\033[%u%c", lines % 24, final);
	snprintf(reference, sizeof(reference), "%s\033[%u;%uH", ours, row, col);
	feed(t, ours, reference);
}

/* Outside of the region, the reference scrolls it at the edges of the screen; xterm does not scroll. */
static bool is_edge(const struct terminals *t)
{
	unsigned row = tsm_screen_get_cursor_y(t->reference);

	return (row > t->bottom && row == t->rows - 1) || (row < t->top && row == 0);
}

static void write_unless_edge(struct terminals *t, const char *text)
{
	if (!is_edge(t))
		feed(t, text, text);
}

/* The reference saves which set is in use, but not what it is. So it is always ASCII. */
static void save_cursor(struct terminals *t, const char *sequence)
{
	feed(t, "\033(B\033)B\017", "\033(B\033)B\017");
	feed(t, sequence, "\0337");
	t->saved_origin = t->origin;
}

/* The reference restores the mode of the right margin, too. */
static void restore_cursor(struct terminals *t, const char *sequence)
{
	if (t->origin || t->saved_origin) /* the reference counts the row from the origin twice */
		return;
	feed(t, sequence, t->no_wrap ? "\0338\033(B\033)B\017\033[?7l" : "\0338\033(B\033)B\017\033[?7h");
}

static void set_wrap(struct terminals *t, bool on)
{
	t->no_wrap = !on;
	feed(t, on ? "\033[?7h" : "\033[?7l", on ? "\033[?7h" : "\033[?7l");
}

/*
 * The reference has one saved cursor for ESC 7 and another for this mode, without a pen; xterm has one for each screen.
 * So what was saved on the other screen is not restored.
 */
static void set_alternate(struct terminals *t, bool on)
{
	const char *text = on ? "\033[?1049h\033[m" : "\033[?1049l\033[m";

	if (t->alternate == on || t->origin)
		return;
	feed(t, "\033(B\033)B\017", "\033(B\033)B\017");
	feed(t, text, text);
	t->alternate = on;
	save_cursor(t, "\0337");
}

static void repeat(struct terminals *t, unsigned character, unsigned times)
{
	char ours[32], reference[32];
	unsigned n = times % 24;

	if (tsm_screen_get_cursor_y(t->reference) > t->bottom)
		return;
	character = 'A' + character % 26;
	snprintf(ours, sizeof(ours), "%c\033[%ub", (int)character, n);
	memset(reference, (int)character, sizeof(reference));
	reference[1 + (n ? n : 1)] = '\0';
	feed(t, ours, reference);
}

static void operate_by_state(struct terminals *t, unsigned code, const uint8_t **p, const uint8_t *end_of)
{
	unsigned a;

	if (code != REPEAT)
		settle(t);
	switch (code) {
	case REGION:
		a = next(p, end_of);
		set_region(t, a, next(p, end_of));
		break;
	case WHOLE_REGION:
		t->top = 0;
		t->bottom = t->rows - 1;
		feed(t, "\033[r", "\033[r\033[H");
		break;
	case ORIGIN: set_origin(t, true); break;
	case NO_ORIGIN: set_origin(t, false); break;
	case COLUMN: set_column(t, next(p, end_of), 'G'); break;
	case COLUMN_HPA: set_column(t, next(p, end_of), '`'); break;
	case INSERT_LINES: edit_lines(t, next(p, end_of), 'L'); break;
	case DELETE_LINES: edit_lines(t, next(p, end_of), 'M'); break;
	case INDEX: write_unless_edge(t, "\033D"); break;
	case NEXT_LINE: write_unless_edge(t, "\033E"); break;
	case REVERSE_INDEX: write_unless_edge(t, "\033M"); break;
	case SAVE: save_cursor(t, "\0337"); break;
	case SAVE_SCO: save_cursor(t, "\033[s"); break;
	case RESTORE: restore_cursor(t, "\0338"); break;
	case RESTORE_SCO: restore_cursor(t, "\033[u"); break;
	case WRAP: set_wrap(t, true); break;
	case NO_WRAP: set_wrap(t, false); break;
	case ALTERNATE: set_alternate(t, true); break;
	case NORMAL: set_alternate(t, false); break;
	case REPEAT:
		a = next(p, end_of);
		repeat(t, a, next(p, end_of));
		break;
	default: break;
	}
}

static void play(struct terminals *t, const uint8_t *p, const uint8_t *end_of)
{
	for (int n = 0; p < end_of && n < OPERATIONS_MAX; n++) {
		char text[2] = { *p == '_' ? '-' : (char)*p }; /* in line drawing the reference drops '_' */
		unsigned c = *p++;

		if (c == '\n' || c == '\b' || c == '\t' || is_edge(t))
			settle(t);
		if (c == '\n' && is_edge(t))
			continue;
		if ((c >= ' ' && c <= '~') || c == '\r' || c == '\n' || c == '\b' || c == '\t')
			feed(t, text, text);
		else if (c >= 0x80 && (c - 0x80) % CODES < countof(operations))
			operate(t, &operations[(c - 0x80) % CODES], &p, end_of);
		else if (c >= 0x80)
			operate_by_state(t, (c - 0x80) % CODES, &p, end_of);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct terminals t = { .rows = 2, .cols = 2 };

	if (size < 2)
		return 0;
	t.rows += data[0] % (ROWS_MAX - 1);
	t.cols += data[1] % (COLS_MAX - 1);
	t.bottom = t.rows - 1;
	start(&t);
	play(&t, data + 2, data + size);
	compare(&t);
	end(&t);
	return 0;
}

#else

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, unsigned long size);

int LLVMFuzzerTestOneInput(const unsigned char *data, unsigned long size)
{
	puts("skipped: libtsm-dev is not installed");
	exit(77);
}

#endif
