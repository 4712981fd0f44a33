#include "supervisor/cli/staged_backup.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/file_copy.h"
#include "runtime/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const folders[] = { "store", "spool" };

/* O_NOFOLLOW: the daemon's user could replace a directory by a symbolic link, and files are given to the caller. */
static int open_folder(int parent, const char *name, struct err *e)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	return fd >= 0 ? fd : err_sys(e, errno, "open '%s' of the backup", name);
}

/* Calls `fn` for each file of a directory without subdirectories. */
static int visit_files(int fd, int (*fn)(int fd, const char *name))
{
	int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = again >= 0 ? fdopendir(again) : NULL;
	struct dirent *entry;
	int r = 0;

	if (!d) {
		fd_close(&again);
		return -1;
	}
	while (r == 0 && (entry = readdir(d)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			r = fn(fd, entry->d_name);
	closedir(d);
	return r;
}

static int own_file(int fd, const char *name) { return fchownat(fd, name, geteuid(), getegid(), AT_SYMLINK_NOFOLLOW); }

static int remove_file(int fd, const char *name) { return unlinkat(fd, name, 0); }

/* The files belong to the daemon's user after a rename; give them to the caller. */
static int chown_moved(const char *dir, struct err *e)
{
	fd_auto int fd = open_folder(AT_FDCWD, dir, e);

	if (fd < 0)
		return -1;
	for (size_t i = 0; i < countof(folders); i++) {
		fd_auto int inner = open_folder(fd, folders[i], e);

		if (inner < 0)
			return -1;
		if (visit_files(inner, own_file) < 0 || fchown(inner, geteuid(), getegid()) < 0)
			return err_sys(e, errno, "own '%s/%s'", dir, folders[i]);
	}
	if (fchown(fd, geteuid(), getegid()) < 0 || fsync(fd) < 0)
		return err_sys(e, errno, "own '%s'", dir);
	return 0;
}

static void remove_tree(const char *path)
{
	struct err ignored = ERR_INIT;
	fd_auto int fd = open_folder(AT_FDCWD, path, &ignored);

	for (size_t i = 0; fd >= 0 && i < countof(folders); i++) {
		fd_auto int inner = open_folder(fd, folders[i], &ignored);

		if (inner >= 0)
			visit_files(inner, remove_file);
		unlinkat(fd, folders[i], AT_REMOVEDIR);
	}
	(void)rmdir(path);
}

static int copy_folders(const char *staged, int out, struct err *e)
{
	const struct file_copy_options plain = { 0 };
	fd_auto int in = open_folder(AT_FDCWD, staged, e);

	if (in < 0)
		return -1;
	for (size_t i = 0; i < countof(folders); i++) {
		fd_auto int from = open_folder(in, folders[i], e);

		if (from < 0)
			return -1;
		if (mkdirat(out, folders[i], 0700) < 0)
			return err_sys(e, errno, "make '%s'", folders[i]);
		fd_auto int to = open_folder(out, folders[i], e);
		if (to < 0 || file_copy_all(from, to, &plain, e) < 0)
			return -1;
	}
	return fsync(out) < 0 ? err_sys(e, errno, "sync the backup") : 0;
}

/* On another file system: copy to a temporary name first, so that `dir` exists only when it is complete. */
static int copy_backup(const char *staged, const char *dir, struct err *e)
{
	buf_auto struct buf tmp = BUF_INIT;
	int r;

	buf_printf(&tmp, "%s.partial", dir);
	remove_tree(tmp.data);
	if (mkdir(tmp.data, 0700) < 0)
		return err_sys(e, errno, "make '%s'", tmp.data);
	fd_auto int out = open_folder(AT_FDCWD, tmp.data, e);
	r = out < 0 ? -1 : copy_folders(staged, out, e);
	if (r == 0 && renameat2(AT_FDCWD, tmp.data, AT_FDCWD, dir, RENAME_NOREPLACE) < 0)
		r = err_sys(e, errno, "put the backup at '%s'", dir);
	if (r < 0)
		remove_tree(tmp.data);
	else
		remove_tree(staged);
	return r;
}

/* RENAME_NOREPLACE: never overwrites an existing backup. */
int staged_backup_take(const char *staged, const char *dir, struct err *e)
{
	if (renameat2(AT_FDCWD, staged, AT_FDCWD, dir, RENAME_NOREPLACE) == 0)
		return chown_moved(dir, e);
	if (errno == EXDEV)
		return copy_backup(staged, dir, e);
	return err_sys(e, errno, "put the backup at '%s'", dir);
}
