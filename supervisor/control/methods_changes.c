#include "supervisor/control/methods.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/view/view.h"
#include "supervisor/control/control.h"
#include "supervisor/control/control_private.h"
#include "supervisor/host/cow_changes.h"

#define PATHS_MAX 10000u
#define PATHS_BYTES_MAX (1u << 19)

static int read_paths(const json_t *paths, struct buf *out, struct err *e)
{
	const json_t *v;
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

static void request_changes(struct call *c, enum change_op op, const char *process_id, const json_t *given)
{
	buf_auto struct buf paths = BUF_INIT;
	struct cow_changes *changes = c->control->o.changes;
	struct err e = ERR_INIT;

	if (!changes)
		err_set(&e, ERR_UNAVAILABLE, "this runtime does not serve copy-on-write runs");
	else
		(void)read_paths(given, &paths, &e);
	if (e.code) {
		call_fail(c, &e);
		return;
	}
	cow_changes_request(changes, op, process_id, call_visible_uid(c), buf_cstr(&paths), paths.len, &c->caller,
			    call_engine_reply, c);
}

void method_list_changes(struct call *c, const struct list_changes_params *p)
{
	request_changes(c, p->diffs.value ? CHANGE_OP_DIFF : CHANGE_OP_LIST, p->processId, p->paths);
}

void method_apply_changes(struct call *c, const struct apply_changes_params *p)
{
	request_changes(c, CHANGE_OP_APPLY, p->processId, p->paths);
}

void method_revert_autorun(struct call *c, const struct revert_autorun_params *p)
{
	request_changes(c, CHANGE_OP_REVERT, p->processId, p->paths);
}

void method_discard_changes(struct call *c, const struct discard_changes_params *p)
{
	request_changes(c, CHANGE_OP_DISCARD, p->processId, p->paths);
}
