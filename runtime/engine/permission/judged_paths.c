#include "runtime/engine/permission/judged_paths.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "runtime/engine/core/engine.h"
#include "runtime/engine/tool/tool.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* How a gateway's file operation (start_spec.c) accesses the path at this index; 0 = the argument is not a path. */
static unsigned operation_access(const struct start_request *r, size_t i)
{
	const char *name = r->argc >= 5 && strcmp(r->argv[1], "fs") == 0 ? r->argv[2] : "";
	bool tree = name[0] && strchr(r->argv[3], 'r');

	if (strcmp(name, "copy") == 0)
		return (i == 0 ? COMMAND_READS : COMMAND_WRITES) | (tree ? COMMAND_RECURSES : 0);
	return strcmp(name, "remove") == 0 ? COMMAND_WRITES | COMMAND_DELETES | (tree ? COMMAND_RECURSES : 0) : 0;
}

void judged_paths_make(const struct start_request *r, const char *cwd, struct judged_paths *ret)
{
	char clean[PATH_MAX];
	struct err e = ERR_INIT;

	ret->path = mem_zalloc(r->ntool_paths + 1, sizeof *ret->path);
	ret->text = mem_zalloc(r->ntool_paths + 1, sizeof *ret->text);
	for (size_t i = 0; i < r->ntool_paths; i++) {
		mem_auto char *whole = r->tool_paths[i][0] == '/' ? mem_strdup(r->tool_paths[i])
								  : mem_printf("%s/%s", cwd, r->tool_paths[i]);
		bool exact = path_clean(whole, clean, &e) == 0;
		unsigned access = operation_access(r, i);

		ret->text[ret->count] = mem_strdup(exact ? clean : whole);
		ret->path[ret->count] = (struct command_path){ .path = ret->text[ret->count],
							       .word = r->tool_paths[i],
							       .exact = exact,
							       .access = access ? access : tool_access(r->tool) };
		ret->count++;
	}
}

void judged_paths_done(struct judged_paths *p)
{
	for (size_t i = 0; i < p->count; i++)
		free(p->text[i]);
	free(p->text);
	free(p->path);
}
