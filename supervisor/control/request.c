#include "supervisor/control/request.h"

#include "runtime/base/buf.h"
#include "runtime/base/did_you_mean.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "supervisor/control/call.h"
#include "supervisor/control/client.h"
#include "supervisor/control/control_private.h"
#include "supervisor/control/idempotent_calls.h"
#include "supervisor/control/ownership.h"
#include "supervisor/control/rpc.h"

#include <stdio.h>
#include <string.h>

/*
 * Errors before a method's row is found are protocol errors, written directly: there is no call yet. From call_new on
 * every outcome goes through the call, which counts it and, for a notification, ends without a reply.
 *
 * The requests of a batch run in order, but their answers may come in any order: a request that waits does not delay
 * the ones after it. The replies are sent together when the last one is there.
 */

#define REQUEST_BATCH_MAX 1000
#define REQUEST_ID_MAX 1024 /* bytes; the id is kept until the answer and copied into it */
#define KEY_MAX 200         /* bytes of an idempotencyKey */

/* ---- lookups ---- */

const struct method *method_find(const struct method_table *table, const char *name)
{
	for (size_t i = 0; i < table->count; i++)
		if (strcmp(table->rows[i].name, name) == 0)
			return &table->rows[i];
	return NULL;
}

const char *method_nearest(const struct method_table *table, const char *name)
{
	struct did_you_mean near = did_you_mean_for(name);
	for (size_t i = 0; i < table->count; i++)
		did_you_mean_try(&near, table->rows[i].name);
	return near.best;
}

const char *method_role_name(enum engine_role role)
{
	static const char *const names[] = {
		[ROLE_OBSERVER] = "observer", [ROLE_AGENT] = "agent", [ROLE_OPERATOR] = "operator"
	};
	return names[role];
}

const char *method_param_type_name(enum param_type type)
{
	static const char *const names[] = {
		[PARAM_STRING] = "string", [PARAM_ID] = "id",           [PARAM_UINT] = "uint",
		[PARAM_INT] = "int",       [PARAM_NUMBER] = "number",   [PARAM_BOOL] = "bool",
		[PARAM_OBJECT] = "object", [PARAM_STRINGS] = "strings", [PARAM_ENV] = "env",
		[PARAM_ARRAY] = "array",   [PARAM_ENUM] = "enum",       [PARAM_PATH] = "path",
		[PARAM_ANY] = "any",
	};
	return names[type];
}

/* ---- one call ---- */

/* "00-<trace id, 32 hex digits>-<span id, 16>-<flags, 2>" */
static int read_traceparent(struct call *c, const char *given, struct err *e)
{
	static const char none[] = "00000000000000000000000000000000", hex[] = "0123456789abcdef";
	if (!given)
		return 0;
	if (strlen(given) != 55 || strncmp(given, "00-", 3) != 0 || strspn(given + 3, hex) != 32 || given[35] != '-' ||
	    strspn(given + 36, hex) != 16 || given[52] != '-' || strspn(given + 53, hex) != 2 ||
	    strncmp(given + 3, none, 32) == 0)
		return err_field(e, "traceparent", "expected 00-<32 hex digits>-<16 hex digits>-<2 hex digits>");
	memcpy(c->trace_id, given + 3, 32);
	memcpy(c->span_id, given + 36, 16);
	c->caller.trace_id = c->trace_id;
	c->caller.span_id = c->span_id;
	return 0;
}

