/*
 * One operation on files for a gateway (the file methods of Codex): the gateway starts `bailiff-tool fs OPERATION FLAGS
 * PATH [PATH]` like any command, in the sandbox of the client's request, so the kernel decides, and the log records it.
 *
 * Success is status 0 and the result on stdout: the bytes of a file for `read`, a JSON object for the others. Failure
 * is status 1 and {"errno":N,"message":"…"} on stderr, with the kernel's errno, because the client's protocol
 * distinguishes failures by it; 0 if the operation itself rejects the request.
 */

#include "supervisor/tool/file_tool.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_BYTES (1u << 20)
#define DEPTH_MAX 200u /* of a tree that is copied or removed */

struct fs_call {
	const char *flags, *path, *other;
	struct jw *w;
};

static int fail_on(struct err *e, const char *path)
{
	return tool_links_explain(e, path) < 0 ? -1 : err_sys(e, errno, "%.200s", path);
}

static bool has_flag(const struct fs_call *c, char flag) { return strchr(c->flags, flag) != NULL; }

/* ---- reading ---- */

static int open_regular(const char *path, struct err *e)
{
	int fd = tool_links_open(AT_FDCWD, path, O_RDONLY | O_NONBLOCK, 0);
	struct stat st;

	if (fd < 0)
		return fail_on(e, path);
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		return fd;
	close(fd);
	return err_set(e, ERR_INVALID, "path `%.300s` is not a file", path);
}

static int send_bytes(int fd, uint64_t left, struct err *e)
{
	mem_auto char *bytes = mem_alloc(COPY_BYTES);

	while (left) {
		ssize_t n = read(fd, bytes, left < COPY_BYTES ? (size_t)left : COPY_BYTES);

		if (n == 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return fail_on(e, "read");
		for (ssize_t done = 0; done < n;) {
			ssize_t w = write(STDOUT_FILENO, bytes + done, (size_t)(n - done));

			if (w < 0 && errno != EINTR)
				return fail_on(e, "write");
			done += w > 0 ? w : 0;
		}
		left -= n > 0 ? (uint64_t)n : 0;
	}
	return 0;
}

/* FLAGS: OFFSET:LENGTH. */
static int fs_read(struct fs_call *c, struct err *e)
{
	uint64_t offset = 0, length = 0;

	if (sscanf(c->flags, "%" SCNu64 ":%" SCNu64, &offset, &length) != 2 || offset > INT64_MAX)
		return err_set(e, ERR_INVALID, "read: flags are OFFSET:LENGTH");
	int fd = open_regular(c->path, e);
	if (fd < 0)
		return -1;
	int r = lseek(fd, (off_t)offset, SEEK_SET) < 0 ? fail_on(e, c->path) : send_bytes(fd, length, e);
	close(fd);
	return r;
}

static int64_t timestamp_ms(struct statx_timestamp t) { return t.tv_sec * 1000 + t.tv_nsec / 1000000; }

/* Rejects a path with a symbolic link in any component, for operations that do not follow links. */
static int reject_links(const char *path, struct err *e)
{
	char part[PATH_MAX];
	struct stat st;

	if (path[0] != '/' || snprintf(part, sizeof part, "%s", path) >= (int)sizeof part)
		return err_set(e, ERR_INVALID, "no-follow operations need an absolute path");
	for (char *p = part + 1; p;) {
		p = strchr(p, '/');
		if (p)
			*p = '\0';
		if (lstat(part, &st) < 0)
			return fail_on(e, part);
		if (S_ISLNK(st.st_mode))
			return err_set(e, ERR_INVALID, "path contains a symbolic link");
		if (p)
			*p++ = '/';
	}
	return 0;
}

/* Follows links; isSymlink is about the path itself. FLAGS: n rejects a path with links instead. */
static int fs_stat(struct fs_call *c, struct err *e)
{
	struct stat own;
	struct statx sx;

	if (has_flag(c, 'n') && reject_links(c->path, e) < 0)
		return -1;
	if (lstat(c->path, &own) < 0 || statx(AT_FDCWD, c->path, 0, STATX_BASIC_STATS | STATX_BTIME, &sx) < 0)
		return fail_on(e, c->path);
	jw_kbool(c->w, "isDirectory", S_ISDIR(sx.stx_mode));
	jw_kbool(c->w, "isFile", S_ISREG(sx.stx_mode));
	jw_kbool(c->w, "isSymlink", S_ISLNK(own.st_mode));
	jw_kuint(c->w, "size", sx.stx_size);
	jw_kint(c->w, "createdAtMs", sx.stx_mask & STATX_BTIME ? timestamp_ms(sx.stx_btime) : 0);
	jw_kint(c->w, "modifiedAtMs", timestamp_ms(sx.stx_mtime));
	return 0;
}

static int fs_realpath(struct fs_call *c, struct err *e)
{
	char real[PATH_MAX];

	if (!realpath(c->path, real))
		return fail_on(e, c->path);
	jw_kstr(c->w, "path", real);
	return 0;
}

static int fs_list(struct fs_call *c, struct err *e)
{
	fd_auto int fd = tool_links_open(AT_FDCWD, c->path, O_RDONLY | O_DIRECTORY, 0);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir)
		return fail_on(e, c->path);
	(void)fd_take(&fd);
	jw_karr(c->w, "entries");
	for (struct dirent *d; (d = readdir(dir));) {
		struct stat st;

		/* Dangling links are omitted, as the protocol's own server does. */
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0 ||
		    fstatat(dirfd(dir), d->d_name, &st, 0) < 0)
			continue;
		jw_obj(c->w);
		jw_kstr(c->w, "fileName", d->d_name);
		jw_kbool(c->w, "isDirectory", S_ISDIR(st.st_mode));
		jw_kbool(c->w, "isFile", S_ISREG(st.st_mode));
		jw_obj_end(c->w);
	}
	jw_arr_end(c->w);
	closedir(dir);
	return 0;
}

