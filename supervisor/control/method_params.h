#ifndef BAILIFF_CONTROL_METHOD_PARAMS_H
#define BAILIFF_CONTROL_METHOD_PARAMS_H

/*
 * The parameters of each method as a struct, from methods.def: `struct start_process_params` has a member for every
 * PARAM of METHOD(start_process, …), under the name that it has on the wire. params_parse fills it after the check.
 *
 *   STRING ID ENUM PATH          const char *, NULL = not given
 *   UINT INT NUMBER BOOL         struct param_uint and so on, with `given`; param_uint_or(p->limit, 100)
 *   ARRAY STRINGS ENV OBJECT ANY json_t *, NULL = not given
 *   an object with MEMBERS(x)    struct x_members; its `json` is the object itself, NULL = not given
 *
 * Strings and objects are borrowed from the call's JSON and live as long as the call.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct param_uint {
	bool given;
	uint64_t value;
};
struct param_int {
	bool given;
	int64_t value;
};
struct param_number {
	bool given;
	double value;
};
struct param_bool {
	bool given, value;
};

static inline uint64_t param_uint_or(struct param_uint p, uint64_t otherwise) { return p.given ? p.value : otherwise; }
static inline bool param_bool_or(struct param_bool p, bool otherwise) { return p.given ? p.value : otherwise; }

/* The limit of a page. The views reject more than 1000; a number that does not fit is one more than that. */
static inline unsigned param_page_limit(struct param_uint p, unsigned otherwise)
{
	uint64_t limit = param_uint_or(p, otherwise);

	return limit > 1000 ? 1001 : (unsigned)limit;
}

/* Parameters that every mutating method also takes. They are the first members of its struct. */
struct mutating_params {
	const char *idempotencyKey, *traceparent;
};

#define PARAM_C_STRING(name) const char *name;
#define PARAM_C_ID(name) const char *name;
#define PARAM_C_ENUM(name) const char *name;
#define PARAM_C_PATH(name) const char *name;
#define PARAM_C_UINT(name) struct param_uint name;
#define PARAM_C_INT(name) struct param_int name;
#define PARAM_C_NUMBER(name) struct param_number name;
#define PARAM_C_BOOL(name) struct param_bool name;
#define PARAM_C_OBJECT(name) json_t *name;
#define PARAM_C_ARRAY(name) json_t *name;
#define PARAM_C_STRINGS(name) json_t *name;
#define PARAM_C_ENV(name) json_t *name;
#define PARAM_C_ANY(name) json_t *name;
#define PARAM_C_READING
#define PARAM_C_MUTATING struct mutating_params mutating;
#define PARAM_C_FORWARDED PARAM_C_MUTATING

#define MEMBERS(name)           \
	struct name##_members { \
		json_t *json;
#define METHOD(name, role, kind, flags, summary) \
	struct name##_params {                   \
		PARAM_C_##kind
#define PARAM(name, type, flags, detail, summary) PARAM_C_##type(name)
#define OBJECT(name, members, flags, summary) struct members##_members name;
#define END() \
	}     \
	;
#include "supervisor/control/methods.def"
#undef MEMBERS
#undef METHOD
#undef PARAM
#undef OBJECT
#undef END

/* Large enough for the parameters of any method. */
union method_params {
	struct mutating_params mutating;
#define MEMBERS(name)
#define METHOD(name, role, kind, flags, summary) struct name##_params name;
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

#endif
