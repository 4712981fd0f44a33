#include "pty/screen.h"

#include "pty/glyph_width.h"
#include "pty/screen_row.h"
#include "pty/terminal_modes.h"
#include "pty/vt_filter.h"
#include "pty/vt_region.h"
#include "runtime/base/buf.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"

#include <limits.h>
#include <vterm.h>

#define PIECE 256u             /* bytes interpreted at a time: the granularity of the cells' draw offsets */
#define STILL_MAX (32u * 1024) /* non-ASCII bytes accepted while the cursor does not move */
#define TITLE_MAX VT_FILTER_TITLE_MAX

/* The normal and the alternate screen: for each cell the output offset at which it was drawn. */
enum { PLANE_NORMAL, PLANE_ALTERNATE, PLANES };

/* By ESC 7. Zero is what is restored if none was saved; the filter has the rest. */
struct saved_cursor {
	unsigned row, col;
	bool styled; /* the pen is not the default */
	struct screen_row_style pen;
};

struct screen {
	VTerm *vt;
	VTermScreen *vs;
	unsigned rows, cols;
	struct screen_info info; /* set by callbacks; sizes and counts are filled in on request */
	char title[TITLE_MAX + 1];

	uint64_t *stamps[PLANES];
	unsigned stamp_rows, stamp_cols;
	uint64_t stamp;  /* offset for cells that are drawn now */
	bool resizing;   /* cells that libvterm redraws during a resize are not new */
	unsigned pushed; /* rows scrolled out since the last move */

	struct screen_limits limits;
	struct screen_row *back; /* a ring of limits.lines */
	unsigned back_first, back_count;
	size_t back_bytes;

	uint64_t offset, skipped;
	struct vt_filter filter;
	struct terminal_modes modes; /* other modes that are set: libvterm does not report all of them */
	struct saved_cursor saved[PLANES];
	int drawn_row, drawn_end; /* the last drawn row, and the column after the last drawn cell */
	bool at_edge;             /* the last that was written is a character in the last column */
	struct buf clean;
	size_t still; /* see STILL_MAX */
	bool moved;
	struct buf replies;
	struct glyph_width widths;
};

bool screen_size_ok(unsigned rows, unsigned cols)
{
	return rows >= 1 && rows <= SCREEN_ROWS_MAX && cols >= 2 && cols <= SCREEN_COLS_MAX &&
	       rows * cols <= SCREEN_CELLS_MAX;
}

static void size_clamp(unsigned *rows, unsigned *cols)
{
	*rows = *rows < 1 ? 1 : *rows > SCREEN_ROWS_MAX ? SCREEN_ROWS_MAX : *rows;
	*cols = *cols < 2 ? 2 : *cols > SCREEN_COLS_MAX ? SCREEN_COLS_MAX : *cols;
	if (*rows * *cols > SCREEN_CELLS_MAX)
		*rows = SCREEN_CELLS_MAX / *cols;
}

/* ---- draw offsets ---- */

static uint64_t *stamp_row(struct screen *s, unsigned row)
{
	return s->stamps[s->info.alternate ? PLANE_ALTERNATE : PLANE_NORMAL] + (size_t)row * s->stamp_cols;
}

static void stamps_resize(struct screen *s, unsigned rows, unsigned cols)
{
	unsigned keep_rows = rows < s->stamp_rows ? rows : s->stamp_rows,
		 keep_cols = cols < s->stamp_cols ? cols : s->stamp_cols;

	for (int i = 0; i < PLANES; i++) {
		uint64_t *fresh = mem_zalloc((size_t)rows * cols, sizeof(*fresh));

		for (unsigned r = 0; r < keep_rows; r++)
			memcpy(fresh + (size_t)r * cols, s->stamps[i] + (size_t)r * s->stamp_cols,
			       keep_cols * sizeof(*fresh));
		free(s->stamps[i]);
		s->stamps[i] = fresh;
	}
	s->stamp_rows = rows;
	s->stamp_cols = cols;
}

static VTermRect clip_rect(const struct screen *s, VTermRect r)
{
	r.start_row = r.start_row < 0 ? 0 : r.start_row;
	r.start_col = r.start_col < 0 ? 0 : r.start_col;
	r.end_row = r.end_row > (int)s->stamp_rows ? (int)s->stamp_rows : r.end_row;
	r.end_col = r.end_col > (int)s->stamp_cols ? (int)s->stamp_cols : r.end_col;
	return r;
}