/* ---- changing ---- */

/* FLAGS: the number of bytes on stdin. If fewer arrive, the client has disconnected, and nothing is written. */
static int fs_write(struct fs_call *c, struct err *e)
{
	buf_auto struct buf bytes = BUF_INIT;
	size_t length = strtoull(c->flags, NULL, 10);
	struct stat st;

	if (length > TOOL_FS_FILE_MAX)
		return err_set(e, ERR_EXHAUSTED, "more than %u bytes", TOOL_FS_FILE_MAX);
	while (bytes.len < length) {
		ssize_t n = read(STDIN_FILENO, buf_reserve(&bytes, length - bytes.len), length - bytes.len);

		if (n == 0)
			return err_set(e, ERR_INVALID, "only %zu of %zu bytes came; nothing was written", bytes.len,
				       length);
		if (n < 0 && errno != EINTR)
			return fail_on(e, "stdin");
		bytes.len += n > 0 ? (size_t)n : 0;
	}
	if (stat(c->path, &st) == 0 && S_ISDIR(st.st_mode)) {
		errno = EISDIR;
		return fail_on(e, c->path);
	}
	if (tool_file_store(c->path, buf_cstr(&bytes), bytes.len, 0, 0, e) == 0)
		return 0;
	if (e->code == ERR_NOT_FOUND)
		err_sys(e, ENOENT, "%.200s", c->path);
	return -1;
}

/*
 * FLAGS: r also creates parents. EROFS and EACCES of a parent are ignored, because it may exist in a place where
 * nothing can be created; the last mkdir fails if it does not.
 */
static int fs_mkdir(struct fs_call *c, struct err *e)
{
	char part[PATH_MAX];
	struct stat st;

	if (snprintf(part, sizeof part, "%s", c->path) >= (int)sizeof part)
		return err_set(e, ERR_INVALID, "the path is too long");
	for (char *p = part + 1; has_flag(c, 'r') && (p = strchr(p, '/')); *p++ = '/') {
		*p = '\0';
		if (mkdir(part, 0777) < 0 && errno != EEXIST && errno != EROFS && errno != EACCES)
			return fail_on(e, part);
	}
	if (mkdir(part, 0777) == 0)
		return 0;
	int error = errno;
	if (has_flag(c, 'r') && error == EEXIST && stat(part, &st) == 0 && S_ISDIR(st.st_mode))
		return 0;
	errno = error;
	return fail_on(e, c->path);
}

