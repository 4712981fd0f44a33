#ifndef BAILIFF_STORE_EVENT_INDEX_H
#define BAILIFF_STORE_EVENT_INDEX_H

/* The table that finds events by id (internal to runtime/store): one entry for each indexed id of an event. */

#include "runtime/store/db.h"

struct event_view;

/* The common prefix of the keys of all entries of an id; the event's sequence follows. */
void event_index_prefix(int field, const char *id, size_t len, struct db_key *ret);
/* The key of an event's entry; false if the event has no such id or the field is not indexed. */
bool event_index_key(const struct event_view *ev, int field, struct db_key *ret);
/* Writes all entries of an event. */
int event_index_put(const struct db *d, MDB_txn *txn, const struct event_view *ev, struct err *e);

#endif