/*
 * Marks the cells as drawn now. A change larger than one character means that the cursor is not stuck in place
 * (feed_piece).
 */
static int on_damage(VTermRect rect, void *ctx)
{
	struct screen *s = ctx;
	VTermRect r = clip_rect(s, rect);

	s->pushed = 0;
	if (r.end_row - r.start_row > 1 || r.end_col - r.start_col > 2)
		s->moved = true;
	s->drawn_row = rect.end_row - 1;
	s->drawn_end = rect.end_col;
	if (s->resizing)
		return 1;
	for (int row = r.start_row; row < r.end_row; row++)
		for (int col = r.start_col; col < r.end_col; col++)
			stamp_row(s, (unsigned)row)[col] = s->stamp;
	return 1;
}

/* Offsets move with their cells. Rows are copied in the direction that does not overwrite what is still to be read. */
static int on_moverect(VTermRect dest, VTermRect src, void *ctx)
{
	struct screen *s = ctx;
	int down = dest.start_row - src.start_row, right = dest.start_col - src.start_col;
	VTermRect d = clip_rect(s, dest);
	bool upwards = down < 0;

	s->pushed = 0;
	s->moved = true;
	for (int i = 0; i < d.end_row - d.start_row; i++) {
		int row = upwards ? d.start_row + i : d.end_row - 1 - i, from = row - down, col = d.start_col,
		    n = d.end_col - d.start_col;

		if (from < 0 || from >= (int)s->stamp_rows || col - right < 0 || n <= 0)
			continue;
		if (col - right + n > (int)s->stamp_cols)
			n = (int)s->stamp_cols - (col - right);
		if (n > 0)
			memmove(stamp_row(s, (unsigned)row) + col, stamp_row(s, (unsigned)from) + col - right,
				(size_t)n * sizeof(uint64_t));
	}
	return 1;
}

/* ---- scrollback ---- */

static struct screen_row *back_at(const struct screen *s, unsigned i)
{
	return &s->back[(s->back_first + i) % s->limits.lines];
}

static void back_drop_first(struct screen *s)
{
	struct screen_row *l = back_at(s, 0);

	s->back_bytes -= screen_row_size(l);
	screen_row_done(l);
	s->back_first = (s->back_first + 1) % s->limits.lines;
	s->back_count--;
}

/*
 * libvterm pushes the rows before it moves the screen, so the n-th row pushed since the last move or damage is still
 * row n of the offsets. The memory limit may drop even the newest line, if that alone is too large.
 */
static int on_pushline(int cols, const VTermScreenCell *cells, void *ctx)
{
	struct screen *s = ctx;
	unsigned row = s->pushed++;
	bool known = row < s->stamp_rows && (unsigned)cols <= s->stamp_cols;
	struct screen_row l;

	s->moved = true;
	if (!s->limits.lines || cols <= 0)
		return 1;
	screen_row_pack(&s->widths, cells, known ? s->stamps[PLANE_NORMAL] + (size_t)row * s->stamp_cols : NULL,
			(unsigned)cols, &l);
	if (s->back_count == s->limits.lines)
		back_drop_first(s);
	*back_at(s, s->back_count++) = l;
	s->back_bytes += screen_row_size(&l);
	while (s->back_count && s->back_bytes > s->limits.bytes)
		back_drop_first(s);
	return 1;
}

/* When the screen grows, it takes rows back from the scrollback. */
static int on_popline(int cols, VTermScreenCell *cells, void *ctx)
{
	struct screen *s = ctx;
	struct screen_row *l;

	if (!s->back_count || cols <= 0)
		return 0;
	l = back_at(s, --s->back_count);
	s->back_bytes -= screen_row_size(l);
	screen_row_unpack(l, cells, (unsigned)cols);
	screen_row_done(l);
	return 1;
}

/* ---- other callbacks of libvterm ---- */

static int on_movecursor(VTermPos pos, VTermPos old, int visible, void *ctx)
{
	struct screen *s = ctx;

	s->moved = true;
	s->info.cursor_row = pos.row < 0 ? 0 : (unsigned)pos.row;
	s->info.cursor_col = pos.col < 0 ? 0 : (unsigned)pos.col;
	return 1;
}

