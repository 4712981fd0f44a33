#ifndef BAILIFF_COMMON_EVENT_LINK_H
#define BAILIFF_COMMON_EVENT_LINK_H

/*
 * The end of the control socket of a process that the guard starts: a connection that the guard opened and passed on.
 * Calls block until their response; events that arrive meanwhile are queued. When the connection breaks, reads fail and
 * the process exits: the guard starts another one, which continues at the cursor.
 *
 * One thread, no callbacks: a call reads the socket itself until its own response arrives. An event that was queued
 * meanwhile is returned by event_link_next before anything new is read, so events keep the order of the log. The queue
 * is not bounded; it grows only while a call waits for its response.
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

/* The descriptor is borrowed: event_link_done does not close it. */
void event_link_init(struct event_link *l, int fd);
void event_link_done(struct event_link *l);

/*
 * Calls a method. `params`: the text of an object. On success *ret is the text of the result. An error reply of the
 * daemon returns −1 with its message in *e and its error object in *ret. So does a lost connection, or no response
 * within a minute; *ret is then empty.
 */
int event_link_call(struct event_link *l, const char *method, const struct buf *params, struct buf *ret, struct err *e);

/*
 * Waits up to `ms` milliseconds for the next event (−1 = no limit). Returns 1 with *ret, which is valid until the next
 * call; 0 if there is none; −1 if the connection is closed. A signal also ends the wait, with 0: the caller checks its
 * own condition and calls again.
 */
int event_link_next(struct event_link *l, int ms, struct jval *ret);

/* ---- the cursor ---- */

/*
 * The position of the export in the log: a small file with the store's runtime id and a sequence number, "rt_… 123\n",
 * rewritten at offset 0 after each accepted batch. If it is lost or damaged, the export starts with new events. It is
 * not synced: after a power failure an older position repeats spans, whose ids do not change.
 */

/* 0 with *ret; 1: no position for this store. */
int cursor_read(int fd, const char *runtime_id, uint64_t *ret);
/* A failure need not end the export: the next batch writes a later position. */
int cursor_write(int fd, const char *runtime_id, uint64_t sequence, struct err *e);

#endif
