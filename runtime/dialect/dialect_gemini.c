/* Google's Gemini API: POST /v1beta/models/MODEL:streamGenerateContent?alt=sse. Every event is a whole response. */

#include "runtime/base/json_get.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/dialect/conversation.h"
#include "runtime/dialect/decoder.h"
#include "runtime/dialect/encode.h"
#include "runtime/dialect/headers.h"

#include <ctype.h>
#include <string.h>

/* Google's placeholder for calls that the model itself did not make; it accepts them only with a signature. */
#define NO_SIGNATURE "skip_thought_signature_validator"

/* ---- request ---- */

static void write_path(const struct dialect_request *r, struct buf *url)
{
	buf_str(url, strncmp(r->model, "models/", 7) == 0 ? "/" : "/models/");
	for (const char *s = r->model; *s; s++)
		if (isalnum((unsigned char)*s) || strchr("-._~/@", *s))
			buf_byte(url, *s);
		else
			buf_printf(url, "%%%02X", (unsigned char)*s);
	buf_str(url, ":streamGenerateContent?alt=sse");
}

/* "gemini-3-pro" → 3; 0 if the name says nothing. */
static int generation(const char *model)
{
	const char *at = strstr(model, "gemini-");
	int v = 0;

	for (at = at ? at + 7 : ""; isdigit((unsigned char)*at) && v < 100; at++)
		v = v * 10 + (*at - '0');
	return v;
}

static void write_tools(const struct dialect_request *r, struct jw *w)
{
	const json_t *tool;
	size_t i;

	if (json_array_size(r->tools) == 0)
		return;
	jw_karr(w, "tools");
	jw_obj(w);
	jw_karr(w, "functionDeclarations");
	json_array_foreach (r->tools, i, tool) {
		jw_obj(w);
		jw_kstr(w, "name", json_get_text(tool, "name"));
		jw_kopt(w, "description", json_get_string(tool, "description"));
		encode_key_value(w, "parametersJsonSchema", json_object_get(tool, "schema"));
		jw_obj_end(w);
	}
	jw_arr_end(w);
	jw_obj_end(w);
	jw_arr_end(w);
	if (!r->no_tools)
		return;
	jw_kobj(w, "toolConfig");
	jw_kobj(w, "functionCallingConfig");
	jw_kstr(w, "mode", "NONE");
	jw_obj_end(w);
	jw_obj_end(w);
}

/* Effort is a level from the third generation on, and a number of tokens before. */
static void write_effort(const struct dialect_request *r, struct jw *w)
{
	static const struct {
		const char *effort, *level;
		unsigned budget;
	} EFFORTS[] = { { "none", "minimal", 0 },     { "minimal", "minimal", 512 }, { "low", "low", 1024 },
			{ "medium", "medium", 8192 }, { "high", "high", 24576 },     { "xhigh", "high", 24576 },
			{ "max", "high", 24576 } };

	for (size_t i = 0; i < countof(EFFORTS); i++) {
		if (strcmp(EFFORTS[i].effort, r->effort) != 0)
			continue;
		jw_kobj(w, "thinkingConfig");
		jw_kbool(w, "includeThoughts", i > 0);
		if (generation(r->model) >= 3)
			jw_kstr(w, "thinkingLevel", EFFORTS[i].level);
		else
			jw_kuint(w, "thinkingBudget", EFFORTS[i].budget);
		jw_obj_end(w);
	}
}

static void write_options(const struct dialect_request *r, struct jw *w)
{
	if (!r->max_output_tokens && !r->effort)
		return;
	jw_kobj(w, "generationConfig");
	if (r->max_output_tokens)
		jw_kuint(w, "maxOutputTokens", r->max_output_tokens);
	if (r->effort)
		write_effort(r, w);
	jw_obj_end(w);
}

static void write_text(struct jw *w, const char *text)
{
	jw_obj(w);
	jw_kstr(w, "text", text);
	jw_obj_end(w);
}

/* GIF is not accepted. */
static void write_image(struct jw *w, const json_t *image)
{
	if (json_text_is(image, "mediaType", "image/gif")) {
		write_text(w, CONVERSATION_UNSEEN);
		return;
	}
	jw_obj(w);
	jw_kobj(w, "inlineData");
	jw_kstr(w, "mimeType", json_get_text(image, "mediaType"));
	jw_kstr(w, "data", json_get_text(image, "data"));
	jw_obj_end(w);
	jw_obj_end(w);
}

static const char *own_id(const struct conversation_exchange *exchange, const struct conversation_call *call)
{
	return exchange->own ? json_get_string(json_object_get(call->block, "raw"), "id") : NULL;
}

