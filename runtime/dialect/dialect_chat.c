/*
 * Chat Completions: POST /v1/chat/completions, as OpenAI defined it and as many servers speak it (OpenRouter, DeepSeek,
 * Groq, Together, Mistral, Ollama, llama.cpp, vLLM). Their differences are accepted when decoding; docs/dialects.md
 * lists them.
 */

#include "runtime/base/json_get.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/dialect/conversation.h"
#include "runtime/dialect/decoder.h"
#include "runtime/dialect/encode.h"

#include <string.h>

/* ---- request ---- */

static void write_path(const struct dialect_request *r, struct buf *url) { buf_str(url, "/chat/completions"); }

/* OpenAI itself has members that other servers refuse, and refuses one that they have. */
static bool is_openai(const struct dialect_request *r)
{
	return !r->base_url || !*r->base_url || strstr(r->base_url, "://api.openai.com");
}

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
		jw_kobj(w, "function");
		jw_kstr(w, "name", json_get_text(tool, "name"));
		jw_kopt(w, "description", json_get_string(tool, "description"));
		encode_key_value(w, "parameters", json_object_get(tool, "schema"));
		jw_obj_end(w);
		jw_obj_end(w);
	}
	jw_arr_end(w);
	if (r->no_tools)
		jw_kstr(w, "tool_choice", "none");
}

static void write_message(struct jw *w, const char *role, const char *text)
{
	jw_obj(w);
	jw_kstr(w, "role", role);
	jw_kstr(w, "content", text);
	jw_obj_end(w);
}

/* All text blocks of a message in one string; empty ones are left out. */
static void join_text(const json_t *blocks, const char *type, struct buf *out)
{
	const json_t *block;
	size_t i;

	json_array_foreach (blocks, i, block) {
		const char *text = json_get_text(block, "text");
		if (!json_text_is(block, "type", type) || conversation_blank(text))
			continue;
		if (out->len)
			buf_str(out, "\n\n");
		buf_str(out, text);
	}
}

/*
 * DeepSeek requires its reasoning back with tool calls, under the name that it gave it; templates of local models use
 * it, too. Without calls it is left out: older DeepSeek models reject it there.
 */
static void write_reasoning(const struct conversation_exchange *exchange, struct jw *w)
{
	const char *member = NULL;
	const json_t *block;
	size_t i;

	json_array_foreach (exchange->blocks, i, block)
		if (json_text_is(block, "type", "reasoning") && !member)
			member = json_get_string(json_object_get(block, "raw"), "member");
	if (!member || !exchange->own || !exchange->ncalls)
		return;
	buf_auto struct buf text = BUF_INIT;
	join_text(exchange->blocks, "reasoning", &text);
	jw_kstrn(w, strcmp(member, "reasoning") == 0 ? member : "reasoning_content", buf_cstr(&text), text.len);
}

static void write_assistant(const struct conversation_exchange *exchange, struct jw *w)
{
	buf_auto struct buf text = BUF_INIT;

	join_text(exchange->blocks, "text", &text);
	jw_obj(w);
	jw_kstr(w, "role", "assistant");
	if (text.len)
		jw_kstrn(w, "content", text.data, text.len);
	else {
		jw_key(w, "content");
		jw_null(w);
	}
	write_reasoning(exchange, w);
	if (exchange->ncalls)
		jw_karr(w, "tool_calls");
	for (size_t k = 0; k < exchange->ncalls; k++) {
		const struct conversation_call *call = &exchange->calls[k];
		const json_t *arguments = json_object_get(call->block, "arguments");
		const json_t *extra = json_object_get(json_object_get(call->block, "raw"), "extra_content");
		jw_obj(w);
		jw_kstr(w, "id", call->id);
		jw_kstr(w, "type", "function");
		jw_kobj(w, "function");
		jw_kstr(w, "name", call->name);
		encode_key_text(w, "arguments", json_is_object(arguments) ? arguments : NULL);
		jw_obj_end(w);
		if (extra && exchange->own) /* Gemini's thought signature, behind its OpenAI-compatible address */
			encode_key_value(w, "extra_content", extra);
		jw_obj_end(w);
	}
	if (exchange->ncalls)
		jw_arr_end(w);
	jw_obj_end(w);
}

/* A user message with images: its content is a list of parts. */
static void write_parts(const struct conversation_exchange *exchange, struct jw *w)
{
	jw_obj(w);
	jw_kstr(w, "role", "user");
	jw_karr(w, "content");
	for (size_t i = 0; i < exchange->ntexts; i++) {
		const json_t *item = exchange->texts[i];
		const bool image = conversation_is_image(item);

		jw_obj(w);
		jw_kstr(w, "type", image ? "image_url" : "text");
		if (image) {
			jw_kobj(w, "image_url");
			encode_key_data_url(w, "url", item);
			jw_obj_end(w);
		} else {
			jw_kstr(w, "text", json_get_text(item, "text"));
		}
		jw_obj_end(w);
	}
	jw_arr_end(w);
	jw_obj_end(w);
}

