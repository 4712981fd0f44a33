#include "supervisor/control/sandbox_request.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "supervisor/control/control.h"
#include "supervisor/control/methods.h"

#include <limits.h>
#include <string.h>

static int take_paths(const json_t *sandbox, const char *key, const char ***ret, size_t *ret_n, struct err *e)
{
	const json_t *list = json_object_get(sandbox, key);
	size_t n = json_array_size(list);
	char field[ERR_FIELD_MAX];

	if (n > PLAN_MOUNTS_MAX) {
		snprintf(field, sizeof field, "sandbox.%s", key);
		return err_field(e, field, "must have at most %u paths", PLAN_MOUNTS_MAX);
	}
	*ret = mem_zalloc(n + 1, sizeof **ret);
	*ret_n = n;
	for (size_t i = 0; i < n; i++) {
		const char *path = json_string_value(json_array_get(list, i));

		if ((path[0] != '/' && path[0] != '~') || strlen(path) >= PATH_MAX) {
			snprintf(field, sizeof field, "sandbox.%s[%zu]", key, i);
			return err_field(e, field, "expected an absolute path, or one that starts with ~/");
		}
		(*ret)[i] = path;
	}
	return 0;
}

static int take_number(const json_t *object, const char *group, const char *key, uint64_t *ret, struct err *e)
{
	const json_t *v = json_object_get(object, key);
	char field[ERR_FIELD_MAX];

	if (v && json_integer_value(v) < 1) {
		snprintf(field, sizeof field, "%s.%s", group, key);
		return err_field(e, field, "must be 1 or more");
	}
	*ret = v ? (uint64_t)json_integer_value(v) : 0;
	return 0;
}

int sandbox_request_of(const struct call *c, struct sandbox_texts *t, struct sandbox_request *ret, struct err *e)
{
	const json_t *sandbox = call_obj(c, "sandbox"), *limits = call_obj(c, "limits");
	struct sandbox_request r = {
		.profile = call_str(c, "profile"),
		.cwd = call_str(c, "cwd"),
		.workspace = json_string_value(json_object_get(sandbox, "workspace")),
		.change = { .network = json_string_value(json_object_get(sandbox, "network")), .cow = call_bool(c, "cow", false) },
	};

	if (take_paths(sandbox, "readRoots", &t->read, &r.change.nread, e) < 0 ||
	    take_paths(sandbox, "writeRoots", &t->write, &r.change.nwrite, e) < 0 ||
	    take_paths(sandbox, "hidden", &t->hide, &r.change.nhide, e) < 0 ||
	    take_number(sandbox, "sandbox", "tmpBytes", &r.change.tmp_bytes, e) < 0 ||
	    take_number(limits, "limits", "memoryBytes", &r.change.memory_bytes, e) < 0 ||
	    take_number(limits, "limits", "pids", &r.change.pids, e) < 0)
		return -1;
	r.change.read = t->read;
	r.change.write = t->write;
	r.change.hide = t->hide;
	*ret = r;
	return 0;
}

void sandbox_texts_done(struct sandbox_texts *t)
{
	free(t->read);
	free(t->write);
	free(t->hide);
}

void method_get_sandbox(struct call *c)
{
	__attribute__((cleanup(sandbox_texts_done))) struct sandbox_texts t = { 0 };
	buf_auto struct buf out = BUF_INIT;
	struct sandbox_request r;
	struct err e = ERR_INIT;

	if (sandbox_request_of(c, &t, &r, &e) == 0 && engine_show_sandbox(call_engine(c), &r, &c->caller, &out, &e) == 0)
		call_reply(c, out.data, out.len);
	else
		call_fail(c, &e);
}
