/*
 * The daemon's messages are written for programs that speak to its socket. A model that reads "commandLine: …" would
 * look for an argument of that name. The tables translate the beginnings and ends of messages that occur; everything
 * else is passed on unchanged, because an unexpected message is better than none.
 */

#include "supervisor/gateway/mcp/mcp_reply.h"

#include "runtime/base/buf.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "supervisor/gateway/common/rpc_message.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Names of parameters at the start of a message. */
static const struct {
	const char *theirs, *ours;
} parameters[] = {
	{ "commandLine:", "command:" },    { "command[0]:", "command:" },       { "limits.wallMs:", "timeoutMs:" },
	{ "until.text:", "waitForText:" }, { "until.regex:", "waitForRegex:" }, { "until.", "" },
};

/* Advice at the end of a message. */
static const struct {
	const char *theirs, *ours;
} ends[] = {
	{ "; start_process with tty gives it one", "; exec with tty: true gives it one" },
	{ "; start_process with stdin \"pipe\" gives it one", "; exec with interactive: true keeps it open" },
	{ " (--cow): what it wrote is in the files themselves",
	  ": what it wrote is in the files themselves. exec with cow: true holds changes back" },
};

/* The index of the advice that ends the message, or −1. */
static int find_ending(const char *message)
{
	size_t n = strlen(message);

	for (size_t i = 0; i < countof(ends); i++) {
		size_t len = strlen(ends[i].theirs);

		if (n >= len && strcmp(message + n - len, ends[i].theirs) == 0)
			return (int)i;
	}
	return -1;
}

char *mcp_reply_error_text(const json_t *error)
{
	const char *message = json_get_text(error, "message"), *begin = "";
	int end = find_ending(message);

	for (size_t i = 0; i < countof(parameters); i++)
		if (strncmp(message, parameters[i].theirs, strlen(parameters[i].theirs)) == 0) {
			begin = parameters[i].ours;
			message += strlen(parameters[i].theirs);
			break;
		}
	return mem_printf("%s%.*s%s", begin, (int)(strlen(message) - (end < 0 ? 0 : strlen(ends[end].theirs))), message,
			  end < 0 ? "" : ends[end].ours);
}

const char *mcp_reply_advice(const json_t *error)
{
	static const struct {
		const char *says, *about,
			*instead; /* about: text that the message must contain; other messages have their own advice */
	} advices[] = {
		{ "list_methods", "", "Correct it and call again; see the tool's schema." },
		{ "the list methods", "process '", "ps with all: true lists the processes of this session." },
		{ "get_health", "", "Try again later." },
		{ "idempotencyKey", "", NULL },
		{ "a connection whose role", "", "A person has to do this." },
		{ "present status", "", "wait and ps report its status." },
		{ "bailiff doctor", "", "Check the command, its cwd and the profile." },
	};
	const char *advice = json_get_text(json_object_get(error, "data"), "advice"),
		   *message = json_get_text(error, "message");

	/* The translated end of the message is the advice already. */
	if (find_ending(message) >= 0)
		return NULL;
	for (size_t i = 0; i < countof(advices); i++)
		if (strstr(advice, advices[i].says))
			return strstr(message, advices[i].about) ? advices[i].instead : NULL;
	return *advice ? advice : NULL;
}

#define CURSOR "row-"

/* −1: not a valid cursor. */
static long parse_cursor(const json_t *cursor)
{
	const char *text = json_string_value(cursor);
	char *end;

	if (!cursor)
		return 0;
	if (!text || strncmp(text, CURSOR, strlen(CURSOR)) != 0 || text[strlen(CURSOR)] < '0' ||
	    text[strlen(CURSOR)] > '9')
		return -1;
	long at = strtol(text + strlen(CURSOR), &end, 10);
	return *end || at > 1000000 ? -1 : at;
}

void mcp_reply_page(struct mcp_call *c, const char *member, mcp_reply_row_fn row)
{
	long at = parse_cursor(json_object_get(c->params, "cursor"));
	json_t *rows = json_array(), *result, *one = NULL;
	char next[32];

	if (at >= 0)
		for (size_t n = 0; n < MCP_PAGE && (one = row(c, (size_t)at)); n++, at++)
			json_array_append_new(rows, one);
	if (at < 0) {
		json_decref(rows);
		mcp_call_fail(c, RPC_INVALID_PARAMS, NULL, "cursor: was not issued by this server");
		return;
	}
	result = json_pack("{so}", member, rows);
	/* One row ahead, so that a full last page does not lead to an empty one. */
	one = one ? row(c, (size_t)at) : NULL;
	if (one) {
		snprintf(next, sizeof(next), CURSOR "%ld", at);
		json_object_set_new(result, "nextCursor", json_string(next));
		json_decref(one);
	}
	mcp_call_finish(c, result);
}

/* ---- results of tools ---- */

json_t *mcp_call_text(const char *text, size_t n)
{
	return json_pack("{s:[{ss so}]}", "content", "type", "text", "text", rpc_message_text(text, n));
}

void mcp_call_tool_error(struct mcp_call *c, const char *fmt, ...)
{
	buf_auto struct buf text = BUF_INIT;
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(&text, fmt, ap);
	va_end(ap);
	json_t *result = mcp_call_text(buf_cstr(&text), text.len);
	json_object_set_new(result, "isError", json_true());
	mcp_call_finish(c, result);
}

void mcp_call_daemon_error(struct mcp_call *c, const char *what, const json_t *error)
{
	mem_auto char *message = mcp_reply_error_text(error);
	const char *advice = mcp_reply_advice(error);

	mcp_call_tool_error(c, "%s: %s%s%s", what, *message ? message : "the daemon gave no reason", advice ? "\n" : "",
			    advice ? advice : "");
}

void mcp_call_reply(struct mcp_call *c, const struct buf *words, json_t *structured, bool failed)
{
	json_t *result = mcp_call_text(buf_cstr(words), words->len);

	json_object_set_new(result, "structuredContent", structured);
	json_object_set_new(result, "isError", json_boolean(failed));
	mcp_call_finish(c, result);
}
