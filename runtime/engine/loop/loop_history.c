/* The conversation of a thread, put together from what its requests have stored. */

#include "runtime/engine/loop/loop_private.h"

#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/engine/call/process_report.h"
#include "runtime/engine/call/tool_call.h"
#include "runtime/engine/call/tool_result.h"
#include "runtime/engine/core/id_list.h"
#include "runtime/engine/session/turn_read.h"
#include "runtime/view/view.h"
#include "runtime/view/view_cost.h"
#include "runtime/view/view_history.h"

#define RESULT_MAX (16u << 10) /* bytes of a tool's result that a model reads */
#define COMMAND_SHOWN 200u

int loop_request_read(struct engine *engine, const struct turn_doc *t, const char *request_id, struct buf *text,
		      struct model_request_doc *ret, struct err *e)
{
	char key[VIEW_REQUEST_KEY_MAX];

	view_model_request_key(t->sessionId, request_id, key);
	return view_read_speculative(engine->o.store, &model_request_schema, key, text, ret, e);
}

bool loop_request_has_ended(struct engine *engine, const struct turn_doc *t, const char *request_id)
{
	buf_auto struct buf text = BUF_INIT;
	char key[VIEW_REQUEST_KEY_MAX];
	struct model_request_doc r;
	struct err e = ERR_INIT;

	view_model_request_key(t->sessionId, request_id, key);
	return view_read(engine->o.store, &model_request_schema, key, &text, &r, &e) == 0 &&
	       strcmp(r.status, "open") != 0;
}

/* As loop_load, and counts the bytes. */
static json_t *load_counted(struct engine *engine, struct jval ref, size_t *bytes, struct err *e)
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
	*bytes += text.len;
	return v;
}

json_t *loop_load(struct engine *engine, struct jval ref, struct err *e)
{
	size_t bytes = 0;

	return load_counted(engine, ref, &bytes, e);
}

/* ---- conversations that are kept ---- */

#define KEPT_BYTES (16u << 20) /* of memory, of all of them */
#define KEPT_ITEM_BYTES 1024u  /* of a parsed item, in addition to its text */

static size_t memory_of(const struct loop_conversation *k)
{
	return k->bytes + json_array_size(k->items) * KEPT_ITEM_BYTES;
}

static void conversation_done(struct loop_conversation *k)
{
	json_decref(k->items);
	json_decref(k->open);
	*k = (struct loop_conversation){ 0 };
}

static struct loop_conversation *find_kept(struct engine *engine, const char *thread_id)
{
	for (size_t i = 0; i < LOOP_CONVERSATIONS; i++)
		if (strcmp(engine->loop->kept[i].thread_id, thread_id) == 0)
			return &engine->loop->kept[i];
	return NULL;
}

/* The one that was used longest ago; with `in_use` NULL if there is none, else a free place comes first. */
static struct loop_conversation *find_oldest(struct engine *engine, bool in_use)
{
	struct loop_conversation *oldest = NULL;

	for (size_t i = 0; i < LOOP_CONVERSATIONS; i++) {
		struct loop_conversation *k = &engine->loop->kept[i];

		if ((k->items || !in_use) && (!oldest || k->used_ns < oldest->used_ns))
			oldest = k;
	}
	return oldest;
}

static void keep(struct engine *engine, const char *thread_id, const char *request_id, const struct loop_history *h)
{
	struct loop_conversation *k = find_kept(engine, thread_id);
	const uint64_t now = engine_now(engine);
	size_t memory = 0;

	if (!k)
		k = find_oldest(engine, false);
	conversation_done(k);
	*k = (struct loop_conversation){
		.items = json_copy(h->items), .open = json_incref(h->open), .bytes = h->bytes, .used_ns = now
	};
	id_copy(k->thread_id, thread_id);
	id_copy(k->request_id, request_id);
	for (size_t i = 0; i < LOOP_CONVERSATIONS; i++)
		memory += memory_of(&engine->loop->kept[i]);
	while (memory > KEPT_BYTES && (k = find_oldest(engine, true))) {
		memory -= memory_of(k);
		conversation_done(k);
	}
	engine_wake(engine, now + LOOP_KEPT_NS);
}

