#include "pty/vt_region.h"

#include "pty/screen.h"
#include "runtime/base/buf.h"

#include <stdlib.h>

struct order {
	char final;
	unsigned n, top, bottom; /* rows from 0 */
};

/* The cursor stops at the edge of the region, unless it is beyond it already. */
static void write_move(const struct order *o, const struct screen_info *i, struct buf *out)
{
	bool up = o->final == 'A' || o->final == 'F', first = o->final == 'E' || o->final == 'F';
	unsigned most = up ? i->cursor_row - (i->cursor_row < o->top ? 0 : o->top)
			   : (i->cursor_row > o->bottom ? i->rows - 1 : o->bottom) - i->cursor_row;

	if (o->n && most)
		buf_printf(out, "\033[%u%c", o->n < most ? o->n : most, o->final);
	else /* also ends the state after the last column */
		buf_printf(out, "\033[%uG", first ? 1 : i->cursor_col + 1);
}

/* Outside of the region libvterm would not edit, so the region is left for that moment. */
static void write_edit(const struct order *o, const struct screen_info *i, struct buf *out)
{
	bool outside = i->cursor_row < o->top || i->cursor_row > o->bottom;

	if (outside)
		buf_printf(out, "\033[r\033[%u;%uH", i->cursor_row + 1, i->cursor_col + 1);
	buf_printf(out, "\033[%u%c", o->n, o->final);
	if (outside)
		buf_printf(out, "\033[%u;%ur\033[%u;%uH", o->top + 1, o->bottom + 1, i->cursor_row + 1,
			   i->cursor_col + 1);
}

void vt_region_write(const char *order, const struct screen_info *info, struct buf *out)
{
	struct order o = { .final = *order };
	char *at;

	o.n = (unsigned)strtoul(order + 1, &at, 10);
	o.top = (unsigned)strtoul(at + 1, &at, 10) - 1;
	o.bottom = (unsigned)strtoul(at + 1, &at, 10) - 1;
	if (o.final == '@' || o.final == 'P')
		write_edit(&o, info, out);
	else
		write_move(&o, info, out);
}
