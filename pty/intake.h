#ifndef BAILIFF_PTY_INTAKE_H
#define BAILIFF_PTY_INTAKE_H

/*
 * What goes into libvterm, and how much of it must.
 *
 * Control strings other than OSC (DCS, APC, PM, SOS and screen's titles) are turned into an OSC that nobody knows: libvterm
 * 0.1 prints most of them as text, and answers a DCS that it does not know by reading memory that is not there.
 *
 * A flood of lines is mostly out of sight before anybody could have looked. While nothing but text and colours comes, what
 * scrolls past the screen and its scrollback leaves nothing behind but the colours; it need not be drawn. intake_skim finds how much
 * that is, so that the screen is the same and the cost is that of reading.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

enum intake_state { INTAKE_TEXT, INTAKE_ESCAPE, INTAKE_CSI };

struct intake {
	enum intake_state state;
	char params[32];    /* of the control sequence that is being read */
	size_t nparams;
	bool region;        /* not all of the screen scrolls */
	bool margins;
};

/* Appends to `out` what libvterm gets to see of these bytes. `rows` as the screen has now. */
void intake_clean(struct intake *in, const void *p, size_t n, unsigned rows, struct buf *out);

/*
 * How many of these bytes, from the first, can be left out when what matters are the `keep` lines before the end; what of
 * them must not be left out (colours) is appended to `out`. 0 = none.
 */
size_t intake_skim(const struct intake *in, const void *p, size_t n, size_t keep, struct buf *out);

#endif
