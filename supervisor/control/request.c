#include "supervisor/control/request.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "supervisor/control/call.h"
#include "supervisor/control/client.h"
#include "supervisor/control/control_private.h"
#include "supervisor/control/method.h"
#include "supervisor/control/rpc.h"

#include <stdio.h>
#include <string.h>

#define REQUEST_BATCH_MAX 1000
#define REQUEST_ID_MAX 1024

/* Protocol errors are answered even without a readable id (with null), as JSON-RPC requires. */
static void reject_request(struct client *cl, struct batch *batch, const char *id, enum rpc_code code,
			   const char *message, const char *advice)
{
	struct buf buf_auto out = BUF_INIT;
	cl->control->counts.protocol_errors++;
	rpc_protocol_error(&out, id, code, message, advice);
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

/* A notification for an unknown method gets no reply, as JSON-RPC requires. */
static void reject_method(struct client *cl, struct batch *batch, const char *id, const char *name)
{
	if (!id)
		return;
	mem_auto char *message = mem_printf("there is no method \"%.100s\"", name);
	const char *near = method_nearest(cl->control->o.methods, name);
	mem_auto char *advice = near ? mem_printf("Did you mean %s? list_methods shows what there is.", near) : NULL;
	reject_request(cl, batch, id, RPC_METHOD_NOT_FOUND, message, advice);
}

/* Takes `id` and `params`. The limits are checked per request, so that a batch can fail halfway. */
static void run_method(struct client *cl, struct batch *batch, const struct method *m, char *id, json_t *params)
{
	struct err e = ERR_INIT;
	struct call *c = call_new(cl, batch, m, id, params);
	if (batch && batch_full(batch))
		err_set(&e, ERR_EXHAUSTED,
			"the replies to this batch are longer than 16 MiB; this request of it was not run");
	else if (control_over_quota(cl->control, cl->account))
		err_set(&e, ERR_EXHAUSTED, "the connections of uid %u hold more unsent bytes than maxQueuedBytesPerUid",
			cl->peer.uid);
	if (e.code)
		call_fail(c, &e);
	else
		method_run(c);
}

static void handle_request(struct client *cl, struct batch *batch, json_t *request)
{
	if (!json_is_object(request)) {
		reject_request(cl, batch, NULL, RPC_INVALID_REQUEST, "expected a request object", NULL);
		return;
	}
	mem_auto char *id = NULL;
	if (read_id(request, &id) < 0) {
		reject_request(cl, batch, NULL, RPC_INVALID_REQUEST,
			       "id: expected a string of at most 1024 bytes, an integer or null", NULL);
		return;
	}
	const char *version = json_string_value(json_object_get(request, "jsonrpc"));
	if (!version || strcmp(version, "2.0") != 0) {
		reject_request(cl, batch, id, RPC_INVALID_REQUEST, "jsonrpc: expected \"2.0\"", NULL);
		return;
	}
	const char *name = json_string_value(json_object_get(request, "method"));
	if (!name) {
		reject_request(cl, batch, id, RPC_INVALID_REQUEST, "method: expected a string", NULL);
		return;
	}
	const struct method *m = method_find(cl->control->o.methods, name);
	if (m)
		run_method(cl, batch, m, mem_take(&id), json_incref(json_object_get(request, "params")));
	else
		reject_method(cl, batch, id, name);
}

/* The batch's own reference keeps it open until all of its requests are read. */
static void handle_batch(struct client *cl, json_t *array)
{
	if (json_array_size(array) == 0) {
		reject_request(cl, NULL, NULL, RPC_INVALID_REQUEST, "an empty batch", NULL);
		return;
	}
	if (json_array_size(array) > REQUEST_BATCH_MAX) {
		reject_request(cl, NULL, NULL, RPC_INVALID_REQUEST, "a batch of more than 1000 requests",
			       "Send it in parts.");
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

static bool is_blank(const char *line, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r')
			return false;
	return true;
}

void request_line(struct client *cl, const char *line, size_t len)
{
	if (is_blank(line, len))
		return;
	json_error_t bad;
	json_auto_t *doc = json_loadb(line, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &bad);
	if (!doc) {
		mem_auto char *message = mem_printf("bad JSON at byte %d: %s", bad.position, bad.text);
		reject_request(cl, NULL, NULL, RPC_PARSE_ERROR, message, NULL);
	} else if (json_is_array(doc)) {
		handle_batch(cl, doc);
	} else {
		handle_request(cl, NULL, doc);
	}
}
