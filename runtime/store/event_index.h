#ifndef BAILIFF_STORE_EVENT_INDEX_H
#define BAILIFF_STORE_EVENT_INDEX_H

/*
 * The index (internal to runtime/store): finds events by their ids, without reading the log. Each id has *posting
 * lists* of bounded length: the key has the id and the first sequence, the value the distance from each sequence to the
 * next.
 */

#include "runtime/base/strmap.h"
#include "runtime/event/event.h"
#include "runtime/store/db.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct batch_list;
struct err;

/* Adds an event, which is newer than all others, under all its indexed ids. */
int event_index_put(const struct db *d, MDB_txn *txn, const struct event_view *ev, struct err *e);
/* The same for many events, which stay in memory: each list is written once. The batch is empty at first (zeroed). */
struct index_batch {
	struct strmap lists;
	struct batch_list *latest[ID_FIELD_COUNT]; /* of the last event with such an id */
};
void index_batch_add(struct index_batch *b, const struct event_view *ev);
int index_batch_put(struct index_batch *b, const struct db *d, MDB_txn *txn, struct err *e);
void index_batch_done(struct index_batch *b);
/* Removes an event, which is older than all others; not an error if it is missing. Adds to *puts for each write. */
int event_index_remove(const struct db *d, MDB_txn *txn, const struct event_view *ev, unsigned *puts, struct err *e);

/* Reads the sequences of one id, in order. */
struct index_scan {
	MDB_cursor *cur;
	struct db_key prefix; /* of the keys of the id's lists */
	uint64_t from, sequence;
	const unsigned char *at, *end; /* the rest of the list */
};
#define INDEX_SCAN_INIT ((struct index_scan){ .cur = NULL })

int index_scan_begin(const struct db *d, MDB_txn *txn, int field, const char *id, size_t len, uint64_t from,
		     struct index_scan *ret, struct err *e);
int index_scan_next(struct index_scan *s, uint64_t *ret, struct err *e); /* 1; 0 at the end; −1 ERR_CORRUPT */
void index_scan_end(struct index_scan *s);
#define index_scan_auto __attribute__((cleanup(index_scan_end)))

/* The number of sequences in all lists, for store_verify. */
int event_index_count(const struct db *d, MDB_txn *txn, uint64_t *ret, struct err *e);

#endif
