/* OpenAI's Responses API: POST /v1/responses. Stateless: nothing is stored there, and every output item is sent back.
 */

#include "runtime/base/hash.h"
#include "runtime/base/json_get.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/dialect/conversation.h"
#include "runtime/dialect/decoder.h"
#include "runtime/dialect/encode.h"

#include <stdio.h>
#include <string.h>

#define CACHE_KEY_MAX 64

/* ---- request ---- */

static void write_path(const struct dialect_request *r, struct buf *url) { buf_str(url, "/responses"); }

static void write_tools(const struct dialect_request *r, struct jw *w)
{
	const json_t *tool;
	size_t i;

	if (json_array_size(r->tools) == 0)
		return;
	jw_karr(w, "tools");
	json_array_foreach (r->tools, i, tool) {
		jw_obj(w);
		jw_kstr(w, "type", "function");
		jw_kstr(w, "name", json_get_text(tool, "name"));
		jw_kopt(w, "description", json_get_string(tool, "description"));
		jw_kbool(w, "strict", false);
		encode_key_value(w, "parameters", json_object_get(tool, "schema"));
		jw_obj_end(w);
	}
	jw_arr_end(w);
	if (r->no_tools)
		jw_kstr(w, "tool_choice", "none");
}

/* Models without reasoning refuse to send it encrypted. */
static bool is_reasoning_model(const char *model)
{
	static const char *const OTHERS[] = { "gpt-3", "gpt-4", "chatgpt-4" };

	for (size_t i = 0; i < countof(OTHERS); i++)
		if (strncmp(model, OTHERS[i], strlen(OTHERS[i])) == 0)
			return false;
	return true;
}

static void write_reasoning_options(const struct dialect_request *r, struct jw *w)
{
	if (r->effort) {
		jw_kobj(w, "reasoning");
		jw_kstr(w, "effort", r->effort);
		if (strcmp(r->effort, "none") != 0)
			jw_kstr(w, "summary", "auto");
		jw_obj_end(w);
	}
	if (is_reasoning_model(r->model)) {
		jw_karr(w, "include");
		jw_str(w, "reasoning.encrypted_content");
		jw_arr_end(w);
	}
}

static void write_message(struct jw *w, bool assistant, const char *text, const char *phase_or_null)
{
	jw_obj(w);
	jw_kstr(w, "type", "message");
	jw_kstr(w, "role", assistant ? "assistant" : "user");
	jw_karr(w, "content");
	jw_obj(w);
	jw_kstr(w, "type", assistant ? "output_text" : "input_text");
	jw_kstr(w, "text", text);
	jw_obj_end(w);
	jw_arr_end(w);
	jw_kopt(w, "phase", phase_or_null);
	jw_obj_end(w);
}

static void write_image(struct jw *w, const json_t *image)
{
	jw_obj(w);
	jw_kstr(w, "type", "message");
	jw_kstr(w, "role", "user");
	jw_karr(w, "content");
	jw_obj(w);
	jw_kstr(w, "type", "input_image");
	jw_kstr(w, "detail", "auto");
	encode_key_data_url(w, "image_url", image);
	jw_obj_end(w);
	jw_arr_end(w);
	jw_obj_end(w);
}

static void write_reasoning(struct jw *w, const json_t *raw)
{
	const json_t *summary = json_object_get(raw, "summary");

	if (!json_get_string(raw, "encrypted_content"))
		return;
	jw_obj(w);
	jw_kstr(w, "type", "reasoning");
	jw_kopt(w, "id", json_get_string(raw, "id"));
	jw_key(w, "summary");
	if (json_is_array(summary))
		encode_value(w, summary);
	else
		jw_raw(w, "[]", 2);
	jw_kstr(w, "encrypted_content", json_get_text(raw, "encrypted_content"));
	jw_obj_end(w);
}

static void write_call(struct jw *w, const struct conversation_call *call)
{
	const json_t *arguments = json_object_get(call->block, "arguments");

	jw_obj(w);
	jw_kstr(w, "type", "function_call");
	jw_kstr(w, "call_id", call->id);
	jw_kstr(w, "name", call->name);
	encode_key_text(w, "arguments", json_is_object(arguments) ? arguments : NULL);
	jw_obj_end(w);
}

