#include "supervisor/tool/file_tool.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENTRIES_DEFAULT 1000u /* of a listing without a limit */
#define ENTRIES_MAX 10000u    /* of a listing, and names that are read of one directory */
#define DEPTH_MAX 8u

/* Fails with errno; a missing file has its own category, which clients distinguish. */
static int fail_on(struct err *e, const char *what, const char *path)
{
	int error = errno;

	if (tool_links_explain(e, path) < 0)
		return -1;
	if (error == ENOENT)
		return err_set(e, ERR_NOT_FOUND, "%s '%.200s': no such file or directory", what, path);
	return err_sys(e, error, "%s '%.200s'", what, path);
}

bool tool_file_exists(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0;
}

/* ---- reading ---- */

/* NUL is valid UTF-8, but programs that read text do not expect it. */
static bool is_text(const char *s, size_t n) { return text_utf8_valid(s, n) && !memchr(s, '\0', n); }

int tool_file_load(const char *path, struct buf *ret, struct err *e)
{
	/* O_NONBLOCK: opening a FIFO must not block. It is rejected below, because it is not a regular file. */
	int fd = tool_links_open(AT_FDCWD, path, O_RDONLY | O_NONBLOCK, 0);
	struct stat st;
	int r = 0;

	if (fd < 0)
		return fail_on(e, "read", path);
	if (fstat(fd, &st) < 0)
		r = fail_on(e, "read", path);
	else if (S_ISDIR(st.st_mode))
		r = err_because(e, ERR_INVALID, REASON_IS_DIRECTORY, "'%.200s' is a directory", path);
	else if (!S_ISREG(st.st_mode))
		r = err_set(e, ERR_INVALID, "'%.200s' is not a regular file", path);
	for (ssize_t n = 1; r == 0 && n > 0;) {
		char *at = buf_reserve(ret, 65536);

		n = read(fd, at, 65536);
		if (n < 0)
			r = fail_on(e, "read", path);
		else
			ret->len += (size_t)n;
		if (ret->len > TOOL_FILE_MAX)
			r = err_because(e, ERR_EXHAUSTED, REASON_FILE_TOO_LARGE, "'%.200s' is larger than %u bytes",
					path, TOOL_FILE_MAX);
	}
	if (r == 0 && is_text(buf_cstr(ret), ret->len))
		tool_editor_replace(fd, &st, ret);
	close(fd);
	return r;
}

/* Selects the lines [from, from + count) of a text; *ret_more: there are more. */
static void pick_lines(const struct buf *text, uint64_t from, uint64_t count, size_t *ret_at, size_t *ret_len,
		       bool *ret_more)
{
	const char *p = buf_cstr(text), *end = p + text->len, *start;

	for (; from && p < end; from--) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));

		p = nl ? nl + 1 : end;
	}
	for (start = p; count && p < end; count--) {
		const char *nl = memchr(p, '\n', (size_t)(end - p));

		p = nl ? nl + 1 : end;
	}
	*ret_at = (size_t)(start - buf_cstr(text));
	*ret_len = (size_t)(p - start);
	*ret_more = p < end;
}

int tool_read_file(struct jval args, struct jw *w, struct err *e)
{
	mem_auto char *path = jval_strdup(jval_get(args, "path"));
	buf_auto struct buf text = BUF_INIT;
	size_t at, len, lines = 0;
	bool more;

	if (!path || !*path)
		return err_field(e, "path", "missing");
	if (tool_file_load(path, &text, e) < 0)
		return -1;
	pick_lines(&text, jval_uint(jval_get(args, "offset"), 0), jval_uint(jval_get(args, "limit"), UINT64_MAX), &at,
		   &len, &more);
	if (len > TOOL_SHOWN_MAX) {
		len = text_utf8_cut(buf_cstr(&text) + at, TOOL_SHOWN_MAX);
		more = true;
	}
	bool base64 = jval_is_str(jval_get(args, "encoding"), "base64") || !is_text(buf_cstr(&text) + at, len);
	for (size_t i = 0; i < text.len; i++)
		lines += text.data[i] == '\n';
	lines += text.len && text.data[text.len - 1] != '\n';
	jw_kstr(w, "path", path);
	jw_kuint(w, "bytes", text.len);
	jw_kuint(w, "lines", lines);
	jw_kbool(w, "truncated", more);
	jw_kstr(w, "encoding", base64 ? "base64" : "utf8");
	jw_key(w, "content");
	if (base64)
		jw_base64(w, buf_cstr(&text) + at, len);
	else
		jw_strn(w, buf_cstr(&text) + at, len);
	return 0;
}

