#include "supervisor/gateway/mcp/mcp_resource.h"

#include "runtime/base/buf.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/gateway/common/rpc_message.h"
#include "supervisor/gateway/mcp/mcp_private.h"
#include "supervisor/gateway/mcp/mcp_reply.h"
#include "supervisor/gateway/mcp/mcp_report.h"
#include "supervisor/gateway/mcp/mcp_session.h"
#include "supervisor/gateway/mcp/mcp_tables.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SUBSCRIPTIONS_MAX 1000u
#define COMPLETIONS_MAX 100u

const struct mcp_resource *mcp_resource_at(const struct mcp_config *config, size_t i)
{
	for (size_t k = 0; k < countof(config->tables) && config->tables[k]; k++) {
		if (i < config->tables[k]->nresources)
			return &config->tables[k]->resources[i];
		i -= config->tables[k]->nresources;
	}
	return NULL;
}

/* ---- templates ---- */

static int hex_digit(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

static json_t *unescape_text(const char *s, size_t n)
{
	buf_auto struct buf out = BUF_INIT;

	for (size_t i = 0; i < n; i++) {
		if (s[i] == '%' && i + 2 < n && hex_digit(s[i + 1]) >= 0 && hex_digit(s[i + 2]) >= 0) {
			buf_byte(&out, (char)(hex_digit(s[i + 1]) * 16 + hex_digit(s[i + 2])));
			i += 2;
		} else {
			buf_byte(&out, s[i]);
		}
	}
	return rpc_message_text(buf_cstr(&out), out.len);
}

bool mcp_resource_match(const char *t, const char *uri, json_t **ret_vars)
{
	json_auto_t *vars = json_object();

	while (*t) {
		if (*t != '{') {
			if (*t++ != *uri++)
				return false;
			continue;
		}
		bool rest = t[1] == '+';
		const char *name = t + 1 + rest, *close = strchr(name, '}');
		if (!close)
			return false;
		size_t n = rest ? strlen(uri) : strcspn(uri, "/?#");
		/* Text after the variable in the same segment is not part of it. */
		const char *stop = !rest && close[1] && close[1] != '{' ? memchr(uri, close[1], n) : NULL;
		if (stop)
			n = (size_t)(stop - uri);
		if (!n)
			return false;
		mem_auto char *key = mem_strndup(name, (size_t)(close - name));
		json_object_set_new(vars, key, unescape_text(uri, n));
		uri += n;
		t = close + 1;
	}
	if (*uri)
		return false;
	*ret_vars = json_incref(vars);
	return true;
}

/* The row for a URI. *ret_vars: an object with a template's variables, else NULL. */
static const struct mcp_resource *mcp_resource_find(const struct mcp_config *config, const char *uri, json_t **ret_vars)
{
	const struct mcp_resource *r;

	*ret_vars = NULL;
	for (size_t i = 0; (r = mcp_resource_at(config, i)); i++)
		if (r->is_template ? mcp_resource_match(r->uri, uri, ret_vars) : strcmp(r->uri, uri) == 0)
			return r;
	return NULL;
}

/* ---- lists ---- */

static json_t *mcp_resource_describe(const struct mcp_resource *r)
{
	json_t *d = json_pack("{ss ss ss ss}", r->is_template ? "uriTemplate" : "uri", r->uri, "name", r->name, "title",
			      r->title, "description", r->description);

	if (r->mime)
		json_object_set_new(d, "mimeType", json_string(r->mime));
	return d;
}

static json_t *template_row(struct mcp_call *c, size_t i)
{
	const struct mcp_resource *r;

	for (size_t k = 0; (r = mcp_resource_at(c->mcp->o.config, k)); k++)
		if (r->is_template && i-- == 0)
			return mcp_resource_describe(r);
	return NULL;
}

void mcp_method_templates_list(struct mcp_call *c) { mcp_reply_page(c, "resourceTemplates", template_row); }

/* Takes ownership of `page`, an array of resources. next_cursor NULL: the last page. */
static void mcp_resource_listed(struct mcp_call *c, json_t *page, const char *next_cursor)
{
	json_t *result = json_pack("{so}", "resources", page);

	if (next_cursor)
		json_object_set_new(result, "nextCursor", json_string(next_cursor));
	mcp_call_finish(c, result);
}

/* ---- reading ---- */

/* NULL: the call has failed. */
static const char *uri_of(struct mcp_call *c)
{
	const json_t *uri = json_object_get(c->params, "uri");

	if (json_is_string(uri) && strlen(json_string_value(uri)) == json_string_length(uri))
		return json_string_value(uri);
	mcp_call_fail(c, RPC_INVALID_PARAMS, NULL, "uri: expected a string");
	return NULL;
}

static void mcp_resource_missing(struct mcp_call *c)
{
	const char *uri = json_get_string(c->params, "uri");

	mcp_call_fail(c, c->priv->era == MCP_MODERN ? RPC_INVALID_PARAMS : MCP_RESOURCE_NOT_FOUND,
		      json_pack("{ss}", "uri", uri), "there is no resource %.200s", uri);
}

void mcp_method_resources_read(struct mcp_call *c)
{
	const char *uri = uri_of(c);
	const struct mcp_resource *r;

	if (!uri)
		return;
	c->uri = uri;
	r = mcp_resource_find(c->mcp->o.config, c->uri, &c->vars);
	if (r)
		r->read(c);
	else
		mcp_resource_missing(c);
}

/* ---- subscriptions of legacy clients ---- */

void mcp_method_subscribe(struct mcp_call *c)
{
	const char *uri = uri_of(c);
	json_auto_t *vars = NULL;

	if (!uri)
		return;
	if (!mcp_resource_find(c->mcp->o.config, uri, &vars))
		return mcp_resource_missing(c);
	if (json_object_size(c->mcp->subscribed) >= SUBSCRIPTIONS_MAX)
		return mcp_call_fail(c, RPC_INVALID_REQUEST, NULL, "more than %u subscriptions", SUBSCRIPTIONS_MAX);
	json_object_set_new(c->mcp->subscribed, uri, json_true());
	mcp_call_finish(c, json_object());
}

void mcp_method_unsubscribe(struct mcp_call *c)
{
	const char *uri = uri_of(c);

	if (!uri)
		return;
	json_object_del(c->mcp->subscribed, uri);
	mcp_call_finish(c, json_object());
}

void mcp_resource_completion(struct mcp_call *c, json_t *values)
{
	size_t total = json_array_size(values);

	while (json_array_size(values) > COMPLETIONS_MAX)
		json_array_remove(values, json_array_size(values) - 1);
	mcp_call_finish(c, json_pack("{s{so sI sb}}", "completion", "values", values, "total", (json_int_t)total,
				     "hasMore", total > COMPLETIONS_MAX));
}

/* ---- reading ---- */

/* Reads the resources of mcp_resources.def. */

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

	if (error)
		return fail_read(c, error);
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
	mcp_call_get_process(c, json_get_text(c->vars, "processId"), on_process_of_output);
}