/* Parts keep their order, and a signature stays with its part. */
static void write_model(const struct conversation_exchange *exchange, bool signatures, struct jw *w)
{
	const struct conversation_call *call = exchange->calls;
	const json_t *block;
	size_t i;

	jw_obj(w);
	jw_kstr(w, "role", "model");
	jw_karr(w, "parts");
	json_array_foreach (exchange->blocks, i, block) {
		const json_t *raw = exchange->own ? json_object_get(block, "raw") : NULL;
		const char *signature = json_get_string(raw, "thoughtSignature"), *text = json_get_text(block, "text");
		bool is_call = json_text_is(block, "type", "tool_call");
		bool thought = json_text_is(block, "type", "reasoning");
		if (!is_call && !signature && (thought || conversation_blank(text)))
			continue;
		jw_obj(w);
		if (is_call) {
			const json_t *arguments = json_object_get(block, "arguments");
			if (!signature && signatures && call == exchange->calls)
				signature = NO_SIGNATURE;
			jw_kobj(w, "functionCall");
			jw_kopt(w, "id", own_id(exchange, call));
			jw_kstr(w, "name", call->name);
			encode_key_value(w, "args", json_is_object(arguments) ? arguments : NULL);
			jw_obj_end(w);
			call++;
		} else
			jw_kstr(w, "text", text);
		if (thought)
			jw_kbool(w, "thought", true);
		jw_kopt(w, "thoughtSignature", signature);
		jw_obj_end(w);
	}
	jw_arr_end(w);
	jw_obj_end(w);
}

static void write_user(const struct conversation_exchange *exchange, struct jw *w)
{
	jw_obj(w);
	jw_kstr(w, "role", "user");
	jw_karr(w, "parts");
	for (size_t k = 0; k < exchange->ncalls; k++) {
		const struct conversation_call *call = &exchange->calls[k];
		bool error;
		const char *text = conversation_result(call, &error);
		jw_obj(w);
		jw_kobj(w, "functionResponse");
		jw_kopt(w, "id", own_id(exchange, call));
		jw_kstr(w, "name", call->name);
		jw_kobj(w, "response");
		jw_kstr(w, error ? "error" : "output", text);
		jw_obj_end(w);
		jw_obj_end(w);
		jw_obj_end(w);
	}
	for (size_t i = 0; i < exchange->ntexts; i++)
		if (conversation_is_image(exchange->texts[i]))
			write_image(w, exchange->texts[i]);
		else
			write_text(w, json_get_text(exchange->texts[i], "text"));
	if (!exchange->ncalls && !exchange->ntexts)
		write_text(w, CONVERSATION_FILLER);
	jw_arr_end(w);
	jw_obj_end(w);
}

static void write_body(const struct dialect_request *r, const struct conversation *c, struct jw *w)
{
	bool signatures = generation(r->model) >= 3;

	jw_obj(w);
	if (r->instructions && !conversation_blank(r->instructions)) {
		jw_kobj(w, "systemInstruction");
		jw_karr(w, "parts");
		write_text(w, r->instructions);
		jw_arr_end(w);
		jw_obj_end(w);
	}
	write_tools(r, w);
	write_options(r, w);
	jw_karr(w, "contents");
	for (size_t i = 0; i < c->nexchanges; i++) {
		if (c->exchanges[i].blocks)
			write_model(&c->exchanges[i], signatures, w);
		write_user(&c->exchanges[i], w);
	}
	jw_arr_end(w);
	jw_obj_end(w);
}

/* ---- response ---- */

static const struct stop_word STOPS[] = {
	{ "MAX_TOKENS", DIALECT_STOP_MAX_TOKENS }, { "SAFETY", DIALECT_STOP_FILTERED },
	{ "RECITATION", DIALECT_STOP_FILTERED },   { "LANGUAGE", DIALECT_STOP_FILTERED },
	{ "BLOCKLIST", DIALECT_STOP_FILTERED },    { "PROHIBITED_CONTENT", DIALECT_STOP_FILTERED },
	{ "SPII", DIALECT_STOP_FILTERED },
};

/* The model failed to write a call or to end properly; another attempt may succeed. */
static const char *const BROKEN[] = { "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL",
				      "MALFORMED_RESPONSE",      "OTHER",
				      "TOO_MANY_TOOL_CALLS",     "MISSING_THOUGHT_SIGNATURE" };

