#ifndef BAILIFF_CLIENT_KEYS_H
#define BAILIFF_CLIENT_KEYS_H

/*
 * Keys by name, as the bytes that a terminal sends for them: single characters, C-x or ctrl-x, M-x or alt-x, and names
 * (Enter, Up, F5 …), separated by commas: "ctrl-p,ctrl-q". Also detects such a sequence in typed input.
 */

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct err;

#define KEYS_DETACH "ctrl-]" /* the default */

/* Appends the bytes; ERR_INVALID names the unknown key. */
int keys_parse(const char *text, struct buf *out, struct err *e);
/* "Enter, Tab, …": the names, for help. */
void keys_names(struct buf *out);

/*
 * Passes typed bytes through, except for the detach sequence. A possible start of the sequence is held back until the
 * next key decides.
 *
 * A program may have told the terminal to send keys with modifiers as control sequences (kitty's keyboard protocol,
 * xterm's modifyOtherKeys): Ctrl-] is CSI 93;5u then, or CSI 27;5;93~. These are the same keys here.
 *
 * Pasted text is no keys, if the program has told the terminal to mark it (CSI 200~ … CSI 201~). A terminal may omit
 * the end if the program turns that off meanwhile: call keys_watch_end_paste then.
 */
#define KEYS_WATCH_MAX 64u
#define KEYS_WATCH_SEQUENCE_MAX 32u /* bytes of a control sequence that is a key */
struct keys_watch {
	char bytes[KEYS_WATCH_MAX];
	size_t n; /* 0: no sequence */
	/* private */
	size_t matched;
	char typed[KEYS_WATCH_MAX * KEYS_WATCH_SEQUENCE_MAX]; /* what was typed for the bytes that match … */
	size_t ends[KEYS_WATCH_MAX];                          /* … and where that of each ends */
	char begun[KEYS_WATCH_SEQUENCE_MAX];                  /* an incomplete control sequence */
	size_t nbegun;
	bool pasting;
	size_t marked; /* bytes of the sequence that begins or ends a paste */
};
int keys_watch_init(struct keys_watch *w, const char *text, struct err *e); /* "" or "none": no sequence */
/* Appends the bytes to pass on; true when the sequence is complete (bytes after it are dropped). */
bool keys_watch_feed(struct keys_watch *w, const char *p, size_t n, struct buf *out);
void keys_watch_end_paste(struct keys_watch *w);

#endif
