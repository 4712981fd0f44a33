/*
 * The daemon's messages are written for programs that speak to its socket. A model that reads "commandLine: …" would
 * look for an argument of that name. The tables translate names at the start of messages, and the advice; everything
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

char *mcp_reply_error_text(const json_t *error)
{
	const char *message = json_get_text(error, "message"), *begin = "";

	for (size_t i = 0; i < countof(parameters); i++)
		if (strncmp(message, parameters[i].theirs, strlen(parameters[i].theirs)) == 0) {
			begin = parameters[i].ours;
			message += strlen(parameters[i].theirs);
			break;
		}
	return mem_printf("%s%s", begin, message);
}

/* By the error's reason, otherwise by its category; the daemon's own for those that are not listed. */
const char *mcp_reply_advice(const json_t *error)
{
	static const struct {
		const char *reason, *category;
		const char *field;  /* NULL: any */
		const char *advice; /* NULL: none */
	} rows[] = {
		{ "no_terminal", NULL, NULL, "exec with tty: true gives it one." },
		{ "no_stdin", NULL, NULL, "exec with interactive: true keeps it open." },
		{ "not_cow", NULL, NULL, "exec with cow: true holds changes back." },
		{ "not_enforceable", NULL, NULL,
		  "Do what the message says, or leave it out: nothing runs with less than was requested." },
		{ "policy_invalid", NULL, NULL, "A person has to correct the policy." },
		{ "draining", NULL, NULL, "Try again later." },
		{ "sandbox_ended", NULL, NULL,
		  "Call it again: it gets another sandbox, with an empty /tmp and without the processes of this one." },
		{ NULL, "invalid", NULL, "Correct it and call again; see the tool's schema." },
		{ NULL, "not_found", "processId", "ps with all: true lists the processes of this session." },
		{ NULL, "not_found", NULL, NULL },
		{ NULL, "unavailable", NULL, "Try again later." },
		{ NULL, "conflict", NULL, NULL },
		{ NULL, "not_allowed", NULL, "A person has to do this." },
		{ NULL, "invalid_state", NULL, "wait and ps report its status." },
		{ NULL, "sandbox_failed", NULL, "Check the command, its cwd and the profile." },
	};
	const json_t *data = json_object_get(error, "data");
	const char *reason = json_get_text(data, "reason"), *advice = json_get_text(data, "advice");

	for (size_t i = 0; i < countof(rows); i++)
		if (*reason ? rows[i].reason && strcmp(rows[i].reason, reason) == 0
			    : rows[i].category && json_text_is(data, "category", rows[i].category) &&
				      (!rows[i].field || strcmp(json_get_text(data, "field"), rows[i].field) == 0))
			return rows[i].advice;
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
	/* Reads one more row, so that a full last page does not lead to an empty one. */
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
