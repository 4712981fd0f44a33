#include "supervisor/tool/file_tool.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define REQUEST_MAX (8u << 20) /* bytes of arguments, including a whole file that is to be written */

static const struct {
	const char *name;
	int (*run)(struct jval args, struct jw *w, struct err *e);
} tools[] = {
	{ "read_file", tool_read_file },
	{ "write_file", tool_write_file },
	{ "list_directory", tool_list_directory },
	{ "apply_patch", tool_apply_patch },
	{ "edit_file", tool_edit_file },
	{ "glob", tool_glob },
	{ "grep", tool_grep },
};

/* To the end of input, or with `line` one line. */
static int read_request(bool line, struct buf *ret, struct err *e)
{
	for (;;) {
		char *at = buf_reserve(ret, 65536);
		ssize_t n = read(STDIN_FILENO, at, 65536);

		if (n == 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return err_sys(e, errno, "read the request");
		if (n > 0)
			ret->len += (size_t)n;
		if (line && n > 0 && at[n - 1] == '\n')
			return 0;
		if (ret->len > REQUEST_MAX)
			return err_set(e, ERR_EXHAUSTED, "the request is longer than %u bytes", REQUEST_MAX);
	}
}

int tool_write_out(const struct buf *out) { return fd_write_all(STDOUT_FILENO, out->data, out->len); }

/* Clients decide by the category whether to ask for more access, retry, or change the request. */
static const char *error_category(const struct err *e)
{
	if (e->code == ERR_NOT_FOUND)
		return "not_found";
	if (e->code == ERR_CONFLICT)
		return "conflict";
	if (e->code == ERR_PERMISSION)
		return "permission";
	/* EBUSY: the path is a mount point, which protects it. */
	if (e->code == ERR_SYS && (e->sys == EACCES || e->sys == EPERM || e->sys == EROFS || e->sys == EBUSY))
		return "sandbox";
	if (e->code == ERR_EXHAUSTED ||
	    (e->code == ERR_SYS && (e->sys == ENOSPC || e->sys == EDQUOT || e->sys == EFBIG)))
		return "resource";
	return "tool";
}

int main(int argc, char **argv)
{
	buf_auto struct buf request = BUF_INIT, out = BUF_INIT;
	struct jw w = jw_on(&out);
	const bool mcp = argc > 1 && strcmp(argv[1], "mcp") == 0,
		   editor = argc == 3 && strcmp(argv[2], "--editor") == 0;
	struct err e = ERR_INIT;
	int r = -1;

	if (argc > 1 && strcmp(argv[1], "fs") == 0)
		return tool_fs_main(argc - 2, argv + 2);
	if (argc > 1 && strcmp(argv[1], "inspect") == 0)
		return tool_inspect_main(argc - 2, argv + 2);
	if (argc > 3 && strcmp(argv[1], "mcp-http") == 0)
		return tool_mcp_http_main(argc - 2, argv + 2);
	if (argc == 2 && strcmp(argv[1], "instructions") == 0)
		return tool_instructions_main();
	jw_obj(&w);
	if (editor)
		tool_editor_enable();
	if (argc != 2 && !mcp && !editor)
		err_set(&e, ERR_INVALID, "expected one argument: the tool's name");
	else if (read_request(editor, &request, &e) == 0 && mcp)
		r = tool_mcp(argc - 2, argv + 2, jval_of(buf_cstr(&request), request.len), &w, &e);
	else if (!e.code) {
		err_set(&e, ERR_INVALID, "there is no tool '%.64s'", argv[1]);
		for (size_t i = 0; i < countof(tools); i++)
			if (strcmp(tools[i].name, argv[1]) == 0) {
				e = ERR_INIT;
				r = tools[i].run(jval_of(buf_cstr(&request), request.len), &w, &e);
			}
	}
	if (tool_editor_unsaved())
		jw_kbool(&w, "unsaved", true);
	if (r < 0) {
		mem_auto char *whole = e.field[0] ? mem_printf("%s: %s", e.field, e.message) : NULL;

		jw_kobj(&w, "error");
		jw_kstr(&w, "category", error_category(&e));
		jw_kopt(&w, "reason", err_reason_name(e.reason));
		jw_kstr(&w, "message", whole ? whole : e.message);
		jw_kopt(&w, "field", e.field[0] ? e.field : NULL);
		jw_obj_end(&w);
	}
	jw_obj_end(&w);
	buf_byte(&out, '\n');
	return tool_write_out(&out) < 0 || r < 0;
}