/* Works relative to a descriptor, so a directory that is replaced by a link meanwhile is not followed. */
static int remove_at(int at, const char *name, unsigned depth, struct err *e)
{
	if (unlinkat(at, name, 0) == 0)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return fail_on(e, name);
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return fail_on(e, name);
	DIR *dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return fail_on(e, name);
	}
	int r = depth ? 0 : err_set(e, ERR_EXHAUSTED, "'%.200s' lies too deep", name);

	for (struct dirent *d; r == 0 && (d = readdir(dir));)
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
			r = remove_at(fd, d->d_name, depth - 1, e);
	closedir(dir);
	if (r == 0 && unlinkat(at, name, AT_REMOVEDIR) < 0)
		r = fail_on(e, name);
	return r;
}

/* FLAGS: r recursive, f ignore a missing file. */
static int fs_remove(struct fs_call *c, struct err *e)
{
	struct stat st;

	if (lstat(c->path, &st) < 0)
		return errno == ENOENT && has_flag(c, 'f') ? 0 : fail_on(e, c->path);
	if (S_ISDIR(st.st_mode) && !has_flag(c, 'r'))
		return rmdir(c->path) < 0 ? fail_on(e, c->path) : 0;
	return remove_at(AT_FDCWD, c->path, DEPTH_MAX, e);
}

static bool same_file(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Truncates only after comparing inodes: opening a hard link of the source with O_TRUNC would destroy the content. */
static int open_copy(int in, const char *to, mode_t mode, struct err *e)
{
	int out = tool_links_open(AT_FDCWD, to, O_WRONLY | O_CREAT, mode & 0777);

	if (out < 0)
		return fail_on(e, to);
	if (same_file(in, out)) {
		close(out);
		return err_set(e, ERR_INVALID, "fs/copy cannot copy a file to itself ('%.200s')", to);
	}
	if (ftruncate(out, 0) < 0 && errno != EINVAL) { /* EINVAL: a device or a pipe has no length */
		(void)fail_on(e, to);
		close(out);
		return -1;
	}
	return out;
}

static int copy_file(const char *from, const char *to, mode_t mode, struct err *e)
{
	mem_auto char *bytes = mem_alloc(COPY_BYTES);
	int in = open_regular(from, e), out = -1, r = 0;

	if (in < 0)
		return -1;
	out = open_copy(in, to, mode, e);
	for (ssize_t n = 1; out >= 0 && r == 0 && n;) {
		n = read(in, bytes, COPY_BYTES);
		if (n < 0)
			r = fail_on(e, from);
		for (ssize_t done = 0; r == 0 && done < n;) {
			ssize_t w = write(out, bytes + done, (size_t)(n - done));

			if (w < 0)
				r = fail_on(e, to);
			else
				done += w;
		}
	}
	if (out >= 0)
		close(out);
	close(in);
	return out < 0 ? -1 : r;
}

static int copy_link(const char *from, const char *to, struct err *e)
{
	char target[PATH_MAX];
	ssize_t n = readlink(from, target, sizeof target - 1);

	if (n < 0)
		return fail_on(e, from);
	target[n] = '\0';
	return symlink(target, to) < 0 ? fail_on(e, to) : 0;
}

/*
 * Links are copied as links. Sockets, devices and FIFOs inside a tree are skipped; as the source itself they are an
 * error. A target directory that exists is merged into. A failure leaves what was copied so far.
 */
static int copy_tree(const char *from, const char *to, unsigned depth, struct err *e)
{
	struct stat st;
	DIR *dir;
	int r = 0;

	if (lstat(from, &st) < 0)
		return fail_on(e, from);
	if (S_ISLNK(st.st_mode))
		return copy_link(from, to, e);
	if (S_ISREG(st.st_mode))
		return copy_file(from, to, st.st_mode, e);
	if (!S_ISDIR(st.st_mode))
		return depth == DEPTH_MAX ? err_set(e, ERR_INVALID,
						    "fs/copy only supports regular files, directories, and symlinks")
					  : 0;
	if (!depth)
		return err_set(e, ERR_EXHAUSTED, "'%.200s' lies too deep", from);
	if (mkdir(to, 0777) < 0 && errno != EEXIST)
		return fail_on(e, to);
	if (!(dir = opendir(from)))
		return fail_on(e, from);
	for (struct dirent *d; r == 0 && (errno = 0, d = readdir(dir));) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		mem_auto char *inner_from = mem_printf("%s/%s", from, d->d_name);
		mem_auto char *inner_to = mem_printf("%s/%s", to, d->d_name);
		r = copy_tree(inner_from, inner_to, depth - 1, e);
	}
	if (r == 0 && errno)
		r = fail_on(e, from);
	closedir(dir);
	return r;
}

