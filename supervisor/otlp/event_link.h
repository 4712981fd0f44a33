#ifndef BAILIFF_OTLP_FEED_LINK_H
#define BAILIFF_OTLP_FEED_LINK_H

/*
 * The exporter's end of the control socket: a connection that the guard opened and passed on. Calls block until their
 * response; events that arrive meanwhile are queued. When the connection breaks, reads fail and the exporter exits: the
 * guard starts another one, which continues at the cursor.
 */

#include "runtime/base/buf.h"
#include "runtime/base/jscan.h"
#include "runtime/base/lines.h"

#include <stdbool.h>
#include <stdint.h>

struct err;
struct waiting_event;

struct event_link {
	int fd;
	struct lines lines;
	uint64_t last_id;
	struct waiting_event *first, **last; /* arrived during a call */
	struct buf current;                  /* the event that event_link_next returned last */
};

void event_link_init(struct event_link *l, int fd);
void event_link_done(struct event_link *l);

/* `params`: an object's text. *ret gets the result's text; an error of the daemon is −1 with its message, and its
 * object in *ret. */
int event_link_call(struct event_link *l, const char *method, const struct buf *params, struct buf *ret, struct err *e);

/* The next event within so many ms (−1 = however long): 1 with *ret, valid until the next call; 0 = none; −1 = the
 * connection is gone. */
int event_link_next(struct event_link *l, int ms, struct jval *ret);

#endif