/* ---- processes ---- */

void mcp_resource_process(struct mcp_call *c)
{
	mcp_call_get_process(c, json_get_text(c->vars, "processId"), finish_value);
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
	if (error)
		return fail_read(c, error);
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

	if (error)
		return fail_read(c, error);
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

/* ---- the list, changes, completion ---- */

/* Lists the current resources, maps events to the resources that they change, and completes variables of templates. */

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

static void on_processes(struct mcp_call *c, json_t *result, json_t *error)
{
	json_t *page = json_incref(c->data), *p;
	const char *next = json_get_string(result, "nextCursor");
	size_t i;

	if (error) {
		json_decref(page);
		mcp_call_fail(c, RPC_INVALID_PARAMS, NULL, "cursor: was not issued by this server");
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
	c->data_free = mcp_call_free_json;
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

	if (strcmp(c->name, "processId") == 0)
		return mcp_call_query(c, "list_processes",
				      json_pack("{ss si}", "sessionId", gateway_session_id(c->up), "limit", 1000),
				      on_completing);
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
		mcp_call_fail(c, RPC_INVALID_PARAMS, NULL, "cursor: was not issued by this server");
		return;
	}
	for (size_t i = 0; !cursor && (r = mcp_resource_at(c->mcp->o.config, i)); i++)
		if (!r->is_template)
			json_array_append_new(page, mcp_resource_describe(r));
	list_more(c, page, json_string_value(cursor));
}
