#ifndef BAILIFF_CONTROL_ITEM_H
#define BAILIFF_CONTROL_ITEM_H

/*
 * item.started, item.updated, item.completed: the steps of turns (messages, reasoning, tool calls, commands, file
 * changes, questions, plans, errors) for clients that want no more than that. They are never stored: each is made from
 * the one stored event that says it, when a subscription with `items` comes to that event, so that a stream that is
 * taken up again at any sequence number gives the same items again.
 */

#include "runtime/event/event.h"

#include <stdbool.h>

struct buf;

/* The item event that `ev` makes, or −1: none (then item_json must not be called). */
int item_type(const struct event_view *ev);
/* Its envelope; the sequence number is that of `ev`. */
void item_json(const struct event_view *ev, struct buf *out);
bool item_is(enum event_type t); /* one of the three */

#endif
