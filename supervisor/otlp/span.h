#ifndef BAILIFF_OTLP_SPAN_H
#define BAILIFF_OTLP_SPAN_H

/*
 * Turns events into spans in the JSON encoding of the OpenTelemetry protocol.
 *
 * A span is written when its end event arrives and needs the start event as well. A bounded number of starts is kept in
 * memory; a missing one (after a restart, or with too many open spans) is read from the log (`find_start`). If the log
 * no longer has it, the start is computed from the end's durationMs and marked with bailiff.start: unknown.
 *
 * Ids are hashes of what the span stands for, never random. A span that is exported twice (after a crash, or when a
 * response was lost) has the same ids both times, and a child can refer to a parent that is exported later. No text of
 * a command, a prompt or an output is exported; a span carries names, ids, numbers, the working directory and the
 * message of an error.
 *
 * One thread. The table owns its copies of start events; events that are passed in are borrowed for the call.
 */

#include "runtime/base/buf.h"
#include "runtime/base/jscan.h"
#include "runtime/base/strmap.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct span_table {
	struct strmap open; /* "<kind> <id>" → the start event's text (struct buf) */
	char runtime_id[64];
	/*
	 * Appends the event of this type with this id to *ret; −1: not found. `like` is an event with the ids to search
	 * by. May be NULL. It is called while span_table_event runs and must not change the table.
	 */
	int (*find_start)(void *ctx, const char *type, const char *id_member, const char *id, struct jval like,
			  struct buf *ret);
	void *ctx;
};

/* The caller sets find_start and ctx after span_table_init. */
void span_table_init(struct span_table *b, const char *runtime_id);
void span_table_done(struct span_table *b);

/* The event types that spans are built from, as a JSON array for subscribe_events. */
void span_types(struct buf *ret);

/* Processes an event. If a span ended, appends it to *ret (after a comma unless *ret is empty) and returns true. */
bool span_table_event(struct span_table *b, struct jval event, struct buf *ret);

#endif
