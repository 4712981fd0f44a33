#ifndef BAILIFF_STORE_RECORD_H
#define BAILIFF_STORE_RECORD_H

/*
 * A record as stored (internal to runtime/store): this head, then the event record of runtime/event. The sequence is
 * the key. The checksum covers everything after itself and the sequence; `previous` is the checksum of the record
 * before, so that a removed, repeated or exchanged record breaks the chain.
 */

#include <stddef.h>
#include <stdint.h>

struct err;
struct event_view;

#define RECORD_VERSION 1u
#define RECORD_MAX (256u * 1024) /* EVENT_MAX and the id block and heads fit well */

struct record_head {
	uint64_t checksum;
	uint64_t previous;
	uint64_t max_us; /* the latest real_us of all events so far: sorted, whatever the clock did */
	uint32_t length; /* of the event record */
	uint32_t version;
};

/* Where the log ends (or, as the floor, where it begins): what the next record is chained to. */
struct tip {
	uint64_t sequence;
	uint64_t checksum;
	uint64_t max_us;
};

/* Writes head and event record to `dst` (record_size(len) bytes) and moves the tip on. */
size_t record_size(size_t event_len);
void record_write(void *dst, const void *event, size_t len, uint64_t real_us, struct tip *tip);

/* A stored record's own checksum; ERR_CORRUPT. ret_event points into it. */
int record_check(const void *p, size_t len, uint64_t sequence, struct record_head *ret, const void **ret_event,
		 struct err *e);
/* The same and the chain: the record must follow the tip, which is moved on. */
int record_follow(const void *p, size_t len, uint64_t sequence, struct tip *tip, const void **ret_event,
		  size_t *ret_len, struct err *e);
/* record_check and event_view_of. */
int record_view(const void *p, size_t len, uint64_t sequence, struct event_view *ret, struct err *e);

#endif