uint64_t loop_history_forget(struct engine *engine, uint64_t now)
{
	uint64_t next = UINT64_MAX;

	for (size_t i = 0; i < LOOP_CONVERSATIONS; i++) {
		struct loop_conversation *k = &engine->loop->kept[i];

		if (k->items && now - k->used_ns >= LOOP_KEPT_NS)
			conversation_done(k);
		else if (k->items && k->used_ns + LOOP_KEPT_NS < next)
			next = k->used_ns + LOOP_KEPT_NS;
	}
	return next;
}

/* ---- reading ---- */

/* The part of a conversation that is read from the store. */
struct unread {
	const struct loop_conversation *kept; /* of the thread, or NULL */
	json_t *parts;                        /* newest first: {"items", "answer"?, "calls"?} */
	size_t bytes;
	char newest[ID_SIZE]; /* the last request */
	bool open;            /* a request has not ended: its part will change */
};

enum { READ_ON, READ_BASE, READ_KEPT };

/* What a request added, and the answer if there is one. */
static int read_request(struct engine *engine, const struct model_request_doc *r, struct unread *u, struct err *e)
{
	json_t *items = load_counted(engine, r->itemsRef, &u->bytes, e), *part, *answer;

	if (!items)
		return -1;
	part = json_pack("{s:o}", "items", items);
	json_array_append_new(u->parts, part);
	u->open |= strcmp(r->status, "open") == 0;
	if (strcmp(r->status, "completed") != 0 || r->responseRef.type != JT_STRING)
		return 0;
	answer = load_counted(engine, r->responseRef, &u->bytes, e);
	if (!answer)
		return -1;
	json_object_set_new(part, "answer", answer);
	if (r->calls.type == JT_ARRAY)
		json_object_set_new(part, "calls", json_loadb(r->calls.text, r->calls.len, 0, NULL));
	return 0;
}

/* The requests of a turn, newest first, until one is a base, with which the conversation begins, or is kept. */
static int read_turn(struct engine *engine, const struct turn_doc *t, const char *turn_id, struct unread *u,
		     struct err *e)
{
	view_ids_auto struct view_ids requests = VIEW_IDS_INIT;