/* ---- writing ---- */

/* Directories of the path, not its last component. Each is created in the one before, which was opened. */
static int make_folders(const char *path, struct err *e)
{
	fd_auto int at = open(*path == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char part[PATH_MAX];

	if (snprintf(part, sizeof(part), "%s", path) >= (int)sizeof(part))
		return err_set(e, ERR_INVALID, "the path is too long");
	for (char *name = part + strspn(part, "/"), *p; (p = strchr(name, '/')); name = p + strspn(p, "/")) {
		*p = '\0';
		if (mkdirat(at, name, 0777) < 0 && errno != EEXIST)
			return fail_on(e, "create the directory", part);
		const int next = tool_links_open(at, name, O_PATH | O_DIRECTORY, 0);
		if (next < 0)
			return fail_on(e, "create the directory", part);
		fd_close(&at);
		at = next;
		*p = '/';
	}
	return 0;
}

/* The path that a write changes, with links resolved. */
static int final_path(const char *path, char ret[PATH_MAX], struct err *e)
{
	struct stat st;

	if (!tool_links_refused() && lstat(path, &st) == 0 && S_ISLNK(st.st_mode)) {
		if (!realpath(path, ret))
			return fail_on(e, "follow the link", path);
		return 0;
	}
	if (snprintf(ret, PATH_MAX, "%s", path) >= PATH_MAX)
		return err_set(e, ERR_INVALID, "the path is too long");
	return 0;
}

/*
 * A reader sees the old content or the new, never a part; a crash leaves one of the two and possibly the temporary
 * file. What a new file cannot preserve is lost: other hard links keep the old content, and ACLs and extended
 * attributes are not copied. The directory is not synced: after a power failure the old content may be back.
 */
int tool_file_store(const char *path, const void *p, size_t n, unsigned flags, mode_t mode, struct err *e)
{
	char target[PATH_MAX], temp[PATH_MAX + 32];
	const char *name;
	bool must_be_new = flags & TOOL_STORE_NEW;
	uint64_t bits;
	struct stat st;
	int fd;

	if ((flags & TOOL_STORE_FOLDERS && make_folders(path, e) < 0) || final_path(path, target, e) < 0)
		return -1;
	fd_auto int folder = tool_links_folder(target, &name);
	if (folder < 0)
		return fail_on(e, "write", path);
	if (!*name)
		return err_set(e, ERR_INVALID, "'%.200s' is not a regular file", path);
	if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		if (must_be_new)
			return err_set(e, ERR_CONFLICT, "'%.200s' already exists", path);
		if (S_ISLNK(st.st_mode) && tool_links_check(path, false, e) < 0)
			return -1;
		if (!S_ISREG(st.st_mode))
			return err_set(e, ERR_INVALID, "'%.200s' is not a regular file", path);
		mode = st.st_mode & 07777;
	}
	/*
	 * In the same directory, so that rename and link do not cross file systems. A random name, because every
	 * sandbox has its own process ids: a file left by a killed tool, or a concurrent write, must not block this
	 * one.
	 */
	if (getrandom(&bits, sizeof(bits), 0) != (ssize_t)sizeof(bits))
		return fail_on(e, "write", path);
	(void)snprintf(temp, sizeof(temp), "%s.bailiff-%016llx", name, (unsigned long long)bits);
	fd = openat(folder, temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		return fail_on(e, "write", path);
	int failed = fd_write_all(fd, p, n) < 0 || fsync(fd) < 0 || (mode && fchmod(fd, mode) < 0);
	int error = errno;
	close(fd);
	/* link fails if the target exists: unlike rename it cannot overwrite a file that was created meanwhile. */
	if (!failed &&
	    (must_be_new ? linkat(folder, temp, folder, name, 0) : renameat(folder, temp, folder, name)) < 0) {
		failed = 1;
		error = errno;
	}
	if (failed || must_be_new)
		unlinkat(folder, temp, 0);
	errno = error;
	return failed ? fail_on(e, "write", path) : 0;
}

int tool_file_remove(const char *path, struct err *e)
{
	const char *name;
	fd_auto int folder = tool_links_folder(path, &name);

	return folder < 0 || unlinkat(folder, name, 0) < 0 ? fail_on(e, "remove", path) : 0;
}

int tool_write_file(struct jval args, struct jw *w, struct err *e)
{
	mem_auto char *path = jval_strdup(jval_get(args, "path"));
	buf_auto struct buf given = BUF_INIT, bytes = BUF_INIT;
	struct stat st;

	if (!path || !*path)
		return err_field(e, "path", "missing");
	bool existed = stat(path, &st) == 0;
	jval_str_buf(jval_get(args, "content"), &given);
	if (jval_is_str(jval_get(args, "encoding"), "base64")) {
		if (text_base64_decode(buf_cstr(&given), given.len, &bytes) < 0)
			return err_field(e, "content", "is not base64");
	} else {
		buf_append(&bytes, buf_cstr(&given), given.len);
	}
	unsigned flags = (jval_bool(jval_get(args, "createFolders"), false) ? TOOL_STORE_FOLDERS : 0) |
			 (jval_bool(jval_get(args, "mustNotExist"), false) ? TOOL_STORE_NEW : 0);
	if (tool_file_store(path, buf_cstr(&bytes), bytes.len, flags, 0, e) < 0)
		return -1;
	jw_karr(w, "files");
	jw_obj(w);
	jw_kstr(w, "path", path);
	jw_kstr(w, "change", existed ? "modified" : "created");
	jw_kuint(w, "bytes", bytes.len);
	if (existed)
		jw_kuint(w, "oldBytes", (uint64_t)st.st_size);
	jw_obj_end(w);
	jw_arr_end(w);
	return 0;
}

/* ---- listing ---- */

struct folder_listing {
	struct jw *w;
	size_t left;
	bool more;
};

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* The names in a directory, sorted; NULL-terminated. */
static char **read_names(int fd, size_t most, bool *ret_more)
{
	DIR *dir = fdopendir(fd);
	char **names = mem_zalloc(most + 1, sizeof(*names));
	size_t n = 0;

	for (struct dirent *d; dir && (d = readdir(dir));) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		if (n == most) {
			*ret_more = true;
			break;
		}
		names[n++] = mem_strdup(d->d_name);
	}
	if (dir)
		closedir(dir);
	qsort(names, n, sizeof(*names), by_name);
	return names;
}

