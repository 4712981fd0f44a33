#include "supervisor/control/item.h"

#include "runtime/base/buf.h"
#include "runtime/base/jscan.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"

#include <string.h>

#define SHOWN_MAX 7

/* How an event becomes an item: the kind, which of the event's ids identifies it, and the payload members it shows. */
static const struct item_rule {
	enum event_type type; /* of the item; 0 (no item type has that number) = none */
	const char *kind;
	enum id_field id;
	enum item_shape {
		WHOLE,     /* has a beginning and an end */
		AT_ONCE,   /* one event only: the event's status belongs to something else */
		REASONING, /* of a model's request, which has the id itself */
	} shape;
	const char *status; /* unless the event has one */
	const char *shown[SHOWN_MAX];
} rules[EVENT_TYPE_COUNT] = {
#define ITEM(event, phase, kind, id, shape, status, ...) \
	[EVENT_##event] = { EVENT_ITEM_##phase, kind, ID_##id, shape, status, { __VA_ARGS__ } },
#include "supervisor/control/items.def"
#undef ITEM
};

bool item_is(enum event_type t)
{
	return t == EVENT_ITEM_STARTED || t == EVENT_ITEM_UPDATED || t == EVENT_ITEM_COMPLETED;
}

/* Must agree with item_json: −1 for an event is what keeps it from being called. */
int item_type(const struct event_view *ev)
{
	const struct item_rule *rule = &rules[ev->type];

	if (!rule->kind || !ev->ids[ID_THREAD].text || !ev->ids[ID_TURN].text)
		return -1; /* items are steps of turns */
	if (rule->id == ID_PROCESS && jval_is_str(jval_path(event_payload(ev), "owner.kind"), "sandbox"))
		return -1; /* the holder of a session sandbox is no command */
	if (ev->type == EVENT_TASK_PROGRESS && jval_get(event_payload(ev), "plan").type == JT_NONE)
		return -1;
	return (int)rule->type;
}

/* An error, or an item whose writer gave no id, gets the event's id; a model request without one gets the turn's. */
static void write_id(const struct event_view *ev, const struct item_rule *rule, struct jval event_id, struct jw *w)
{
	const struct id_text *id = &ev->ids[rule->id];
	buf_auto struct buf text = BUF_INIT;

	if (strcmp(rule->kind, "error") != 0 && id->text)
		buf_append(&text, id->text, id->len);
	else if (rule->id == ID_MODEL_REQUEST)
		buf_append(&text, ev->ids[ID_TURN].text, ev->ids[ID_TURN].len);
	else
		jval_str_buf(event_id, &text);
	if (rule->shape == REASONING)
		buf_str(&text, ".reasoning");
	jw_kstr(w, "id", buf_cstr(&text));
}

/* A payload member is copied as it is: items add no information to their event. */
static void write_item(const struct event_view *ev, struct jval event_id, struct jw *w)
{
	const struct item_rule *rule = &rules[ev->type];
	struct jval payload = event_payload(ev), status = event_member(ev, "status");
	const struct id_text *call = &ev->ids[ID_TOOL_CALL];

	jw_kobj(w, "item");
	write_id(ev, rule, event_id, w);
	jw_kstr(w, "kind", rule->kind);
	if (rule->type == EVENT_ITEM_COMPLETED && rule->shape != AT_ONCE && status.type == JT_STRING)
		jw_kraw(w, "status", status.text, status.len);
	else
		jw_kstr(w, "status", rule->status);
	if (rule->id == ID_PROCESS && call->text) /* the command of a tool call */
		jw_kstrn(w, "parentItemId", call->text, call->len);
	jw_kstr(w, "sourceType", event_info(ev->type)->name);
	jw_kraw(w, "sourceEventId", event_id.text, event_id.len);
	for (size_t i = 0; i < SHOWN_MAX && rule->shown[i]; i++) {
		struct jval v = jval_get(payload, rule->shown[i]);

		if (v.type != JT_NONE)
			jw_kraw(w, rule->shown[i], v.text, v.len);
	}
	jw_obj_end(w);
}

/* An item's eventId is its event's with a suffix: stable across resumed streams, and never equal to a stored one. */
void item_json(const struct event_view *ev, struct buf *out)
{
	static const char *const kept[] = { "timestamp", "schemaVersion", "runtimeId" };
	struct jval event_id = event_member(ev, "eventId");
	buf_auto struct buf own = BUF_INIT;
	struct jw w = jw_on(out);

	jval_str_buf(event_id, &own);
	buf_str(&own, ".item");
	jw_obj(&w);
	jw_kuint(&w, "sequence", ev->sequence);
	jw_kstr(&w, "type", event_info((enum event_type)rules[ev->type].type)->name);
	jw_kstr(&w, "eventId", buf_cstr(&own));
	for (size_t i = 0; i < countof(kept); i++) {
		struct jval v = event_member(ev, kept[i]);

		if (v.type != JT_NONE)
			jw_kraw(&w, kept[i], v.text, v.len);
	}
	for (int f = 0; f < ID_FIELD_COUNT; f++)
		if (ev->ids[f].text)
			jw_kstrn(&w, id_field_member((enum id_field)f), ev->ids[f].text, ev->ids[f].len);
	jw_kobj(&w, "payload");
	write_item(ev, event_id, &w);
	jw_obj_end(&w);
	jw_obj_end(&w);
}
