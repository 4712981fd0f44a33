/* Anthropic's Messages API: POST /v1/messages. */

#include "runtime/base/json_get.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/dialect/conversation.h"
#include "runtime/dialect/decoder.h"
#include "runtime/dialect/encode.h"

#include <string.h>

#define MAX_TOKENS 32000 /* the request must name a maximum; all current models allow this one */
#define BREAKPOINTS 4    /* the API's maximum: one after tools and system prompt, the others in user messages */

/* ---- request ---- */

static void write_path(const struct dialect_request *r, struct buf *url) { buf_str(url, "/messages"); }

static void write_breakpoint(struct jw *w, bool wanted)
{
	if (!wanted)
		return;
	jw_kobj(w, "cache_control");
	jw_kstr(w, "type", "ephemeral");
	jw_obj_end(w);
}

static void write_tools(const struct dialect_request *r, bool breakpoint, struct jw *w)
{
	const json_t *tool;
	size_t i;

	if (json_array_size(r->tools) == 0)
		return;
	jw_karr(w, "tools");
	json_array_foreach (r->tools, i, tool) {
		jw_obj(w);
		jw_kstr(w, "name", json_get_text(tool, "name"));
		jw_kopt(w, "description", json_get_string(tool, "description"));
		encode_key_value(w, "input_schema", json_object_get(tool, "schema"));
		write_breakpoint(w, breakpoint && i + 1 == json_array_size(r->tools));
		jw_obj_end(w);
	}
	jw_arr_end(w);
	if (r->no_tools) {
		jw_kobj(w, "tool_choice");
		jw_kstr(w, "type", "none");
		jw_obj_end(w);
	}
}

static void write_effort(const char *effort, struct jw *w)
{
	if (!effort)
		return;
	bool none = strcmp(effort, "none") == 0;
	jw_kobj(w, "thinking");
	jw_kstr(w, "type", none ? "disabled" : "adaptive");
	if (!none)
		jw_kstr(w, "display", "summarized"); /* newer models send no text of it by default */
	jw_obj_end(w);
	if (none)
		return;
	jw_kobj(w, "output_config");
	jw_kstr(w, "effort", effort);
	jw_obj_end(w);
}

static void write_text(struct jw *w, const char *text, bool breakpoint)
{
	jw_obj(w);
	jw_kstr(w, "type", "text");
	jw_kstr(w, "text", text);
	write_breakpoint(w, breakpoint);
	jw_obj_end(w);
}

static void write_image(struct jw *w, const json_t *image, bool breakpoint)
{
	jw_obj(w);
	jw_kstr(w, "type", "image");
	jw_kobj(w, "source");
	jw_kstr(w, "type", "base64");
	jw_kstr(w, "media_type", json_get_text(image, "mediaType"));
	jw_kstr(w, "data", json_get_text(image, "data"));
	jw_obj_end(w);
	write_breakpoint(w, breakpoint);
	jw_obj_end(w);
}

static void write_thinking(struct jw *w, const json_t *block)
{
	const json_t *raw = json_object_get(block, "raw");
	const char *signature = json_get_string(raw, "signature"), *redacted = json_get_string(raw, "redacted");

	if (!signature && !redacted)
		return;
	jw_obj(w);
	if (redacted) {
		jw_kstr(w, "type", "redacted_thinking");
		jw_kstr(w, "data", redacted);
	} else {
		jw_kstr(w, "type", "thinking");
		jw_kstr(w, "thinking", json_get_text(block, "text"));
		jw_kstr(w, "signature", signature);
	}
	jw_obj_end(w);
}

/* Calls go last: text after a tool_use breaks the pairing. Thinking at the end of a message is refused. */
static void write_assistant(const struct conversation_exchange *exchange, struct jw *w)
{
	const json_t *block;
	size_t i, last_text = 0;

	json_array_foreach (exchange->blocks, i, block)
		if (json_text_is(block, "type", "text") && !conversation_blank(json_get_text(block, "text")))
			last_text = i + 1;
	jw_obj(w);
	jw_kstr(w, "role", "assistant");
	jw_karr(w, "content");
	json_array_foreach (exchange->blocks, i, block) {
		if (json_text_is(block, "type", "text") && !conversation_blank(json_get_text(block, "text")))
			write_text(w, json_get_text(block, "text"), false);
		else if (json_text_is(block, "type", "reasoning") && exchange->own &&
			 (exchange->ncalls || i < last_text))
			write_thinking(w, block);
	}
	for (size_t k = 0; k < exchange->ncalls; k++) {
		const struct conversation_call *call = &exchange->calls[k];
		const json_t *arguments = json_object_get(call->block, "arguments");
		jw_obj(w);
		jw_kstr(w, "type", "tool_use");
		jw_kstr(w, "id", call->id);
		jw_kstr(w, "name", call->name);
		encode_key_value(w, "input", json_is_object(arguments) ? arguments : NULL);
		jw_obj_end(w);
	}
	jw_arr_end(w);
	jw_obj_end(w);
}

