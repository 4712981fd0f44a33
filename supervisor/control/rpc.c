#include "supervisor/control/rpc.h"

#include "runtime/base/buf.h"
#include "runtime/base/jscan.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"

#include <stdbool.h>
#include <string.h>

/* Each kind of error on the wire. `advice` applies where the error has no reason. */
static const struct rpc_row {
	enum err_code code;
	enum rpc_code rpc;
	const char *category;
	bool retryable;
	const char *advice;
} rows[] = {
	{ ERR_SYS, RPC_INTERNAL_ERROR, "system", true, "Look at the errno in the message and at the daemon's log." },
	{ ERR_INVALID, RPC_INVALID_PARAMS, "invalid", false,
	  "Correct the named parameter; list_methods shows what each method takes." },
	{ ERR_NOT_ALLOWED, RPC_NOT_ALLOWED, "not_allowed", false,
	  "Ask with a connection whose role and uid permit this." },
	{ ERR_NOT_FOUND, RPC_NOT_FOUND, "not_found", false, "Check the id; the list methods show what there is." },
	{ ERR_CONFLICT, RPC_CONFLICT, "conflict", false,
	  "Use another id or idempotencyKey, or repeat the first request unchanged." },
	{ ERR_PERMISSION, RPC_PERMISSION_DENIED, "permission_denied", false,
	  "The policy decides this; the decision says which rule did." },
	{ ERR_UNAVAILABLE, RPC_UNAVAILABLE, "unavailable", true, "Try again later; get_health says what is missing." },
	{ ERR_EXHAUSTED, RPC_RESOURCE_EXHAUSTED, "resource_exhausted", true,
	  "Free what the message names or raise its limit, then try again." },
	{ ERR_EXPIRED, RPC_SEQUENCE_EXPIRED, "sequence_expired", false,
	  "Read a snapshot, then go on from firstSequence - 1." },
	{ ERR_SANDBOX, RPC_SANDBOX_FAILED, "sandbox_failed", false,
	  "Check the command, its cwd and the profile; bailiff doctor shows what this machine enforces." },
	{ ERR_STATE, RPC_INVALID_STATE, "invalid_state", false, "Look at its present status first." },
	{ ERR_CORRUPT, RPC_INTERNAL_ERROR, "corrupt", false,
	  "Run rebuild_store, which computes documents from the log; what verify_store still names, restore from a "
	  "backup." },
	{ ERR_INTERNAL, RPC_INTERNAL_ERROR, "internal", false, "This is a bug in bailiff; the daemon's log has more." },
};

static const struct rpc_row *row_of(enum err_code code)
{
	for (size_t i = 0; i < countof(rows); i++)
		if (rows[i].code == code)
			return &rows[i];
	return &rows[countof(rows) - 1];
}

const char *rpc_category(enum err_code code) { return row_of(code)->category; }

enum err_code rpc_category_code(const char *category)
{
	for (size_t i = 0; i < countof(rows); i++)
		if (strcmp(rows[i].category, category) == 0)
			return rows[i].code;
	/* names used by other layers */
	for (int code = ERR_SYS; code <= ERR_INTERNAL; code++)
		if (strcmp(err_code_name((enum err_code)code), category) == 0)
			return (enum err_code)code;
	return ERR_INTERNAL;
}

static void write_head(struct buf *out, const char *id)
{
	buf_str(out, "{\"jsonrpc\":\"2.0\",\"id\":");
	buf_str(out, id ? id : "null");
}

void rpc_result(struct buf *out, const char *id, const char *json, size_t len)
{
	write_head(out, id);
	buf_str(out, ",\"result\":");
	buf_append(out, json, len);
	buf_byte(out, '}');
}

static void error_head(struct buf *out, struct jw *w, const char *id, enum rpc_code code)
{
	write_head(out, id);
	buf_str(out, ",\"error\":");
	*w = jw_on(out);
	jw_obj(w);
	jw_kint(w, "code", code);
}

/* "limits.wallMs: expected …": the message alone names the field. */
static void message_with_field(struct jw *w, const struct err *e)
{
	const char *text = e->message[0] ? e->message : row_of(e->code)->category;
	if (!e->field[0] || strncmp(text, e->field, strlen(e->field)) == 0) {
		jw_kstr(w, "message", text);
		return;
	}
	mem_auto char *whole = mem_printf("%s: %s", e->field, text);
	jw_kstr(w, "message", whole);
}

/* Whether the given members already have one of that name: it replaces the standard member. */
static bool has_member(const char *data, size_t len, const char *name)
{
	if (!len)
		return false;
	struct buf buf_auto whole = BUF_INIT;
	buf_byte(&whole, '{');
	buf_append(&whole, data, len);
	buf_byte(&whole, '}');
	return jval_get(jval_of(whole.data, whole.len), name).type != JT_NONE;
}

void rpc_error(struct buf *out, const char *id, const struct err *e, const char *data, size_t len)
{
	const struct rpc_row *row = row_of(e->code);
	if (!data)
		len = 0;
	struct jw w;
	error_head(out, &w, id, row->rpc);
	message_with_field(&w, e);
	jw_kobj(&w, "data");
	if (!has_member(data, len, "category"))
		jw_kstr(&w, "category", row->category);
	if (!has_member(data, len, "retryable"))
		jw_kbool(&w, "retryable", row->retryable);
	jw_kopt(&w, "reason", err_reason_name(e->reason));
	jw_kstr(&w, "advice", e->reason ? err_reason_advice(e->reason) : row->advice);
	if (e->field[0] && !has_member(data, len, "field"))
		jw_kstr(&w, "field", e->field);
	if (len) {
		if (out->data[out->len - 1] != '{')
			buf_byte(out, ',');
		buf_append(out, data, len);
	}
	jw_obj_end(&w);
	jw_obj_end(&w);
	buf_byte(out, '}');
}

void rpc_protocol_error(struct buf *out, const char *id, enum rpc_code code, const char *message)
{
	static const struct {
		enum rpc_code code;
		const char *category;
		const char *advice;
	} kinds[] = {
		{ RPC_PARSE_ERROR, "parse_error", "Send one JSON-RPC 2.0 object, or an array of them, a line." },
		{ RPC_METHOD_NOT_FOUND, "method_not_found", "list_methods shows what there is." },
		{ RPC_INVALID_REQUEST, "invalid_request",
		  "Send {\"jsonrpc\":\"2.0\",\"id\":…,\"method\":…,\"params\":{…}}." },
	};
	size_t i = 0;
	while (i < countof(kinds) - 1 && kinds[i].code != code)
		i++;
	struct jw w;
	error_head(out, &w, id, code);
	jw_kstr(&w, "message", message);
	jw_kobj(&w, "data");
	jw_kstr(&w, "category", kinds[i].category);
	jw_kbool(&w, "retryable", false);
	jw_kstr(&w, "advice", kinds[i].advice);
	jw_obj_end(&w);
	jw_obj_end(&w);
	buf_byte(out, '}');
}
