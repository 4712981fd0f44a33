#include "runtime/store/store_dirs.h"

#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/store/chunk.h"
#include "runtime/store/journal.h"
#include "runtime/store/reader.h"
#include "runtime/store/store_private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_directory(const char *path, bool make, struct err *e)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT && make) {
		if (mkdir(path, 0700) != 0 && errno != EEXIST)
			return err_sys(e, errno, "create '%s'", path);
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	if (fd < 0)
		return err_sys(e, errno, "open '%s'", path);
	return fd;
}

static int locked_by_other(int fd, struct err *e)
{
	char pid[16] = "";
	ssize_t n = pread(fd, pid, sizeof(pid) - 1, 0);

	pid[n > 0 ? n : 0] = '\0';
	pid[strcspn(pid, "\n")] = '\0';
	if (pid[0] && strspn(pid, "0123456789") == strlen(pid))
		return err_set(e, ERR_CONFLICT, "another process (pid %s) has the store open", pid);
	return err_set(e, ERR_CONFLICT, "another process has the store open");
}

/* Read-only users share the lock: they cannot open the store while a daemon has it, and vice versa. */
static int lock_store(struct store *store, struct err *e)
{
	int flags = store->read_only ? O_RDONLY : O_RDWR | O_CREAT;
	char pid[24];
	int n;

	store->lock_fd = openat(store->dir_fd, "lock", flags | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (store->lock_fd < 0 && store->read_only)
		return errno == ENOENT ? err_set(e, ERR_NOT_FOUND, "there is no store")
				       : err_sys(e, errno, "open the lock file");
	if (store->lock_fd < 0)
		return err_sys(e, errno, "open the lock file");
	if (flock(store->lock_fd, (store->read_only ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0)
		return errno == EWOULDBLOCK ? locked_by_other(store->lock_fd, e) : err_sys(e, errno, "lock the store");
	if (store->read_only)
		return 0;
	/* for the error message that a second process prints; the lock works without it */
	n = snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
	if (ftruncate(store->lock_fd, 0) != 0 || pwrite(store->lock_fd, pid, (size_t)n, 0) != n)
		log_debug("store: cannot write the pid to the lock file");
	return 0;
}

/* Calls fn for each entry of a directory until it returns false. */
static int each_entry(int dir_fd, bool (*fn)(void *ctx, int fd, const char *name), void *ctx)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *ent;

	if (!d) {
		fd_close(&fd);
		return -1;
	}
	while ((ent = readdir(d)))
		if (strcmp(ent->d_name, ".") != 0 && strcmp(ent->d_name, "..") != 0 && !fn(ctx, dir_fd, ent->d_name))
			break;
	closedir(d);
	return 0;
}

static bool unlink_entry(void *ctx, int fd, const char *name)
{
	unlinkat(fd, name, 0);
	return true;
}

void store_dirs_remove(int parent_fd, const char *name)
{
	fd_auto int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	if (fd >= 0)
		each_entry(fd, unlink_entry, NULL);
	unlinkat(parent_fd, name, AT_REMOVEDIR);
}

/* What a crash left: an unfinished compaction and temporary models. The lock is held, so no other process uses them. */
static bool sweep_entry(void *ctx, int fd, const char *name)
{
	if (strcmp(name, STORE_DIRS_DATA_NEW) == 0)
		unlinkat(fd, name, 0);
	if (strncmp(name, STORE_DIRS_SCRATCH, strlen(STORE_DIRS_SCRATCH)) == 0)
		store_dirs_remove(fd, name);
	return true;
}

int store_dirs_open(struct store *store, struct err *e)
{
	store->dir_fd = open_directory(store->dir, !store->read_only, e);
	if (store->dir_fd < 0)
		return -1;
	store->spool_fd = open_directory(store->spool_dir, !store->read_only, e);
	if (store->spool_fd < 0 || lock_store(store, e) != 0)
		return -1;
	if (store->read_only)
		return 0;
	each_entry(store->dir_fd, sweep_entry, NULL);
	/* A renamed database is not used before its name is durable (upkeep.c). */
	return fsync(store->dir_fd) != 0 ? err_sys(e, errno, "sync the store's directory") : 0;
}

static bool note_any_entry(void *ctx, int fd, const char *name)
{
	*(bool *)ctx = true;
	return false;
}

/* The journal and the outputs are created only after the database's name is durable. */
static bool was_used(struct store *store)
{
	bool spool = false;
	struct stat st;

	if (fstatat(store->dir_fd, JOURNAL_NAME, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) && st.st_size)
		return true;
	return each_entry(store->spool_fd, note_any_entry, &spool) != 0 || spool;
}

/* For messages; the configured path may be /proc/self/fd/N. */
static void real_path(int fd, char out[256])
{
	char link[32];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, out, 255);
	out[n > 0 ? n : 0] = '\0';
}

int store_dirs_check_lost(struct store *store, struct err *e)
{
	if (!was_used(store))
		return 0;
	return err_set(e, ERR_CORRUPT, "it is missing or empty, but its journal or outputs exist");
}

void store_dirs_explain(const struct store *store, bool database, struct err *e)
{
	char dir[256], spool[256];
	const struct err cause = *e;

	if (store->dir_fd < 0 || store->spool_fd < 0) {
		err_wrap(e, "open the store in '%s'", store->dir);
		return;
	}
	real_path(store->dir_fd, dir);
	real_path(store->spool_fd, spool);
	if (!database || cause.code != ERR_CORRUPT)
		err_wrap(e, "open the store in '%s'", dir);
	else
		err_set(e, ERR_CORRUPT,
			"'%s/" STORE_DIRS_DATA
			"' is damaged: %.160s. Restore it from a backup (bailiff store restore) or, to "
			"start again without its history, move '%s' and '%s' away",
			dir, cause.message, dir, spool);
}

int store_dirs_sync_new(struct store *store, struct err *e)
{
	fd_auto int parent = openat(store->dir_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fd_auto int spool_parent = openat(store->spool_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fsync(store->dir_fd) != 0 || fsync(store->spool_fd) != 0)
		return err_sys(e, errno, "sync the store's directory");
	/* a process that may not open the parents did not create the directories either */
	if ((parent >= 0 && fsync(parent) != 0) || (spool_parent >= 0 && fsync(spool_parent) != 0))
		return err_sys(e, errno, "sync the parent of the store's directory");
	return 0;
}

int store_dirs_sync_name(struct store *store, struct err *e)
{
	if (store->unnamed && fsync(store->dir_fd) != 0)
		return err_sys(e, errno,
			       "sync the store's directory: the compacted database is in place, but not durable");
	store->unnamed = false;
	return 0;
}

struct count {
	struct store *store;
	struct reader *r;
	uint64_t bytes, files;
};

/* Removes what an interrupted export left: the temporary name, and the real one unless a batch cites it. */
static bool sweep_new(void *ctx, int fd, const char *name)
{
	const char *ref = name + strlen(STORE_DIRS_NEW_SPOOL);
	const struct count *c = ctx;

	if (strncmp(name, STORE_DIRS_NEW_SPOOL, strlen(STORE_DIRS_NEW_SPOOL)) != 0 || strlen(ref) >= BATCH_REF_MAX)
		return true;
	if (*ref && chunk_is_known(c->r, ref, NULL) == 0)
		unlinkat(fd, ref, 0);
	unlinkat(fd, name, 0);
	return true;
}

/* An expired output whose file still exists: the crash came between the commit and the removal. */
static bool count_entry(void *ctx, int fd, const char *name)
{
	struct count *c = ctx;
	MDB_val key = db_key_text(name);
	const void *v;
	struct stat st;
	uint64_t bytes;
	size_t n;

	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode) || key.mv_size >= BATCH_REF_MAX)
		return true;
	if (!c->store->read_only && db_seal_get(c->r->txn, c->r->db->t[DB_BLOBS], &key, &v, &n, NULL) == 0 && n == 1 &&
	    *(const char *)v == 1) {
		unlinkat(fd, name, 0);
		return true;
	}
	bytes = (uint64_t)st.st_blocks * 512; /* less than the size if there are holes */
	c->bytes += bytes < (uint64_t)st.st_size ? bytes : (uint64_t)st.st_size;
	c->files++;
	return true;
}

int store_dirs_count_spool(struct store *store, struct err *e)
{
	reader_auto struct reader r = READER_INIT;
	struct count c = { .store = store, .r = &r };

	if (reader_begin(store, &r, e) != 0)
		return -1;
	if ((!store->read_only && each_entry(store->spool_fd, sweep_new, &c) != 0) ||
	    each_entry(store->spool_fd, count_entry, &c) != 0)
		return err_sys(e, errno, "list the spool directory");
	store->stats.spool_bytes = c.bytes;
	store->stats.spool_files = c.files;
	return 0;
}