static void write_user(const struct conversation_exchange *exchange, bool breakpoint, struct jw *w)
{
	size_t left = exchange->ncalls + exchange->ntexts;

	jw_obj(w);
	jw_kstr(w, "role", "user");
	jw_karr(w, "content");
	for (size_t k = 0; k < exchange->ncalls; k++) {
		const struct conversation_call *call = &exchange->calls[k];
		bool error;
		const char *text = conversation_result(call, &error);
		jw_obj(w);
		jw_kstr(w, "type", "tool_result");
		jw_kstr(w, "tool_use_id", call->id);
		jw_kstr(w, "content", text);
		if (error)
			jw_kbool(w, "is_error", true);
		write_breakpoint(w, breakpoint && --left == 0);
		jw_obj_end(w);
	}
	for (size_t i = 0; i < exchange->ntexts; i++) {
		const bool last = breakpoint && i + 1 == exchange->ntexts;

		if (conversation_is_image(exchange->texts[i]))
			write_image(w, exchange->texts[i], last);
		else
			write_text(w, json_get_text(exchange->texts[i], "text"), last);
	}
	if (!exchange->ncalls && !exchange->ntexts)
		write_text(w, CONVERSATION_FILLER, breakpoint);
	jw_arr_end(w);
	jw_obj_end(w);
}

/*
 * The breakpoints in messages are at the ends of the last user messages: the one before the last is where the request
 * before this one ended, so that its cache entry matches exactly, however many blocks have been added since.
 */
static void write_body(const struct dialect_request *r, const struct conversation *c, struct jw *w)
{
	bool instructions = r->instructions && !conversation_blank(r->instructions);

	jw_obj(w);
	jw_kstr(w, "model", r->model);
	jw_kuint(w, "max_tokens", r->max_output_tokens ? r->max_output_tokens : MAX_TOKENS);
	jw_kbool(w, "stream", true);
	write_tools(r, !instructions, w);
	write_effort(r->effort, w);
	if (instructions) {
		jw_karr(w, "system");
		write_text(w, r->instructions, true);
		jw_arr_end(w);
	}
	jw_karr(w, "messages");
	for (size_t i = 0; i < c->nexchanges; i++) {
		if (c->exchanges[i].blocks)
			write_assistant(&c->exchanges[i], w);
		write_user(&c->exchanges[i], i + BREAKPOINTS - 1 >= c->nexchanges, w);
	}
	jw_arr_end(w);
	jw_obj_end(w);
}

/* ---- response ---- */

static const struct stop_word STOPS[] = {
	{ "tool_use", DIALECT_STOP_CALLS },    { "max_tokens", DIALECT_STOP_MAX_TOKENS },
	{ "pause_turn", DIALECT_STOP_PAUSED }, { "compaction", DIALECT_STOP_PAUSED },
	{ "refusal", DIALECT_STOP_REFUSAL },   { "model_context_window_exceeded", DIALECT_STOP_CONTEXT_FULL },
};

/* Counts are cumulative, and a later event may have only some of them. `input_tokens` is the uncached part. */
static void take_usage(struct dialect_decoder *x, const json_t *usage, bool final)
{
	struct dialect_usage *u = &x->usage;
	const json_t *created = json_object_get(usage, "cache_creation");
	uint64_t uncached = u->input - u->cached - u->cache_write;

	u->known |= decoder_count(usage, "input_tokens", &uncached);
	decoder_count(usage, "cache_read_input_tokens", &u->cached);
	decoder_count(usage, "cache_creation_input_tokens", &u->cache_write);
	decoder_count(created, "ephemeral_1h_input_tokens", &u->cache_write_1h);
	if (u->cache_write_1h > u->cache_write)
		u->cache_write = u->cache_write_1h;
	u->input = uncached + u->cached + u->cache_write;
	if (final) /* the count at the start is a placeholder */
		x->reported |= decoder_count(usage, "output_tokens", &u->output);
	decoder_count(json_object_get(usage, "output_tokens_details"), "thinking_tokens", &u->reasoning);
}

