/*
 * What the store reads back from its medium: records, chunk rows, sealed values and the pages of the database. The
 * first byte chooses the parser. Any bytes must be rejected as corrupt or parsed safely.
 */

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/hash.h"
#include "runtime/base/mem.h"
#include "runtime/event/event.h"
#include "runtime/store/chunk.h"
#include "runtime/store/lmdb_check.h"
#include "runtime/store/lz.h"
#include "runtime/store/record.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect_corrupt(int rc, const struct err *e)
{
	if (rc < 0 && (e->code != ERR_CORRUPT || !e->message[0]))
		abort();
}

static void open_record(const void *p, size_t n, struct record_block *block, struct err *e)
{
	struct event_view v;
	int rc = record_open(p, n, 7, block, e);

	expect_corrupt(rc, e);
	for (uint64_t sequence = 7; rc == 0 && sequence <= block->last; sequence++)
		expect_corrupt(record_event(block, sequence, &v, e), e);
}

static void record(void *p, size_t n, struct err *e)
{
	struct tip tip = { .sequence = 6 };
	record_block_auto struct record_block block = RECORD_BLOCK_INIT;
	buf_auto struct buf space = BUF_INIT;
	struct event_view v;

	open_record(p, n, &block, e);
	expect_corrupt(record_follow(p, n, 7, &tip, e), e);
	if (n > sizeof(struct record_head)) { /* the same bytes with a checksum that matches */
		const uint64_t checksum = hash64((char *)p + 8, n - 8, 7);

		memcpy(p, &checksum, sizeof(checksum));
		open_record(p, n, &block, e);
	}
	/* past the checksum, which a fuzzer does not guess: what is stored was written by us, or the checksum says so
	 */
	if (n > sizeof(struct record_head))
		expect_corrupt(
			event_view_of((char *)p + sizeof(struct record_head), n - sizeof(struct record_head), 7, &v, e),
			e);
	buf_reset(&space);
	if (n > 2)
		expect_corrupt(lz_expand((char *)p + 2, n - 2, *(unsigned char *)p << 4, &space, e), e);
}

/* The input's first half as key, the second as value. */
static void rows(void *p, size_t n, struct err *e)
{
	MDB_val key = { .mv_size = n / 2, .mv_data = p },
		value = { .mv_size = n - n / 2, .mv_data = (char *)p + n / 2 };
	char ref[BATCH_REF_MAX];
	struct chunk c;
	const void *v;
	size_t len;

	if (n >= sizeof(struct chunk_row)) { /* also with a value of the right length */
		MDB_val k = { .mv_size = n - sizeof(struct chunk_row), .mv_data = p };
		MDB_val w = { .mv_size = sizeof(struct chunk_row), .mv_data = (char *)p + k.mv_size };

		expect_corrupt(chunk_parse(&k, &w, ref, &c, e), e);
	}
	expect_corrupt(chunk_parse(&key, &value, ref, &c, e), e);
	expect_corrupt(db_seal_open(&key, &value, &v, &len, e), e);
}

static void pages(void *p, size_t n, struct err *e)
{
	fd_auto int fd = memfd_create("pages", MFD_CLOEXEC);

	if (fd < 0 || fd_write_all(fd, p, n) != 0)
		return;
	expect_corrupt(lmdb_check_fd(fd, 0, UINT64_MAX, e), e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const parsers[])(void *p, size_t n, struct err *e) = { record, rows, pages };
	struct err e = ERR_INIT;

	if (size < 1)
		return 0;
	mem_auto void *copy = mem_dup(data + 1, size - 1);
	parsers[data[0] % countof(parsers)](copy, size - 1, &e);
	return 0;
}