/* Ownership comes last: it reads the store, and relies on parameters of the declared types. */
static int check_call(struct call *c, struct err *e)
{
	if (c->caller.role < c->method->role)
		return err_set(e, ERR_NOT_ALLOWED, "%s needs the role %s; this connection has %s", c->method->name,
			       method_role_name(c->method->role), method_role_name(c->caller.role));
	if (!json_is_object(c->params))
		return err_field(e, "params", "expected an object of named parameters");
	if (params_parse(c->method->params(), c->params, &c->priv->parsed, e) < 0)
		return -1;
	const struct mutating_params *p = c->method->mutating ? &c->priv->parsed.mutating : NULL;
	const char *key = p ? p->idempotencyKey : NULL;
	if (key && (!*key || strlen(key) > KEY_MAX))
		return err_field(e, "idempotencyKey", "expected 1 to %d bytes", KEY_MAX);
	if (c->control->draining && (c->method->flags & METHOD_STARTS))
		return err_because(e, ERR_UNAVAILABLE, REASON_DRAINING,
				   "the daemon is about to stop and starts nothing new");
	if (p && read_traceparent(c, p->traceparent, e) < 0)
		return -1;
	return ownership_check(c, e);
}

static void request_run(struct call *c);

static void run_waiting(struct engine *engine, void *ctx)
{
	struct call *c = ctx;

	if (c->client)
		request_run(c);
	else
		call_drop(c); /* nothing has happened for it, and nobody waits for it */
}

/* 1: the call waits for a file system, before it does anything. What starts later waits by itself. */
static int await_folders(struct call *c, struct err *e)
{
	if (!(c->method->flags & METHOD_USES_FOLDERS))
		return 0;
	return engine_await_folders(call_engine(c), c->params, &c->caller, c->priv->started_ns, run_waiting, c, e);
}

/*
 * The checks come before the idempotency key: a request that was never valid must not occupy its key, and a result is
 * replayed only to a caller that may still make the request.
 */
static void request_run(struct call *c)
{
	struct buf buf_auto out = BUF_INIT;
	struct err e = ERR_INIT;
	int r = check_call(c, &e);

	if (r == 0)
		r = await_folders(c, &e);
	if (r > 0)
		return;
	if (r == 0 && c->method->mutating && idempotent_call_begin(c))
		return;
	if (r == 0)
		r = c->method->handler(c, &c->priv->parsed, &out, &e);
	if (r < 0)
		call_fail(c, &e);
	else if (r == CALL_REPLY)
		call_reply(c, out.data, out.len);
	/* CALL_PENDING: c may be freed already */
}

/* ---- lines ---- */

/* Protocol errors are answered even without a readable id (with null), as JSON-RPC requires. */
static void reject_request(struct client *cl, struct batch *batch, const char *id, enum rpc_code code,
			   const char *message)
{
	struct buf buf_auto out = BUF_INIT;
	cl->control->counts.protocol_errors++;
	rpc_protocol_error(&out, id, code, message);
	if (batch) {
		batch_add(batch, out.data, out.len);
		return;
	}
	buf_byte(&out, '\n');
	client_send(cl, out.data, out.len);
}

/* The id as JSON text; *ret is NULL for a notification. */
static int read_id(json_t *request, char **ret)
{
	json_t *id = json_object_get(request, "id");
	*ret = NULL;
	if (!id)
		return 0;
	if (!json_is_string(id) && !json_is_integer(id) && !json_is_null(id))
		return -1;
	if (json_is_string(id) && json_string_length(id) > REQUEST_ID_MAX)
		return -1;
	*ret = json_dumps(id, JSON_ENCODE_ANY | JSON_COMPACT);
	return *ret ? 0 : -1;
}

