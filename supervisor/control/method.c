#include "supervisor/control/method.h"

#include "runtime/base/did_you_mean.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "supervisor/control/idempotent_calls.h"
#include "supervisor/control/methods.h"
#include "supervisor/control/ownership.h"

#include <string.h>

/* ---- the table: methods.def expanded to parameter lists, then to rows ---- */

#define KEY_READING
#define KEY_MUTATING                                                             \
	{ "idempotencyKey",                                                      \
	  PARAM_STRING,                                                          \
	  0,                                                                     \
	  NULL,                                                                  \
	  NULL,                                                                  \
	  "a request repeated with the same key gives the first one's result" }, \
		{ "traceparent",                                                 \
		  PARAM_STRING,                                                  \
		  0,                                                             \
		  NULL,                                                          \
		  NULL,                                                          \
		  "the caller's W3C trace context: its trace id goes into the events, its span id into the first" },

#define MEMBERS(name) static const struct param members_##name[] = {
#define METHOD(name, role, kind, summary) static const struct param params_##name[] = { KEY_##kind
#define PARAM(name, type, flags, detail, summary) { #name, PARAM_##type, flags, detail, NULL, summary },
#define OBJECT(name, members, flags, summary) { #name, PARAM_OBJECT, flags, NULL, members_##members, summary },
#define END()                \
	{                    \
		.name = NULL \
	}                    \
	}                    \
	;
#include "supervisor/control/methods.def"
#undef MEMBERS
#undef METHOD
#undef PARAM
#undef OBJECT
#undef END

enum method_kind { READING, MUTATING };

const struct method control_methods[] = {
#define MEMBERS(name)
#define METHOD(name, role, kind, summary) \
	{ #name, ROLE_##role, (kind) == MUTATING, method_##name, params_##name, summary },
#define PARAM(name, type, flags, detail, summary)
#define OBJECT(name, members, flags, summary)
#define END()
#include "supervisor/control/methods.def"
#undef MEMBERS
#undef METHOD
#undef PARAM
#undef OBJECT
#undef END
};
const size_t control_nmethods = countof(control_methods);

/* ---- lookups ---- */

const struct method *method_find(const char *name)
{
	for (size_t i = 0; i < control_nmethods; i++)
		if (strcmp(control_methods[i].name, name) == 0)
			return &control_methods[i];
	return NULL;
}

const char *method_nearest(const char *name)
{
	struct did_you_mean near = did_you_mean_for(name);
	for (size_t i = 0; i < control_nmethods; i++)
		did_you_mean_try(&near, control_methods[i].name);
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
static int take_trace(struct call *c, struct err *e)
{
	static const char none[] = "00000000000000000000000000000000", hex[] = "0123456789abcdef";
	const char *given = call_str(c, "traceparent");
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

static int check(struct call *c, struct err *e)
{
	if (c->caller.role < c->method->role)
		return err_set(e, ERR_NOT_ALLOWED, "%s needs the role %s; this connection has %s", c->method->name,
			       method_role_name(c->method->role), method_role_name(c->caller.role));
	if (!json_is_object(c->params))
		return err_field(e, "params", "expected an object of named parameters");
	if (params_check(c->method->params, c->params, "", e) < 0)
		return -1;
	const char *key = call_str(c, "idempotencyKey");
	if (key && (!*key || strlen(key) > METHOD_KEY_MAX))
		return err_field(e, "idempotencyKey", "expected 1 to %d bytes", METHOD_KEY_MAX);
	return take_trace(c, e) < 0 ? -1 : ownership_check(c, e);
}

void method_run(struct call *c)
{
	struct err e = ERR_INIT;
	if (check(c, &e) < 0) {
		call_fail(c, &e);
		return;
	}
	if (call_str(c, "idempotencyKey") && idempotent_call_begin(c))
		return;
	c->method->handler(c);
}
