#ifndef BAILIFF_CONTROL_EVENT_LISTING_H
#define BAILIFF_CONTROL_EVENT_LISTING_H

/*
 * A list_events in progress. A filter may have to skip a long part of the log, so it is read in pieces, one per turn of
 * control's, and the call is answered after the last.
 */

#include "runtime/base/buf.h"
#include "supervisor/control/filter.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct call;
struct control;

struct event_listing {
	TAILQ_ENTRY(event_listing) entry;
	struct call *call;
	struct filter filter;
	uint64_t cursor, before; /* what is left to read: after the cursor; before 0 = to the end */
	uint64_t span;           /* newest first: the sequence numbers that are read at a time; 0 = oldest first */
	size_t limit;
	/* collected so far */
	struct buf events;
	size_t found;
	bool more, ended;
	unsigned looked; /* events read in this piece */
	bool from_first; /* the client named no event: begin with the first that is kept, also if a prune runs */
	/* newest first: the matching events of this piece, from `kept.first` on */
	struct event_listing_window {
		struct buf *texts;
		size_t first, count, size, bytes;
	} kept;
};

/* Takes the filter; answers the call now or in later turns. after = EVENT_LISTING_FIRST: from the first kept event on.
 */
#define EVENT_LISTING_FIRST UINT64_MAX
void event_listing_run(struct call *c, struct filter *f, uint64_t after, uint64_t before, size_t limit,
		       bool newest_first);
void event_listing_turn(struct control *k);     /* one piece of the first listing, in rotation */
void event_listing_drop_all(struct control *k); /* without an answer: for control_free */

#endif
