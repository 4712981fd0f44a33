/*
 * The method table: methods.def expanded to the parameter lists, then to a row for each method. It sits above the
 * handlers; control gets it in its options, so that nothing below depends on every method.
 */

#include "supervisor/control/methods.h"

#include "runtime/base/mem.h"
#include "supervisor/control/control.h"
#include "supervisor/control/method_params.h"

#include <stddef.h>

#define KEY_READING
#define KEY_MUTATING                                                                                               \
	{ "idempotencyKey",                                                                                        \
	  PARAM_STRING,                                                                                            \
	  0,                                                                                                       \
	  NULL,                                                                                                    \
	  NULL,                                                                                                    \
	  "a request repeated with the same key gives the first one's result",                                     \
	  offsetof(struct mutating_params, idempotencyKey) },                                                      \
		{ "traceparent",                                                                                   \
		  PARAM_STRING,                                                                                    \
		  0,                                                                                               \
		  NULL,                                                                                            \
		  NULL,                                                                                            \
		  "the caller's W3C trace context: its trace id goes into the events, its span id into the first", \
		  offsetof(struct mutating_params, traceparent) },

/* `here` is the struct whose members the rows describe; functions, because a typedef needs a scope of its own. */
#define MEMBERS(name)                                      \
	static const struct param *members_of_##name(void) \
	{                                                  \
		typedef struct name##_members here;        \
		static const struct param rows[] = {
#define METHOD(name, role, kind, summary)                 \
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

#define MEMBERS(name)
#define PARAM(name, type, flags, detail, summary)
#define OBJECT(name, members, flags, summary)
#define END()
#define METHOD(name, role, kind, summary) \
	static void run_##name(struct call *c, const void *params) { method_##name(c, params); }
#include "supervisor/control/methods.def"
#undef METHOD

enum method_kind { READING, MUTATING };

static const struct method rows[] = {
#define METHOD(name, role, kind, summary) \
	{ #name, ROLE_##role, (kind) == MUTATING, run_##name, params_of_##name, summary },
#include "supervisor/control/methods.def"
};
const struct method_table control_methods = { rows, countof(rows) };
