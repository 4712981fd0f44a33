/*
 * Compaction: writes and syncs a compacted copy next to the database, then renames it over the original while that is
 * closed. A crash before the rename leaves the old database (and a copy that the next open removes), a crash after it
 * the new one. No commit happens in between, nor before the new name is durable: if the directory cannot be synced,
 * every group tries that first (durable.c).
 */

#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/store/store_dirs.h"
#include "runtime/store/store_private.h"
#include "runtime/store/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

struct compact {
	struct job job;
	uint64_t before, after;
	void (*done)(void *ctx, uint64_t before, uint64_t after, const struct err *e);
	void *ctx;
};

static uint64_t file_size(int dir_fd, const char *name)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, 0) == 0 ? (uint64_t)st.st_size : 0;
}

static int copy_compacted(struct store *store, struct err *e)
{
	fd_auto int fd = openat(store->dir_fd, STORE_DIRS_DATA_NEW, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
				0600);
	int rc;

	if (fd < 0)
		return err_sys(e, errno, "create " STORE_DIRS_DATA_NEW);
	rc = mdb_env_copyfd2(store->db.env, fd, MDB_CP_COMPACT);
	if (rc != 0)
		return db_err(e, rc, "copy the database");
	if (fsync(fd) != 0 || fsync(store->dir_fd) != 0)
		return err_sys(e, errno, "sync the copy");
	return 0;
}

static int replace_database(struct store *store, struct err *e)
{
	if (renameat(store->dir_fd, STORE_DIRS_DATA_NEW, store->dir_fd, STORE_DIRS_DATA) != 0)
		return err_sys(e, errno, "put the compacted database in place");
	return 0;
}

static enum job_step compact_step(struct store *store, struct job *j)
{
	struct compact *c = (struct compact *)j;

	if (!store->db.env && writer_reopen(store, NULL, &j->err) != 0)
		return JOB_FAILED;
	c->before = file_size(store->dir_fd, STORE_DIRS_DATA);
	if (copy_compacted(store, &j->err) != 0 || writer_reopen(store, replace_database, &j->err) != 0) {
		unlinkat(store->dir_fd, STORE_DIRS_DATA_NEW, 0);
		return JOB_FAILED;
	}
	/* Until the name is durable a power failure could bring the old file back, so nothing may be acknowledged in
	 * the new one. */
	store->unnamed = true;
	if (store_dirs_sync_name(store, &j->err) != 0)
		return JOB_FAILED;
	c->after = file_size(store->dir_fd, STORE_DIRS_DATA);
	return JOB_FINISHED;
}

static void compact_run(struct store *store, struct completion *completion)
{
	struct compact *c = (struct compact *)completion;

	if (c->done)
		c->done(c->ctx, c->before, c->after, c->job.failed ? &c->job.err : NULL);
	free(c);
}

void store_compact(struct store *store, void (*done)(void *ctx, uint64_t before, uint64_t after, const struct err *e),
		   void *ctx)
{
	struct compact *c = mem_zalloc(1, sizeof(*c));

	c->job.completion.run = compact_run;
	c->job.step = compact_step;
	c->job.exclusive = true;
	c->done = done;
	c->ctx = ctx;
	writer_submit(store, &c->job);
}
