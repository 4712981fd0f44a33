#ifndef BAILIFF_PTY_VT_REGION_H
#define BAILIFF_PTY_VT_REGION_H

/*
 * Sequences that xterm and libvterm treat differently while only a part of the screen scrolls: relative movements stop
 * at the edges of the region, and characters are inserted and deleted outside of it, too. libvterm does neither.
 */

struct buf;
struct screen_info;

/*
 * Appends what makes libvterm do as xterm does. order: see VT_FILTER_REGION, without the first byte; info: with the
 * cursor.
 */
void vt_region_write(const char *order, const struct screen_info *info, struct buf *out);

#endif
