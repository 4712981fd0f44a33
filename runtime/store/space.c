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
/* Pages of the map that are kept for removing things. */
#define RESERVE_MIN 96u
#define RESERVE_MAX 1024u
/* A file system with less than this is called full. */
#define DISK_MIN (1u << 20)
#define DISK_NOTHING (256u * 1024)
#define JOURNAL_DEFAULT (1u << 20)

static int make_ballast(struct store *s)
{
	fd_auto int fd = openat(s->dir_fd, BALLAST_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return -1;
	if (fallocate(fd, 0, 0, (off_t)s->space.ballast_bytes) == 0) {
		s->space.ballast = true;
		return 0;
	}
	if (errno == EOPNOTSUPP) {
		log_warning("store: this file system cannot reserve room; there is no ballast for a full disk");
		s->space.ballast_bytes = 0;
		unlinkat(s->dir_fd, BALLAST_NAME, 0);
		return 0;
	}
	unlinkat(s->dir_fd, BALLAST_NAME, 0);
	return -1;
}

void space_init(struct store *s, uint64_t quota, uint64_t ballast_bytes)
{
	s->space = (struct space){ .quota = quota, .ballast_bytes = ballast_bytes ? ballast_bytes : BALLAST_DEFAULT };
	if (s->read_only)
		return;
	if (make_ballast(s) != 0)
		s->space.disk_full = true;
	space_check(s);
}

bool space_release_ballast(struct store *s)
{
	if (!s->space.ballast)
		return false;
	s->space.ballast = false;
	log_warning("store: the disk is full; the ballast file is given up for what must be written");
	return unlinkat(s->dir_fd, BALLAST_NAME, 0) == 0;
}

void space_spool_add(struct store *s, int64_t bytes, int64_t files)
{
	pthread_mutex_lock(&s->mutex);
	if (bytes < 0 && (uint64_t)-bytes > s->stats.spool_bytes)
		bytes = -(int64_t)s->stats.spool_bytes;
	if (files < 0 && (uint64_t)-files > s->stats.spool_files)
		files = -(int64_t)s->stats.spool_files;
	s->stats.spool_bytes += (uint64_t)bytes;
	s->stats.spool_files += (uint64_t)files;
	pthread_mutex_unlock(&s->mutex);
}

/* Pages on LMDB's free list: one value for each transaction that freed some, its first word is their number. */
static uint64_t free_pages(struct store *s)
{
	reader_auto struct reader r = READER_INIT;
	MDB_cursor *cur;
	MDB_val k, v;
	uint64_t n = 0;

	if (reader_begin(s, &r, NULL) != 0 || mdb_cursor_open(r.txn, 0, &cur) != 0)
		return 0;
	while (mdb_cursor_get(cur, &k, &v, MDB_NEXT) == 0) {
		size_t count;

		if (v.mv_size >= sizeof(count)) {
			memcpy(&count, v.mv_data, sizeof(count));
			n += count;
		}
	}
	mdb_cursor_close(cur);
	return n;
}

static bool env_pages(struct store *s, uint64_t *ret_page, uint64_t *ret_used, uint64_t *ret_total)
{
	MDB_envinfo info;
	MDB_stat st;
	bool up;

	pthread_rwlock_rdlock(&s->db_lock);
	up = s->db.env && mdb_env_info(s->db.env, &info) == 0 && mdb_env_stat(s->db.env, &st) == 0;
	pthread_rwlock_unlock(&s->db_lock);
	if (!up)
		return false;
	*ret_page = st.ms_psize;
	*ret_used = info.me_last_pgno + 1;
	*ret_total = info.me_mapsize / st.ms_psize;
	return true;
}

static uint64_t journal_bytes(struct store *s)
{
	uint64_t n;

	pthread_mutex_lock(&s->mutex);
	n = s->stats.journal_bytes;
	pthread_mutex_unlock(&s->mutex);
	return n;
}

uint64_t space_db_bytes(struct store *s)
{
	uint64_t page, used, total, nfree;

	if (!env_pages(s, &page, &used, &total))
		return 0;
	nfree = free_pages(s);
	return (used - (nfree < used ? nfree : used)) * page + journal_bytes(s);
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

static uint64_t available(int dir_fd)
{
	struct statvfs v;

	if (fstatvfs(dir_fd, &v) != 0)
		return UINT64_MAX;
	return (uint64_t)v.f_bavail * v.f_frsize;
}

/* After ENOSPC: room again means room for the ballast and then some. */
static void check_disk(struct store *s)
{
	uint64_t want = DISK_MIN + (s->space.ballast ? 0 : s->space.ballast_bytes);

	if (!s->space.disk_full && s->space.ballast)
		return;
	if (available(s->dir_fd) < want || available(s->spool_fd) < DISK_MIN)
		return;
	if (!s->space.ballast && s->space.ballast_bytes && make_ballast(s) != 0)
		return;
	if (s->space.disk_full)
		log_info("store: the disk has room again");
	s->space.disk_full = false;
}

static uint64_t map_reserve(uint64_t total)
{
	uint64_t reserve = total / 8;

	return reserve < RESERVE_MIN ? RESERVE_MIN : reserve > RESERVE_MAX ? RESERVE_MAX : reserve;
}

/* The number of free pages is only counted where it can matter. */
static bool check_map(struct store *s, uint64_t used, uint64_t total)
{
	uint64_t reserve = map_reserve(total), nfree;

	s->space.map_tight = false;
	if (!s->space.map_failed && total > used && total - used > reserve)
		return false;
	nfree = free_pages(s) + (total > used ? total - used : 0);
	if (s->space.map_failed && nfree > s->space.map_failed_free)
		s->space.map_failed = false;
	s->space.map_tight = nfree < reserve / 2;
	return s->space.map_failed || nfree < reserve;
}

static bool check_quota(struct store *s, uint64_t page, uint64_t used)
{
	uint64_t spool;

	if (!s->space.quota)
		return false;
	pthread_mutex_lock(&s->mutex);
	spool = s->stats.spool_bytes;
	pthread_mutex_unlock(&s->mutex);
	return used * page + journal_bytes(s) + spool > s->space.quota && space_db_bytes(s) + spool > s->space.quota;
}

bool space_check(struct store *s)
{
	uint64_t page, used, total;
	bool full = s->space.disk_full, was = atomic_load(&s->full);

	check_disk(s);
	full = s->space.disk_full;
	if (env_pages(s, &page, &used, &total)) {
		full |= check_map(s, used, total);
		full |= check_quota(s, page, used);
	} else {
		full |= was;
	}
	if (full != was)
		log_warning(full ? "store: full; only what must be written is accepted" : "store: there is room again");
	atomic_store(&s->full, full);
	return full;
}

bool space_has_reserve(struct store *s, uint64_t bytes)
{
	uint64_t page, used, total;

	if (atomic_load(&s->full) || s->space.disk_full || (s->space.ballast_bytes && !s->space.ballast) ||
	    !env_pages(s, &page, &used, &total))
		return false;
	/* pages of a copy-on-write tree are copied, and split */
	return total > used && total - used > 2 * map_reserve(total) + 8 * (bytes / page + 1);
}

bool space_failed(struct store *s, const struct err *e)
{
	uint64_t page, used, total;

	if (e->code == ERR_EXHAUSTED && e->sys == 0) { /* the map */
		s->space.map_failed = true;
		s->space.map_failed_free = free_pages(s);
		if (env_pages(s, &page, &used, &total))
			s->space.map_failed_free += total > used ? total - used : 0;
	} else if (e->code == ERR_EXHAUSTED ||
		   (e->code == ERR_SYS && e->sys == EIO && available(s->dir_fd) < DISK_NOTHING)) {
		/* LMDB calls a short write EIO, and a full disk gives short writes */
		s->space.disk_full = true;
	} else {
		return false;
	}
	if (!atomic_exchange(&s->full, true))
		log_warning("store: full; only what must be written is accepted: %s", e->message);
	return true;
}
