#ifndef BAILIFF_PTY_TERMINAL_MODES_H
#define BAILIFF_PTY_TERMINAL_MODES_H

/*
 * Tracks the modes that a stream of output has set in the terminal that shows it: the alternate screen, mouse reports,
 * a hidden cursor, a scroll region, colours … A program that ends on its own resets them; one that we stop showing does
 * not. So feed every byte that was written to the terminal, and on leaving write what terminal_modes_write_reset
 * returns. A terminal that shows the program later is brought to the same state with terminal_modes_write_restore.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

/*
 * The keyboard protocol of kitty, which other terminals and many editors and agents speak, too: flags that change what
 * keys send. Each of the two screens has a stack of them; flags[0] is what is in effect below it.
 */
#define TERMINAL_KEYBOARD_MAX 16u
struct terminal_keyboard {
	unsigned char flags[TERMINAL_KEYBOARD_MAX + 1];
	unsigned depth;
};

/* A string (OSC, DCS, APC …) while it is read. */
struct terminal_string {
	char kind;          /* the byte that began it */
	unsigned number;    /* of an OSC */
	unsigned at;        /* complete parameters, with the number */
	size_t length;      /* of the current one … */
	char first, second; /* … and its first bytes */
};

struct terminal_modes {
	/* private */
	int state;
	char intro;  /* one of <=>? after CSI, or 0 */
	char middle; /* the last intermediate byte, or 0 */
	unsigned params[16];
	size_t nparams;
	uint32_t modes; /* those that differ from their default, by row of the table */
	bool keypad, insert, region, charset, shifted, latin, style, colour;
	unsigned palette; /* colours that were set: a bit for the palette, one for the special ones, and those of OSC 10
			     to 19 */
	unsigned queries; /* that the terminal answers */
	struct terminal_string string;
	unsigned keys;                         /* how keys with modifiers are reported; 0 = default */
	unsigned top, bottom;                  /* of the scroll region */
	struct terminal_keyboard keyboards[2]; /* of the normal and the alternate screen */
};
#define TERMINAL_MODES_INIT ((struct terminal_modes){ 0 })

void terminal_modes_feed(struct terminal_modes *t, const char *bytes, size_t n);
void terminal_modes_break(struct terminal_modes *t);            /* bytes are missing here */
bool terminal_modes_is_default(const struct terminal_modes *t); /* nothing to undo */
void terminal_modes_write_reset(const struct terminal_modes *t,
				struct buf *out); /* appends nothing in the default state */
/* The number of queries up to now; whether the terminal reports events on its own (mouse, focus …). */
unsigned terminal_modes_queries(const struct terminal_modes *t);
bool terminal_modes_reports(const struct terminal_modes *t);
bool terminal_modes_marks_pastes(const struct terminal_modes *t); /* bracketed paste */
/* All except which screen is shown, the cursor's shape, colours and character sets. Moves the cursor. */
void terminal_modes_write_restore(const struct terminal_modes *t, struct buf *out);
/* The row, from 0, from which cursor positions count on a screen with that many rows: that of the region, in origin
 * mode. */
unsigned terminal_modes_origin(const struct terminal_modes *t, unsigned rows);

#endif