static void start_block(struct dialect_decoder *x, int64_t index, const json_t *block)
{
	const char *type = json_get_text(block, "type");
	const json_t *input = json_object_get(block, "input");
	enum unit_kind kind = strcmp(type, "text") == 0                ? UNIT_TEXT
			      : strcmp(type, "tool_use") == 0          ? UNIT_CALL
			      : strcmp(type, "thinking") == 0          ? UNIT_REASONING
			      : strcmp(type, "redacted_thinking") == 0 ? UNIT_REASONING
								       : UNIT_OTHER;

	if (unit_find(x, index)) {
		decoder_fail(x, "protocol", true, "content block %lld started twice", (long long)index);
		return;
	}
	struct unit *u = unit_new(x, kind, index);
	unit_add_string(x, u, json_object_get(block, kind == UNIT_TEXT ? "text" : "thinking"));
	unit_set_raw(u, "signature", json_object_get(block, "signature"));
	unit_set_raw(u, "redacted", json_object_get(block, "data"));
	if (kind != UNIT_CALL)
		return;
	unit_set_id(u, json_get_string(block, "id"));
	unit_set_name(x, u, json_get_string(block, "name"));
	if (json_object_size(input)) { /* proxies: the whole input at once */
		mem_auto char *text = json_dumps(input, JSON_COMPACT);
		unit_add(x, u, text, strlen(text));
	}
}

static void take_delta(struct dialect_decoder *x, int64_t index, const json_t *delta)
{
	static const struct {
		const char *type, *member;
		enum unit_kind kind;
	} DELTAS[] = { { "text_delta", "text", UNIT_TEXT },
		       { "input_json_delta", "partial_json", UNIT_CALL },
		       { "thinking_delta", "thinking", UNIT_REASONING },
		       { "signature_delta", NULL, UNIT_REASONING } };
	struct unit *u = unit_find(x, index);

	if (!u) {
		decoder_fail(x, "protocol", true, "data for content block %lld, which is not open", (long long)index);
		return;
	}
	for (size_t i = 0; i < countof(DELTAS) && u->kind != UNIT_OTHER; i++) {
		if (!json_text_is(delta, "type", DELTAS[i].type))
			continue;
		if (u->kind != DELTAS[i].kind)
			decoder_fail(x, "protocol", true, "%s in a content block of another type", DELTAS[i].type);
		else if (DELTAS[i].member)
			unit_add_string(x, u, json_object_get(delta, DELTAS[i].member));
		else
			unit_set_raw(u, "signature", json_object_get(delta, "signature"));
	}
}

static void take_event(struct dialect_decoder *x, const json_t *event)
{
	const char *type = json_get_text(event, "type");
	int64_t index = json_integer_value(json_object_get(event, "index"));

	if (strcmp(type, "content_block_delta") == 0)
		take_delta(x, index, json_object_get(event, "delta"));
	else if (strcmp(type, "content_block_start") == 0)
		start_block(x, index, json_object_get(event, "content_block"));
	else if (strcmp(type, "content_block_stop") == 0) {
		struct unit *u = unit_find(x, index);
		if (u)
			u->ended = true;
	} else if (strcmp(type, "message_start") == 0)
		take_usage(x, json_object_get(json_object_get(event, "message"), "usage"), false);
	else if (strcmp(type, "message_delta") == 0) {
		const char *reason = json_get_string(json_object_get(event, "delta"), "stop_reason");
		if (reason)
			decoder_stop(x, STOPS, countof(STOPS), reason);
		take_usage(x, json_object_get(event, "usage"), true);
	} else if (strcmp(type, "message_stop") == 0)
		x->terminal = true;
}

const struct dialect_codec dialect_anthropic = {
	.name = "anthropic",
	.base_url = "https://api.anthropic.com/v1",
	.key_header = "x-api-key",
	.key_prefix = "",
	.version_header = "anthropic-version",
	.version = "2023-06-01",
	.ending = "message_stop",
	.path = write_path,
	.encode = write_body,
	.event = take_event,
	.end = units_end_text,
};
