/*
 * Purely textual: no file is touched and no symbolic link is resolved.
 */

#include "runtime/base/path.h"

#include "runtime/base/err.h"

#include <errno.h>
#include <string.h>

bool path_up(char path[PATH_MAX])
{
	char *slash = strrchr(path, '/');

	if (!slash || !path[1])
		return false;
	slash[slash == path] = '\0';
	return true;
}

/* ".." at the root stays at the root, as in the kernel. */
int path_clean(const char *path, char ret[PATH_MAX], struct err *e)
{
	char out[PATH_MAX] = "/";
	size_t len = 1;

	if (path[0] != '/')
		return err_set(e, ERR_INVALID, "'%.200s' is not an absolute path", path);
	for (const char *p = path; *p;) {
		size_t n = strcspn(p, "/");
		bool parent = n == 2 && p[0] == '.' && p[1] == '.';

		if (parent) {
			path_up(out);
			len = strlen(out);
		} else if (n && !(n == 1 && p[0] == '.')) {
			if (len + 1 + n >= sizeof out)
				return err_set(e, ERR_INVALID, "'%.200s…' is longer than %d bytes", path, PATH_MAX);
			if (len > 1)
				out[len++] = '/';
			memcpy(out + len, p, n);
			len += n;
			out[len] = '\0';
		}
		p += n + (p[n] == '/');
	}
	memcpy(ret, out, len + 1);
	return 0;
}

/* A directory of one byte is "/", which contains everything. */
bool path_within(const char *dir, const char *path)
{
	size_t n = strlen(dir);

	if (n == 1)
		return true;
	return strncmp(dir, path, n) == 0 && (path[n] == '/' || !path[n]);
}

/* Orders by component and not by byte, so that a directory is directly followed by its content. */
int path_compare(const char *a, const char *b)
{
	for (; *a && *a == *b; a++, b++)
		continue;
	/* '/' sorts before every other character, so that "/a/b" comes before "/a-b". */
	int x = *a == '/' ? 1 : (unsigned char)*a, y = *b == '/' ? 1 : (unsigned char)*b;
	return x - y;
}

int path_step(const char **at, char name[NAME_MAX + 1])
{
	const char *p = *at + 1;
	size_t n = strcspn(p, "/");

	if (n > NAME_MAX) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(name, p, n);
	name[n] = '\0';
	*at = p + n;
	return 0;
}