/* Links are listed and not followed, so the recursion ends. Entries that vanish meanwhile are left out. */
static int list_directory(struct folder_listing *l, const char *path, const char *shown, unsigned depth, struct err *e)
{
	int fd = tool_links_open(AT_FDCWD, path, O_RDONLY | O_DIRECTORY, 0);

	if (fd < 0)
		return fail_on(e, "list", path);
	char **names = read_names(fd, ENTRIES_MAX, &l->more);
	for (size_t i = 0; names[i]; i++) {
		mem_auto char *full = mem_printf("%s/%s", path, names[i]);
		mem_auto char *name = *shown ? mem_printf("%s/%s", shown, names[i]) : mem_strdup(names[i]);
		struct stat st;

		if (!l->left)
			l->more = true;
		else if (lstat(full, &st) == 0) {
			l->left--;
			jw_obj(l->w);
			jw_kstr(l->w, "name", name);
			jw_kstr(l->w, "type",
				S_ISDIR(st.st_mode)   ? "directory"
				: S_ISREG(st.st_mode) ? "file"
				: S_ISLNK(st.st_mode) ? "link"
						      : "other");
			if (S_ISREG(st.st_mode))
				jw_kuint(l->w, "bytes", (uint64_t)st.st_size);
			jw_obj_end(l->w);
			if (S_ISDIR(st.st_mode) && depth > 1) {
				struct err ignored = ERR_INIT;

				(void)list_directory(l, full, name, depth - 1,
						     &ignored); /* a directory that cannot be entered is still listed */
			}
		}
		free(names[i]);
	}
	free(names);
	return 0;
}

/* The first open reports a path that cannot be listed before anything is written. */
int tool_list_directory(struct jval args, struct jw *w, struct err *e)
{
	mem_auto char *path = jval_strdup(jval_get(args, "path"));
	uint64_t depth = jval_uint(jval_get(args, "depth"), 1),
		 limit = jval_uint(jval_get(args, "limit"), ENTRIES_DEFAULT);
	const char *where = path && *path ? path : ".";
	struct folder_listing l = { .w = w, .left = limit < ENTRIES_MAX ? (size_t)limit : ENTRIES_MAX };

	if (depth < 1 || depth > DEPTH_MAX)
		return err_field(e, "depth", "must be 1 to %u", DEPTH_MAX);
	int fd = tool_links_open(AT_FDCWD, where, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0)
		return fail_on(e, "list", where);
	close(fd);
	jw_kstr(w, "path", where);
	jw_karr(w, "entries");
	if (list_directory(&l, where, "", (unsigned)depth, e) < 0)
		return -1;
	jw_arr_end(w);
	jw_kbool(w, "truncated", l.more);
	return 0;
}
