#ifndef BAILIFF_CONTROL_FILTER_H
#define BAILIFF_CONTROL_FILTER_H

/*
 * Which events a subscription or a listing selects and may see. Visibility is part of the filter, so that no reader of
 * the log can forget to check it; it is fixed when the filter is created, because the uid of a connection never
 * changes.
 *
 * A filter owns its ids. subscription_new and event_listing_run take it over and clear the caller's.
 */

#include "runtime/event/event.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct err;
struct store_query;

#define FILTER_IDS 5

struct filter {
	bool sees_all;
	uint32_t uid; /* whose events, unless sees_all */
	bool items;   /* also items derived from the events (item.h) */
	bool all_types;
	uint8_t types[(EVENT_TYPE_COUNT + 7) / 8];
	char *ids[FILTER_IDS]; /* like filter.c's fields; NULL = any */
};

/* From the parameters types, items, sessionId, threadId, turnId, taskId, processId, whichever the method has. */
int filter_init(struct filter *f, const json_t *params, uint32_t uid, bool sees_all, struct err *e);
void filter_done(struct filter *f);
/* filter_match = filter_concerns (owner and ids) and filter_accepts (type). */
bool filter_concerns(const struct filter *f, const struct event_view *ev);
bool filter_accepts(const struct filter *f, enum event_type t);
bool filter_match(const struct filter *f, const struct event_view *ev);
/* Selects an index of the store, if one helps. */
void filter_query(const struct filter *f, struct store_query *q);

#endif