/* Texts that follow each other are one message: templates of many models require alternating roles. */
static void write_user(const struct conversation_exchange *exchange, struct jw *w)
{
	buf_auto struct buf text = BUF_INIT;

	for (size_t k = 0; k < exchange->ncalls; k++) {
		const struct conversation_call *call = &exchange->calls[k];
		bool error;
		jw_obj(w);
		jw_kstr(w, "role", "tool");
		jw_kstr(w, "tool_call_id", call->id);
		jw_kstr(w, "content", conversation_result(call, &error));
		jw_obj_end(w);
	}
	for (size_t i = 0; i < exchange->ntexts; i++) {
		if (conversation_is_image(exchange->texts[i]))
			return write_parts(exchange, w);
		buf_printf(&text, "%s%s", i ? "\n\n" : "", json_get_text(exchange->texts[i], "text"));
	}
	if (text.len)
		write_message(w, "user", text.data);
	else if (!exchange->ncalls)
		write_message(w, "user", CONVERSATION_FILLER);
}

static void write_body(const struct dialect_request *r, const struct conversation *c, struct jw *w)
{
	bool openai = is_openai(r);

	jw_obj(w);
	jw_kstr(w, "model", r->model);
	jw_kbool(w, "stream", true);
	jw_kobj(w, "stream_options");
	jw_kbool(w, "include_usage", true);
	jw_obj_end(w);
	if (r->max_output_tokens)
		jw_kuint(w, openai ? "max_completion_tokens" : "max_tokens", r->max_output_tokens);
	jw_kopt(w, "reasoning_effort", r->effort);
	if (openai)
		jw_kopt(w, "prompt_cache_key", r->cache_key);
	write_tools(r, w);
	jw_karr(w, "messages");
	if (r->instructions && !conversation_blank(r->instructions))
		write_message(w, "system", r->instructions);
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
	{ "tool_calls", DIALECT_STOP_CALLS },          { "function_call", DIALECT_STOP_CALLS },
	{ "length", DIALECT_STOP_MAX_TOKENS },         { "max_tokens", DIALECT_STOP_MAX_TOKENS },
	{ "model_length", DIALECT_STOP_CONTEXT_FULL }, { "content_filter", DIALECT_STOP_FILTERED },
	{ "refusal", DIALECT_STOP_REFUSAL },
};

/* In a chunk of its own, in the last one, or repeated: the last one wins. */
static void take_usage(struct dialect_decoder *x, const json_t *usage)
{
	struct dialect_usage *u = &x->usage;
	const json_t *in = json_object_get(usage, "prompt_tokens_details");
	const json_t *out = json_object_get(usage, "completion_tokens_details");
	const json_t *cost = json_object_get(usage, "cost");

	u->known |= decoder_count(usage, "prompt_tokens", &u->input);
	x->reported |= decoder_count(usage, "completion_tokens", &u->output) &&
		       x->terminal;                                  /* some count in every chunk */
	decoder_count(usage, "prompt_cache_hit_tokens", &u->cached); /* DeepSeek */
	decoder_count(in, "cached_tokens", &u->cached);
	decoder_count(in, "cache_write_tokens", &u->cache_write); /* OpenRouter */
	decoder_count(out, "reasoning_tokens", &u->reasoning);
	if (json_is_number(cost) && json_number_value(cost) >= 0)
		u->cost_usd = json_number_value(cost);
}

/* The newest unit of a kind that is still the last one: text after a call is a new block. */
static struct unit *last_unit(struct dialect_decoder *x, enum unit_kind kind)
{
	struct unit *u = x->nunits ? x->units[x->nunits - 1] : NULL;

	return u && u->kind == kind ? u : unit_new(x, kind, -1);
}

static void take_text(struct dialect_decoder *x, enum unit_kind kind, const json_t *text, const char *member)
{
	if (!json_is_string(text) || !json_string_length(text))
		return;
	struct unit *u = last_unit(x, kind);
	unit_add_string(x, u, text);
	if (member) {
		json_t *name = json_string(member);
		unit_set_raw(u, "member", name);
		json_decref(name);
	}
}

/* A string, or (Mistral) parts: {"type":"text","text"} and {"type":"thinking","thinking":[{"text"}]}. */
static void take_content(struct dialect_decoder *x, const json_t *content)
{
	const json_t *part, *inner;
	size_t i, k;

	take_text(x, UNIT_TEXT, content, NULL);
	json_array_foreach (content, i, part) {
		take_text(x, UNIT_TEXT, json_object_get(part, "text"), NULL);
		json_array_foreach (json_object_get(part, "thinking"), k, inner)
			take_text(x, UNIT_REASONING, json_object_get(inner, "text"), NULL);
	}
}