static bool is_visible(const json_t *block)
{
	return json_text_is(block, "type", "tool_call") ||
	       (json_text_is(block, "type", "text") && !conversation_blank(json_get_text(block, "text")));
}

/* In the order of the answer: reasoning belongs to the item after it, and without one it is refused. */
static void write_assistant(const struct conversation_exchange *exchange, struct jw *w)
{
	const struct conversation_call *call = exchange->calls;
	const json_t *block;
	size_t i, visible = 0;

	json_array_foreach (exchange->blocks, i, block)
		if (is_visible(block))
			visible = i + 1;
	json_array_foreach (exchange->blocks, i, block) {
		const json_t *raw = exchange->own ? json_object_get(block, "raw") : NULL;
		if (json_text_is(block, "type", "tool_call"))
			write_call(w, call++);
		else if (is_visible(block))
			write_message(w, true, json_get_text(block, "text"), json_get_string(raw, "phase"));
		else if (json_text_is(block, "type", "reasoning") && i < visible)
			write_reasoning(w, raw);
	}
}

static void write_user(const struct conversation_exchange *exchange, struct jw *w)
{
	for (size_t k = 0; k < exchange->ncalls; k++) {
		const struct conversation_call *call = &exchange->calls[k];
		bool error;
		jw_obj(w);
		jw_kstr(w, "type", "function_call_output");
		jw_kstr(w, "call_id", call->id);
		jw_kstr(w, "output", conversation_result(call, &error));
		jw_obj_end(w);
	}
	for (size_t i = 0; i < exchange->ntexts; i++)
		if (conversation_is_image(exchange->texts[i]))
			write_image(w, exchange->texts[i]);
		else
			write_message(w, false, json_get_text(exchange->texts[i], "text"), NULL);
	if (!exchange->ncalls && !exchange->ntexts)
		write_message(w, false, CONVERSATION_FILLER, NULL);
}

static void write_body(const struct dialect_request *r, const struct conversation *c, struct jw *w)
{
	jw_obj(w);
	jw_kstr(w, "model", r->model);
	jw_kbool(w, "store", false);
	jw_kbool(w, "stream", true);
	if (r->max_output_tokens)
		jw_kuint(w, "max_output_tokens", r->max_output_tokens);
	if (r->cache_key)
		jw_kstrn(w, "prompt_cache_key", r->cache_key, strnlen(r->cache_key, CACHE_KEY_MAX));
	write_reasoning_options(r, w);
	if (r->instructions && !conversation_blank(r->instructions))
		jw_kstr(w, "instructions", r->instructions);
	write_tools(r, w);
	jw_karr(w, "input");
	for (size_t i = 0; i < c->nexchanges; i++) {
		if (c->exchanges[i].blocks)
			write_assistant(&c->exchanges[i], w);
		write_user(&c->exchanges[i], w);
	}
	jw_arr_end(w);
	jw_obj_end(w);
}

/* ---- response ---- */

static const struct stop_word STOPS[] = {
	{ "max_output_tokens", DIALECT_STOP_MAX_TOKENS },
	{ "max_tokens", DIALECT_STOP_MAX_TOKENS },
	{ "content_filter", DIALECT_STOP_FILTERED },
};

static enum unit_kind kind_of(const json_t *item)
{
	const char *type = json_get_text(item, "type");

	return strcmp(type, "message") == 0         ? UNIT_TEXT
	       : strcmp(type, "function_call") == 0 ? UNIT_CALL
	       : strcmp(type, "reasoning") == 0     ? UNIT_REASONING
						    : UNIT_OTHER;
}

static void take_usage(struct dialect_decoder *x, const json_t *usage)
{
	struct dialect_usage *u = &x->usage;
	const json_t *in = json_object_get(usage, "input_tokens_details");

	u->known |= decoder_count(usage, "input_tokens", &u->input);
	x->reported |= decoder_count(usage, "output_tokens", &u->output);
	decoder_count(in, "cached_tokens", &u->cached);
	decoder_count(in, "cache_write_tokens", &u->cache_write);
	decoder_count(json_object_get(usage, "output_tokens_details"), "reasoning_tokens", &u->reasoning);
}

