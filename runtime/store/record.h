#ifndef BAILIFF_STORE_RECORD_H
#define BAILIFF_STORE_RECORD_H

/*
 * The stored form of events (internal to runtime/store): this head, then the event record of runtime/event, compressed
 * (lz.h) if that makes it smaller. Consecutive events share most of their text (ids, times, names), so up to
 * RECORD_EVENTS_MAX of them are compressed together, as a *block*. The key is the sequence of the first event. The
 * checksum covers everything after itself and that sequence; `previous` is the checksum of the previous record, so that
 * a removed, repeated or replaced record breaks the chain.
 *
 * Retention removes whole records. If it ends inside a block, the block stays, and the floor (struct tip) has the
 * sequence of the last removed event and the checksum of the last removed record.
 */

#include "runtime/base/buf.h"
#include "runtime/store/db.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct event_view;

#define RECORD_VERSION 1u            /* the event record as it is */
#define RECORD_VERSION_COMPRESSED 2u /* since store version 4 */
#define RECORD_VERSION_BLOCK 3u      /* several, each after its length (uint32_t), compressed; since store version 5 */
#define RECORD_MAX (256u * 1024)     /* more than EVENT_MAX plus ids and heads */
#define RECORD_EVENTS_MAX 16u        /* in one block */
#define RECORD_BLOCK_MAX 1900u       /* bytes of a block: a larger value would get whole pages of the database */

struct record_head {
	uint64_t checksum;
	uint64_t previous;
	uint64_t max_us; /* the largest real_us so far: never decreases, even if the clock does */
	uint32_t length; /* of the event record, or of a block's content; expanded */
	uint16_t version;
	uint16_t more; /* events after the first */
};

/* The end of the log, or of the removed part of it (floor): the next record is chained to it. */
struct tip {
	uint64_t sequence;
	uint64_t checksum;
	uint64_t max_us;
};

struct record_event {
	const void *data;
	size_t len;
	uint64_t real_us;
};

/*
 * Replaces the content of `out` by the record of these events and advances the tip. False: several events do not fit
 * into one block; nothing has changed except for `out`.
 */
bool record_write(struct buf *out, const struct record_event *events, size_t n, struct tip *tip);

/* Checks a record's own checksum; ERR_CORRUPT. `first` is the sequence of its first event. */
int record_check(const void *p, size_t len, uint64_t first, struct record_head *ret, struct err *e);
/* Also checks the chain: the record must follow the tip, which advances to its last event. */
int record_follow(const void *p, size_t len, uint64_t first, struct tip *tip, struct err *e);

/* The events of a record, expanded. */
struct record_block {
	uint64_t first, last; /* 0 = empty */
	struct record_head head;
	struct buf text;
	struct {
		uint32_t offset, length;
	} event[RECORD_EVENTS_MAX];
};
#define RECORD_BLOCK_INIT ((struct record_block){ .first = 0 })
void record_block_done(struct record_block *b);
#define record_block_auto __attribute__((cleanup(record_block_done)))

/* Replaces the content of *ret; it is empty on failure. ERR_CORRUPT. */
int record_open(const void *p, size_t len, uint64_t first, struct record_block *ret, struct err *e);
/* Makes sure that the block has this event; ERR_CORRUPT if the database does not. */
int record_load(MDB_txn *txn, const struct db *d, uint64_t sequence, struct record_block *b, struct err *e);
/* One of its events; *ret points into the block. */
int record_event(const struct record_block *b, uint64_t sequence, struct event_view *ret, struct err *e);
/* The tip after this event of the block, which has to follow `tip`; ERR_CORRUPT. */
int record_advance(const struct record_block *b, const struct event_view *ev, struct tip *tip, struct err *e);

#endif
