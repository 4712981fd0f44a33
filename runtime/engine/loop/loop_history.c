/* The conversation of a thread, put together from what its requests have stored. */

#include "runtime/engine/loop/loop_private.h"

#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/engine/call/tool_call.h"
#include "runtime/engine/call/tool_result.h"
#include "runtime/engine/core/id_list.h"
#include "runtime/engine/session/turn_read.h"
#include "runtime/view/view_cost.h"
#include "runtime/view/view_history.h"

#define RESULT_MAX (16u << 10) /* bytes of a tool's result that a model reads */

int loop_request_read(struct engine *engine, const struct turn_doc *t, const char *request_id, struct buf *text,
		      struct model_request_doc *ret, struct err *e)
{
	char key[VIEW_REQUEST_KEY_MAX];

	view_model_request_key(t->sessionId, request_id, key);
	return view_read_speculative(engine->o.store, &model_request_schema, key, text, ret, e);
}

json_t *loop_load(struct engine *engine, struct jval ref, struct err *e)
{
	mem_auto char *id = jval_strdup(ref);
	buf_auto struct buf text = BUF_INIT;
	json_t *v;

	if (!id) {
		err_set(e, ERR_CORRUPT, "a request to a model has no ref of its items");
		return NULL;
	}
	if (store_output_whole(engine->o.store, id, LOOP_ITEMS_MAX, &text, e) < 0)
		return NULL;
	v = json_loadb(buf_cstr(&text), text.len, 0, NULL);
	if (!v)
		err_set(e, ERR_CORRUPT, "output '%s', a part of a conversation, cannot be read", id);
	return v;
}

/* One request, as {"items", "answer"?, "calls"?}: what it added, and the answer if there is one. */
static int read_request(struct engine *engine, const struct model_request_doc *r, json_t *parts, struct err *e)
{
	json_t *items = loop_load(engine, r->itemsRef, e), *part, *answer;

	if (!items)
		return -1;
	part = json_pack("{s:o}", "items", items);
	json_array_append_new(parts, part);
	if (strcmp(r->status, "completed") != 0 || r->responseRef.type != JT_STRING)
		return 0;
	answer = loop_load(engine, r->responseRef, e);
	if (!answer)
		return -1;
	json_object_set_new(part, "answer", answer);
	if (r->calls.type == JT_ARRAY)
		json_object_set_new(part, "calls", json_loadb(r->calls.text, r->calls.len, 0, NULL));
	return 0;
}

/* The requests of a turn, newest first. 1: one of them is a base; the conversation begins with it. */
static int read_turn(struct engine *engine, const struct turn_doc *t, const char *turn_id, json_t *parts, struct err *e)
{
	view_ids_auto struct view_ids requests = VIEW_IDS_INIT;

	id_list_read(engine, VIEW_TURN_REQUEST, turn_id, ID_LIST_ALL, &requests);
	for (size_t k = requests.n; k-- > 0;) {
		buf_auto struct buf text = BUF_INIT;
		struct model_request_doc r;

		if (loop_request_read(engine, t, requests.id[k], &text, &r, e) != 0)
			return -1;
		if (jval_is_str(r.purpose, "compaction"))
			continue;
		if (read_request(engine, &r, parts, e) < 0)
			return -1;
		if (jval_bool(r.base, false))
			return 1;
	}
	return 0;
}

static void add_part(struct loop_history *h, const json_t *part)
{
	json_t *items = json_object_get(part, "items"), *answer = json_object_get(part, "answer");

	if (json_array_size(items) || answer) {
		json_decref(h->open);
		h->open = json_incref(json_object_get(part, "calls"));
	}
	json_array_extend(h->items, items);
	if (answer)
		json_array_append(h->items, answer);
}

