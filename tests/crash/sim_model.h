#ifndef BAILIFF_TESTS_SIM_MODEL_H
#define BAILIFF_TESTS_SIM_MODEL_H

/*
 * The simulated model: what bailiff-model prints for a request, at random. It answers with text or calls, fails, is cut
 * off, or does not answer. Each request is checked first: calls and their results must be paired as the dialects
 * demand.
 *
 * A call of `shell` or of an MCP server's tool has the number of its effect in its command. An effect is permitted once
 * the answer that has it was printed up to its terminal event, and it may happen once.
 */

#include "runtime/base/buf.h"
#include "runtime/base/jscan.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/dialect/dialect.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIM_EFFECTS 65536u
#define SIM_EFFECT_NAME "effect-"
#define SIM_MCP_TOOL "mcp__one__act"

enum sim_effect { EFFECT_UNKNOWN, EFFECT_PERMITTED, EFFECT_DONE };

struct sim_models {
	unsigned char effects[SIM_EFFECTS]; /* enum sim_effect */
	unsigned count, requests, mcp_calls;
	bool finishing;  /* models no longer call tools */
	char wrong[200]; /* "" = nothing */
};

/* What one request gets. */
struct sim_answer {
	char *text; /* NULL = not a model's process */
	size_t len, sent;
	unsigned first, last; /* its effects: first … last - 1 */
	size_t terminal;      /* where its terminal event ends; 0 = it has none */
	int exit_code;
};

/* ---- requests ---- */

struct sim_pairs {
	json_t *open; /* id (Gemini: name) → number of calls without a result */
	bool calling;
	const char *wrong;
};

static void pairs_call(struct sim_pairs *p, const char *id)
{
	if (!p->calling && json_object_size(p->open))
		p->wrong = "a call follows calls that have no results";
	p->calling = true;
	json_object_set_new(p->open, id, json_integer(json_integer_value(json_object_get(p->open, id)) + 1));
}

static void pairs_result(struct sim_pairs *p, const char *id)
{
	const json_int_t n = json_integer_value(json_object_get(p->open, id));

	p->calling = false;
	if (n == 0)
		p->wrong = "a result has no call before it";
	else if (n == 1)
		json_object_del(p->open, id);
	else
		json_object_set_new(p->open, id, json_integer(n - 1));
}

static void pairs_other(struct sim_pairs *p)
{
	if (json_object_size(p->open))
		p->wrong = "text follows calls that have no results";
}

/* One message of Anthropic or Gemini, whose content is a list of blocks. */
static void pairs_blocks(struct sim_pairs *p, const json_t *blocks)
{
	const json_t *b, *part;
	size_t i;

	if (json_is_array(blocks) && !json_array_size(blocks))
		p->wrong = "a message is empty";
	if (json_is_string(blocks))
		pairs_other(p);
	json_array_foreach (blocks, i, b) {
		if (json_text_is(b, "type", "tool_use"))
			pairs_call(p, json_get_text(b, "id"));
		else if (json_text_is(b, "type", "tool_result"))
			pairs_result(p, json_get_text(b, "tool_use_id"));
		else if ((part = json_object_get(b, "functionCall")))
			pairs_call(p, json_get_text(part, "name"));
		else if ((part = json_object_get(b, "functionResponse")))
			pairs_result(p, json_get_text(part, "name"));
		else
			pairs_other(p);
	}
}

/* One item of OpenAI: a message, a call, or a result. */
static void pairs_item(struct sim_pairs *p, const json_t *item)
{
	const json_t *call;
	size_t i;

	if (json_text_is(item, "type", "function_call")) {
		pairs_call(p, json_get_text(item, "call_id"));
	} else if (json_text_is(item, "type", "function_call_output")) {
		pairs_result(p, json_get_text(item, "call_id"));
	} else if (json_text_is(item, "role", "tool")) {
		pairs_result(p, json_get_text(item, "tool_call_id"));
	} else {
		pairs_other(p);
		p->calling = false;
		json_array_foreach (json_object_get(item, "tool_calls"), i, call)
			pairs_call(p, json_get_text(call, "id"));
	}
}

