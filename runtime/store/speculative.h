#ifndef BAILIFF_STORE_SPECULATIVE_H
#define BAILIFF_STORE_SPECULATIVE_H

/*
 * The read models as they will be once every submitted batch is durable (internal to runtime/store; readers use
 * store.h).
 *
 * A batch takes effect a little later, on another thread. The next decision on the loop thread must already take it
 * into account: two requests in one turn of the loop must not both start the same task. So submitted batches are
 * projected, by the same pure functions, into a small map of documents that hides the committed ones. An entry is
 * removed when its batch is completed. If a batch is rejected the map is computed again from the remaining batches.
 *
 * Batches are projected only when a speculative read needs them (speculative_refresh), because most are completed
 * before that. The writer commits in the order of submission, so a reader's snapshot contains the first of the pending
 * batches, as many as account for the events by which its log is longer than the dispatched one; those are skipped.
 *
 * Sequence numbers are not known yet: projections see 0.
 */

#include "runtime/event/event.h"
#include "runtime/store/docs.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct err;
struct store;
struct store_batch;

struct speculative {
	struct docs docs;
	TAILQ_HEAD(, store_batch) undecided;
	uint64_t ordinal;
	size_t unprojected; /* number of pending batches that are not in `docs` yet */
};

void speculative_init(struct speculative *a);
void speculative_done(struct speculative *a);
void speculative_add(struct store *store, struct store_batch *b);
/* Call it before reading `docs`. */
int speculative_refresh(struct store *store, struct err *e);
void speculative_resolve(struct store *store, struct store_batch *b);
/* Whether a batch that is not dispatched yet has an event with this id. */
bool speculative_has_id(const struct store *store, enum id_field field, const char *id);

#endif
