#include "supervisor/control/ownership.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/view/view_channel.h"
#include "runtime/view/view_documents.h"
#include "runtime/view/view_evidence.h"
#include "runtime/view/view_job.h"
#include "runtime/view/view_subagent.h"
#include "runtime/view/view_task.h"
#include "supervisor/control/control.h"

#include <stdio.h>
#include <string.h>

static const struct owned {
	const char *name;
	const struct view_schema *shape; /* NULL: see `any` */
	bool any;
} rows[] = {
#define OWNED(name, shape) { #name, &shape, false },
#define OWNED_ANY(name) { #name, NULL, true },
#define NOT_OWNED(name) { #name, NULL, false },
#include "supervisor/control/owned_ids.def"
#undef OWNED
#undef OWNED_ANY
#undef NOT_OWNED
};

static const struct owned *find_row(const char *name)
{
	for (size_t i = 0; i < countof(rows); i++)
		if (strcmp(rows[i].name, name) == 0)
			return &rows[i];
	return NULL;
}

bool ownership_knows(const char *name) { return find_row(name) != NULL; }

bool ownership_exists(const struct call *c, const char *name, const char *id)
{
	const struct owned *o = find_row(name);
	struct err e = ERR_INIT;
	uint32_t uid;

	return o && o->shape && view_owner(call_store(c), o->shape, id, &uid, &e) <= 0;
}

/* 1: it belongs to another uid; 0: it does not, or does not exist; −1: the lookup failed. */
static int is_foreign(const struct call *c, const struct view_schema *shape, const char *id, struct err *e)
{
	uint32_t uid;
	int r = view_owner(call_store(c), shape, id, &uid, e);

	return r < 0 ? -1 : r == 0 && !call_sees(c, uid);
}

/* Equal shapes are in adjacent rows: each one is looked up once. */
static int is_foreign_of_any(const struct call *c, const char *id, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < countof(rows) && r == 0; i++)
		if (rows[i].shape && (!i || rows[i].shape != rows[i - 1].shape))
			r = is_foreign(c, rows[i].shape, id, e);
	return r;
}

/* A foreign id is "not known", so that ids of other users cannot be probed; only where the id would be created,
 * "taken". */
static int check_id(const struct call *c, const struct owned *o, const char *field, const char *id, bool makes,
		    struct err *e)
{
	int r = !id || strlen(id) >= ID_SIZE ? 0
		: o->any                     ? is_foreign_of_any(c, id, e)
		: o->shape                   ? is_foreign(c, o->shape, id, e)
					     : 0;

	if (r <= 0)
		return r;
	return makes ? err_at(e, ERR_CONFLICT, field, "%s '%.80s' is taken", field, id) : err_not_known(e, field, id);
}

/* The value of a parameter: one id or several. */
static int check_value(const struct call *c, const struct owned *o, const char *field, const json_t *v, bool makes,
		       struct err *e)
{
	const json_t *item;
	size_t i;

	if (json_is_string(v))
		return check_id(c, o, field, json_string_value(v), makes, e);
	json_array_foreach (v, i, item)
		if (json_is_string(item) && check_id(c, o, field, json_string_value(item), makes, e) < 0)
			return -1;
	return 0;
}

/* Objects in a list: emitted events, outputs with their refs. */
static int check_elements(const struct call *c, const char *list_field, const json_t *list, struct err *e)
{
	const char *key;
	json_t *item, *v;
	size_t i;

	json_array_foreach (list, i, item)
		json_object_foreach (item, key, v) {
			const struct owned *o = find_row(key);
			mem_auto char *field = o ? mem_printf("%s[%zu].%s", list_field, i, key) : NULL;

			if (o && check_value(c, o, field, v, false, e) < 0)
				return -1;
		}
	return 0;
}

/* Recurses into declared members: the depth is that of the table, not of the request. */
static int check_object(const struct call *c, const struct param *params, const json_t *given, const char *prefix,
			struct err *e)
{
	for (const struct param *p = params; p->name; p++) {
		const json_t *v = json_object_get(given, p->name);
		const struct owned *o = v ? find_row(p->name) : NULL;
		mem_auto char *field = v ? mem_printf("%s%s", prefix, p->name) : NULL,
			      *inner = v && p->members ? mem_printf("%s.", field) : NULL;

		if (o && check_value(c, o, field, v, p->flags & PARAM_MAKES, e) < 0)
			return -1;
		if (v && p->type == PARAM_ARRAY && check_elements(c, field, v, e) < 0)
			return -1;
		if (inner && check_object(c, p->members(), v, inner, e) < 0)
			return -1;
	}
	return 0;
}

int ownership_check(const struct call *c, struct err *e)
{
	return call_sees_all(c) ? 0 : check_object(c, c->method->params(), c->params, "", e);
}
