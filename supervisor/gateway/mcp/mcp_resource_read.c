/* Reads the resources of mcp_resources.def. */
#include "supervisor/gateway/mcp/mcp_resource.h"

#include "runtime/base/buf.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "supervisor/gateway/common/rpc_message.h"
#include "supervisor/gateway/mcp/mcp_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define OUTPUT_PART 1048576 /* bytes per read: clients accept messages of 10 MB, and a byte may become \u0000 */
#define EVENTS_PART 200
#define EVENTS_BACK 2000 /* how far back to search for the latest events of a session */
#define PROCESSES_PART 200
#define DENIED (-32003)
#define NOT_FOUND (-32004)
#define UNAVAILABLE (-32011)
#define STATE (-32015) /* no terminal, not ended yet */
#define BAD_PARAMS (-32602)

/* A missing object is a missing resource; other errors are internal. */
static void fail_read(struct mcp_call *c, const json_t *error)
{
	json_int_t code = json_integer_value(json_object_get(error, "code"));

	if (code == NOT_FOUND || code == BAD_PARAMS || code == DENIED || code == STATE)
		mcp_resource_missing(c);
	else
		mcp_call_fail(c, RPC_INTERNAL_ERROR, NULL, "%s", json_get_text(error, "message"));
}

/* Takes ownership of `meta`, which may be NULL. */
static void finish_read(struct mcp_call *c, const char *mime, const char *kind, json_t *content, json_t *meta)
{
	json_t *item = json_pack("{ss ss so}", "uri", c->uri, "mimeType", mime, kind, content);

	if (meta)
		json_object_set_new(item, "_meta", meta);
	mcp_call_finish(c, json_pack("{s[o]}", "contents", item));
}

static void finish_json(struct mcp_call *c, const json_t *value, json_t *meta)
{
	mem_auto char *dump = json_dumps(value, JSON_INDENT(2) | JSON_ENCODE_ANY);

	finish_read(c, "application/json", "text", rpc_message_text(dump ? dump : "null", dump ? strlen(dump) : 4),
		    meta);
}

static void finish_value(struct mcp_call *c, json_t *result, json_t *error)
{
	if (error)
		fail_read(c, error);
	else
		finish_json(c, result, NULL);
}

/* ---- outputs ---- */

/* "1000" or "1000-2000" */
static bool range_of(const struct mcp_call *c, uint64_t *ret_from, uint64_t *ret_length)
{
	const char *given = json_get_string(c->vars, "offset");
	unsigned long long from = 0, to = 0;
	int n = 0;

	*ret_length = OUTPUT_PART;
	if (given && (strspn(given, "0123456789-") != strlen(given) ||
		      sscanf(given, "%18llu%n-%18llu%n", &from, &n, &to, &n) < 1 || given[n]))
		return false;
	if (to && to <= from)
		return false;
	*ret_from = from;
	if (to && to - from < OUTPUT_PART)
		*ret_length = to - from;
	return true;
}

static void on_output(struct mcp_call *c, json_t *result, json_t *error)
{
	uint64_t next = (uint64_t)json_integer_value(json_object_get(result, "nextOffset"));
	uint64_t total = (uint64_t)json_integer_value(json_object_get(result, "totalBytes"));
	bool binary = json_text_is(result, "encoding", "base64");
	buf_auto struct buf uri = BUF_INIT;
	json_t *meta;

	if (error) {
		fail_read(c, error);
		return;
	}
	meta = json_pack("{sO sO}", "bailiff/offset", json_object_get(result, "offset"), "bailiff/totalBytes",
			 json_object_get(result, "totalBytes"));
	if (next < total) {
		mcp_report_uri(json_get_text(c->vars, "processId"), json_get_text(c->vars, "stream"), &uri);
		buf_printf(&uri, "/%" PRIu64, next);
		json_object_set_new(meta, "bailiff/next", json_string(uri.data));
	}
	finish_read(c, binary ? "application/octet-stream" : "text/plain", binary ? "blob" : "text",
		    json_incref(json_object_get(result, "data")), meta);
}

static void on_process_of_output(struct mcp_call *c, json_t *result, json_t *error)
{
	const json_t *output = json_object_get(json_object_get(result, "outputs"), json_get_text(c->vars, "stream"));
	uint64_t from, length;

	if (error)
		fail_read(c, error);
	else if (!output || !range_of(c, &from, &length))
		mcp_resource_missing(c);
	else
		mcp_call_query(c, "read_output",
			       json_pack("{sO sI sI}", "outputRef", json_object_get(output, "outputRef"), "offset",
					 (json_int_t)from, "length", (json_int_t)length),
			       on_output);
}

