#ifndef BAILIFF_PTY_SCREEN_H
#define BAILIFF_PTY_SCREEN_H

/*
 * The contents of a terminal's screen: takes the bytes of a terminal's output and provides rows of text with a cursor,
 * a title and a bounded scrollback. libvterm interprets the bytes; this module bounds its cost and converts its state
 * into formats for programs and people.
 *
 * The same bytes and resizes in the same order give the same screen, so a lost screen can be rebuilt from the spool.
 *
 * Every cell records the output offset at which it was drawn. A client that has typed something and waits for the next
 * prompt asks for text drawn after the offset of that moment, so it does not mistake the old prompt for the new one.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct jw;
struct screen;

/* Limits of a screen's size. A terminal with one column cannot show a wide character. */
#define SCREEN_ROWS_MAX 1000u
#define SCREEN_COLS_MAX 1000u
#define SCREEN_CELLS_MAX 131072u
bool screen_size_ok(unsigned rows, unsigned cols);

struct screen_limits {
	unsigned lines; /* lines of scrollback; 0 = none */
	size_t bytes;   /* memory limit of the scrollback */
};
#define SCREEN_LIMITS_DEFAULT ((struct screen_limits){ .lines = 1000, .bytes = 512 * 1024 })

enum screen_shape { SCREEN_SHAPE_BLOCK, SCREEN_SHAPE_UNDERLINE, SCREEN_SHAPE_BAR };

struct screen_info {
	unsigned rows, cols;
	unsigned cursor_row, cursor_col; /* from 0 */
	bool cursor_visible, cursor_blink;
	enum screen_shape cursor_shape;
	bool alternate;      /* a full-screen program's alternate screen is shown */
	const char *title;   /* UTF-8 without control characters; "" = none. Valid until the next feed */
	unsigned scrollback; /* lines */
	uint64_t offset;     /* bytes of output processed */
	size_t pending;      /* the last of these: the beginning of a character or sequence, which shows nothing yet */
	uint64_t skipped;    /* bytes of these that were skipped (screen_skip) */
};

/* A size out of range is clamped. */
struct screen *screen_new(unsigned rows, unsigned cols, const struct screen_limits *limits);
void screen_free(struct screen *s);

/* Takes output bytes, split anywhere. */
void screen_feed(struct screen *s, const void *p, size_t n);
/*
 * For floods: processes the first part of these bytes without drawing it, as far as none of it would remain visible.
 * Returns the length of that part; the caller feeds the rest. The resulting screen is the same as if all was fed.
 */
size_t screen_skim(struct screen *s, const void *p, size_t n);
/* Records that this much output is unavailable (missing from the spool); it is counted in info. */
void screen_skip(struct screen *s, uint64_t n);
void screen_resize(struct screen *s, unsigned rows, unsigned cols);

/*
 * The terminal's replies (to DA, DSR and similar) since the last call, at most SCREEN_REPLY_MAX bytes; appended to
 * `out`, or dropped if that is NULL.
 */
#define SCREEN_REPLY_MAX 1024u
void screen_replies(struct screen *s, struct buf *out);
bool screen_has_replies(const struct screen *s);

void screen_info(const struct screen *s, struct screen_info *ret);

/*
 * The rows, preceded by up to `scrollback` lines of what has scrolled out (UINT_MAX = all that is kept).
 *   text   one string, a newline after each line; blanks at the ends of lines and empty lines at the end are left out
 *   lines  the same as a JSON array of strings, one for each row, also for empty ones
 *   cells  a JSON array of rows; see screen_row.h
 *   ansi   bytes that draw the same rows, colours and cursor on another terminal of that size, from anywhere. With
 *          `modes` they also make it ready for what the program prints next: margins, pen, keys and mouse reports
 *          (terminal_modes_write_restore). Whether to show it on the alternate screen is up to the caller
 */
void screen_text(const struct screen *s, unsigned scrollback, struct buf *out);
void screen_lines(const struct screen *s, unsigned scrollback, struct jw *w);
void screen_cells(const struct screen *s, unsigned scrollback, struct jw *w);
void screen_ansi(const struct screen *s, unsigned scrollback, bool modes, struct buf *out);

/*
 * For matching: text drawn after `offset`, line by line, even if it has scrolled out since. A line that is partly older
 * starts at its first newer cell. Written blanks are kept unless `trim`. offset 0 = the whole visible screen.
 */
void screen_drawn_after(const struct screen *s, uint64_t offset, bool trim, struct buf *out);

#endif