/* The rule that the request breaks, or NULL. Only its messages are parsed: most of a request is about tools. */
static const char *sim_pairs_broken(enum dialect d, const char *body)
{
	static const char *const members[DIALECT_COUNT] = { [DIALECT_ANTHROPIC] = "messages",
							    [DIALECT_OPENAI_RESPONSES] = "input",
							    [DIALECT_OPENAI_CHAT] = "messages",
							    [DIALECT_GEMINI] = "contents" };
	const struct jval text = jval_get(jval_of(body, strlen(body)), members[d]);
	json_auto_t *messages = text.len ? json_loadb(text.text, text.len, 0, NULL) : NULL;
	const json_t *m;
	json_auto_t *open = json_object();
	struct sim_pairs p = { .open = open };
	size_t i;

	if (!json_array_size(messages))
		return "no messages";
	json_array_foreach (messages, i, m) {
		if (d == DIALECT_ANTHROPIC || d == DIALECT_GEMINI) {
			if (i == 0 && !json_text_is(m, "role", "user"))
				return "the first message is not the user's";
			p.calling = false;
			pairs_blocks(&p, json_object_get(m, d == DIALECT_GEMINI ? "parts" : "content"));
		} else {
			pairs_item(&p, m);
		}
		if (p.wrong)
			return p.wrong;
	}
	return json_object_size(open) ? "calls at the end have no results" : NULL;
}

/* ---- answers ---- */

/* One event of the stream (stolen). */
static void sim_event(struct buf *out, json_t *event)
{
	mem_auto char *text = json_dumps(event, JSON_COMPACT);

	if (json_object_get(event, "type"))
		buf_printf(out, "event: %s\n", json_get_text(event, "type"));
	buf_printf(out, "data: %s\n\n", text);
	json_decref(event);
}

static void sim_text(struct buf *out, enum dialect d, const char *text)
{
	switch (d) {
	case DIALECT_ANTHROPIC:
		sim_event(out, json_pack("{s:s,s:i,s:{s:s,s:s}}", "type", "content_block_start", "index", 0,
					 "content_block", "type", "text", "text", ""));
		sim_event(out, json_pack("{s:s,s:i,s:{s:s,s:s}}", "type", "content_block_delta", "index", 0, "delta",
					 "type", "text_delta", "text", text));
		sim_event(out, json_pack("{s:s,s:i}", "type", "content_block_stop", "index", 0));
		return;
	case DIALECT_OPENAI_RESPONSES:
		sim_event(out,
			  json_pack("{s:s,s:i,s:{s:s,s:s,s:s,s:s,s:[{s:s,s:s}]}}", "type", "response.output_item.done",
				    "output_index", 0, "item", "type", "message", "id", "msg_1", "role", "assistant",
				    "status", "completed", "content", "type", "output_text", "text", text));
		return;
	case DIALECT_OPENAI_CHAT:
		sim_event(out, json_pack("{s:[{s:i,s:{s:s}}]}", "choices", "index", 0, "delta", "content", text));
		return;
	default:
		sim_event(out, json_pack("{s:[{s:i,s:{s:s,s:[{s:s}]}}]}", "candidates", "index", 0, "content", "role",
					 "model", "parts", "text", text));
	}
}

static void sim_call(struct buf *out, enum dialect d, int index, const char *id, const char *name, json_t *arguments)
{
	mem_auto char *text = json_dumps(arguments, JSON_COMPACT);

	switch (d) {
	case DIALECT_ANTHROPIC:
		sim_event(out, json_pack("{s:s,s:i,s:{s:s,s:s,s:s,s:{}}}", "type", "content_block_start", "index",
					 index, "content_block", "type", "tool_use", "id", id, "name", name, "input"));
		sim_event(out, json_pack("{s:s,s:i,s:{s:s,s:s}}", "type", "content_block_delta", "index", index,
					 "delta", "type", "input_json_delta", "partial_json", text));
		sim_event(out, json_pack("{s:s,s:i}", "type", "content_block_stop", "index", index));
		break;
	case DIALECT_OPENAI_RESPONSES:
		sim_event(out, json_pack("{s:s,s:i,s:{s:s,s:s,s:s,s:s,s:s,s:s}}", "type", "response.output_item.done",
					 "output_index", index, "item", "type", "function_call", "id", id, "call_id",
					 id, "name", name, "arguments", text, "status", "completed"));
		break;
	case DIALECT_OPENAI_CHAT:
		sim_event(out, json_pack("{s:[{s:i,s:{s:[{s:i,s:s,s:s,s:{s:s,s:s}}]}}]}", "choices", "index", 0,
					 "delta", "tool_calls", "index", index - 1, "id", id, "type", "function",
					 "function", "name", name, "arguments", text));
		break;
	default:
		sim_event(out, json_pack("{s:[{s:i,s:{s:s,s:[{s:{s:s,s:s,s:O},s:s}]}}]}", "candidates", "index", 0,
					 "content", "role", "model", "parts", "functionCall", "id", id, "name", name,
					 "args", arguments, "thoughtSignature", "c2ln"));
	}
	json_decref(arguments);
}

