#ifndef BAILIFF_PTY_SCREEN_H
#define BAILIFF_PTY_SCREEN_H

/*
 * What a terminal shows: bytes of a terminal's output go in, and rows of text with a cursor, a title and a bounded
 * scrollback come out. libvterm does the interpreting; this file bounds what it may cost and gives its state shapes
 * that programs and people can use.
 *
 * The same bytes and resizes in the same order give the same screen, so one that was lost is made again from the spool.
 *
 * Every cell remembers at which offset of the output it was drawn. Who has typed something and waits for the next
 * prompt asks for what was drawn after the offset of that moment, and does not take the old prompt for the new one.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct jw;
struct screen;

/* Sizes that a screen can have. A terminal of one column cannot show a wide character. */
#define SCREEN_ROWS_MAX 1000u
#define SCREEN_COLS_MAX 1000u
#define SCREEN_CELLS_MAX 131072u
bool screen_size_ok(unsigned rows, unsigned cols);

struct screen_limits {
	unsigned lines; /* of scrollback; 0 = none */
	size_t bytes;   /* that the scrollback may take */
};
#define SCREEN_LIMITS_DEFAULT ((struct screen_limits){ .lines = 1000, .bytes = 512 * 1024 })

enum screen_shape { SCREEN_SHAPE_BLOCK, SCREEN_SHAPE_UNDERLINE, SCREEN_SHAPE_BAR };

struct screen_info {
	unsigned rows, cols;
	unsigned cursor_row, cursor_col; /* from 0 */
	bool cursor_visible, cursor_blink;
	enum screen_shape cursor_shape;
	bool alternate;      /* a full-screen program's second screen is shown */
	const char *title;   /* UTF-8 without control characters; "" = none. Valid until the next feed */
	unsigned scrollback; /* lines */
	uint64_t offset;     /* bytes of output that it has seen */
	uint64_t skipped;    /* of which were never shown to it (screen_skip) */
};

/* A size that is not ok is brought to the nearest that is. */
struct screen *screen_new(unsigned rows, unsigned cols, const struct screen_limits *limits);
void screen_free(struct screen *s);

/* Output goes in; any bytes, cut anywhere. */
void screen_feed(struct screen *s, const void *p, size_t n);
/*
 * For floods: takes in the first part of these bytes without drawing it, as far as none of it would be left to see, and
 * returns how many bytes that were; the rest is to be fed. The screen becomes the same as if all was fed.
 */
size_t screen_skim(struct screen *s, const void *p, size_t n);
/* This much output is not to be had (left out of the spool): counted, and info says so. */
void screen_skip(struct screen *s, uint64_t n);
void screen_resize(struct screen *s, unsigned rows, unsigned cols);

/*
 * What a terminal would have sent back (answers to DA, DSR and the like) since the last call, at most SCREEN_REPLY_MAX
 * bytes; appended to `out`, or dropped when that is NULL.
 */
#define SCREEN_REPLY_MAX 1024u
void screen_replies(struct screen *s, struct buf *out);
bool screen_has_replies(const struct screen *s);

void screen_info(const struct screen *s, struct screen_info *ret);

/*
 * The rows, preceded by up to `scrollback` lines of what has scrolled out (UINT_MAX = all that is kept).
 *   text   one string, a newline after each line; blanks at the ends of lines and empty lines at the end are left out
 *   lines  the same as a JSON array of strings, one for each row, also for empty ones
 *   cells  a JSON array of rows; see line.h
 *   ansi   bytes that draw the same rows, colours and cursor on another terminal of that size, from anywhere. With
 *          `modes` they
 *          also make it ready for what the program prints next: margins, pen, keys and mouse reports
 * (terminal_modes_write_restore). Whether to show it on the alternate screen is up to the caller
 */
void screen_text(const struct screen *s, unsigned scrollback, struct buf *out);
void screen_lines(const struct screen *s, unsigned scrollback, struct jw *w);
void screen_cells(const struct screen *s, unsigned scrollback, struct jw *w);
void screen_ansi(const struct screen *s, unsigned scrollback, bool modes, struct buf *out);

/*
 * For matching: what was drawn after `offset`, line by line, also if it has scrolled out since. Of a line that is
 * partly older only the part from the first younger cell on is given. Blanks that were written stay, unless `trim`. 0 =
 * all of the visible screen.
 */
void screen_drawn_after(const struct screen *s, uint64_t offset, bool trim, struct buf *out);

#endif
