#ifndef BAILIFF_CLIENT_KEYS_H
#define BAILIFF_CLIENT_KEYS_H

/*
 * Keys by name, as the bytes that a terminal sends for them: single characters, C-x or ctrl-x, M-x or alt-x, and names
 * (Enter, Up, F5 …). Several are separated by commas: "ctrl-p,ctrl-q". And the watch for such a sequence among what is
 * typed.
 */

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct err;

#define KEYS_DETACH "ctrl-]" /* unless others are asked for */

/* Appends the bytes; ERR_INVALID names the one that is unknown. */
int keys_parse(const char *text, struct buf *out, struct err *e);
/* "Enter, Tab, …": the names, for help. */
void keys_names(struct buf *out);

/*
 * Sees what is typed and lets it through, but for the sequence that detaches. The beginning of one is held back until
 * it is clear that it is none: pressing the next key, whatever it is, decides.
 */
struct keys_watch {
	char bytes[64];
	size_t n; /* 0: nothing detaches */
	size_t matched;
};
int keys_watch_init(struct keys_watch *w, const char *text, struct err *e); /* "" or "none": nothing detaches */
/* Appends what goes through; true when the sequence is complete (what came after it is dropped). */
bool keys_watch_feed(struct keys_watch *w, const char *p, size_t n, struct buf *out);

#endif