/* Returns where the event ends that completes the answer: "[DONE]" is not needed, nor is the empty line. */
static size_t sim_terminal(struct buf *out, enum dialect d, bool calls, bool cut)
{
	size_t end = 0;

	switch (d) {
	case DIALECT_ANTHROPIC:
		sim_event(out, json_pack("{s:s,s:{s:s},s:{s:i}}", "type", "message_delta", "delta", "stop_reason",
					 cut     ? "max_tokens"
					 : calls ? "tool_use"
						 : "end_turn",
					 "usage", "output_tokens", 9));
		sim_event(out, json_pack("{s:s}", "type", "message_stop"));
		break;
	case DIALECT_OPENAI_RESPONSES:
		sim_event(out,
			  json_pack("{s:s,s:{s:s,s:{s:s*},s:{s:i,s:i}}}", "type",
				    cut ? "response.incomplete" : "response.completed", "response", "status",
				    cut ? "incomplete" : "completed", "incomplete_details", "reason",
				    cut ? "max_output_tokens" : NULL, "usage", "input_tokens", 9, "output_tokens", 9));
		break;
	case DIALECT_OPENAI_CHAT:
		sim_event(out,
			  json_pack("{s:[{s:i,s:{},s:s}],s:{s:i,s:i}}", "choices", "index", 0, "delta", "finish_reason",
				    cut     ? "length"
				    : calls ? "tool_calls"
					    : "stop",
				    "usage", "prompt_tokens", 9, "completion_tokens", 9));
		end = out->len;
		buf_str(out, "data: [DONE]\n\n");
		break;
	default:
		sim_event(out, json_pack("{s:[{s:i,s:{s:s,s:[{s:s}]},s:s}],s:{s:i,s:i}}", "candidates", "index", 0,
					 "content", "role", "model", "parts", "text", "", "finishReason",
					 cut ? "MAX_TOKENS" : "STOP", "usageMetadata", "promptTokenCount", 9,
					 "candidatesTokenCount", 9));
	}
	return (end ? end : out->len) - 2;
}

/* The command of a call, with the number of its effect. */
static char *sim_effect_text(struct sim_models *m)
{
	char *text = mem_printf("true " SIM_EFFECT_NAME "%u.", m->count);

	if (++m->count >= SIM_EFFECTS)
		abort();
	return text;
}

/* `mcp`: the request offers the tool of an MCP server. */
static void sim_calls(struct sim_models *m, struct buf *out, enum dialect d, bool mcp, uint64_t random)
{
	const int n = 1 + (int)(random % 3);

	for (int i = 1; i <= n; i++, random /= 7) {
		mem_auto char *id = mem_printf("call_%u_%d", m->requests, i);

		if (random % 7 == 0) {
			sim_call(out, d, i, id, "no_such_tool", json_object());
		} else if (random % 7 == 1) {
			sim_call(out, d, i, id, "shell", json_pack("{s:i}", "command", 1));
		} else {
			mem_auto char *command = sim_effect_text(m);

			sim_call(out, d, i, id, mcp && random % 7 < 5 ? SIM_MCP_TOOL : "shell",
				 json_pack("{s:s}", "command", command));
		}
	}
}

