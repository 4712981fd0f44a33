#ifndef BAILIFF_TESTS_PAIRING_H
#define BAILIFF_TESTS_PAIRING_H

/*
 * Checks a request for what providers reject: calls without results, results without calls, empty messages, wrong order
 * of roles; stricter than providers where that costs nothing. tests/fakes/provider.py checks the requests of whole
 * programs.
 *
 * pairing_check returns NULL if the body is acceptable, else what is wrong with it (static).
 */

#include "runtime/base/json_get.h"
#include "runtime/dialect/dialect.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static char pairing_problem[256];

#define PAIRING_REQUIRE(condition, ...)                                                  \
	do {                                                                             \
		if (!(condition)) {                                                      \
			snprintf(pairing_problem, sizeof(pairing_problem), __VA_ARGS__); \
			return pairing_problem;                                          \
		}                                                                        \
	} while (0)

static inline bool pairing_blank(const char *s) { return s[strspn(s, " \t\r\n\v\f")] == '\0'; }

static inline bool pairing_name(const char *s)
{
	size_t n = 0;

	for (; s[n]; n++)
		if (!isalnum((unsigned char)s[n]) && s[n] != '_' && s[n] != '-')
			return false;
	return n > 0 && n <= 64;
}

/* Remembers an id; false if it was used before or no provider accepts it. */
static inline bool pairing_new_id(json_t *used, const char *id)
{
	return pairing_name(id) && !json_object_get(used, id) && json_object_set_new(used, id, json_true()) == 0;
}

static inline const char *pairing_anthropic_assistant(const json_t *content, json_t *used, json_t *open)
{
	const json_t *block;
	const char *type = "";
	size_t i;

	json_array_foreach (content, i, block) {
		type = json_get_text(block, "type");
		if (strcmp(type, "tool_use") == 0) {
			PAIRING_REQUIRE(pairing_new_id(used, json_get_text(block, "id")), "tool_use id");
			PAIRING_REQUIRE(pairing_name(json_get_text(block, "name")), "tool_use name");
			PAIRING_REQUIRE(json_is_object(json_object_get(block, "input")), "tool_use input");
			json_array_append(open, json_object_get(block, "id"));
		} else if (strcmp(type, "text") == 0) {
			PAIRING_REQUIRE(!pairing_blank(json_get_text(block, "text")), "blank text");
			PAIRING_REQUIRE(json_array_size(open) == 0, "text after tool_use");
		} else if (strcmp(type, "thinking") == 0)
			PAIRING_REQUIRE(*json_get_text(block, "signature"), "thinking without signature");
		else
			PAIRING_REQUIRE(strcmp(type, "redacted_thinking") == 0, "block of type %s", type);
	}
	PAIRING_REQUIRE(*type && !strstr(type, "thinking"), "empty, or thinking at the end");
	return NULL;
}

static inline const char *pairing_anthropic_user(const json_t *content, const json_t *open)
{
	const json_t *block;
	size_t i, results = json_array_size(open);

	PAIRING_REQUIRE(json_array_size(content) >= results + (results == 0), "%zu results expected", results);
	json_array_foreach (content, i, block) {
		if (i < results)
			PAIRING_REQUIRE(
				json_text_is(block, "type", "tool_result") &&
					json_text_is(block, "tool_use_id", json_string_value(json_array_get(open, i))),
				"result %zu of the message before", i);
		else
			PAIRING_REQUIRE(
				(json_text_is(block, "type", "text") && !pairing_blank(json_get_text(block, "text"))) ||
					json_text_is(block, "type", "image"),
				"text or image expected");
	}
	return NULL;
}

static inline size_t pairing_breakpoints(const char *body)
{
	size_t n = 0;

	for (; (body = strstr(body, "\"cache_control\":{")); body++)
		n++;
	return n;
}

static inline const char *pairing_anthropic(const json_t *body, json_t *used)
{
	const json_t *messages = json_object_get(body, "messages"), *message;
	json_auto_t *open = json_array();
	size_t i;

	PAIRING_REQUIRE(json_array_size(messages) % 2 == 1, "first and last message are the user's");
	json_array_foreach (messages, i, message) {
		const json_t *content = json_object_get(message, "content");
		const char *problem = NULL;
		PAIRING_REQUIRE(json_text_is(message, "role", i % 2 ? "assistant" : "user"), "role of message %zu", i);
		if (i % 2)
			problem = pairing_anthropic_assistant(content, used, open);
		else {
			problem = pairing_anthropic_user(content, open);
			json_array_clear(open);
		}
		if (problem)
			return problem;
	}
	return NULL;
}

static inline const char *pairing_responses(const json_t *body, json_t *used)
{
	const json_t *items = json_object_get(body, "input"), *item;
	json_auto_t *open = json_object();
	const char *type = "", *last = "", *role = "user";
	size_t i;

	json_array_foreach (items, i, item) {
		const char *id = json_get_text(item, "call_id");
		type = json_get_text(item, "type");
		if (strcmp(last, "reasoning") == 0)
			PAIRING_REQUIRE(strcmp(type, "function_call_output") != 0 &&
						!json_text_is(item, "role", "user"),
					"reasoning without the item after it");
		if (strcmp(type, "function_call") == 0) {
			json_auto_t *arguments = json_loads(json_get_text(item, "arguments"), 0, NULL);
			PAIRING_REQUIRE(json_is_object(arguments), "arguments");
			PAIRING_REQUIRE(pairing_new_id(used, id) && pairing_name(json_get_text(item, "name")),
					"id or name");
			json_object_set_new(open, id, json_true());
		} else if (strcmp(type, "function_call_output") == 0)
			PAIRING_REQUIRE(json_object_del(open, id) == 0, "output without call");
		else if (strcmp(type, "reasoning") == 0)
			PAIRING_REQUIRE(json_get_string(item, "encrypted_content"), "reasoning that is not encrypted");
		else {
			const json_t *part = json_array_get(json_object_get(item, "content"), 0);
			role = json_get_text(item, "role");
			PAIRING_REQUIRE(strcmp(type, "message") == 0 && (!pairing_blank(json_get_text(part, "text")) ||
									 json_get_string(part, "image_url")),
					"message");
			PAIRING_REQUIRE(strcmp(role, "user") != 0 || json_object_size(open) == 0,
					"call without output");
		}
		last = type;
	}
	PAIRING_REQUIRE(json_object_size(open) == 0, "call without output");
	PAIRING_REQUIRE(i && (strcmp(type, "function_call_output") == 0 || strcmp(role, "user") == 0), "last item");
	return NULL;
}

