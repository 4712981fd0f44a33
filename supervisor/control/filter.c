#include "supervisor/control/filter.h"

#include "runtime/base/did_you_mean.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/store/store.h"
#include "supervisor/control/item.h"

#include <stdio.h>
#include <string.h>

#define FILTER_TYPES_MAX 256

/* The ids of filters, those with the fewest events first: the first one that is given selects the index. */
static const enum id_field fields[FILTER_IDS] = { ID_PROCESS, ID_TURN, ID_THREAD, ID_TASK, ID_SESSION };

/* Patterns are resolved to a set of types once, so that matching an event is a bit test. */
static int add_pattern(struct filter *f, const char *pattern, size_t i, struct err *e)
{
	bool any = false;
	struct did_you_mean near = did_you_mean_for(pattern);
	for (int t = 0; t < EVENT_TYPE_COUNT; t++) {
		const char *name = event_info((enum event_type)t)->name;
		did_you_mean_try(&near, name);
		if (!text_glob(pattern, name))
			continue;
		f->types[t / 8] |= (uint8_t)(1u << (t % 8));
		any = true;
	}
	if (any)
		return 0;
	char field[32];
	snprintf(field, sizeof field, "types[%zu]", i);
	return err_field(e, field, "no event type matches \"%.80s\"%s%s", pattern, near.best ? "; did you mean " : "",
			 near.best ? near.best : "");
}

/* Whether every type that the filter names is an item's: without `items` such a filter could never match. */
static bool only_items(const struct filter *f)
{
	if (f->all_types)
		return false;
	for (int t = 0; t < EVENT_TYPE_COUNT; t++)
		if (filter_accepts(f, (enum event_type)t) && !item_is((enum event_type)t))
			return false;
	return true;
}

/* On failure the filter is still valid for filter_done. */
int filter_init(struct filter *f, const json_t *params, uint32_t uid, bool sees_all, struct err *e)
{
	*f = (struct filter){ .sees_all = sees_all, .uid = uid };
	const json_t *types = json_object_get(params, "types");
	f->all_types = json_array_size(types) == 0;
	if (json_array_size(types) > FILTER_TYPES_MAX)
		return err_field(e, "types", "expected at most %d patterns", FILTER_TYPES_MAX);
	size_t i;
	json_t *item;
	json_array_foreach (types, i, item)
		if (add_pattern(f, json_string_value(item), i, e) < 0)
			return -1;
	f->items = json_is_true(json_object_get(params, "items"));
	if (!f->items && only_items(f))
		return err_field(
			e, "types",
			"items are derived, not stored: they come by subscribe_events with items, never from the log");
	for (i = 0; i < FILTER_IDS; i++)
		f->ids[i] = mem_strdup(json_string_value(json_object_get(params, id_field_member(fields[i]))));
	return 0;
}

void filter_done(struct filter *f)
{
	for (size_t i = 0; i < FILTER_IDS; i++)
		free(f->ids[i]);
}

bool filter_accepts(const struct filter *f, enum event_type t)
{
	return f->all_types || (f->types[t / 8] & (1u << (t % 8)));
}

/* An event without one of the ids that the filter names does not match. */
bool filter_concerns(const struct filter *f, const struct event_view *ev)
{
	if (!f->sees_all && ev->uid != f->uid)
		return false;
	for (size_t i = 0; i < FILTER_IDS; i++) {
		const struct id_text *id = &ev->ids[fields[i]];
		if (f->ids[i] &&
		    (!id->text || strlen(f->ids[i]) != id->len || memcmp(f->ids[i], id->text, id->len) != 0))
			return false;
	}
	return true;
}

bool filter_match(const struct filter *f, const struct event_view *ev)
{
	return filter_accepts(f, ev->type) && filter_concerns(f, ev);
}

void filter_query(const struct filter *f, struct store_query *q)
{
	q->index = -1;
	for (size_t i = 0; i < FILTER_IDS; i++)
		if (f->ids[i]) {
			q->index = fields[i];
			q->id = f->ids[i];
			return;
		}
}