static int64_t id_key(const char *id) { return (int64_t)(hash64(id, strlen(id), 0) | UINT64_C(1) << 63); }

/* The item that an event is about: its index or, from servers that send none, its id. */
static int64_t key_of(const json_t *event)
{
	const json_t *index = json_object_get(event, "output_index");
	const char *id = json_get_string(event, "item_id");

	if (!id)
		id = json_get_text(json_object_get(event, "item"), "id");
	return json_is_integer(index) || !*id ? json_integer_value(index) : id_key(id);
}

static struct unit *open_item(struct dialect_decoder *x, int64_t key, const json_t *item)
{
	enum unit_kind kind = kind_of(item);
	struct unit *u = unit_find_kind(x, kind, key);

	if (!u)
		u = unit_new(x, kind, key);
	if (kind == UNIT_CALL) {
		unit_set_id(u, json_get_string(item, "call_id"));
		unit_set_name(x, u, json_get_string(item, "name"));
	}
	return u;
}

/* The texts of an item's parts: output_text and refusal of a message, summary or text of reasoning. */
static void gather_parts(struct dialect_decoder *x, const json_t *parts, const char *separator, struct buf *out)
{
	const json_t *part;
	size_t i;

	json_array_foreach (parts, i, part) {
		const char *text = json_get_string(part, "text"), *refusal = json_get_string(part, "refusal");
		x->refused |= refusal != NULL;
		if (!text && !refusal)
			continue;
		if (out->len)
			buf_str(out, separator);
		buf_str(out, text ? text : refusal);
	}
}

/* The whole item replaces what its deltas said; without deltas the sink gets it now. */
static void close_unit(struct dialect_decoder *x, struct unit *u, const json_t *item)
{
	buf_auto struct buf text = BUF_INIT;

	if (u->kind == UNIT_TEXT) {
		gather_parts(x, json_object_get(item, "content"), "", &text);
		unit_set_raw(u, "phase", json_object_get(item, "phase"));
	} else if (u->kind == UNIT_CALL) {
		unit_set_id(u, json_get_string(item, "call_id"));
		unit_set_name(x, u, json_get_string(item, "name"));
		decoder_arguments(json_object_get(item, "arguments"), &text);
	} else if (u->kind == UNIT_REASONING) {
		gather_parts(x, json_object_get(item, "summary"), "\n\n", &text);
		if (!text.len)
			gather_parts(x, json_object_get(item, "content"), "\n\n", &text);
		if (json_get_string(item, "encrypted_content")) {
			unit_set_raw(u, "id", json_object_get(item, "id"));
			unit_set_raw(u, "summary", json_object_get(item, "summary"));
			unit_set_raw(u, "encrypted_content", json_object_get(item, "encrypted_content"));
		}
	}
	unit_set_text(x, u, buf_cstr(&text), text.len);
	u->ended = u->kind != UNIT_CALL || !json_text_is(item, "status", "incomplete");
}

static bool is_other_call(const struct unit *u, const json_t *item)
{
	const char *id = json_get_string(item, "call_id");

	return u->kind == UNIT_CALL && u->id && id && strcmp(u->id, id) != 0;
}

static void close_item(struct dialect_decoder *x, int64_t key, const json_t *item)
{
	for (size_t i = 0; i < x->nunits; i++)
		if (x->units[i]->key == key && x->units[i]->kind == kind_of(item) && x->units[i]->ended &&
		    !is_other_call(x->units[i], item))
			return; /* a repetition */
	close_unit(x, open_item(x, key, item), item);
}

/* The unit that events have begun for an item of the whole response, or NULL. `closed`: one of its kind has ended. */
static struct unit *streamed_unit(struct dialect_decoder *x, size_t index, const json_t *item, bool closed)
{
	const char *id = json_get_text(item, "id"), *call = json_get_string(item, "call_id");
	struct unit *same_key = NULL, *open = NULL;