/* The answer to the input of bailiff-model. `random` decides all of it. */
static void sim_answer(struct sim_models *m, const char *input, uint64_t random, struct sim_answer *ret)
{
	const char *line = strchr(input, '\n');
	const char *url = strndupa(input, line ? (size_t)(line - input) : 0);
	const enum dialect d = strstr(url, "/messages")           ? DIALECT_ANTHROPIC
			       : strstr(url, "/responses")        ? DIALECT_OPENAI_RESPONSES
			       : strstr(url, "/chat/completions") ? DIALECT_OPENAI_CHAT
								  : DIALECT_GEMINI;
	const char *wrong = sim_pairs_broken(d, line ? line + 1 : "");
	const unsigned what = (unsigned)(random % 100);
	const bool calls = !m->finishing && (what < 45 || (what >= 80 && what < 95));
	struct buf out = BUF_INIT;

	if (wrong && !m->wrong[0])
		snprintf(m->wrong, sizeof m->wrong, "a request to %s: %s", dialect_name(d), wrong);
	m->requests++;
	*ret = (struct sim_answer){ .first = m->count };
	random /= 100;
	if (what >= 70 && what < 80) { /* the provider's failures */
		static const int statuses[] = { 500, 529, 429, 400 };
		buf_printf(&out,
			   "{\"status\":%d,\"headers\":{\"retry-after\":\"2\"}}\n{\"error\":{\"message\":\"no\"}}",
			   statuses[random % 4]);
	} else if (what >= 80 && what < 83) { /* the program's */
		ret->exit_code = 1;
	} else {
		buf_str(&out, "{\"status\":200,\"headers\":{}}\n");
		if (d == DIALECT_ANTHROPIC)
			sim_event(&out, json_pack("{s:s,s:{s:{s:i}}}", "type", "message_start", "message", "usage",
						  "input_tokens", 9));
		sim_text(&out, d, "something");
		if (calls)
			sim_calls(m, &out, d, strstr(input, SIM_MCP_TOOL) != NULL, random);
		if (what >= 92 && what < 95)
			buf_str(&out, "data: {not json\n\n");
		else if (what >= 83 && what < 92) /* cut off */
			out.len -= (size_t)(random / 1000) % (out.len / 2);
		if (what < 83 || what >= 95)
			ret->terminal = sim_terminal(&out, d, calls, what >= 98);
	}
	ret->len = out.len;
	ret->last = m->count;
	ret->text = out.len ? buf_take(&out) : mem_strdup("");
}

/* `from` … sent of the answer was printed. */
static void sim_answered(struct sim_models *m, const struct sim_answer *a, size_t from)
{
	if (from < a->terminal && a->sent >= a->terminal)
		memset(m->effects + a->first, EFFECT_PERMITTED, a->last - a->first);
}

/* An effect that a client requests itself. Its number, from 1. */
static unsigned sim_effect_new(struct sim_models *m)
{
	if (m->count + 1 >= SIM_EFFECTS)
		abort();
	m->effects[m->count] = EFFECT_PERMITTED;
	return ++m->count;
}

/* The number of the effect that a plan has, from 1; 0 = none. */
static unsigned sim_effect_of(const void *plan, size_t len)
{
	const char *at = plan ? memmem(plan, len, SIM_EFFECT_NAME, strlen(SIM_EFFECT_NAME)) : NULL;

	return at ? (unsigned)strtoul(at + strlen(SIM_EFFECT_NAME), NULL, 10) + 1 : 0;
}

/* What bailiff-tool prints for an MCP server: its tools, or the result of a call. False: it is another program. */
static bool sim_mcp_answer(struct sim_models *m, const void *plan, size_t len, uint64_t random, struct sim_answer *ret)
{
	static const char list[] = "mcp\0list", call[] = "mcp\0call";
	static const struct {
		const char *text;
		int exit_code;
	} lists[] = {
		{ "{\"server\":{\"name\":\"s\",\"version\":\"1\"},\"tools\":[{\"name\":\"act\",\"inputSchema\":"
		  "{\"type\":\"object\"}}]}",
		  0 },
		{ "{\"server\":{\"name\":\"s\",\"version\":\"2\"},\"tools\":[{\"name\":\"act\"},{\"name\":\"no name\"},"
		  "{\"name\":\"act\"}]}",
		  0 },
		{ "{\"error\":{\"message\":\"no\"}}", 1 },
		{ "{not json", 0 },
	}, results[] = {
		{ "{\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"done\"}]}}", 0 },
		{ "{\"result\":{\"content\":[],\"isError\":true}}", 0 },
		{ "{\"error\":{\"message\":\"no\"}}", 1 },
		{ "", 0 },
	};
	const bool lists_tools = plan && memmem(plan, len, list, sizeof list);
	/* Most succeed. */
	const size_t i = random % 8 < 5 ? random % 8 % 2 : 2 + random % 2;

	if (!lists_tools && !(plan && memmem(plan, len, call, sizeof call)))
		return false;
	*ret = (struct sim_answer){ .text = mem_strdup(lists_tools ? lists[i].text : results[i].text),
				    .exit_code = lists_tools ? lists[i].exit_code : results[i].exit_code };
	ret->len = strlen(ret->text);
	m->mcp_calls += !lists_tools;
	return true;
}

static void sim_effect_happens(struct sim_models *m, unsigned effect)
{
	if (m->effects[effect - 1] != EFFECT_PERMITTED && !m->wrong[0])
		snprintf(m->wrong, sizeof m->wrong, "effect %u %s", effect - 1,
			 m->effects[effect - 1] == EFFECT_DONE ? "happens twice"
							       : "happens, but its answer was incomplete");
	m->effects[effect - 1] = EFFECT_DONE;
}

#endif
