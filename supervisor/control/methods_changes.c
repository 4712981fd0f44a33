#include "supervisor/control/methods.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/view/view.h"
#include "supervisor/control/control.h"
#include "supervisor/control/control_private.h"
#include "supervisor/host/cow_changes.h"

#define PATHS_MAX 10000u
#define PATHS_BYTES_MAX (1u << 19)

static int take_paths(const struct call *c, struct buf *out, struct err *e)
{
	json_t *paths = call_obj(c, "paths"), *v;
	char field[32];
	size_t i;

	if (paths && (json_array_size(paths) < 1 || json_array_size(paths) > PATHS_MAX))
		return err_field(e, "paths", "must have 1 to %u elements; leave it out for all", PATHS_MAX);
	json_array_foreach (paths, i, v) {
		const char *path = json_string_value(v);

		(void)snprintf(field, sizeof(field), "paths[%zu]", i);
		if (path[0] != '/' || strstr(path, "/../") || strstr(path, "/./"))
			return err_field(e, field, "must be an absolute path without . and ..");
		buf_append(out, path, strlen(path) + 1);
	}
	if (out->len > PATHS_BYTES_MAX)
		return err_field(e, "paths", "are too long; name folders instead");
	return 0;
}

static void request(struct call *c, enum change_op op)
{
	buf_auto struct buf paths = BUF_INIT;
	struct cow_changes *changes = c->control->o.changes;
	struct err e = ERR_INIT;

	if (!changes)
		err_set(&e, ERR_UNAVAILABLE, "copy-on-write runs are not looked after here");
	else
		(void)take_paths(c, &paths, &e);
	if (e.code) {
		call_fail(c, &e);
		return;
	}
	cow_changes_request(changes, op, call_str(c, "processId"), call_sees_all(c) ? VIEW_ANY_UID : c->caller.uid,
			    buf_cstr(&paths), paths.len, &c->caller, call_engine_reply, c);
}

void method_list_changes(struct call *c) { request(c, call_bool(c, "diffs", false) ? CHANGE_OP_DIFF : CHANGE_OP_LIST); }

void method_apply_changes(struct call *c) { request(c, CHANGE_OP_APPLY); }

void method_revert_autorun(struct call *c) { request(c, CHANGE_OP_REVERT); }

void method_discard_changes(struct call *c) { request(c, CHANGE_OP_DISCARD); }
