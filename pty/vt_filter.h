#ifndef BAILIFF_PTY_VT_FILTER_H
#define BAILIFF_PTY_VT_FILTER_H

/*
 * Filters what is passed to libvterm, and finds how much of it can be skipped.
 *
 * Terminal output is untrusted, but libvterm 0.1 trusts it: a control sequence with many parameters overwrites memory,
 * an unknown DCS is answered from unmapped memory, a restored cursor can be outside of the screen, and a split
 * character loses its position. (All found by fuzzing.) So libvterm never sees that output directly. It is parsed here,
 * and only complete characters and complete control sequences from an allowlist, with bounded parameters, are passed
 * on. Anything else is dropped or, if it is invalid UTF-8, shown as U+FFFD.
 *
 * libvterm's saved cursor (ESC 7) differs from xterm's: both screens share one, it lacks the character sets and origin
 * mode, and has the visibility and the shape instead. So libvterm never saves one. The filter keeps the character sets
 * and the mode, for each screen, and passes on VT_FILTER_SAVE and VT_FILTER_RESTORE for the screen to do the rest.
 * What else libvterm does differently while only a part of the screen scrolls is VT_FILTER_REGION (vt_region.h).
 *
 * Lines of double width or height (ESC # 3, 4 and 6) are shown in the usual size, as most terminals show them. In
 * libvterm a wide character does not fit into such a line of a narrow screen, and scrolls it each time.
 *
 * Most of a flood of lines scrolls out before it could be seen. As long as there is only text and colours, lines that
 * scroll past the screen and its scrollback have no effect except the colours, and need not be drawn.
 * vt_filter_skip_scrolled finds how many bytes that are, so that the screen is the same at the cost of reading.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

enum vt_filter_state {
	VT_FILTER_TEXT,
	VT_FILTER_ESCAPE,
	VT_FILTER_ESCAPE_MORE, /* after an intermediate */
	VT_FILTER_CSI,
	VT_FILTER_OSC,
	VT_FILTER_STRING, /* DCS, APC, PM, SOS: dropped */
	VT_FILTER_STATES
};

#define VT_FILTER_ARGS_MAX 16u /* libvterm's own limit is 16 */
#define VT_FILTER_ARG_MAX 16383u
#define VT_FILTER_TITLE_MAX 256u
#define VT_FILTER_REPEAT_MAX 1000u

/* Not for libvterm, but for the screen: here the position and the pen of the cursor are saved and restored. */
#define VT_FILTER_SAVE '\001'
#define VT_FILTER_RESTORE '\002'
#define VT_FILTER_RESTORE_ORIGIN '\003' /* in origin mode, in which the cursor is at the origin now */
#define VT_FILTER_REGION '\004'         /* "A3;5;20", and the byte again: CSI 3 A with a region from row 5 to 20 */

/* What a saved cursor has in addition to its position and pen. */
struct vt_filter_cursor {
	char sets[4]; /* G0 to G3: the final byte of their designation, 0 = ASCII */
	bool shifted; /* G1 is in use */
	bool origin;
};

struct vt_filter {
	enum vt_filter_state state;
	char leader, middle; /* of a control sequence: one of <=>? and an intermediate, or 0 */
	unsigned args[VT_FILTER_ARGS_MAX];
	bool given[VT_FILTER_ARGS_MAX], sub[VT_FILTER_ARGS_MAX]; /* has digits; a ':' follows */
	unsigned nargs;
	bool bad; /* over a limit: the sequence is dropped */
	char osc[VT_FILTER_TITLE_MAX + 8];
	size_t nosc;
	char cut[4], last[4]; /* the first bytes of a split character; the last complete one, for REP */
	unsigned char ncut, nlast;
	size_t pending;       /* bytes at the end of what was fed: the beginning of a character or sequence */
	bool region, margins; /* only a part of the screen scrolls */
	unsigned top, bottom; /* of the region, from 1 */
	struct vt_filter_cursor cursor, saved[2]; /* of the normal and the alternate screen */
	bool alternate;
	bool drew;            /* the last that was passed on is a character */
	size_t drawn_end;     /* where the last character ends in the output of this call */
	unsigned char single; /* 2 or 3: that set is for the next character only */
};

/* Appends to `out` what libvterm and the screen are given for these bytes. `rows` is the screen's current height. */
void vt_filter_feed(struct vt_filter *in, const void *p, size_t n, unsigned rows, struct buf *out);
/* Bytes are missing here: drops the incomplete sequence. */
void vt_filter_reset(struct vt_filter *in);

/*
 * How many of the first bytes can be skipped if only the last `keep` lines matter. Appends to `out` what must not be
 * skipped (colours). 0 = none.
 */
size_t vt_filter_skip_scrolled(const struct vt_filter *in, const void *p, size_t n, size_t keep, struct buf *out);

#endif