/* Whether `to` is `from` itself or inside it; `to` need not exist, but its parent must. */
static bool is_inside(const char *from, const char *to)
{
	char real_from[PATH_MAX], real_to[PATH_MAX], holder[PATH_MAX];

	if (!realpath(from, real_from))
		return false;
	if (!realpath(to, real_to)) {
		(void)snprintf(holder, sizeof holder, "%s", to);
		char *slash = strrchr(holder, '/');
		if (!slash || slash == holder)
			return false;
		*slash = '\0';
		if (!realpath(holder, real_to))
			return false;
	}
	size_t n = strlen(real_from);
	return strncmp(real_from, real_to, n) == 0 && (real_to[n] == '/' || real_to[n] == '\0');
}

static int fs_copy(struct fs_call *c, struct err *e)
{
	struct stat st;

	if (!c->other)
		return err_set(e, ERR_INVALID, "copy: two paths are needed");
	if (lstat(c->path, &st) < 0)
		return fail_on(e, c->path);
	if (S_ISDIR(st.st_mode) && !has_flag(c, 'r'))
		return err_set(e, ERR_INVALID, "fs/copy requires recursive: true when sourcePath is a directory");
	if (S_ISDIR(st.st_mode) && is_inside(c->path, c->other))
		return err_set(e, ERR_INVALID, "fs/copy cannot copy a directory to itself or one of its descendants");
	return copy_tree(c->path, c->other, DEPTH_MAX, e);
}

/* ---- the operations ---- */

static const struct {
	const char *name;
	bool raw;  /* the result is not JSON */
	bool link; /* it is about a link that the path names, and does not follow it */
	int (*run)(struct fs_call *c, struct err *e);
} operations[] = {
	{ "read", true, false, fs_read },
	{ "stat", false, false, fs_stat },
	{ "realpath", false, false, fs_realpath },
	{ "list", false, false, fs_list },
	{ "walk", false, false, NULL },
	{ "write", false, false, fs_write },
	{ "mkdir", false, false, fs_mkdir },
	{ "remove", false, true, fs_remove },
	{ "copy", false, true, fs_copy },
};

/*
 * While links are refused: for operations that do not open their paths with tool_links_open. A link that appears later
 * can show names and sizes, or have an entry removed elsewhere, but no content. realpath is exempt: it only says where
 * links lead, and a client needs that to name the file itself.
 */
static int check_links(size_t operation, const struct fs_call *c, struct err *e)
{
	const bool own = operations[operation].link;

	if (operations[operation].run == fs_realpath)
		return 0;
	return tool_links_check(c->path, own, e) < 0 || (c->other && tool_links_check(c->other, false, e) < 0) ? -1 : 0;
}

static int print_failure(const struct err *e)
{
	buf_auto struct buf out = BUF_INIT;
	struct jw w = jw_on(&out);

	jw_obj(&w);
	jw_kint(&w, "errno", e->code == ERR_SYS ? e->sys : 0);
	jw_kstr(&w, "message", e->message);
	jw_obj_end(&w);
	buf_byte(&out, '\n');
	(void)!write(STDERR_FILENO, out.data, out.len);
	return 1;
}

int tool_fs_main(int argc, char **argv)
{
	buf_auto struct buf out = BUF_INIT;
	struct jw w = jw_on(&out);
	struct err e = ERR_INIT;

	if (argc < 3 || argc > 4) {
		err_set(&e, ERR_INVALID, "fs: an operation, its flags and one or two paths are needed");
		return print_failure(&e);
	}
	struct fs_call c = { .flags = argv[1], .path = argv[2], .other = argc > 3 ? argv[3] : NULL, .w = &w };
	for (size_t i = 0; i < countof(operations); i++) {
		if (strcmp(operations[i].name, argv[0]) != 0)
			continue;
		jw_obj(&w);
		if (check_links(i, &c, &e) < 0)
			return print_failure(&e);
		if ((operations[i].run ? operations[i].run(&c, &e) : tool_fs_walk(c.path, c.flags, &w, &e)) < 0)
			return print_failure(&e);
		jw_obj_end(&w);
		buf_byte(&out, '\n');
		return operations[i].raw ? 0 : tool_write_out(&out) < 0;
	}
	err_set(&e, ERR_INVALID, "fs: there is no operation '%.64s'", argv[0]);
	return print_failure(&e);
}
