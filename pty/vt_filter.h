#ifndef BAILIFF_PTY_VT_FILTER_H
#define BAILIFF_PTY_VT_FILTER_H

/*
 * What goes into libvterm, and how much of it must.
 *
 * What a terminal prints is written by whoever runs there, and libvterm 0.1 trusts it: a control sequence with many
 * parameters overwrites memory, a DCS that it does not know is answered from memory that is not there, a restored
 * cursor may lie outside of the screen, and a character that is cut in two loses its place. (All found by fuzzing.) So
 * libvterm does not get to see that output. It is read here, and what is passed on are whole characters and whole
 * control sequences from a list, with bounded parameters; all else is left out, or, if it is no UTF-8, shown as U+FFFD.
 *
 * A flood of lines is mostly out of sight before anybody could have looked. While nothing but text and colours comes,
 * what scrolls past the screen and its scrollback leaves nothing behind but the colours; it need not be drawn.
 * vt_filter_skip_scrolled finds how much that is, so that the screen is the same and the cost is that of reading.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

enum vt_filter_state {
	VT_FILTER_TEXT,
	VT_FILTER_ESCAPE,
	VT_FILTER_ESCAPE_MORE, /* with an intermediate */
	VT_FILTER_CSI,
	VT_FILTER_OSC,
	VT_FILTER_STRING, /* DCS, APC, PM, SOS: nothing is kept of it */
	VT_FILTER_STATES
};

#define VT_FILTER_ARGS_MAX 16u /* libvterm's own limit is 16 */
#define VT_FILTER_ARG_MAX 16383u
#define VT_FILTER_TITLE_MAX 256u
#define VT_FILTER_REPEAT_MAX 1000u

struct vt_filter {
	enum vt_filter_state state;
	char leader, middle; /* of a control sequence: one of <=>? and an intermediate, or 0 */
	unsigned args[VT_FILTER_ARGS_MAX];
	bool given[VT_FILTER_ARGS_MAX], sub[VT_FILTER_ARGS_MAX]; /* has digits; a ':' follows */
	unsigned nargs;
	bool bad; /* too much of something: the sequence is left out */
	char osc[VT_FILTER_TITLE_MAX + 8];
	size_t nosc;
	char cut[4], last[4]; /* the beginning of a character; the last whole one, for REP */
	unsigned char ncut, nlast;
	bool region, margins; /* not all of the screen scrolls */
};

/* Appends to `out` what libvterm gets to see of these bytes. `rows` as the screen has now. */
void vt_filter_feed(struct vt_filter *in, const void *p, size_t n, unsigned rows, struct buf *out);
/* Something is missing here: what was begun will not end. */
void vt_filter_reset(struct vt_filter *in);

/*
 * How many of these bytes, from the first, can be left out when what matters are the `keep` lines before the end; what
 * of them must not be left out (colours) is appended to `out`. 0 = none.
 */
size_t vt_filter_skip_scrolled(const struct vt_filter *in, const void *p, size_t n, size_t keep, struct buf *out);

#endif
