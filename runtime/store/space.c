#include "runtime/store/space.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/store/reader.h"
#include "runtime/store/store_private.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define BALLAST_NAME "ballast"
#define BALLAST_DEFAULT (4u << 20)
/* Pages of the map that are reserved for removals. */
#define RESERVE_MIN 96u
#define RESERVE_MAX 1024u
/* A file system with less free space than this counts as full. */
#define DISK_MIN (1u << 20)
#define DISK_NOTHING (256u * 1024)
#define JOURNAL_DEFAULT (1u << 20)

/* Allocated blocks, not a hole: deleting it must free real space. */
static int make_ballast(struct store *store)
{
	fd_auto int fd = openat(store->dir_fd, BALLAST_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return -1;
	if (fallocate(fd, 0, 0, (off_t)store->space.ballast_bytes) == 0) {
		store->space.ballast = true;
		return 0;
	}
	if (errno == EOPNOTSUPP) {
		log_warning("store: this file system cannot reserve space (fallocate), so there is no ballast for a "
			    "full disk");
		store->space.ballast_bytes = 0;
		unlinkat(store->dir_fd, BALLAST_NAME, 0);
		return 0;
	}
	unlinkat(store->dir_fd, BALLAST_NAME, 0);
	return -1;
}

void space_init(struct store *store, uint64_t quota, uint64_t ballast_bytes)
{
	store->space = (struct space){ .quota = quota,
				       .ballast_bytes = ballast_bytes ? ballast_bytes : BALLAST_DEFAULT };
	if (store->read_only)
		return;
	if (make_ballast(store) != 0)
		store->space.disk_full = true;
	space_check(store);
}

bool space_release_ballast(struct store *store)
{
	if (!store->space.ballast)
		return false;
	store->space.ballast = false;
	log_warning("store: the disk is full; deleted the ballast file to record what must not be lost");
	return unlinkat(store->dir_fd, BALLAST_NAME, 0) == 0;
}

void space_spool_add(struct store *store, int64_t bytes, int64_t files)
{
	pthread_mutex_lock(&store->mutex);
	if (bytes < 0 && (uint64_t)-bytes > store->stats.spool_bytes)
		bytes = -(int64_t)store->stats.spool_bytes;
	if (files < 0 && (uint64_t)-files > store->stats.spool_files)
		files = -(int64_t)store->stats.spool_files;
	store->stats.spool_bytes += (uint64_t)bytes;
	store->stats.spool_files += (uint64_t)files;
	pthread_mutex_unlock(&store->mutex);
}

/* Pages on LMDB's free list. It has a value for each transaction that freed pages; the first word is their number. */
static uint64_t free_pages(struct store *store)
{
	reader_auto struct reader r = READER_INIT;
	db_cursor_auto MDB_cursor *cur = NULL;
	MDB_val k, v;
	uint64_t n = 0;

	if (reader_begin(store, &r, NULL) != 0 || mdb_cursor_open(r.txn, 0, &cur) != 0)
		return 0;
	while (mdb_cursor_get(cur, &k, &v, MDB_NEXT) == 0) {
		size_t count;

		if (v.mv_size >= sizeof(count)) {
			memcpy(&count, v.mv_data, sizeof(count));
			n += count;
		}
	}
	return n;
}

static bool env_pages(struct store *store, uint64_t *ret_page, uint64_t *ret_used, uint64_t *ret_total)
{
	MDB_envinfo info;
	MDB_stat st;
	bool up;

	pthread_rwlock_rdlock(&store->db_lock);
	up = store->db.env && mdb_env_info(store->db.env, &info) == 0 && mdb_env_stat(store->db.env, &st) == 0;
	pthread_rwlock_unlock(&store->db_lock);
	if (!up)
		return false;
	*ret_page = st.ms_psize;
	*ret_used = info.me_last_pgno + 1;
	*ret_total = info.me_mapsize / st.ms_psize;
	return true;
}

static uint64_t journal_bytes(struct store *store)
{
	uint64_t n;

	pthread_mutex_lock(&store->mutex);
	n = store->stats.journal_bytes;
	pthread_mutex_unlock(&store->mutex);
	return n;
}

uint64_t space_db_bytes(struct store *store)
{
	uint64_t page, used, total, nfree;

	if (!env_pages(store, &page, &used, &total))
		return 0;
	nfree = free_pages(store);
	return (used - (nfree < used ? nfree : used)) * page + journal_bytes(store);
}

uint64_t space_journal_bytes(uint64_t wanted, uint64_t quota)
{
	uint64_t size = wanted ? wanted : JOURNAL_DEFAULT;

	if (!wanted && quota && size > quota / 16)
		size = quota / 16;
	if (size < 4 * JOURNAL_BLOCK)
		size = 4 * JOURNAL_BLOCK;
	return size < JOURNAL_MAX ? size : JOURNAL_MAX;
}

static uint64_t available_bytes(int dir_fd)
{
	struct statvfs v;

	if (fstatvfs(dir_fd, &v) != 0)
		return UINT64_MAX;
	return (uint64_t)v.f_bavail * v.f_frsize;
}

/* After ENOSPC the disk counts as full until there is space for the ballast and DISK_MIN. */
static void check_disk(struct store *store)
{
	uint64_t want = DISK_MIN + (store->space.ballast ? 0 : store->space.ballast_bytes);

	if (!store->space.disk_full && store->space.ballast)
		return;
	if (available_bytes(store->dir_fd) < want || available_bytes(store->spool_fd) < DISK_MIN)
		return;
	if (!store->space.ballast && store->space.ballast_bytes && make_ballast(store) != 0)
		return;
	if (store->space.disk_full)
		log_info("store: the disk has space again");
	store->space.disk_full = false;
}

static uint64_t map_reserve(uint64_t total)
{
	uint64_t reserve = total / 8;

	return reserve < RESERVE_MIN ? RESERVE_MIN : reserve > RESERVE_MAX ? RESERVE_MAX : reserve;
}

/* Counts the free pages only if the result can matter. */
static bool check_map(struct store *store, uint64_t used, uint64_t total)
{
	uint64_t reserve = map_reserve(total), nfree;

	store->space.map_tight = false;
	if (!store->space.map_failed && total > used && total - used > reserve)
		return false;
	nfree = free_pages(store) + (total > used ? total - used : 0);
	if (store->space.map_failed && nfree > store->space.map_failed_free)
		store->space.map_failed = false;
	store->space.map_tight = nfree < reserve / 2;
	return store->space.map_failed || nfree < reserve;
}

static bool check_quota(struct store *store, uint64_t page, uint64_t used)
{
	uint64_t spool;

	if (!store->space.quota)
		return false;
	pthread_mutex_lock(&store->mutex);
	spool = store->stats.spool_bytes;
	pthread_mutex_unlock(&store->mutex);
	return used * page + journal_bytes(store) + spool > store->space.quota &&
	       space_db_bytes(store) + spool > store->space.quota;
}

/* Returns and publishes whether the store is full; logs only changes. */
bool space_check(struct store *store)
{
	uint64_t page, used, total;
	bool full = store->space.disk_full, was = atomic_load(&store->full);

	check_disk(store);
	full = store->space.disk_full;
	if (env_pages(store, &page, &used, &total)) {
		full |= check_map(store, used, total);
		full |= check_quota(store, page, used);
	} else {
		full |= was;
	}
	if (full != was)
		log_warning(full ? "store: full; only events that must not be lost are accepted"
				 : "store: there is space again");
	atomic_store(&store->full, full);
	atomic_store(&store->disk_full, store->space.disk_full);
	return full;
}

bool space_has_reserve(struct store *store, uint64_t bytes)
{
	uint64_t page, used, total;

	if (atomic_load(&store->full) || store->space.disk_full ||
	    (store->space.ballast_bytes && !store->space.ballast) || !env_pages(store, &page, &used, &total))
		return false;
	/* writing to a copy-on-write tree copies and splits pages */
	return total > used && total - used > 2 * map_reserve(total) + 8 * (bytes / page + 1);
}

/* Classifies a failed commit, and marks the store as full if it failed for lack of space. */
bool space_failed(struct store *store, const struct err *e)
{
	uint64_t page, used, total;

	if (e->code == ERR_EXHAUSTED && e->sys == 0) { /* the map is full */
		store->space.map_failed = true;
		store->space.map_failed_free = free_pages(store);
		if (env_pages(store, &page, &used, &total))
			store->space.map_failed_free += total > used ? total - used : 0;
	} else if (e->code == ERR_EXHAUSTED ||
		   (e->code == ERR_SYS && e->sys == EIO && available_bytes(store->dir_fd) < DISK_NOTHING)) {
		/* a full disk causes short writes, which LMDB reports as EIO */
		store->space.disk_full = true;
	} else {
		return false;
	}
	atomic_store(&store->disk_full, store->space.disk_full);
	if (!atomic_exchange(&store->full, true))
		log_warning("store: full; only events that must not be lost are accepted: %s", e->message);
	return true;
}
