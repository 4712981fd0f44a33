#ifndef BAILIFF_SUPERVISOR_MODEL_REDACTOR_H
#define BAILIFF_SUPERVISOR_MODEL_REDACTOR_H

/*
 * Replaces the API key in whatever a server sends by REDACTED, before it is written anywhere: some servers echo the
 * key in an error message. The bytes may be split anywhere; an end that could be the beginning of the key is held back
 * until the next bytes arrive. The key is also found with JSON escapes in it (\/ or \u003d for =), even if
 * these are escaped again.
 *
 * A key shorter than REDACTOR_KEY_MIN is not replaced: local servers take words like "ollama" for a key, and replacing
 * those would change the answer of the model.
 */

#include "runtime/base/buf.h"

#include <stdbool.h>
#include <stddef.h>

#define REDACTED "[redacted]"
#define REDACTOR_KEY_MIN 12
#define REDACTOR_KEYS 2 /* the key, and the one that replaced it */

struct redactor {
	const char *key[REDACTOR_KEYS]; /* not copied */
	size_t nkeys;
	struct buf held;
};

#define REDACTOR_INIT ((struct redactor){ .held = BUF_INIT })
void redactor_done(struct redactor *r);
/* The key must stay valid and unchanged. A NULL, short or known one is ignored. */
void redactor_add(struct redactor *r, const char *key);
/* Appends what can be passed on to `out`; with `end` everything. */
void redactor_feed(struct redactor *r, const void *p, size_t n, bool end, struct buf *out);

#endif
