#include "supervisor/cli/setup.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEPT_SUFFIX ".before-bailiff"

/* ---- JSON ---- */

static json_t *server_of(enum setup_form form, const struct setup_entry *entry)
{
	json_t *server = json_object(), *args = json_pack("[s]", "mcp");

	if (form == SETUP_VSCODE_SERVERS)
		json_object_set_new(server, "type", json_string("stdio"));
	json_object_set_new(server, "command", json_string(entry->program));
	json_object_set_new(server, "args", args);
	if (entry->home)
		json_object_set_new(server, "env", json_pack("{s:s}", "BAILIFF_HOME", entry->home));
	return server;
}

/* As deep as the file's own first indented line; 2 where there is none. */
static size_t indent_of(const char *present)
{
	const char *line = present ? strchr(present, '\n') : NULL;
	size_t n = line ? strspn(line + 1, " ") : 0;

	return n >= 1 && n <= 8 ? n : 2;
}

static bool is_blank(const char *text)
{
	return !text || text[strspn(text, " \t\r\n")] == '\0';
}

static int merge_json(enum setup_form form, const char *present, const struct setup_entry *entry, struct buf *ret, struct err *e)
{
	const char *member = form == SETUP_VSCODE_SERVERS ? "servers" : "mcpServers";
	json_error_t where;
	json_auto_t *root = is_blank(present) ? json_object() : json_loads(present, JSON_REJECT_DUPLICATES, &where);

	if (!root)
		return err_set(e, ERR_INVALID, "line %d, column %d: %s", where.line, where.column, where.text);
	if (!json_is_object(root))
		return err_set(e, ERR_INVALID, "line 1, column 1: it is not an object");
	json_t *servers = json_object_get(root, member);
	if (servers && !json_is_object(servers))
		return err_set(e, ERR_INVALID, "\"%s\" is not an object", member);
	if (!servers) {
		servers = json_object();
		json_object_set_new(root, member, servers);
	}
	json_t *had = json_object_get(servers, "bailiff");
	json_auto_t *server = server_of(form, entry);
	if (had && json_equal(had, server)) {
		buf_str(ret, present); /* not a byte changes */
		return 0;
	}
	json_object_set(servers, "bailiff", server);
	char *text = json_dumps(root, JSON_INDENT(indent_of(present)));
	buf_str(ret, text);
	buf_str(ret, "\n");
	free(text);
	return 0;
}

int setup_merge(enum setup_form form, const char *present, const struct setup_entry *entry, struct buf *ret, struct err *e)
{
	if (form == SETUP_CODEX_ENVIRONMENTS)
		return setup_merge_toml(present, entry, ret, e);
	return merge_json(form, present, entry, ret, e);
}

/* ---- the file ---- */

static int make_folders(const char *path, struct err *e)
{
	mem_auto char *copy = mem_strdup(path);

	for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(copy, 0755) < 0 && errno != EEXIST)
			return err_sys(e, errno, "make the folder '%s'", copy);
		*slash = '/';
	}
	return 0;
}

/* The first time only: a second set-up must not bury what was there before the first. */
static int keep_old(const char *path, bool *ret_kept, struct err *e)
{
	mem_auto char *kept = mem_printf("%s" KEPT_SUFFIX, path);
	struct stat st;

	if (stat(path, &st) < 0 || lstat(kept, &st) == 0)
		return 0;
	if (link(path, kept) < 0)
		return err_sys(e, errno, "keep what was there as '%s'", kept);
	*ret_kept = true;
	return 0;
}

int setup_write(const char *path, const struct buf *text, bool *ret_kept_old, struct err *e)
{
	char real[PATH_MAX];
	struct stat st;

	*ret_kept_old = false;
	if (!realpath(path, real)) {
		if (errno != ENOENT)
			return err_sys(e, errno, "find '%s'", path);
		snprintf(real, sizeof(real), "%s", path);
		if (make_folders(real, e) < 0)
			return -1;
	}
	mode_t mode = stat(real, &st) == 0 ? st.st_mode & 0777 : 0644;
	if (keep_old(real, ret_kept_old, e) < 0)
		return -1;
	mem_auto char *fresh = mem_printf("%s.XXXXXX", real);
	fd_auto int fd = mkostemp(fresh, O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, errno, "make a file beside '%s'", real);
	if (fchmod(fd, mode) < 0 || fd_write_all(fd, text->data, text->len) < 0 || fsync(fd) < 0 || rename(fresh, real) < 0) {
		err_sys(e, errno, "write '%s'", real);
		unlink(fresh);
		return -1;
	}
	return 0;
}
