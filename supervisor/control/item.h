#ifndef BAILIFF_CONTROL_ITEM_H
#define BAILIFF_CONTROL_ITEM_H

/*
 * item.started, item.updated, item.completed: the steps of turns (messages, reasoning, tool calls, commands, file
 * changes, questions, plans, errors) for clients that need no more than that. They are never stored: each is derived
 * from one stored event when a subscription with `items` reaches it, so a stream that resumes at any sequence number
 * gives the same items again.
 */

#include "runtime/event/event.h"

#include <stdbool.h>

struct buf;

/* The item event derived from `ev`, or −1: none (then item_json must not be called). */
int item_type(const struct event_view *ev);
/* Its envelope; the sequence number is that of `ev`. */
void item_json(const struct event_view *ev, struct buf *out);
bool item_is(enum event_type t); /* one of the three */

#endif
