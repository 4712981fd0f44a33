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
 */
struct keys_watch {
	char bytes[64];
	size_t n; /* 0: no sequence */
	size_t matched;
};
int keys_watch_init(struct keys_watch *w, const char *text, struct err *e); /* "" or "none": no sequence */
/* Appends the bytes to pass on; true when the sequence is complete (bytes after it are dropped). */
bool keys_watch_feed(struct keys_watch *w, const char *p, size_t n, struct buf *out);

#endif
