/*
 * The journal: groups that are durable and not yet in the database.
 *
 * A commit of LMDB writes every page that it has changed, at various places, and syncs twice, and a client that waits
 * for an event waits for all of it. The journal needs one write to one place and one sync: all blocks of the file are
 * allocated in advance and its size never changes, so only the bytes themselves must reach the disk.
 *
 * Life of a group: it is projected (layer.h; an invalid group fails here), written to the journal, and acknowledged.
 * Some milliseconds later, when nothing is waiting, all groups in the journal are written to the database in one
 * transaction, with the ordinal of the newest (META_APPLIED): they are settled. The next group is then written to the
 * beginning of the file again. Readers see acknowledged groups immediately, as layers.
 *
 * A record is a head and the bytes of the group (group.h). It begins at a block boundary, so that no write touches the
 * block of an acknowledged record. The checksum covers the whole record and is seeded with the store's id; ordinals
 * have no gaps; and each record contains the checksum of the previous one, the first record that of the newest event in
 * the database. So a torn record, a stale one from an earlier use of the file, or one of another store ends the scan,
 * and none of them is ever used as data. One file is enough because it is reused only when everything in it is
 * settled.
 *
 * After a crash the groups after META_APPLIED are projected again, with the same result, and settled. If the journal
 * continues after a group that the database lacks, opening fails: the database is not the one that the journal belongs
 * to, and acknowledged groups are missing.
 *
 * If the journal fails, groups are committed to the database before they are acknowledged, as large groups always are.
 * The record that was being written may have reached the disk all the same. If its group then commits to the database,
 * META_APPLIED covers its ordinal and the record is ignored. If the database fails too and the group is rejected, the
 * record is overwritten with zeroes if possible, and the next group that becomes durable gets a higher ordinal.
 *
 * The first write after an idle period takes twice as long as the next one: it changes the file's timestamp, which some
 * file systems then sync too, and all caches are cold. A caller that expects a group soon says so (store_prepare), and
 * the block where its record will begin is overwritten with zeroes meanwhile. There is no record at that place, so a
 * crash changes nothing.
 *
 * A failed sync is never repeated on the same bytes, because the kernel may have marked them clean: the file is filled
 * with zeroes again before it is used again.
 */

#include "runtime/store/journal.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/hash.h"
#include "runtime/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x6a6c6162u
#define FILL (64u * 1024)

static uint64_t checksum_of(const void *record, size_t payload, uint64_t seed)
{
	return hash64((const char *)record + sizeof(uint64_t), sizeof(struct journal_head) - sizeof(uint64_t) + payload,
		      seed);
}

static size_t record_bytes(size_t payload)
{
	size_t n = sizeof(struct journal_head) + payload;

	return (n + JOURNAL_BLOCK - 1) / JOURNAL_BLOCK * JOURNAL_BLOCK;
}

/* A record counts only if length, checksum, ordinal and chain are right; the first that does not ends the journal. */
bool journal_next(struct journal_cursor *c, const void *file, size_t size)
{
	const char *here;
	struct journal_head h;

	if (size < c->at || size - c->at < sizeof(h))
		return false;
	here = (const char *)file + c->at;
	memcpy(&h, here, sizeof(h));
	if (h.magic != MAGIC || h.ordinal == 0 || h.length > size - c->at - sizeof(h))
		return false;
	if (c->payload && (h.ordinal != c->head.ordinal + 1 || h.previous != c->head.checksum))
		return false;
	if (h.checksum != checksum_of(here, h.length, c->seed))
		return false;
	c->first = !c->payload;
	c->head = h;
	c->payload = here + sizeof(h);
	c->at += record_bytes(h.length);
	return true;
}

/* ---- the file ---- */

static int write_at(int fd, const void *p, size_t n, uint64_t at)
{
	ssize_t w = pwrite(fd, p, n, (off_t)at);

	if (w >= 0 && (size_t)w != n)
		errno = ENOSPC; /* a full disk first causes a short write */
	return w >= 0 && (size_t)w == n ? 0 : -1;
}

