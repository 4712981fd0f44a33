#ifndef BAILIFF_STORE_BACKGROUND_READ_H
#define BAILIFF_STORE_BACKGROUND_READ_H

/* Internal to runtime/store; others use store_background_read of store.h. */

#include "runtime/store/store.h"

/* Any thread: reads committed events from the database only. Both bounds are required. */
int query_committed(struct store *store, const struct store_query *q,
		    bool (*fn)(void *ctx, const struct event_view *ev), void *ctx, struct err *e);

#endif
