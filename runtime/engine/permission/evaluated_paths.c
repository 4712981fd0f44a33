#include "runtime/engine/permission/evaluated_paths.h"

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

static void add_path(struct evaluated_paths *p, const char *named, const char *cwd, unsigned access)
{
	const bool absolute = named[0] == '/';
	mem_auto char *whole = absolute ? mem_strdup(named) : mem_printf("%s/%s", cwd, named);
	char clean[PATH_MAX];
	struct err e = ERR_INIT;
	bool exact = path_clean(whole, clean, &e) == 0 && (absolute || cwd[0]);

	p->text[p->count] = mem_strdup(exact ? clean : whole);
	p->path[p->count] = (struct command_path){
		.path = p->text[p->count], .word = named, .exact = exact, .access = access
	};
	p->count++;
}

static void reserve_paths(struct evaluated_paths *p, size_t n)
{
	p->path = mem_zalloc(n + 1, sizeof *p->path);
	p->text = mem_zalloc(n + 1, sizeof *p->text);
}

void evaluated_paths_of_start(const struct start_request *r, const char *cwd, struct evaluated_paths *ret)
{
	reserve_paths(ret, r->ntool_paths);
	for (size_t i = 0; i < r->ntool_paths; i++) {
		unsigned access = operation_access(r, i);
		add_path(ret, r->tool_paths[i], cwd, access ? access : tool_access(r->tool));
	}
}

void evaluated_paths_of_call(const char *tool, const struct tool_paths *named, const char *cwd,
			     struct evaluated_paths *ret)
{
	reserve_paths(ret, named->count);
	for (size_t i = 0; i < named->count; i++)
		add_path(ret, named->path[i], cwd, tool_access(tool));
}

void evaluated_paths_done(struct evaluated_paths *p)
{
	for (size_t i = 0; i < p->count; i++)
		free(p->text[i]);
	free(p->text);
	free(p->path);
}