/* The limits are checked per request, so that a batch can fail halfway. */
static void handle_request(struct client *cl, struct batch *batch, json_t *request)
{
	if (!json_is_object(request)) {
		reject_request(cl, batch, NULL, RPC_INVALID_REQUEST, "expected a request object");
		return;
	}
	mem_auto char *id = NULL;
	if (read_id(request, &id) < 0) {
		reject_request(cl, batch, NULL, RPC_INVALID_REQUEST,
			       "id: expected a string of at most 1024 bytes, an integer or null");
		return;
	}
	const char *version = json_string_value(json_object_get(request, "jsonrpc"));
	if (!version || strcmp(version, "2.0") != 0) {
		reject_request(cl, batch, id, RPC_INVALID_REQUEST, "jsonrpc: expected \"2.0\"");
		return;
	}
	const char *name = json_string_value(json_object_get(request, "method"));
	if (!name) {
		reject_request(cl, batch, id, RPC_INVALID_REQUEST, "method: expected a string");
		return;
	}
	const struct method *m = method_find(cl->control->o.methods, name);
	if (!m && !id)
		return; /* a notification gets no reply, as JSON-RPC requires */
	if (!m) {
		const char *near = method_nearest(cl->control->o.methods, name);
		mem_auto char *message = mem_printf("there is no method \"%.100s\"%s%s%s", name,
						    near ? " (did you mean \"" : "", near ? near : "",
						    near ? "\"?)" : "");
		reject_request(cl, batch, id, RPC_METHOD_NOT_FOUND, message);
		return;
	}
	struct call *c = call_new(cl, batch, m, mem_take(&id), json_incref(json_object_get(request, "params")));
	struct err e = ERR_INIT;
	if (batch && batch_full(batch))
		err_set(&e, ERR_EXHAUSTED,
			"the replies to this batch are longer than 16 MiB; this request of it was not run");
	else if (control_over_quota(cl->control, cl->account))
		err_set(&e, ERR_EXHAUSTED, "the connections of uid %u hold more unsent bytes than maxQueuedBytesPerUid",
			cl->peer.uid);
	if (e.code)
		call_fail(c, &e);
	else
		request_run(c);
}

/* The batch's own reference keeps it open until all of its requests are read. */
static void handle_batch(struct client *cl, json_t *array)
{
	if (json_array_size(array) == 0) {
		reject_request(cl, NULL, NULL, RPC_INVALID_REQUEST, "an empty batch");
		return;
	}
	if (json_array_size(array) > REQUEST_BATCH_MAX) {
		reject_request(cl, NULL, NULL, RPC_INVALID_REQUEST,
			       "a batch of more than 1000 requests: send it in parts");
		return;
	}
	struct batch *batch = batch_new(cl);
	size_t i;
	json_t *item;
	json_array_foreach (array, i, item) {
		if (cl->dead)
			break;
		handle_request(cl, batch, item);
	}
	batch_close(batch);
}

/* The name of the member whose value, a number, ends at this byte; "" = it is not a member. */
static void member_before(const char *line, size_t at, char *ret, size_t cap)
{
	while (at && strchr("+-.eE0123456789", line[at - 1]))
		at--;
	while (at && strchr(" \t\r:", line[at - 1]))
		at--;
	const size_t end = at ? at - 1 : 0;
	if (!at || line[end] != '"')
		return;
	for (at = end; at && line[at - 1] != '"';)
		at--;
	snprintf(ret, cap, "%.*s", (int)(end - at), line + at);
}

/* Duplicate keys are rejected: two parsers could read different values. */
void request_line(struct client *cl, const char *line, size_t len)
{
	size_t blank = 0;
	while (blank < len && (line[blank] == ' ' || line[blank] == '\t' || line[blank] == '\r'))
		blank++;
	if (blank == len)
		return;
	json_error_t bad;
	json_auto_t *doc = json_loadb(line, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &bad);
	if (!doc) {
		char field[ERR_FIELD_MAX] = "";
		const bool overflow = json_error_code(&bad) == json_error_numeric_overflow;

		if (overflow)
			member_before(line, (size_t)bad.position, field, sizeof field);
		mem_auto char *message = overflow && field[0]
						 ? mem_printf("%s: must fit into 64 bits: %s", field, bad.text)
						 : mem_printf("bad JSON at byte %d: %s", bad.position, bad.text);
		reject_request(cl, NULL, NULL, RPC_PARSE_ERROR, message);
	} else if (json_is_array(doc)) {
		handle_batch(cl, doc);
	} else {
		handle_request(cl, NULL, doc);
	}
}
