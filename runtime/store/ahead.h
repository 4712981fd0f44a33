#ifndef BAILIFF_STORE_AHEAD_H
#define BAILIFF_STORE_AHEAD_H

/*
 * What the models will be once everything submitted is committed (internal to runtime/store; readers use store.h).
 *
 * A batch takes effect at its commit, on another thread, a little later. Whoever decides the next step on the loop thread
 * must already reckon with it: two requests in one loop turn must not both start the same task. So submitted batches are
 * folded, by the same pure folds, into a small map of documents that lies over the committed ones; their entries go
 * when their batch is decided. When a batch is refused the map is made again from the batches that are left.
 *
 * Folding waits until somebody asks (ahead_refresh), because most batches are decided before anybody does. The writer
 * commits in the order of submission, so the batches that a reader's snapshot holds already are the first ones, as many
 * as have the events by which its log is ahead of the last one dispatched: those are not folded again.
 *
 * Sequence numbers are not known yet: folds see 0.
 */

#include "runtime/base/strmap.h"

#include <sys/queue.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct models;
struct store;
struct store_batch;

struct ahead {
	struct strmap entries;       /* "<kind byte><id>" → struct ahead_entry */
	TAILQ_HEAD(, store_batch) undecided;
	uint64_t ordinal;
	size_t unfolded;             /* of the undecided ones */
};

void ahead_init(struct ahead *a);
void ahead_done(struct ahead *a);
void ahead_submitted(struct store *s, struct store_batch *b);
/* Before anything is read from the map. */
int ahead_refresh(struct store *s, struct err *e);
void ahead_decided(struct store *s, struct store_batch *b);

/* For models.c. 0 found, 1 known to be gone, 2 nothing known here: the committed document counts. */
int ahead_get(const struct ahead *a, uint8_t kind, const char *id, size_t id_len, const char **ret, size_t *ret_len);
void ahead_put(struct ahead *a, uint64_t ordinal, uint8_t kind, const char *id, size_t id_len, const char *json, size_t len);
void ahead_del(struct ahead *a, uint64_t ordinal, uint8_t kind, const char *id, size_t id_len);

/* The entries of a kind whose ids start with `prefix`, in id order; an array for free(), with its length. */
struct ahead_entry {
	uint64_t ordinal;            /* of the batch that wrote it last */
	bool gone;
	char *json;
	size_t len, id_len;
	char id[];                   /* with its NUL */
};
struct ahead_entry **ahead_list(const struct ahead *a, uint8_t kind, const char *prefix, size_t *ret_count);

#endif
