/*
 * A backup is a directory with `store` and `spool` in it, like a home. The database is copied before the spool files:
 * they only grow, and none is removed meanwhile, so every byte that the copied database cites is in the copied files.
 */

#include "runtime/base/fd.h"
#include "runtime/base/file_copy.h"
#include "runtime/base/mem.h"
#include "runtime/store/reader.h"
#include "runtime/store/store_dirs.h"
#include "runtime/store/store_private.h"
#include "runtime/store/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct backup {
	struct job job;
	char *dir;
	void (*done)(void *ctx, const struct err *e);
	void *ctx;
};

static int copy_database(struct store *store, int dir_fd, struct err *e)
{
	fd_auto int fd = openat(dir_fd, STORE_DIRS_DATA, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	reader_auto struct reader r = READER_INIT; /* keeps the environment open */
	int rc;

	if (fd < 0)
		return err_sys(e, errno, "create the copy");
	if (reader_begin(store, &r, e) != 0)
		return -1;
	rc = mdb_env_copyfd2(r.db->env, fd, MDB_CP_COMPACT);
	if (rc != 0)
		return db_err(e, rc, "copy the database");
	if (fsync(fd) != 0) /* LMDB does not sync it */
		return err_sys(e, errno, "sync the copy");
	return 0;
}

static bool is_cancelled(void *ctx) { return store_cancelled(ctx); }

static int make_directory(int parent, const char *name, struct err *e)
{
	int fd = mkdirat(parent, name, 0700) == 0 ? openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	return fd >= 0 ? fd : err_sys(e, errno, "create '%s'", name);
}

static int copy_all(struct store *store, int tmp_fd, struct err *e)
{
	const struct file_copy_options o = { .cancelled = is_cancelled, .ctx = store };
	fd_auto int store_fd = make_directory(tmp_fd, "store", e);
	fd_auto int spool_fd = -1;

	if (store_fd < 0)
		return -1;
	spool_fd = make_directory(tmp_fd, "spool", e);
	if (spool_fd < 0 || copy_database(store, store_fd, e) != 0)
		return -1;
	if (file_copy_all(store->spool_fd, spool_fd, &o, e) != 0)
		return err_wrap(e, "copy the spool");
	if (fsync(store_fd) != 0 || fsync(tmp_fd) != 0)
		return err_sys(e, errno, "sync the directories of the copy");
	return 0;
}

/* The caller moves a staged backup out of the store's directory. One that was left there is replaced. */
static int open_staging(struct store *store, struct err *e)
{
	fd_auto int old = openat(store->dir_fd, STORE_STAGED_BACKUP, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	if (old >= 0) {
		store_dirs_remove(old, "store");
		store_dirs_remove(old, "spool");
		if (unlinkat(store->dir_fd, STORE_STAGED_BACKUP, AT_REMOVEDIR) != 0)
			return err_sys(e, errno, "remove the previous staged backup");
	}
	int fd = fcntl(store->dir_fd, F_DUPFD_CLOEXEC, 0);
	return fd >= 0 ? fd : err_sys(e, errno, "open the store's directory");
}

/* Splits "a/b" into an open directory and a name. */
static int open_parent(const char *path, const char **ret_name, struct err *e)
{
	const char *slash = strrchr(path, '/');
	mem_auto char *parent = slash ? mem_strndup(path, slash == path ? 1 : (size_t)(slash - path)) : mem_strdup(".");
	const char *name = slash ? slash + 1 : path;
	int fd;

	if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strlen(name) > 200)
		return err_field(e, "dir", "'%s' does not name a new directory", path);
	fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, errno, "open '%s'", parent);
	*ret_name = name;
	return fd;
}

static int backup_to(struct store *store, const char *dir, struct err *e)
{
	const char *name = STORE_STAGED_BACKUP;
	fd_auto int parent = dir ? open_parent(dir, &name, e) : open_staging(store, e);
	fd_auto int tmp_fd = -1;
	char tmp[256];
	int rc = -1;

	if (parent < 0)
		return -1;
	if (faccessat(parent, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return err_field(e, "dir", "'%s' already exists", dir);
	snprintf(tmp, sizeof(tmp), ".%s.%d", name, (int)getpid());
	tmp_fd = make_directory(parent, tmp, e);
	if (tmp_fd < 0)
		return -1;
	if (copy_all(store, tmp_fd, e) == 0) {
		if (renameat2(parent, tmp, parent, name, RENAME_NOREPLACE) != 0 || fsync(parent) != 0)
			err_sys(e, errno, "put the copy in place");
		else
			rc = 0;
	}
	if (rc != 0) {
		store_dirs_remove(tmp_fd, "store");
		store_dirs_remove(tmp_fd, "spool");
		unlinkat(parent, tmp, AT_REMOVEDIR);
	}
	return rc;
}

static enum job_step backup_step(struct store *store, struct job *j)
{
	struct backup *b = (struct backup *)j;

	if (backup_to(store, b->dir, &j->err) == 0)
		return JOB_FINISHED;
	err_wrap(&j->err, "back up to '%s'", b->dir ? b->dir : STORE_STAGED_BACKUP);
	return JOB_FAILED;
}

static void backup_run(struct store *store, struct completion *c)
{
	struct backup *b = (struct backup *)c;

	if (b->done)
		b->done(b->ctx, b->job.failed ? &b->job.err : NULL);
	free(b->dir);
	free(b);
}

void store_backup(struct store *store, const char *dir, void (*done)(void *ctx, const struct err *e), void *ctx)
{
	struct backup *b = mem_zalloc(1, sizeof(*b));

	b->job.completion.run = backup_run;
	b->job.step = backup_step;
	b->job.keeps_files = true;
	b->dir = mem_strdup(dir);
	b->done = done;
	b->ctx = ctx;
	worker_submit(store, &b->job);
}