int journal_read(int dir_fd, struct buf *ret, struct err *e)
{
	fd_auto int fd = openat(dir_fd, JOURNAL_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;
	ssize_t got;

	if (fd < 0 && errno == ENOENT)
		return 1;
	if (fd < 0 || fstat(fd, &st) != 0)
		return err_sys(e, errno, "open the journal");
	if (!S_ISREG(st.st_mode))
		return 1; /* journal_open reports it */
	if (st.st_size > (off_t)JOURNAL_MAX)
		return err_set(e, ERR_CORRUPT, "the journal is longer than %u MiB", JOURNAL_MAX >> 20);
	got = fd_pread_all(fd, buf_reserve(ret, (size_t)st.st_size), (size_t)st.st_size, 0);
	if (got < 0)
		return err_sys(e, errno, "read the journal");
	ret->len += (size_t)got;
	return 0;
}

static int fill_with_zeroes(int fd, uint64_t size)
{
	mem_auto char *zeroes = mem_zalloc(1, FILL);

	for (uint64_t at = 0; at < size; at += FILL)
		if (write_at(fd, zeroes, size - at < FILL ? (size_t)(size - at) : FILL, at) != 0)
			return -1;
	return ftruncate(fd, (off_t)size) != 0 || fsync(fd) != 0 ? -1 : 0;
}

static char *record_buffer(struct journal *j, size_t n)
{
	if (n > j->record_size) {
		free(j->record);
		j->record = mem_aligned(JOURNAL_BLOCK, n);
		j->record_size = n;
	}
	return j->record;
}

/*
 * Bypasses the page cache if the file system can do that with our block size, which takes a third less time. The file
 * contains no valid record now, so the test write does no harm.
 */
static void enable_direct_io(struct journal *j)
{
	char *block = record_buffer(j, JOURNAL_BLOCK);
	int flags = fcntl(j->fd, F_GETFL);

	memset(block, 0, JOURNAL_BLOCK);
	if (flags < 0 || fcntl(j->fd, F_SETFL, flags | O_DIRECT) != 0)
		return;
	if (write_at(j->fd, block, JOURNAL_BLOCK, 0) != 0)
		(void)fcntl(j->fd, F_SETFL, flags);
}

/*
 * Every block is allocated and written here, so that a later write needs no space and its sync has no block map to
 * update. A file of the right size is reused as it is, except after a failure (see above).
 */
int journal_open(struct journal *j, int dir_fd, uint64_t size, struct err *e)
{
	bool failed = j->why[0], whole;
	struct stat st;

	size = size / JOURNAL_BLOCK * JOURNAL_BLOCK;
	j->fd = openat(dir_fd, JOURNAL_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (j->fd < 0 || fstat(j->fd, &st) != 0)
		goto fail;
	whole = S_ISREG(st.st_mode) && (uint64_t)st.st_size == size && (uint64_t)st.st_blocks * 512 >= size;
	if ((failed || !whole) && (fill_with_zeroes(j->fd, size) != 0 || fsync(dir_fd) != 0))
		goto fail;
	enable_direct_io(j);
	j->size = size;
	j->at = 0;
	j->records = 0;
	j->why[0] = '\0';
	return 0;
fail:
	err_sys(e, errno, "create the journal");
	fd_close(&j->fd);
	snprintf(j->why, sizeof(j->why), "%.150s", e->message);
	return -1;
}

void journal_close(struct journal *j)
{
	fd_close(&j->fd);
	free(j->record);
	j->record = NULL;
	j->record_size = 0;
}

void journal_reset(struct journal *j, uint64_t previous)
{
	j->at = 0;
	j->records = 0;
	j->previous = previous;
}

bool journal_fits(const struct journal *j, size_t payload)
{
	return j->fd >= 0 && payload < JOURNAL_MAX && record_bytes(payload) <= j->size - j->at;
}

static int wipe_next_block(struct journal *j)
{
	char *block = record_buffer(j, JOURNAL_BLOCK);

	memset(block, 0, JOURNAL_BLOCK);
	return write_at(j->fd, block, JOURNAL_BLOCK, j->at) != 0 || fdatasync(j->fd) != 0 ? -1 : 0;
}

/*
 * The first block of the failed record is wiped, so that recovery does not find a group that may be rejected. Best
 * effort.
 */
static int close_after_error(struct journal *j, struct err *e)
{
	err_sys(e, errno, "write to the journal");
	(void)wipe_next_block(j);
	fd_close(&j->fd);
	snprintf(j->why, sizeof(j->why), "%.150s", e->message);
	return -1;
}

int journal_append(struct journal *j, uint64_t ordinal, const struct buf *payload, struct err *e)
{
	size_t size = record_bytes(payload->len);
	char *record = record_buffer(j, size);
	struct journal_head h = {
		.previous = j->previous, .ordinal = ordinal, .length = (uint32_t)payload->len, .magic = MAGIC
	};

	memcpy(record, &h, sizeof(h));
	if (payload->len)
		memcpy(record + sizeof(h), payload->data, payload->len);
	memset(record + sizeof(h) + payload->len, 0, size - sizeof(h) - payload->len);
	h.checksum = checksum_of(record, payload->len, j->seed);
	memcpy(record, &h.checksum, sizeof(h.checksum));
	if (write_at(j->fd, record, size, j->at) != 0 || fdatasync(j->fd) != 0)
		return close_after_error(j, e);
	j->at += size;
	j->previous = h.checksum;
	j->records++;
	return 0;
}

int journal_warm_up(struct journal *j, struct err *e)
{
	if (!journal_fits(j, 1))
		return 0;
	return wipe_next_block(j) != 0 ? close_after_error(j, e) : 0;
}
