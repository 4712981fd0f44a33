#include "policy/file_name.h"

#include "policy/args.h"
#include "policy/shell/arena.h"

#include <ctype.h>
#include <string.h>

bool file_name_is_usual(const char *name)
{
	const char *dot = strrchr(name, '.');

	if (strcmp(name, ".env") == 0 || strcmp(name, ".env*") == 0 || strncmp(name, ".env.", 5) == 0)
		return true;
	return dot && dot > name && isalpha((unsigned char)dot[1]) && !strpbrk(dot, "*?[") &&
	       !args_named(dot + 1, "d|git|old|bak|orig|backup|tmp|cache|app|bundle|framework");
}

const char *file_name_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

const char *file_name_of_pattern(const char *pattern, struct shell_arena *arena)
{
	const char *name = file_name_of(pattern), *end = name + strlen(name);

	if (!strpbrk(name, "*?[\\"))
		return name;
	while (end > name && !strchr("*?[]\\", end[-1]))
		end--;
	const size_t n = strlen(end);
	char *glob = shell_arena_alloc(arena, n + 2);
	*glob = '*';
	memcpy(glob + 1, end, n + 1);
	return glob;
}
