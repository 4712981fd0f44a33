/*
 * The journal: groups that are durable and not yet in the database.
 *
 * A commit of LMDB writes each page that it touched, wherever that lies, and waits twice. Somebody who waits for a fact
 * waits for all of that. A journal needs one write to one place and one wait: the file has its blocks from the
 * beginning, is never longer or shorter, and so nothing but the bytes themselves must reach the disk.
 *
 * Life of a group: it is folded (layer.h; what is wrong with it shows here), written to the journal, and acknowledged.
 * Some milliseconds later, when nothing is waiting, everything that the journal holds is put into the database in one
 * transaction, with the ordinal of the newest group (META_APPLIED): it is settled. The next group then stands at the
 * file's beginning again. Readers see acknowledged groups at once, as layers.
 *
 * A record is a head and the group's bytes (group.h), and begins at a block, so that no write touches the block of an
 * acknowledged one. The checksum covers all of it and is seeded with the store's id; ordinals have no gap; and each
 * record bears the checksum of the one before, the first that of the newest event in the database. So what is torn,
 * what a longer life of the file has left behind, and what belongs to another store ends the scan, and none of it is
 * ever data. One file is enough because it is begun again only when the database has everything.
 *
 * After a crash the groups behind META_APPLIED are folded again, which gives the same, and settled. A journal that goes
 * on after a group that the database lacks is refused: then the database is not the one that it belongs to, and what is
 * missing between them was acknowledged.
 *
 * When the journal fails, groups are committed to the database before they are acknowledged, as large ones always are.
 * The record that was being written may have reached the disk all the same. If its group is in the database, its
 * ordinal is behind META_APPLIED and it counts for nothing; if the database fails as well and the group is refused, the
 * record is wiped out, as well as that goes, and the next group that does become durable takes its ordinal out of play.
 *
 * The first write after a while takes twice as long as the one behind it: it changes the file's time, which some file
 * systems then sync as well, and nothing on its way is in the processor's caches. Whoever knows that a group is about
 * to come says so (store_prepare), and the block where its record will begin is written with zeroes meanwhile. Nothing
 * there counts, so a crash finds nothing that it would not find otherwise.
 *
 * A sync that failed is never tried again on the same bytes (the kernel may call them clean): the file is filled with
 * zeroes anew before it is used again.
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

static size_t room_of(size_t payload)
{
	size_t n = sizeof(struct journal_head) + payload;

	return (n + JOURNAL_BLOCK - 1) / JOURNAL_BLOCK * JOURNAL_BLOCK;
}

bool journal_next(struct journal_cursor *c, const void *file, size_t size)
{
	const char *here = (const char *)file + c->at;
	struct journal_head h;

	if (size < c->at || size - c->at < sizeof(h))
		return false;
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
	c->at += room_of(h.length);
	return true;
}

/* ---- the file ---- */

static int write_at(int fd, const void *p, size_t n, uint64_t at)
{
	ssize_t w = pwrite(fd, p, n, (off_t)at);

	if (w >= 0 && (size_t)w != n)
		errno = ENOSPC; /* what a full disk does first */
	return w >= 0 && (size_t)w == n ? 0 : -1;
}

int journal_read(int dir_fd, struct buf *ret, struct err *e)
{
	fd_auto int fd = openat(dir_fd, JOURNAL_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;
	size_t got = 0;

	if (fd < 0 && errno == ENOENT)
		return 1;
	if (fd < 0 || fstat(fd, &st) != 0)
		return err_sys(e, errno, "open the journal");
	if (!S_ISREG(st.st_mode))
		return 1; /* nor can one be made, which is said then */
	if (st.st_size > (off_t)JOURNAL_MAX)
		return err_set(e, ERR_CORRUPT, "the journal is longer than %u MiB", JOURNAL_MAX >> 20);
	char *p = buf_reserve(ret, (size_t)st.st_size);
	while (got < (size_t)st.st_size) {
		ssize_t n = pread(fd, p + got, (size_t)st.st_size - got, (off_t)got);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, errno, "read the journal");
		if (n == 0)
			break;
		got += (size_t)n;
	}
	ret->len += got;
	return 0;
}