/* vt_filter limits its length and removes control characters. */
static void title_set(struct screen *s, const char *text, size_t n, bool first)
{
	buf_auto struct buf title = BUF_INIT;

	if (!first)
		buf_str(&title, s->title);
	for (size_t i = 0, len; i < n; i += len) {
		len = text_utf8_len(text + i, n - i);
		buf_append(&title, len ? text + i : "?", len ? len : 1);
		len = len ? len : 1;
	}
	n = title.len > TITLE_MAX ? text_utf8_cut(title.data, TITLE_MAX) : title.len;
	memcpy(s->title, buf_cstr(&title), n);
	s->title[n] = '\0';
}

static int on_settermprop(VTermProp prop, VTermValue *val, void *ctx)
{
	struct screen *s = ctx;

	switch (prop) {
	case VTERM_PROP_CURSORVISIBLE: s->info.cursor_visible = val->boolean; break;
	case VTERM_PROP_CURSORBLINK: s->info.cursor_blink = val->boolean; break;
	case VTERM_PROP_CURSORSHAPE:
		s->info.cursor_shape = val->number == VTERM_PROP_CURSORSHAPE_BAR_LEFT    ? SCREEN_SHAPE_BAR
				       : val->number == VTERM_PROP_CURSORSHAPE_UNDERLINE ? SCREEN_SHAPE_UNDERLINE
											 : SCREEN_SHAPE_BLOCK;
		break;
	case VTERM_PROP_ALTSCREEN: s->info.alternate = val->boolean; break;
	case VTERM_PROP_TITLE:
#if VTERM_VERSION_MAJOR > 0 || VTERM_VERSION_MINOR >= 2
		title_set(s, val->string.str, val->string.len, val->string.initial);
#else
		title_set(s, val->string ? val->string : "", val->string ? strlen(val->string) : 0, true);
#endif
		break;
	default: break;
	}
	return 1;
}

/* A reply that does not fit is dropped as a whole: half a sequence would be read as keys. */
static void on_output(const char *p, size_t n, void *ctx)
{
	struct screen *s = ctx;

	if (s->replies.len + n <= SCREEN_REPLY_MAX)
		buf_append(&s->replies, p, n);
}

static const VTermScreenCallbacks callbacks = {
	.damage = on_damage,
	.moverect = on_moverect,
	.movecursor = on_movecursor,
	.settermprop = on_settermprop,
	.sb_pushline = on_pushline,
	.sb_popline = on_popline,
};

/* ---- lifecycle ---- */

struct screen *screen_new(unsigned rows, unsigned cols, const struct screen_limits *limits)
{
	struct screen *s = mem_zalloc(1, sizeof(*s));

	size_clamp(&rows, &cols);
	s->rows = rows;
	s->cols = cols;
	s->limits = limits ? *limits : SCREEN_LIMITS_DEFAULT;
	if (s->limits.lines)
		s->back = mem_zalloc(s->limits.lines, sizeof(*s->back));
	s->info.cursor_visible = true;
	stamps_resize(s, rows, cols);
	s->vt = vterm_new((int)rows, (int)cols);
	if (!s->vt)
		abort();
	vterm_set_utf8(s->vt, 1);
	vterm_output_set_callback(s->vt, on_output, s);
	s->vs = vterm_obtain_screen(s->vt);
	vterm_screen_enable_altscreen(s->vs, 1);
	vterm_screen_set_callbacks(s->vs, &callbacks, s);
	vterm_screen_set_damage_merge(s->vs, VTERM_DAMAGE_CELL);
	vterm_screen_reset(s->vs, 1);
	memset(s->stamps[PLANE_NORMAL], 0, (size_t)rows * cols * sizeof(uint64_t));
	return s;
}

void screen_free(struct screen *s)
{
	if (!s)
		return;
	vterm_free(s->vt);
	while (s->back_count)
		back_drop_first(s);
	free(s->back);
	for (int i = 0; i < PLANES; i++)
		free(s->stamps[i]);
	buf_done(&s->replies);
	buf_done(&s->clean);
	glyph_width_done(&s->widths);
	free(s);
}

/* ---- input ---- */

static size_t high_bytes(const unsigned char *p, size_t n)
{
	size_t high = 0;

	for (size_t i = 0; i < n; i++)
		high += p[i] >> 7;
	return high;
}

static void cursor_save(struct screen *s)
{
	struct saved_cursor *saved = &s->saved[s->info.alternate ? PLANE_ALTERNATE : PLANE_NORMAL];
	struct screen_info i;

	screen_info(s, &i);
	*saved = (struct saved_cursor){ .row = i.cursor_row,
					.col = i.cursor_col,
					.styled = true,
					.pen = screen_row_style_of_pen(vterm_obtain_state(s->vt)) };
}

