/* Lists the current resources, maps events to the resources that they change, and completes variables of templates. */
#include "supervisor/gateway/mcp/mcp_resource.h"

#include "supervisor/gateway/mcp/mcp_private.h"

#include "runtime/base/buf.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/gateway/common/rpc_message.h"
#include "supervisor/gateway/mcp/mcp_report.h"
#include "supervisor/gateway/mcp/mcp_session.h"

#include <stdio.h>
#include <string.h>

#define PAGE 50 /* processes */
#define TITLE_MAX 200

static json_t *command_of(const json_t *p)
{
	buf_auto struct buf line = BUF_INIT;
	const json_t *word;
	size_t i;

	buf_str(&line, json_get_text(p, "commandLine"));
	if (!line.len)
		json_array_foreach (json_object_get(p, "command"), i, word)
			buf_printf(&line, "%s%s", i ? " " : "", json_string_value(word));
	return rpc_message_text(buf_cstr(&line), line.len > TITLE_MAX ? text_utf8_cut(line.data, TITLE_MAX) : line.len);
}

/* ---- the list ---- */

static void add_outputs(json_t *page, const json_t *p)
{
	json_auto_t *command = command_of(p);
	const json_t *output;
	const char *stream;

	json_object_foreach (json_object_get(p, "outputs"), stream, output) {
		buf_auto struct buf uri = BUF_INIT;
		mem_auto char *title = mem_printf("%s of: %s", stream, json_string_value(command));

		if (!json_integer_value(json_object_get(output, "bytes")))
			continue;
		mcp_report_uri(json_get_text(p, "processId"), stream, &uri);
		json_array_append_new(page,
				      json_pack("{ss ss ss ss sO}", "uri", uri.data, "name", stream, "title", title,
						"mimeType", "text/plain", "size", json_object_get(output, "bytes")));
	}
}

static void free_json(void *data) { json_decref(data); }

static void on_processes(struct mcp_call *c, json_t *result, json_t *error)
{
	json_t *page = json_incref(c->data), *p;
	const char *next = json_get_string(result, "nextCursor");
	size_t i;

	if (error) {
		json_decref(page);
		mcp_call_fail(c, RPC_INVALID_PARAMS, NULL, "cursor: is not one that was given");
		return;
	}
	json_array_foreach (json_object_get(result, "processes"), i, p) {
		mem_auto char *uri = mem_printf("bailiff://process/%s", json_get_text(p, "processId"));
		json_auto_t *command = command_of(p);
		mem_auto char *title = mem_printf("%s: %s", json_get_text(p, "status"), json_string_value(command));

		json_array_append_new(page,
				      json_pack("{ss ss ss ss}", "uri", uri, "name", json_get_text(p, "processId"),
						"title", title, "mimeType", "application/json"));
		add_outputs(page, p);
	}
	mcp_resource_listed(c, page, next);
}

static void list_more(struct mcp_call *c, json_t *page, const char *cursor)
{
	json_t *params = json_pack("{ss si}", "sessionId", gateway_session_id(c->up), "limit", PAGE);

	if (cursor)
		json_object_set_new(params, "cursor", json_string(cursor));
	c->data = page;
	c->data_free = free_json;
	mcp_call_query(c, "list_processes", params, on_processes);
}

/* ---- changes ---- */

static void notify_updated(struct mcp_session *m, const char *kind, const char *id, const char *stream)
{
	char uri[160];

	snprintf(uri, sizeof(uri), "bailiff://%s%s%s%s%s", kind, id ? "/" : "", id ? id : "", stream ? "/" : "",
		 stream ? stream : "");
	mcp_session_resource_updated(m, uri);
}

/*
 * The daemon limits output events to a few a second; notifications to a client that does not read are deferred
 * (mcp_session_resource_updated).
 */
void mcp_resource_event(struct mcp_session *m, struct jval event)
{
	char type[64], process[72], stream[16];

	jval_str(jval_get(event, "type"), type, sizeof(type));
	jval_str(jval_get(event, "processId"), process, sizeof(process));
	jval_str(jval_path(event, "payload.stream"), stream, sizeof(stream));
	notify_updated(m, "events", NULL, NULL);
	if (strcmp(type, "policy.changed") == 0)
		notify_updated(m, "policy", NULL, NULL);
	if (!process[0])
		return;
	if (strcmp(type, "process.output") == 0 && stream[0]) {
		notify_updated(m, "output", process, stream);
		if (strcmp(stream, "pty") == 0)
			notify_updated(m, "screen", process, NULL);
	} else if (strncmp(type, "process.", 8) == 0 || strcmp(type, "sandbox.violation") == 0) {
		notify_updated(m, "process", process, NULL);
		notify_updated(m, "processes", NULL, NULL);
	}
	if (strncmp(type, "changes.", 8) == 0 || strncmp(type, "artifact.", 9) == 0)
		notify_updated(m, "changes", process, NULL);
}

/* ---- completion ---- */

static void on_completing(struct mcp_call *c, json_t *result, json_t *error)
{
	const char *typed = json_get_text(json_object_get(c->params, "argument"), "value");
	json_t *values = json_array(), *p;
	size_t i;

	json_array_foreach (json_object_get(result, "processes"), i, p)
		if (strncmp(json_get_text(p, "processId"), typed, strlen(typed)) == 0)
			json_array_append(values, json_object_get(p, "processId"));
	mcp_resource_completion(c, values);
}

void mcp_resource_complete(struct mcp_call *c)
{
	static const char *const streams[] = { "stdout", "stderr", "pty" };
	const char *typed = json_get_text(json_object_get(c->params, "argument"), "value");

	if (strcmp(c->name, "processId") == 0) {
		mcp_call_query(c, "list_processes",
			       json_pack("{ss si}", "sessionId", gateway_session_id(c->up), "limit", 1000),
			       on_completing);
		return;
	}
	json_t *values = json_array();
	for (size_t i = 0; strcmp(c->name, "stream") == 0 && i < countof(streams); i++)
		if (strncmp(streams[i], typed, strlen(typed)) == 0)
			json_array_append_new(values, json_string(streams[i]));
	mcp_resource_completion(c, values);
}

void mcp_method_resources_list(struct mcp_call *c)
{
	const json_t *cursor = json_object_get(c->params, "cursor");
	const struct mcp_resource *r;
	json_t *page = json_array();

	if (cursor && !json_is_string(cursor)) {
		json_decref(page);
		mcp_call_fail(c, RPC_INVALID_PARAMS, NULL, "cursor: is not one that was given");
		return;
	}
	for (size_t i = 0; !cursor && (r = mcp_resource_at(c->mcp->o.config, i)); i++)
		if (!r->is_template)
			json_array_append_new(page, mcp_resource_describe(r));
	list_more(c, page, json_string_value(cursor));
}