/*
 * The call that a fragment belongs to. Its index decides, not its id (some servers make a new id for each fragment);
 * but servers that send whole calls give several the same index: a name for a call that is already whole begins another
 * one.
 */
static struct unit *find_call(struct dialect_decoder *x, const json_t *fragment)
{
	const json_t *index = json_object_get(fragment, "index"), *function = json_object_get(fragment, "function");
	const char *name = json_get_text(function, "name"), *id = json_get_string(fragment, "id");
	struct unit *u = NULL;

	if (json_is_integer(index))
		u = unit_find_kind(x, UNIT_CALL, json_integer_value(index));
	else
		for (size_t i = x->nunits; i-- > 0 && !u;)
			u = x->units[i]->kind == UNIT_CALL ? x->units[i] : NULL;
	if (!u || !*name || !u->name)
		; /* the first fragment, or one without a name */
	else if (strcmp(u->name, name) != 0 || unit_is_whole(u))
		u = NULL;
	else if (!json_is_integer(index) && id && u->id && strcmp(id, u->id) != 0)
		u = NULL;
	return u ? u : unit_new(x, UNIT_CALL, json_is_integer(index) ? json_integer_value(index) : -1);
}

/* Some servers repeat whole calls at the end of the stream. */
static bool is_repetition(struct dialect_decoder *x, const json_t *fragment)
{
	const json_t *function = json_object_get(fragment, "function");
	const char *id = json_get_text(fragment, "id"), *arguments = json_get_text(function, "arguments");

	for (size_t i = 0; *id && *arguments && i < x->nunits; i++) {
		struct unit *u = x->units[i];
		if (u->kind == UNIT_CALL && u->id && u->name && strcmp(u->id, id) == 0 &&
		    json_text_is(function, "name", u->name) && strcmp(buf_cstr(&u->text), arguments) == 0 &&
		    unit_is_whole(u))
			return true;
	}
	return false;
}

static void take_call(struct dialect_decoder *x, const json_t *fragment)
{
	const json_t *function = json_object_get(fragment, "function");
	const json_t *arguments = json_object_get(function, "arguments");
	buf_auto struct buf text = BUF_INIT;

	if (is_repetition(x, fragment))
		return;
	struct unit *u = find_call(x, fragment);
	unit_set_id(u, json_get_string(fragment, "id"));
	unit_set_name(x, u, json_get_string(function, "name"));
	unit_set_raw(u, "extra_content", json_object_get(fragment, "extra_content"));
	decoder_arguments(arguments, &text);
	if (!json_is_object(arguments) || !u->text.len)
		unit_add(x, u, text.data, text.len);
}

static void take_finish(struct dialect_decoder *x, const char *reason)
{
	x->terminal = true;
	if (strcmp(reason, "insufficient_system_resource") == 0) /* DeepSeek */
		decoder_fail(x, "overloaded", true, "the provider interrupted the answer: %s", reason);
	else if (strcmp(reason, "error") == 0)
		decoder_fail(x, "server", true, "the provider ended the answer with an error");
	decoder_stop(x, STOPS, countof(STOPS), reason);
}

static void take_event(struct dialect_decoder *x, const json_t *event)
{
	const json_t *choice = json_array_get(json_object_get(event, "choices"), 0), *call;
	const json_t *delta = json_object_get(choice, "delta"), *refusal = json_object_get(delta, "refusal");
	const char *reason = json_get_text(choice, "finish_reason");
	size_t i;

	take_text(x, UNIT_REASONING, json_object_get(delta, "reasoning_content"), "reasoning_content");
	if (!json_is_string(json_object_get(delta, "reasoning_content"))) /* some send both */
		take_text(x, UNIT_REASONING, json_object_get(delta, "reasoning"), "reasoning");
	take_content(x, json_object_get(delta, "content"));
	take_text(x, UNIT_TEXT, refusal, NULL);
	x->refused |= json_is_string(refusal) && json_string_length(refusal);
	json_array_foreach (json_object_get(delta, "tool_calls"), i, call)
		take_call(x, call);
	if (json_is_object(
		    json_object_get(delta, "function_call"))) { /* the API before tools: one call, without an id */
		json_auto_t *only = json_pack("{s:O}", "function", json_object_get(delta, "function_call"));
		take_call(x, only);
	}
	if (*reason)
		take_finish(x, reason);
	take_usage(x, json_object_get(json_object_get(event, "x_groq"), "usage"));
	take_usage(x, json_object_get(event, "usage"));
}

/* Nothing says that one part has ended; all of them end with the stream. */
static void end_stream(struct dialect_decoder *x)
{
	if (x->terminal)
		units_end(x);
}

const struct dialect_codec dialect_chat = {
	.name = "openai-chat",
	.base_url = "https://api.openai.com/v1",
	.key_header = "authorization",
	.key_prefix = "Bearer ",
	.ending = "a finish_reason",
	.path = write_path,
	.encode = write_body,
	.event = take_event,
	.end = end_stream,
};
