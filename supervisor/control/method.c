#include "supervisor/control/method.h"

#include "runtime/base/did_you_mean.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "supervisor/control/call.h"
#include "supervisor/control/idempotent_calls.h"
#include "supervisor/control/ownership.h"

#include <string.h>

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

/* ---- running ---- */

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
	if (key && (!*key || strlen(key) > METHOD_KEY_MAX))
		return err_field(e, "idempotencyKey", "expected 1 to %d bytes", METHOD_KEY_MAX);
	return p && read_traceparent(c, p->traceparent, e) < 0 ? -1 : ownership_check(c, e);
}

void method_run(struct call *c)
{
	struct err e = ERR_INIT;
	if (check_call(c, &e) < 0) {
		call_fail(c, &e);
		return;
	}
	if (c->method->mutating && c->priv->parsed.mutating.idempotencyKey && idempotent_call_begin(c))
		return;
	c->method->handler(c, &c->priv->parsed);
}