	id_list_read(engine, VIEW_TURN_REQUEST, turn_id, ID_LIST_ALL, &requests);
	for (size_t k = requests.n; k-- > 0;) {
		buf_auto struct buf text = BUF_INIT;
		struct model_request_doc r;

		if (u->kept && strcmp(u->kept->request_id, requests.id[k]) == 0)
			return READ_KEPT;
		if (loop_request_read(engine, t, requests.id[k], &text, &r, e) != 0)
			return -1;
		if (jval_is_str(r.purpose, "compaction"))
			continue;
		if (read_request(engine, &r, u, e) < 0)
			return -1;
		if (!u->newest[0])
			id_copy(u->newest, requests.id[k]);
		if (jval_bool(r.base, false))
			return READ_BASE;
	}
	return READ_ON;
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

/* Read backwards: what a summary has replaced, or what is kept, is not read again for every request. */
int loop_history_read(struct engine *engine, const struct turn_doc *t, struct loop_history *ret, struct err *e)
{
	view_ids_auto struct view_ids turns = VIEW_IDS_INIT;
	json_auto_t *parts = json_array();
	struct unread u = { .kept = find_kept(engine, t->threadId), .parts = parts };
	size_t n = 0;
	int rc = READ_ON;

	id_list_read(engine, VIEW_THREAD_TURN, t->threadId, ID_LIST_ALL, &turns);
	while (n < turns.n && strcmp(turns.id[n], t->turnId) != 0)
		n++;
	for (size_t i = n < turns.n ? n + 1 : n; i-- > 0 && rc == READ_ON;)
		if (i == n || !view_turn_rolled_back(engine->o.store, t->threadId, turns.id[i]))
			rc = read_turn(engine, t, turns.id[i], &u, e);
	if (rc < 0)
		return -1;
	*ret = (struct loop_history){ .items = rc == READ_KEPT ? json_copy(u.kept->items) : json_array(),
				      .open = rc == READ_KEPT ? json_incref(u.kept->open) : NULL,
				      .bytes = u.bytes + (rc == READ_KEPT ? u.kept->bytes : 0),
				      .fresh = rc != READ_KEPT && !json_array_size(parts) };
	for (size_t i = json_array_size(parts); i-- > 0;)
		add_part(ret, json_array_get(parts, i));
	if (json_array_size(parts) && !u.open)
		keep(engine, t->threadId, u.newest, ret);
	return 0;
}

void loop_history_done(struct loop_history *h)
{
	json_decref(h->items);
	json_decref(h->open);
	*h = (struct loop_history){ 0 };
}

/* An item about a process in the background names it; providers do not get these members. */
static void mark_process(struct engine *engine, const struct tool_call_doc *d, json_t *item)
{
	buf_auto struct buf text = BUF_INIT;
	struct jval report;

	if (!tool_result_report(engine, d, &text, &report))
		return;
	mem_auto char *id = jval_strdup(jval_get(report, "processId"));
	json_object_set_new(item, "process", json_string(id));
	json_object_set_new(item, "running", json_boolean(jval_bool(jval_get(report, "running"), false)));
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
		json_t *item = json_pack("{s:s,s:s,s:s,s:s%,s:b}", "type", "tool_result", "id",
					 json_get_text(call, "id"), "name", json_get_text(call, "name"), "text",
					 buf_cstr(&result), result.len, "isError", failed);
		if (found == 0)
			mark_process(engine, &d, item);
		json_array_append_new(items, item);
	}
}

/* ---- processes in the background ---- */

/* The last item about each process says whether it runs, as far as the model knows. */
static void note_states(const json_t *items, json_t *running)
{
	const json_t *item, *process;
	size_t i;

	json_array_foreach (items, i, item)
		if ((process = json_object_get(item, "process")) && json_is_true(json_object_get(item, "running")))
			json_object_set_new(running, json_string_value(process), json_true());
		else if (process)
			json_object_del(running, json_string_value(process));
}

static void write_process(const struct process_doc *p, struct buf *out)
{
	mem_auto char *line = jval_strdup(p->commandLine);

	buf_printf(out, "Process %s", p->processId);
	if (line) {
		buf_str(out, " (");
		text_sanitize_line(line, text_utf8_cut(line, strnlen(line, COMMAND_SHOWN)), out);
		buf_str(out, ")");
	}
}

void loop_add_processes(struct engine *engine, const struct turn_doc *t, const json_t *history, bool all, json_t *items)
{
	json_auto_t *running = json_object();
	const char *id;
	json_t *v;

	note_states(history, running);
	note_states(items, running);
	json_object_foreach (running, id, v) {
		buf_auto struct buf text = BUF_INIT, note = BUF_INIT;
		struct process_doc p;
		bool runs = true;

		if (!process_report_find(engine, t->threadId, id, &text, &p)) {
			buf_printf(&note, "Process %s is no longer known.", id);
			runs = false;
		} else if (process_report_ended(&p)) {
			runs = false;
			write_process(&p, &note);
			buf_str(&note, " has ended: ");
			tool_result_exit(&p, &note);
			buf_str(&note, "wait shows the rest of its output.");
		} else if (all) {
			write_process(&p, &note);
			buf_str(&note, " still runs in the background.");
		}
		if (note.len)
			json_array_append_new(items, json_pack("{s:s,s:s,s:s,s:b}", "type", "note", "text",
							       buf_cstr(&note), "process", id, "running", runs));
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