/* In origin mode the cursor is at the origin when this is called, and positions count from there. */
static void cursor_restore(struct screen *s, bool origin)
{
	const struct saved_cursor *saved = &s->saved[s->info.alternate ? PLANE_ALTERNATE : PLANE_NORMAL];
	struct screen_row_style pen = SCREEN_ROW_STYLE_DEFAULT;
	buf_auto struct buf text = BUF_INIT;
	struct screen_info i;

	screen_info(s, &i);
	unsigned first = origin ? i.cursor_row : 0;
	buf_printf(&text, "\033[%u;%uH\033[0m", saved->row < first ? 1 : saved->row - first + 1, saved->col + 1);
	if (saved->styled)
		screen_row_pen(&pen, saved->pen, &text);
	vterm_input_write(s->vt, text.data, text.len);
}

static void write_region_order(struct screen *s, const char *order)
{
	buf_auto struct buf text = BUF_INIT;
	struct screen_info i;

	screen_info(s, &i);
	vt_region_write(order, &i, &text);
	vterm_input_write(s->vt, text.data, text.len);
}

/* Writes what the filter passed on: text for libvterm, and orders. */
static void write_clean(struct screen *s, const char *p, size_t n)
{
	for (size_t at = 0, end; at < n; at = end + 1) {
		for (end = at; end < n && (p[end] < VT_FILTER_SAVE || p[end] > VT_FILTER_REGION);)
			end++;
		if (end > at)
			vterm_input_write(s->vt, p + at, end - at);
		if (end == n)
			return;
		if (p[end] == VT_FILTER_SAVE) {
			cursor_save(s);
		} else if (p[end] == VT_FILTER_REGION) {
			write_region_order(s, p + end + 1);
			end = (size_t)((const char *)memchr(p + end + 1, VT_FILTER_REGION, n - end - 1) - p);
		} else {
			cursor_restore(s, p[end] == VT_FILTER_RESTORE_ORIGIN);
		}
	}
}

/*
 * libvterm stores every combining character of a cell, without limit, although it shows six. To bound memory and time,
 * non-ASCII bytes are dropped once too many of them came without the cursor moving. The dropped ones would not be
 * visible.
 */
static void feed_piece(struct screen *s, const unsigned char *p, size_t n)
{
	s->moved = false;
	if (s->still < STILL_MAX) {
		write_clean(s, (const char *)p, n);
		s->still = s->moved ? 0 : s->still + high_bytes(p, n);
		return;
	}
	for (size_t i = 0, end; i < n; i = end) {
		bool high = p[i] >= 0x80;

		for (end = i; end < n && (p[end] >= 0x80) == high;)
			end++;
		if (!high || s->moved)
			write_clean(s, (const char *)p + i, end - i);
	}
	if (s->moved)
		s->still = 0;
}

/*
 * libvterm combines a mark with a character from an earlier call unless that is in the last column: then the mark would
 * go to the next row. So the screen does not depend on how the output was split, that character is written again.
 */
static void add_character_at_edge(struct screen *s)
{
	buf_auto struct buf text = BUF_INIT;
	VTermPos pos = { .row = s->drawn_row, .col = s->drawn_end - 1 };
	VTermScreenCell cell;
	char bytes[4];

	vterm_screen_get_cell(s->vs, pos, &cell);
	if (cell.chars[0] == UINT32_MAX && pos.col) { /* the second half */
		pos.col--;
		vterm_screen_get_cell(s->vs, pos, &cell);
	}
	if (!cell.chars[0] || cell.chars[0] == UINT32_MAX)
		return;
	buf_printf(&text, "\033[%dG", pos.col + 1);
	for (size_t i = 0; i < VTERM_MAX_CHARS_PER_CELL && cell.chars[i]; i++)
		buf_append(&text, bytes, text_utf8_encode(cell.chars[i], bytes));
	buf_append(&text, s->clean.data, s->clean.len);
	buf_reset(&s->clean);
	buf_append(&s->clean, text.data, text.len);
}

static bool starts_with_mark(struct screen *s)
{
	size_t len = s->clean.len ? text_utf8_len(s->clean.data, s->clean.len) : 0;

	return len > 1 && glyph_width_of(&s->widths, text_utf8_code(s->clean.data, len)) == 0;
}

