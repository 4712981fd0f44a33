#ifndef BAILIFF_STORE_LAYER_H
#define BAILIFF_STORE_LAYER_H

/*
 * What a group changes, in memory (internal to runtime/store).
 *
 * A group is durable, and acknowledged, when the journal has it (journal.h); the database gets it a little later, with
 * others, in one transaction: it is *settled* then. Until that it is a layer over the database, the newest first, and
 * every reader reads through the layers (reader.h), so that nobody waits for the settling, and a document that changes
 * with each of ten groups is put once.
 *
 * A layer is finished before others see it, and never changes afterwards; its readers and its successor keep it.
 */

#include "runtime/store/db.h"
#include "runtime/store/docs.h"
#include "runtime/store/group.h"

#include <stdatomic.h>

struct models;
struct store;

struct layer {
	atomic_uint refs;
	struct layer *older;                    /* NULL = the database lies below */
	uint64_t ordinal;                       /* of the group; 0 = not given yet */
	uint64_t first_sequence, last_sequence; /* of the log with it; it has the events from first to last */
	struct buf group;
	struct docs docs;
	struct group_entry *notes; /* what of the group is not an event */
	size_t nnotes;
	/* of this one and those below */
	unsigned depth;
	size_t weight, bytes;
};

/*
 * The group's bytes (taken) folded on top of what `older` (a reference is taken) and the transaction's models say.
 * `last` is the sequence of the newest event below.
 */
int layer_new(struct store *store, struct buf *group, struct layer *older, uint64_t last, MDB_txn *txn, MDB_dbi models,
	      struct layer **ret, struct err *e);
struct layer *layer_ref(struct layer *l);
void layer_unref(struct layer *l); /* NULL: nothing */

/* The newest event of the database below; `last` where there are none. */
uint64_t layer_settled(const struct layer *l, uint64_t last);
/* A document as the layers have it; as docs_get. */
int layer_doc(const struct layer *l, uint8_t kind, const char *id, size_t id_len, const char **ret, size_t *ret_len);
/* Adds their documents to a list, the newest ones. */
void layer_docs(const struct layer *l, struct docs_list *list, int kind, const char *prefix);
/* The newest entry of these tags (bits) and this key; for GROUP_IDEM also of this uid. NULL = none. */
const struct group_entry *layer_note(const struct layer *l, unsigned tags, uint32_t uid, const char *key);
/* The chunk of an output that has the byte at `offset`. */
bool layer_chunk(const struct layer *l, const char *ref, uint64_t offset, struct chunk *ret);

#endif