static void take_usage(struct dialect_decoder *x, const json_t *usage)
{
	struct dialect_usage *u = &x->usage;
	uint64_t answer = u->output - u->reasoning, tools = 0;

	if (!decoder_count(usage, "promptTokenCount", &u->input))
		return;
	u->known = true;
	x->reported = x->terminal; /* every event has the counts so far */
	if (decoder_count(usage, "toolUsePromptTokenCount", &tools))
		u->input += tools;
	decoder_count(usage, "cachedContentTokenCount", &u->cached);
	decoder_count(usage, "thoughtsTokenCount", &u->reasoning);
	decoder_count(usage, "candidatesTokenCount", &answer);
	u->output = answer + u->reasoning;
}

/* Text continues the part before it if that is of the same kind and neither has a signature. */
static void take_text(struct dialect_decoder *x, const json_t *part)
{
	enum unit_kind kind = json_get_flag(part, "thought") ? UNIT_REASONING : UNIT_TEXT;
	const json_t *signature = json_object_get(part, "thoughtSignature");
	struct unit *u = x->nunits ? x->units[x->nunits - 1] : NULL;

	if (!u || u->kind != kind || u->raw || json_is_string(signature))
		u = unit_new(x, kind, (int64_t)x->nunits);
	unit_add_string(x, u, json_object_get(part, "text"));
	unit_set_raw(u, "thoughtSignature", signature);
}

static void take_call(struct dialect_decoder *x, const json_t *part, const json_t *call)
{
	struct unit *u = unit_new(x, UNIT_CALL, (int64_t)x->nunits);
	mem_auto char *text = json_dumps(json_object_get(call, "args"), JSON_COMPACT | JSON_ENCODE_ANY);

	unit_set_id(u, json_get_string(call, "id"));
	unit_set_name(x, u, json_get_string(call, "name"));
	unit_set_raw(u, "id", json_object_get(call, "id"));
	unit_set_raw(u, "thoughtSignature", json_object_get(part, "thoughtSignature"));
	if (text)
		unit_add(x, u, text, strlen(text));
}

static void take_finish(struct dialect_decoder *x, const char *reason)
{
	x->terminal = true;
	decoder_stop(x, STOPS, countof(STOPS), reason);
	for (size_t i = 0; i < countof(BROKEN); i++)
		if (strcmp(reason, BROKEN[i]) == 0)
			decoder_fail(x, "protocol", true, "the model ended with %s", reason);
}

static void take_event(struct dialect_decoder *x, const json_t *event)
{
	const json_t *candidate = json_array_get(json_object_get(event, "candidates"), 0), *part;
	const char *blocked = json_get_string(json_object_get(event, "promptFeedback"), "blockReason");
	const char *reason = json_get_text(candidate, "finishReason");
	size_t i;

	json_array_foreach (json_object_get(json_object_get(candidate, "content"), "parts"), i, part) {
		const json_t *call = json_object_get(part, "functionCall");
		if (json_is_object(call))
			take_call(x, part, call);
		else if (json_is_string(json_object_get(part, "text")) || json_object_get(part, "thoughtSignature"))
			take_text(x, part);
	}
	if (*reason && strcmp(reason, "FINISH_REASON_UNSPECIFIED") != 0)
		take_finish(x, reason);
	if (blocked)
		decoder_fail(x, "content_filter", false, "the provider blocked the prompt: %s", blocked);
	take_usage(x, json_object_get(event, "usageMetadata"));
	if (!x->request_id[0])
		headers_copy(x->request_id, sizeof(x->request_id), json_get_text(event, "responseId"));
}

/* Neither a call nor text: no parts, one part with the text "", or only thoughts. */
static bool is_empty(const struct dialect_decoder *x)
{
	for (size_t i = 0; i < x->nunits; i++)
		if (x->units[i]->kind == UNIT_CALL || (x->units[i]->kind == UNIT_TEXT && x->units[i]->text.len))
			return false;
	return true;
}

/* There is no end marker: all parts end with the stream, if a reason was given. */
static void end_stream(struct dialect_decoder *x)
{
	if (!x->terminal)
		return;
	units_end(x);
	if (is_empty(x) && x->stop == DIALECT_STOP_DONE)
		decoder_fail(x, "protocol", true, "the model sent an empty answer");
}

const struct dialect_codec dialect_gemini = {
	.name = "gemini",
	.base_url = "https://generativelanguage.googleapis.com/v1beta",
	.key_header = "x-goog-api-key",
	.key_prefix = "",
	.ending = "a finishReason",
	.array = true,
	.path = write_path,
	.encode = write_body,
	.event = take_event,
	.end = end_stream,
};