static int fill(int fd, uint64_t size)
{
	mem_auto char *zeroes = mem_zalloc(1, FILL);

	for (uint64_t at = 0; at < size; at += FILL)
		if (write_at(fd, zeroes, size - at < FILL ? (size_t)(size - at) : FILL, at) != 0)
			return -1;
	return ftruncate(fd, (off_t)size) != 0 || fsync(fd) != 0 ? -1 : 0;
}

static char *record_room(struct journal *j, size_t n)
{
	if (n > j->room) {
		free(j->record);
		j->record = mem_aligned(JOURNAL_BLOCK, n);
		j->room = n;
	}
	return j->record;
}

/*
 * Past the page cache where the file system can do that with our blocks, which takes a third less time. Nothing in the
 * file counts now, so a try does no harm.
 */
static void go_direct(struct journal *j)
{
	char *block = record_room(j, JOURNAL_BLOCK);
	int flags = fcntl(j->fd, F_GETFL);

	memset(block, 0, JOURNAL_BLOCK);
	if (flags < 0 || fcntl(j->fd, F_SETFL, flags | O_DIRECT) != 0)
		return;
	if (write_at(j->fd, block, JOURNAL_BLOCK, 0) != 0)
		(void)fcntl(j->fd, F_SETFL, flags);
}

int journal_open(struct journal *j, int dir_fd, uint64_t size, struct err *e)
{
	bool failed = j->why[0], whole;
	struct stat st;

	size = size / JOURNAL_BLOCK * JOURNAL_BLOCK;
	j->fd = openat(dir_fd, JOURNAL_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (j->fd < 0 || fstat(j->fd, &st) != 0)
		goto fail;
	whole = S_ISREG(st.st_mode) && (uint64_t)st.st_size == size && (uint64_t)st.st_blocks * 512 >= size;
	if ((failed || !whole) && (fill(j->fd, size) != 0 || fsync(dir_fd) != 0))
		goto fail;
	go_direct(j);
	j->size = size;
	j->at = 0;
	j->records = 0;
	j->why[0] = '\0';
	return 0;
fail:
	err_sys(e, errno, "make the journal");
	fd_close(&j->fd);
	snprintf(j->why, sizeof(j->why), "%.150s", e->message);
	return -1;
}

void journal_close(struct journal *j)
{
	fd_close(&j->fd);
	free(j->record);
	j->record = NULL;
	j->room = 0;
}

void journal_reset(struct journal *j, uint64_t previous)
{
	j->at = 0;
	j->records = 0;
	j->previous = previous;
}

bool journal_fits(const struct journal *j, size_t payload)
{
	return j->fd >= 0 && payload < JOURNAL_MAX && room_of(payload) <= j->size - j->at;
}

static int wipe(struct journal *j)
{
	char *block = record_room(j, JOURNAL_BLOCK);

	memset(block, 0, JOURNAL_BLOCK);
	return write_at(j->fd, block, JOURNAL_BLOCK, j->at) != 0 || fdatasync(j->fd) != 0 ? -1 : 0;
}

static int give_up(struct journal *j, struct err *e)
{
	err_sys(e, errno, "write to the journal");
	(void)wipe(j);
	fd_close(&j->fd);
	snprintf(j->why, sizeof(j->why), "%.150s", e->message);
	return -1;
}

int journal_append(struct journal *j, uint64_t ordinal, const struct buf *payload, struct err *e)
{
	size_t room = room_of(payload->len);
	char *record = record_room(j, room);
	struct journal_head h = {
		.previous = j->previous, .ordinal = ordinal, .length = (uint32_t)payload->len, .magic = MAGIC
	};

	memcpy(record, &h, sizeof(h));
	if (payload->len)
		memcpy(record + sizeof(h), payload->data, payload->len);
	memset(record + sizeof(h) + payload->len, 0, room - sizeof(h) - payload->len);
	h.checksum = checksum_of(record, payload->len, j->seed);
	memcpy(record, &h.checksum, sizeof(h.checksum));
	if (write_at(j->fd, record, room, j->at) != 0 || fdatasync(j->fd) != 0)
		return give_up(j, e);
	j->at += room;
	j->previous = h.checksum;
	j->records++;
	return 0;
}

int journal_warm_up(struct journal *j, struct err *e)
{
	if (!journal_fits(j, 1))
		return 0;
	return wipe(j) != 0 ? give_up(j, e) : 0;
}
