#ifndef BAILIFF_STORE_LAYER_H
#define BAILIFF_STORE_LAYER_H

/*
 * The changes of one group, in memory (internal to runtime/store).
 *
 * A group is durable and acknowledged when it is in the journal (journal.h). A little later it is *settled*: written to
 * the database, with others, in one transaction. Until then it is a layer above the database. Layers form a list, the
 * newest first, and every reader searches them before the database (reader.h). So no reader waits for settling, and a
 * document that ten groups change is written once.
 *
 * A layer is complete before other threads see it and never changes afterwards. Readers and the next layer hold
 * references to it.
 */

#include "runtime/store/db.h"
#include "runtime/store/docs.h"
#include "runtime/store/group.h"

#include <stdatomic.h>

struct models;
struct store;
struct store_batch;

struct layer {
	atomic_uint refs;
	struct layer *older;                    /* NULL = the database is next */
	uint64_t ordinal;                       /* of the group; 0 = not assigned yet */
	uint64_t first_sequence, last_sequence; /* its events; last = first − 1 if it has none */
	struct buf group;
	struct docs docs;
	struct group_entry *notes; /* the entries that are not events */
	size_t nnotes;
	/* totals of this layer and those below */
	unsigned depth;
	size_t weight, bytes;
	uint64_t kinds[4];    /* a bit for each kind of document: a lookup of one that is rare visits no layer */
	uint64_t hashes[128]; /* … for each of 8,192 classes of hashes: nor does, mostly, one of a new document */
};

/*
 * Takes the group's bytes and projects its events on top of `older` (a reference is taken) and the table `models`.
 * `batches` are those of the group; NULL if it comes from the journal. `last` is the sequence of the newest event
 * below.
 */
int layer_new(struct store *store, struct buf *group, const struct store_batch *batches, struct layer *older,
	      uint64_t last, MDB_txn *txn, MDB_dbi models, struct layer **ret, struct err *e);
struct layer *layer_ref(struct layer *l);
void layer_unref(struct layer *l); /* ignores NULL */

/* The newest event of the database below the layers; `last` if there are none. */
uint64_t layer_settled(const struct layer *l, uint64_t last);
/* A document, or the marker of a deleted one, in the newest layer that has it; NULL if none has. */
const struct doc *layer_doc(const struct layer *l, const struct docs_key *key);
/* Adds the documents of all layers to a list, in their newest version. */
void layer_docs(const struct layer *l, struct docs_list *list, int kind, const char *prefix);
/* The newest entry with one of these tags (bits) and this key; for GROUP_IDEM also this uid. NULL if there is none. */
const struct group_entry *layer_note(const struct layer *l, unsigned tags, uint32_t uid, const char *key);
/* The chunk of an output that contains the byte at `offset`. */
bool layer_chunk(const struct layer *l, const char *ref, uint64_t offset, struct chunk *ret);

#endif
