#include "supervisor/gateway/common/rpc_message.h"

#include "runtime/base/jscan.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ID_MAX 1024u
#define METHOD_MAX 256u

static int set_problem(struct rpc_problem *p, int code, json_t *id, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
static int set_problem(struct rpc_problem *p, int code, json_t *id, const char *fmt, ...)
{
	va_list ap;

	*p = (struct rpc_problem){ .code = code, .id = id ? json_incref(id) : json_null() };
	va_start(ap, fmt);
	vsnprintf(p->message, sizeof(p->message), fmt, ap);
	va_end(ap);
	p->message[text_utf8_cut(p->message, strlen(p->message))] = 0;
	return -1;
}

static bool id_is_good(const json_t *id)
{
	return json_is_null(id) || json_is_integer(id) || (json_is_string(id) && json_string_length(id) <= ID_MAX);
}

static int read_request(struct rpc_message *m, json_t *method, struct rpc_problem *p)
{
	if (!json_is_string(method) || !json_string_length(method) || json_string_length(method) > METHOD_MAX ||
	    strlen(json_string_value(method)) != json_string_length(method))
		return set_problem(p, RPC_INVALID_REQUEST, m->id, "method: expected a string of 1 to %u bytes",
				   METHOD_MAX);
	m->kind = m->id ? RPC_REQUEST : RPC_NOTIFICATION;
	m->method = json_string_value(method);
	m->params = json_object_get(m->root, "params");
	if (json_is_null(m->params))
		m->params = NULL;
	if (m->params && !json_is_object(m->params) && !json_is_array(m->params))
		return set_problem(p, RPC_INVALID_REQUEST, m->id, "params: expected an object");
	return 0;
}

static int read_response(struct rpc_message *m, struct rpc_problem *p)
{
	m->kind = RPC_RESPONSE;
	m->result = json_object_get(m->root, "result");
	m->error = json_object_get(m->root, "error");
	if (json_is_null(m->error))
		m->error = NULL;
	if (!m->id)
		return set_problem(p, RPC_INVALID_REQUEST, NULL, "neither a method nor an id");
	if (!m->result == !m->error)
		return set_problem(p, RPC_INVALID_REQUEST, m->id,
				   "a response has a result or an error, a request has a method");
	return 0;
}

int rpc_message_of(json_t *root, enum rpc_dialect d, struct rpc_message *ret, struct rpc_problem *ret_problem)
{
	struct rpc_message m = { .root = root };
	int r = 0;

	if (!json_is_object(root)) {
		json_decref(root);
		return set_problem(ret_problem, RPC_INVALID_REQUEST, NULL, "expected an object");
	}
	m.id = json_object_get(root, "id");
	const char *version = json_get_string(root, "jsonrpc");
	json_t *method = json_object_get(root, "method");
	if (m.id && !id_is_good(m.id))
		r = set_problem(ret_problem, RPC_INVALID_REQUEST, NULL,
				"id: expected a string of at most %u bytes or an integer", ID_MAX);
	else if (d == RPC_VERSIONED && (!version || strcmp(version, "2.0") != 0))
		r = set_problem(ret_problem, RPC_INVALID_REQUEST, m.id, "jsonrpc: expected \"2.0\"");
	else
		r = method ? read_request(&m, method, ret_problem) : read_response(&m, ret_problem);
	if (r < 0) {
		json_decref(root);
		return -1;
	}
	*ret = m;
	return 0;
}

/* The jscan scanner is lenient, so it finds the id in text that jansson rejects. */
json_t *rpc_message_find_id(const char *text, size_t len)
{
	struct jval message = jval_of(text, len), id = jval_get(message, "id");

	if (jval_get(message, "method").type != JT_STRING || (id.type != JT_STRING && id.type != JT_NUMBER))
		return NULL;
	json_t *value = json_loadb(id.text, id.len, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
	if (value && id_is_good(value))
		return value;
	json_decref(value);
	return NULL;
}

int rpc_message_parse(const char *text, size_t len, enum rpc_dialect d, struct rpc_message *ret,
		      struct rpc_problem *ret_problem)
{
	json_error_t bad;
	json_t *root = json_loadb(text, len, JSON_ALLOW_NUL | JSON_DECODE_ANY, &bad);

	json_auto_t *id = root ? NULL : rpc_message_find_id(text, len);

	if (!root)
		return set_problem(ret_problem, RPC_PARSE_ERROR, id, "bad JSON at byte %d: %s", bad.position, bad.text);
	return rpc_message_of(root, d, ret, ret_problem);
}

void rpc_message_done(struct rpc_message *m)
{
	json_decref(m->root);
	*m = (struct rpc_message){ 0 };
}

void rpc_problem_done(struct rpc_problem *p)
{
	json_decref(p->id);
	p->id = NULL;
}

/* ---- writing ---- */

static json_t *start_message(enum rpc_dialect d)
{
	json_t *m = json_object();

	if (d == RPC_VERSIONED)
		json_object_set_new(m, "jsonrpc", json_string("2.0"));
	return m;
}

static void set_id(json_t *m, const json_t *id) { json_object_set_new(m, "id", id ? json_deep_copy(id) : json_null()); }

json_t *rpc_message_result(enum rpc_dialect d, const json_t *id, json_t *result)
{
	json_t *m = start_message(d);

	set_id(m, id);
	json_object_set_new(m, "result", result);
	return m;
}

json_t *rpc_message_error(enum rpc_dialect d, const json_t *id, int code, const char *message, json_t *data)
{
	json_t *m = start_message(d), *error = json_object();

	set_id(m, id);
	json_object_set_new(error, "code", json_integer(code));
	json_object_set_new(error, "message", rpc_message_text(message, strlen(message)));
	if (data)
		json_object_set_new(error, "data", data);
	json_object_set_new(m, "error", error);
	return m;
}

json_t *rpc_message_notification(enum rpc_dialect d, const char *method, json_t *params)
{
	json_t *m = start_message(d);

	json_object_set_new(m, "method", json_string(method));
	if (params)
		json_object_set_new(m, "params", params);
	return m;
}

json_t *rpc_message_request(enum rpc_dialect d, const json_t *id, const char *method, json_t *params)
{
	json_t *m = rpc_message_notification(d, method, params);

	set_id(m, id);
	return m;
}

static int write_piece(const char *piece, size_t n, void *ctx)
{
	buf_append(ctx, piece, n);
	return 0;
}

void rpc_message_write(const json_t *message, bool line, struct buf *out)
{
	json_dump_callback(message, write_piece, out, JSON_COMPACT | JSON_ENCODE_ANY);
	if (line)
		buf_byte(out, '\n');
}

json_t *rpc_message_text(const char *s, size_t n)
{
	buf_auto struct buf good = BUF_INIT;
	json_t *v = json_stringn(s, n);

	if (v)
		return v;
	for (size_t i = 0; i < n;) {
		size_t len = text_utf8_len(s + i, n - i);

		if (len)
			buf_append(&good, s + i, len);
		else
			buf_str(&good, "\xef\xbf\xbd");
		i += len ? len : 1;
	}
	v = json_stringn(buf_cstr(&good), good.len);
	return v ? v : json_string("");
}

bool rpc_message_is_traceparent(const char *s)
{
	static const char shape[] = "00-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx";

	for (size_t i = 0; i < sizeof(shape); i++) {
		if (shape[i] == 'x' ? !(s[i] && strchr("0123456789abcdef", s[i])) : s[i] != shape[i])
			return false;
	}
	return strncmp(s + 3, "00000000000000000000000000000000", 32) != 0 &&
	       strncmp(s + 36, "0000000000000000", 16) != 0;
}