/* Whether a character was written to the last column, so that the cursor could not move on. */
static bool is_at_edge(const struct screen *s)
{
	VTermPos pos = { 0 };

	if (!s->filter.drew)
		return false;
	vterm_state_get_cursorpos(vterm_obtain_state(s->vt), &pos);
	return pos.row == s->drawn_row && pos.col < s->drawn_end && s->drawn_end >= (int)s->cols;
}

/* In pieces, because all cells that one call draws get the same offset, that of the end of the piece. */
void screen_feed(struct screen *s, const void *p, size_t n)
{
	const unsigned char *at = p;

	while (n) {
		size_t piece = n < PIECE ? n : PIECE;

		s->stamp = s->offset + piece;
		buf_reset(&s->clean);
		vt_filter_feed(&s->filter, at, piece, s->rows, &s->clean);
		terminal_modes_feed(&s->modes, (const char *)at, piece);
		if (s->at_edge && starts_with_mark(s))
			add_character_at_edge(s);
		feed_piece(s, (const unsigned char *)s->clean.data, s->clean.len);
		s->at_edge = is_at_edge(s);
		s->offset += piece;
		at += piece;
		n -= piece;
	}
}

size_t screen_skim(struct screen *s, const void *p, size_t n)
{
	buf_auto struct buf rest = BUF_INIT, clean = BUF_INIT;
	size_t skimmed;

	if (s->info.alternate)
		return 0;
	/* What was on the screen before must have scrolled out, too. */
	skimmed = vt_filter_skip_scrolled(&s->filter, p, n, s->limits.lines + 2 * (size_t)s->rows, &rest);
	if (skimmed) {
		buf_byte(&rest, '\r');
		vt_filter_feed(&s->filter, rest.data, rest.len, s->rows, &clean);
		vterm_input_write(s->vt, clean.data, clean.len);
		s->offset += skimmed;
		s->at_edge = false;
	}
	return skimmed;
}

void screen_skip(struct screen *s, uint64_t n)
{
	s->at_edge = false;
	vt_filter_reset(&s->filter);
	terminal_modes_break(&s->modes);
	s->offset += n;
	s->skipped += n;
}

void screen_resize(struct screen *s, unsigned rows, unsigned cols)
{
	size_clamp(&rows, &cols);
	if (rows == s->rows && cols == s->cols)
		return;
	/* libvterm moves rows before and after the change: allocate for both sizes meanwhile */
	stamps_resize(s, rows > s->rows ? rows : s->rows, cols > s->cols ? cols : s->cols);
	s->resizing = true;
	vterm_set_size(s->vt, (int)rows, (int)cols);
	/*
	 * When a screen shrinks, libvterm 0.1 can leave the cursor above the first row and margins beyond the last, and
	 * then writes outside of its memory. So the margins are reset; other terminals do that on a resize, too.
	 */
	struct screen_info i;
	char text[64];
	int n;

	screen_info(s, &i);
	n = snprintf(text, sizeof(text), "\033[?69l\033[r\033[%u;%uH", i.cursor_row + 1, i.cursor_col + 1);
	vterm_input_write(s->vt, text, (size_t)n);
	s->filter.region = s->filter.margins = false;
	terminal_modes_feed(&s->modes, text, (size_t)n);
	s->resizing = s->at_edge = false;
	s->drawn_end = 0; /* nothing is at the edge until the next character */
	stamps_resize(s, rows, cols);
	s->rows = rows;
	s->cols = cols;
}

void screen_replies(struct screen *s, struct buf *out)
{
	if (out)
		buf_append(out, buf_cstr(&s->replies), s->replies.len);
	buf_reset(&s->replies);
}

bool screen_has_replies(const struct screen *s) { return s->replies.len > 0; }

/* ---- output ---- */

void screen_info(const struct screen *s, struct screen_info *ret)
{
	VTermPos pos = { 0 };

	*ret = s->info;
	vterm_state_get_cursorpos(vterm_obtain_state(s->vt), &pos);
	ret->cursor_row = pos.row < 0 ? 0 : (unsigned)pos.row;
	ret->cursor_col = pos.col < 0 ? 0 : (unsigned)pos.col;
	ret->rows = s->rows;
	ret->cols = s->cols;
	ret->title = s->title;
	ret->scrollback = s->back_count;
	ret->offset = s->offset;
	ret->pending = s->filter.pending;
	ret->skipped = s->skipped;
}

