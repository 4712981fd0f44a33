#ifndef BAILIFF_STORE_QUERY_H
#define BAILIFF_STORE_QUERY_H

/* Reads of events that the other files of runtime/store need; others use store_events of store.h. */

#include "runtime/store/store.h"

/* Any thread: reads committed events from the database only. Both bounds are required. */
int query_committed(struct store *store, const struct store_query *q,
		    bool (*fn)(void *ctx, const struct event_view *ev), void *ctx, struct err *e);

#endif