	for (size_t i = x->nunits; i-- > 0;) {
		struct unit *u = x->units[i];
		if (u->kind != kind_of(item) || is_other_call(u, item))
			continue;
		if (u->kind == UNIT_CALL && u->id && call)
			return u;
		if (u->key == (int64_t)index || (*id && u->key == id_key(id)))
			same_key = u;
		if (!u->ended)
			open = u;
	}
	return same_key ? same_key : closed ? NULL : open;
}

/* The items of the whole response that no event has ended: some servers send all of them only here, some a few. */
static void take_output(struct dialect_decoder *x, const json_t *output)
{
	bool closed[UNIT_OTHER + 1] = { 0 }; /* one of this kind */
	const json_t *item;
	size_t i;

	for (i = 0; i < x->nunits; i++)
		closed[x->units[i]->kind] |= x->units[i]->ended;
	json_array_foreach (output, i, item) {
		enum unit_kind kind = kind_of(item);
		if (kind == UNIT_OTHER)
			continue;
		struct unit *u = streamed_unit(x, i, item, closed[kind]);
		/* Calls have ids; other items may only seem to be missing, because they are counted otherwise. */
		if (!u && (!closed[kind] || (kind == UNIT_CALL && json_get_string(item, "call_id"))))
			u = unit_new(x, kind, (int64_t)i);
		if (u && !u->ended)
			close_unit(x, u, item);
	}
}

/* response.completed, incomplete or failed: the whole response. */
static void take_response(struct dialect_decoder *x, const char *type, const json_t *response)
{
	const char *reason = json_get_string(json_object_get(response, "incomplete_details"), "reason");

	take_usage(x, json_object_get(response, "usage"));
	if (strcmp(type, "response.failed") == 0) {
		decoder_fail_error(x, response);
		return;
	}
	take_output(x, json_object_get(response, "output"));
	x->terminal = true;
	if (strcmp(type, "response.incomplete") == 0)
		decoder_stop(x, STOPS, countof(STOPS), reason ? reason : "max_output_tokens");
	else
		decoder_stop(x, NULL, 0, "completed");
}

static void take_event(struct dialect_decoder *x, const json_t *event)
{
	static const struct {
		const char *type;
		enum unit_kind kind;
	} DELTAS[] = { { "response.output_text.delta", UNIT_TEXT },
		       { "response.refusal.delta", UNIT_TEXT },
		       { "response.function_call_arguments.delta", UNIT_CALL },
		       { "response.reasoning_summary_text.delta", UNIT_REASONING },
		       { "response.reasoning_text.delta", UNIT_REASONING } };
	const char *type = json_get_text(event, "type");
	int64_t key = key_of(event);

	for (size_t i = 0; i < countof(DELTAS); i++)
		if (strcmp(type, DELTAS[i].type) == 0) {
			struct unit *u = unit_find_kind(x, DELTAS[i].kind, key);
			unit_add_string(x, u ? u : unit_new(x, DELTAS[i].kind, key), json_object_get(event, "delta"));
			return;
		}
	if (strcmp(type, "response.output_item.added") == 0)
		open_item(x, key, json_object_get(event, "item"));
	else if (strcmp(type, "response.output_item.done") == 0)
		close_item(x, key, json_object_get(event, "item"));
	else if (strcmp(type, "response.reasoning_summary_part.added") == 0) {
		struct unit *u = unit_find_kind(x, UNIT_REASONING, key);
		if (u && u->text.len)
			unit_add(x, u, "\n\n", 2);
	} else if (strcmp(type, "response.completed") == 0 || strcmp(type, "response.incomplete") == 0 ||
		   strcmp(type, "response.failed") == 0)
		take_response(x, type, json_object_get(event, "response"));
}

const struct dialect_codec dialect_responses = {
	.name = "openai-responses",
	.base_url = "https://api.openai.com/v1",
	.key_header = "authorization",
	.key_prefix = "Bearer ",
	.ending = "response.completed",
	.path = write_path,
	.encode = write_body,
	.event = take_event,
	.end = units_end_text,
};