/* Calls fn with each line: scrollback first, then the rows. */
static void each_line(const struct screen *s, unsigned scrollback, void (*fn)(void *ctx, const struct screen_row *l),
		      void *ctx)
{
	struct screen *own = (struct screen *)(uintptr_t)s; /* the cache of widths is not part of what is shown */
	mem_auto VTermScreenCell *cells = mem_zalloc(s->cols, sizeof(*cells));
	unsigned first = scrollback < s->back_count ? s->back_count - scrollback : 0;
	VTermPos pos;

	for (unsigned i = first; i < s->back_count; i++)
		fn(ctx, back_at(s, i));
	for (pos.row = 0; pos.row < (int)s->rows; pos.row++) {
		struct screen_row l;

		for (pos.col = 0; pos.col < (int)s->cols; pos.col++)
			vterm_screen_get_cell(s->vs, pos, &cells[pos.col]);
		screen_row_pack(&own->widths, cells, stamp_row(own, (unsigned)pos.row), s->cols, &l);
		fn(ctx, &l);
		screen_row_done(&l);
	}
}

static void add_text(void *ctx, const struct screen_row *l)
{
	screen_row_text(l, 0, true, ctx);
	buf_byte(ctx, '\n');
}

void screen_text(const struct screen *s, unsigned scrollback, struct buf *out)
{
	size_t start = out->len;

	each_line(s, scrollback, add_text, out);
	while (out->len > start && out->data[out->len - 1] == '\n' &&
	       (out->len == start + 1 || out->data[out->len - 2] == '\n'))
		out->data[--out->len] = '\0';
}

static void add_line(void *ctx, const struct screen_row *l)
{
	buf_auto struct buf text = BUF_INIT;

	screen_row_text(l, 0, true, &text);
	jw_strn(ctx, buf_cstr(&text), text.len);
}

void screen_lines(const struct screen *s, unsigned scrollback, struct jw *w)
{
	jw_arr(w);
	each_line(s, scrollback, add_line, w);
	jw_arr_end(w);
}

static void add_cells(void *ctx, const struct screen_row *l) { screen_row_cells(l, ctx); }

void screen_cells(const struct screen *s, unsigned scrollback, struct jw *w)
{
	jw_arr(w);
	each_line(s, scrollback, add_cells, w);
	jw_arr_end(w);
}

struct ansi {
	struct buf *out;
	struct screen_row_style pen;
	bool begun;
};

static void add_ansi(void *ctx, const struct screen_row *l)
{
	struct ansi *a = ctx;

	if (a->begun) {
		/* a line that scrolls in must not inherit the pen's background */
		screen_row_pen(&a->pen, SCREEN_ROW_STYLE_DEFAULT, a->out);
		buf_str(a->out, "\r\n");
	}
	a->begun = true;
	screen_row_ansi(l, &a->pen, a->out);
}

void screen_ansi(const struct screen *s, unsigned scrollback, bool modes, struct buf *out)
{
	struct ansi a = { .out = out, .pen = SCREEN_ROW_STYLE_DEFAULT };
	struct screen_info i;

	screen_info(s, &i);
	/* origin and insert mode would draw it elsewhere */
	buf_str(out, "\033[0m\033[?6l\033[4l\033[r\033[?7h\033[H\033[2J");
	each_line(s, scrollback, add_ansi, &a);
	screen_row_pen(&a.pen, SCREEN_ROW_STYLE_DEFAULT, out);
	if (modes)
		terminal_modes_write_restore(&s->modes, out);
	unsigned origin = modes ? terminal_modes_origin(&s->modes, i.rows) : 0;
	buf_printf(out, "\033[%u;%uH", i.cursor_row - (i.cursor_row < origin ? i.cursor_row : origin) + 1,
		   i.cursor_col + 1);
	buf_printf(out, "\033[%d q", (int)i.cursor_shape * 2 + (i.cursor_blink ? 1 : 2));
	buf_str(out, i.cursor_visible ? "\033[?25h" : "\033[?25l");
	if (modes)
		screen_row_pen(&a.pen, screen_row_style_of_pen(vterm_obtain_state(s->vt)), out);
}

struct drawn {
	uint64_t after;
	bool trim;
	struct buf *out;
};

static void add_drawn(void *ctx, const struct screen_row *l)
{
	struct drawn *d = ctx;

	if (screen_row_text(l, d->after, d->trim, d->out))
		buf_byte(d->out, '\n');
}

void screen_drawn_after(const struct screen *s, uint64_t offset, bool trim, struct buf *out)
{
	struct drawn d = { .after = offset, .trim = trim, .out = out };

	each_line(s, offset ? UINT_MAX : 0, add_drawn, &d);
}
