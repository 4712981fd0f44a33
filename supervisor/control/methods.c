/*
 * The method table: methods.def expanded to the parameter lists, then to a row for each method. It sits above the
 * handlers; control gets it in its options, so that nothing below depends on every method.
 */

#include "supervisor/control/methods.h"

#include "runtime/base/mem.h"
#include "runtime/engine/work/work.h"

#include <stddef.h>

/* ---- parameters ---- */

#define MUTATING_PARAM(name, summary) \
	{ #name, PARAM_STRING, 0, NULL, NULL, summary, offsetof(struct mutating_params, name) },
#define KEY_READING
#define KEY_MUTATING                                                                                    \
	MUTATING_PARAM(idempotencyKey, "a repeated request with the same key returns the first result") \
	MUTATING_PARAM(                                                                                 \
		traceparent,                                                                            \
		"the caller's W3C trace context: its trace id goes into the events, its span id into the first")
#define KEY_FORWARDED KEY_MUTATING

/* `here` is the struct whose members the rows describe; functions, because a typedef needs its own scope. */
#define MEMBERS(name)                                      \
	static const struct param *members_of_##name(void) \
	{                                                  \
		typedef struct name##_members here;        \
		static const struct param rows[] = {
#define METHOD(name, role, kind, flags, summary)          \
	static const struct param *params_of_##name(void) \
	{                                                 \
		typedef struct name##_params here;        \
		static const struct param rows[] = { KEY_##kind
#define PARAM(name, type, flags, detail, summary) \
	{ #name, PARAM_##type, flags, detail, NULL, summary, offsetof(here, name) },
#define OBJECT(name, members, flags, summary) \
	{ #name, PARAM_OBJECT, flags, NULL, members_of_##members, summary, offsetof(here, name) },
#define END()                \
	{                    \
		.name = NULL \
	}                    \
	}                    \
	;                    \
	(void)sizeof(here);  \
	return rows;         \
	}
#include "supervisor/control/methods.def"
#undef MEMBERS
#undef METHOD
#undef PARAM
#undef OBJECT
#undef END

/* ---- handlers ---- */

/* `params` is the method's struct, which the table cannot name. */
#define RUN_READING(name)                                                                         \
	static int run_##name(struct call *c, const void *params, struct buf *out, struct err *e) \
	{                                                                                         \
		return method_##name(c, params, out, e);                                          \
	}
#define RUN_MUTATING(name) RUN_READING(name)
/* The engine reads the JSON itself: it stores requests of tasks and jobs and runs them again later. */
#define RUN_FORWARDED(name)                                                                       \
	static int run_##name(struct call *c, const void *params, struct buf *out, struct err *e) \
	{                                                                                         \
		engine_##name(call_engine(c), c->params, &c->caller, call_engine_reply, c);       \
		return CALL_PENDING;                                                              \
	}

#define MEMBERS(name)
#define PARAM(name, type, flags, detail, summary)
#define OBJECT(name, members, flags, summary)
#define END()
#define METHOD(name, role, kind, flags, summary) RUN_##kind(name)
#include "supervisor/control/methods.def"
#undef METHOD

enum method_kind { READING, MUTATING, FORWARDED };

static const struct method rows[] = {
#define METHOD(name, role, kind, flags, summary) \
	{ #name, ROLE_##role, (kind) != READING, flags, run_##name, params_of_##name, summary },
#include "supervisor/control/methods.def"
};
const struct method_table control_methods = { rows, countof(rows) };