void mcp_resource_output(struct mcp_call *c)
{
	mcp_call_query(c, "get_process", json_pack("{ss}", "processId", json_get_text(c->vars, "processId")),
		       on_process_of_output);
}

/* ---- processes ---- */

void mcp_resource_process(struct mcp_call *c)
{
	mcp_call_query(c, "get_process", json_pack("{ss}", "processId", json_get_text(c->vars, "processId")),
		       finish_value);
}

void mcp_resource_processes(struct mcp_call *c)
{
	mcp_call_query(c, "list_processes",
		       json_pack("{ss si}", "sessionId", gateway_session_id(c->up), "limit", PROCESSES_PART),
		       finish_value);
}

static void on_screen(struct mcp_call *c, json_t *result, json_t *error)
{
	if (error)
		fail_read(c, error);
	else
		finish_read(c, "text/plain", "text", json_incref(json_object_get(result, "text")), NULL);
}

void mcp_resource_screen(struct mcp_call *c)
{
	mcp_call_query(c, "get_screen",
		       json_pack("{ss ss}", "processId", json_get_text(c->vars, "processId"), "format", "text"),
		       on_screen);
}

static void on_changes(struct mcp_call *c, json_t *result, json_t *error)
{
	buf_auto struct buf diff = BUF_INIT;
	const json_t *v;
	size_t i;

	if (error && json_integer_value(json_object_get(error, "code")) == UNAVAILABLE) {
		mcp_resource_missing(c); /* not a copy-on-write run */
		return;
	}
	if (error) {
		fail_read(c, error);
		return;
	}
	json_array_foreach (json_object_get(result, "changes"), i, v) {
		if (json_get_text(v, "diff")[0])
			buf_str(&diff, json_get_text(v, "diff"));
		else
			buf_printf(&diff, "# %s %s\n", json_get_text(v, "change"), json_get_text(v, "path"));
	}
	finish_read(c, "text/x-diff", "text", rpc_message_text(buf_cstr(&diff), diff.len), NULL);
}

void mcp_resource_changes(struct mcp_call *c)
{
	mcp_call_query(c, "list_changes",
		       json_pack("{ss sb}", "processId", json_get_text(c->vars, "processId"), "diffs", 1), on_changes);
}

/* ---- policy, events ---- */

void mcp_resource_policy(struct mcp_call *c)
{
	mcp_call_query(c, "get_policy", json_pack("{ss}", "sessionId", gateway_session_id(c->up)), finish_value);
}

static void on_events(struct mcp_call *c, json_t *result, json_t *error)
{
	json_t *events = json_object_get(result, "events"), *meta = NULL;
	bool after = json_object_get(c->vars, "sequence") != NULL;
	size_t n = json_array_size(events);

	if (error) {
		fail_read(c, error);
		return;
	}
	/* Without a sequence number the latest events are requested, otherwise the next ones. */
	while (!after && json_array_size(events) > EVENTS_PART)
		json_array_remove(events, 0);
	if (after && json_get_flag(result, "hasMore") && n) {
		json_int_t last = json_integer_value(json_object_get(json_array_get(events, n - 1), "sequence"));
		mem_auto char *uri = mem_printf("bailiff://events/%lld", (long long)last);

		meta = json_pack("{ss}", "bailiff/next", uri);
	}
	finish_json(c, events, meta);
}

static void list_events(struct mcp_call *c, json_int_t after, int limit)
{
	mcp_call_query(
		c, "list_events",
		json_pack("{ss sI si}", "sessionId", gateway_session_id(c->up), "afterSequence", after, "limit", limit),
		on_events);
}

static void on_newest(struct mcp_call *c, json_t *result, json_t *error)
{
	json_int_t last = json_integer_value(json_object_get(result, "lastSequence")),
		   first = json_integer_value(json_object_get(result, "firstSequence"));
	json_int_t after = last > EVENTS_BACK ? last - EVENTS_BACK : 0;

	if (error)
		fail_read(c, error);
	else
		list_events(c, after + 1 < first ? first - 1 : after, 1000);
}

void mcp_resource_events(struct mcp_call *c)
{
	const char *given = json_get_text(c->vars, "sequence");

	if (!c->vars)
		mcp_call_query(c, "list_events", json_pack("{si}", "limit", 1), on_newest);
	else if (!*given || strspn(given, "0123456789") != strlen(given) || strlen(given) > 18)
		mcp_resource_missing(c);
	else
		list_events(c, strtoll(given, NULL, 10), EVENTS_PART);
}