static inline const char *pairing_chat_assistant(const json_t *message, json_t *used, json_t *open)
{
	const json_t *call;
	size_t i;

	json_array_foreach (json_object_get(message, "tool_calls"), i, call) {
		const json_t *function = json_object_get(call, "function");
		json_auto_t *arguments = json_loads(json_get_text(function, "arguments"), 0, NULL);
		PAIRING_REQUIRE(json_is_object(arguments), "arguments");
		PAIRING_REQUIRE(pairing_new_id(used, json_get_text(call, "id")), "id");
		PAIRING_REQUIRE(pairing_name(json_get_text(function, "name")), "name");
		json_array_append(open, json_object_get(call, "id"));
	}
	PAIRING_REQUIRE(json_array_size(open) || !pairing_blank(json_get_text(message, "content")), "empty message");
	return NULL;
}

static inline const char *pairing_chat(const json_t *body, json_t *used)
{
	const json_t *messages = json_object_get(body, "messages"), *message;
	json_auto_t *open = json_array();
	const char *role = "", *last = "system";
	size_t i;

	json_array_foreach (messages, i, message) {
		role = json_get_text(message, "role");
		if (json_array_size(open)) {
			PAIRING_REQUIRE(strcmp(role, "tool") == 0 &&
						json_text_is(message, "tool_call_id",
							     json_string_value(json_array_get(open, 0))),
					"message %zu is not the next result", i);
			json_array_remove(open, 0);
		} else if (strcmp(role, "assistant") == 0) {
			const char *problem = pairing_chat_assistant(message, used, open);
			PAIRING_REQUIRE(strcmp(last, "user") == 0 || strcmp(last, "tool") == 0, "assistant after %s",
					last);
			if (problem)
				return problem;
		} else {
			PAIRING_REQUIRE(strcmp(role, "user") == 0 || (strcmp(role, "system") == 0 && i == 0), "role %s",
					role);
			PAIRING_REQUIRE(strcmp(last, role) != 0 || i == 0, "two messages of %s", role);
			PAIRING_REQUIRE(json_array_size(json_object_get(message, "content")) ||
						!pairing_blank(json_get_text(message, "content")),
					"blank text");
		}
		last = role;
	}
	PAIRING_REQUIRE(!json_array_size(open) && (strcmp(role, "user") == 0 || strcmp(role, "tool") == 0),
			"last message");
	return NULL;
}

static inline const char *pairing_gemini(const json_t *body)
{
	const json_t *contents = json_object_get(body, "contents"), *content, *part;
	json_auto_t *open = json_array();
	size_t i, k;

	PAIRING_REQUIRE(json_array_size(contents) % 2 == 1, "first and last content are the user's");
	json_array_foreach (contents, i, content) {
		const json_t *parts = json_object_get(content, "parts");
		PAIRING_REQUIRE(json_text_is(content, "role", i % 2 ? "model" : "user"), "role of content %zu", i);
		PAIRING_REQUIRE(json_array_size(parts), "no parts");
		PAIRING_REQUIRE(i % 2 || json_array_size(parts) >= json_array_size(open), "responses are missing");
		json_array_foreach (parts, k, part) {
			const json_t *call = json_object_get(part, "functionCall");
			const json_t *response = json_object_get(part, "functionResponse");
			if (i % 2 && call) {
				PAIRING_REQUIRE(pairing_name(json_get_text(call, "name")) &&
							json_is_object(json_object_get(call, "args")),
						"functionCall");
				json_array_append(open, (json_t *)call);
			} else if (!(i % 2) && k < json_array_size(open)) {
				const json_t *of = json_array_get(open, k);
				PAIRING_REQUIRE(json_text_is(response, "name", json_get_text(of, "name")) &&
							json_text_is(response, "id", json_get_text(of, "id")),
						"functionResponse %zu", k);
			} else
				PAIRING_REQUIRE(!call && !response &&
							(!pairing_blank(json_get_text(part, "text")) ||
							 json_object_get(part, "inlineData") ||
							 json_get_string(part, "thoughtSignature")),
						"text or image expected");
		}
		if (i % 2 == 0)
			json_array_clear(open);
	}
	return NULL;
}

static inline const char *pairing_check(enum dialect d, const char *text, size_t n)
{
	json_error_t error;
	json_auto_t *body = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error), *used = json_object();

	PAIRING_REQUIRE(body, "not JSON: %s", error.text);
	if (d == DIALECT_ANTHROPIC)
		PAIRING_REQUIRE(pairing_breakpoints(text) <= 4, "more than four breakpoints");
	return d == DIALECT_ANTHROPIC          ? pairing_anthropic(body, used)
	       : d == DIALECT_OPENAI_RESPONSES ? pairing_responses(body, used)
	       : d == DIALECT_OPENAI_CHAT      ? pairing_chat(body, used)
					       : pairing_gemini(body);
}

#endif