/* Read backwards: what a summary has replaced is not read again for every request. */
int loop_history_read(struct engine *engine, const struct turn_doc *t, struct loop_history *ret, struct err *e)
{
	view_ids_auto struct view_ids turns = VIEW_IDS_INIT;
	json_auto_t *parts = json_array();
	size_t n = 0;
	int rc = 0;

	id_list_read(engine, VIEW_THREAD_TURN, t->threadId, ID_LIST_ALL, &turns);
	while (n < turns.n && strcmp(turns.id[n], t->turnId) != 0)
		n++;
	for (size_t i = n < turns.n ? n + 1 : n; i-- > 0 && rc == 0;)
		if (i == n || !view_turn_rolled_back(engine->o.store, t->threadId, turns.id[i]))
			rc = read_turn(engine, t, turns.id[i], parts, e);
	if (rc < 0)
		return -1;
	*ret = (struct loop_history){ .items = json_array(), .fresh = !json_array_size(parts) };
	for (size_t i = json_array_size(parts); i-- > 0;)
		add_part(ret, json_array_get(parts, i));
	return 0;
}

void loop_history_done(struct loop_history *h)
{
	json_decref(h->items);
	json_decref(h->open);
	*h = (struct loop_history){ 0 };
}

void loop_add_results(struct engine *engine, const json_t *calls, json_t *items)
{
	const json_t *call;
	size_t i;

	json_array_foreach (calls, i, call) {
		buf_auto struct buf doc = BUF_INIT, result = BUF_INIT;
		struct tool_call_doc d;
		struct err e = ERR_INIT;
		bool failed = true;

		const int found = tool_call_read(engine, json_get_text(call, "toolCallId"), &doc, &d, &e);

		if (found == 0 && d.endedAt)
			tool_result_text(engine, &d, RESULT_MAX, &result, &failed);
		else if (found <= 0)
			buf_str(&result, "The call was interrupted. It may have run.");
		else
			buf_str(&result, "The call was interrupted before it ran.");
		json_array_append_new(items, json_pack("{s:s,s:s,s:s,s:s%,s:b}", "type", "tool_result", "id",
						       json_get_text(call, "id"), "name", json_get_text(call, "name"),
						       "text", buf_cstr(&result), result.len, "isError", failed));
	}
}

static void add_text(json_t *items, const char *type, const char *text)
{
	json_array_append_new(items, json_pack("{s:s,s:s}", "type", type, "text", text));
}

int loop_add_input(struct engine *engine, const struct turn_doc *t, json_t *items, struct err *e)
{
	json_auto_t *input = turn_input(engine, t, e);
	const json_t *part;
	size_t i;

	if (!input)
		return -1;
	json_array_foreach (input, i, part)
		if (json_text_is(part, "type", "text"))
			add_text(items, "user", json_get_text(part, "text"));
		else if (json_text_is(part, "type", "image"))
			json_array_append_new(items, json_pack("{s:s,s:s,s:s}", "type", "image", "ref",
							       json_get_text(part, "outputRef"), "mediaType",
							       json_get_text(part, "mediaType")));
	return 0;
}

uint64_t loop_durable_steers(struct engine *engine, const struct turn_doc *t)
{
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc d;
	struct err e = ERR_INIT;
	uint64_t n = 0;

	if (view_read(engine->o.store, &turn_schema, t->turnId, &text, &d, &e) != 0)
		return view_counted(t->steered);
	for (struct jiter it = jiter_on(d.steers); jiter_next(&it);)
		n++;
	return n;
}

uint64_t loop_add_steers(struct engine *engine, const struct turn_doc *t, json_t *items)
{
	const uint64_t from = view_counted(t->steered), end = loop_durable_steers(engine, t);
	uint64_t n = 0;

	for (struct jiter it = jiter_on(t->steers); n < end && jiter_next(&it); n++) {
		mem_auto char *ref = jval_strdup(it.value);
		buf_auto struct buf text = BUF_INIT;
		struct err e = ERR_INIT;

		if (n < from)
			continue;
		if (ref && store_output_whole(engine->o.store, ref, LOOP_ITEMS_MAX, &text, &e) == 0)
			add_text(items, "user", buf_cstr(&text));
		else
			add_text(items, "note", "The user has added input that cannot be read. Ask for it.");
	}
	return n;
}
