#ifndef BAILIFF_STORE_RECORD_H
#define BAILIFF_STORE_RECORD_H

/*
 * The stored form of an event (internal to runtime/store): this head, then the event record of runtime/event,
 * compressed (lz.h) if that makes it smaller. The key is the sequence. The checksum covers everything after itself and
 * the sequence; `previous` is the checksum of the previous record, so that a removed, repeated or replaced record
 * breaks the chain.
 */

#include "runtime/base/buf.h"
#include "runtime/store/db.h"

#include <stddef.h>
#include <stdint.h>

struct err;
struct event_view;

#define RECORD_VERSION 1u            /* the event record as it is */
#define RECORD_VERSION_COMPRESSED 2u /* since store version 4 */
#define RECORD_MAX (256u * 1024)     /* more than EVENT_MAX plus ids and heads */

struct record_head {
	uint64_t checksum;
	uint64_t previous;
	uint64_t max_us; /* the largest real_us so far: never decreases, even if the clock does */
	uint32_t length; /* of the event record, expanded */
	uint32_t version;
};

/* The end of the log, or of the removed part of it (floor): the next record is chained to it. */
struct tip {
	uint64_t sequence;
	uint64_t checksum;
	uint64_t max_us;
};

/* Replaces the content of `out` by the record of an event and advances the tip. */
void record_write(struct buf *out, const void *event, size_t len, uint64_t real_us, struct tip *tip);

/* Checks a record's own checksum; ERR_CORRUPT. */
int record_check(const void *p, size_t len, uint64_t sequence, struct record_head *ret, struct err *e);
/* Also checks the chain: the record must follow the tip, which advances. */
int record_follow(const void *p, size_t len, uint64_t sequence, struct tip *tip, struct err *e);
/* record_check and event_view_of. *ret points into `space`, whose content it replaces. */
int record_view(const void *p, size_t len, uint64_t sequence, struct buf *space, struct event_view *ret, struct err *e);

#endif
