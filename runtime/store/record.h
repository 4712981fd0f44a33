#ifndef BAILIFF_STORE_RECORD_H
#define BAILIFF_STORE_RECORD_H

/*
 * The stored form of an event (internal to runtime/store): this head, then the event record of runtime/event. The key
 * is the sequence. The checksum covers everything after itself and the sequence; `previous` is the checksum of the
 * previous record, so that a removed, repeated or replaced record breaks the chain.
 */

#include "runtime/base/buf.h"
#include "runtime/store/db.h"

#include <stddef.h>
#include <stdint.h>

struct err;
struct event_view;

#define RECORD_VERSION 1u
#define RECORD_MAX (256u * 1024) /* more than EVENT_MAX plus ids and heads */

struct record_head {
	uint64_t checksum;
	uint64_t previous;
	uint64_t max_us; /* the largest real_us so far: never decreases, even if the clock does */
	uint32_t length; /* of the event record */
	uint32_t version;
};

/* The end of the log, or of the removed part of it (floor): the next record is chained to it. */
struct tip {
	uint64_t sequence;
	uint64_t checksum;
	uint64_t max_us;
};

/* Writes head and event record to `dst` (record_size(len) bytes) and advances the tip. */
size_t record_size(size_t event_len);
void record_write(void *dst, const void *event, size_t len, uint64_t real_us, struct tip *tip);

/* Checks a record's own checksum; ERR_CORRUPT. *ret_event points into the record. */
int record_check(const void *p, size_t len, uint64_t sequence, struct record_head *ret, const void **ret_event,
		 struct err *e);
/* Also checks the chain: the record must follow the tip, which advances. */
int record_follow(const void *p, size_t len, uint64_t sequence, struct tip *tip, const void **ret_event,
		  size_t *ret_len, struct err *e);
/* record_check and event_view_of. */
int record_view(const void *p, size_t len, uint64_t sequence, struct event_view *ret, struct err *e);

/* The index: a table that finds events by id, with one entry for each indexed id of an event and no values. */

/* The common prefix of the keys of all entries of an id; the event's sequence follows. */
void record_index_prefix(int field, const char *id, size_t len, struct db_key *ret);
/* The key of an event's entry; false if the event has no such id or the field is not indexed. */
bool record_index_key(const struct event_view *ev, int field, struct db_key *ret);
/* Writes all entries of an event. */
int record_index_put(const struct db *d, MDB_txn *txn, const struct event_view *ev, struct err *e);

#endif
