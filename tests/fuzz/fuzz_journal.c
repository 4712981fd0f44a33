/*
 * The journal, as a crash may have left it. The first byte chooses. Any bytes as the file, or as a group: parsed safely
 * or rejected. Or the rest of the input as groups that are written, then damaged in one byte: the scan must give a
 * prefix of them, unchanged.
 */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/event/event.h"
#include "runtime/store/group.h"
#include "runtime/store/journal.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FILE_BYTES (64u * 1024)
#define SEED 42u

static uint64_t touch(const void *p, size_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += ((const unsigned char *)p)[i];
	return sum;
}

static void group(const void *p, size_t n)
{
	struct err e = ERR_INIT;
	struct group_entry g;
	size_t at = 0;
	uint64_t sum = 0;
	int rc;

	while ((rc = group_next(p, n, &at, &g, &e)) > 0) {
		struct event_view ev;

		sum += touch(g.data, g.len) + strlen(g.key);
		for (size_t i = 0; g.tag == GROUP_RANGE && i < group_chunks(&g); i++)
			sum += group_chunk(&g, i).length;
		if (g.tag == GROUP_EVENT && event_view_of(g.data, g.len, 1, &ev, &e) != 0)
			return;
	}
	if ((rc == 0 && at != n) || (rc < 0 && e.code != ERR_CORRUPT) || sum == UINT64_MAX)
		abort();
}

static void file(const void *p, size_t n)
{
	struct journal_cursor c = { .seed = SEED };

	while (journal_next(&c, p, n))
		group(c.payload, c.head.length);
}

/* The input: where to damage and how, then payloads, each with a byte for its length. */
static void damaged(const uint8_t *p, size_t n)
{
	struct journal j = JOURNAL_INIT;
	struct journal_cursor c = { .seed = SEED };
	struct err e = ERR_INIT;
	const uint8_t *at, *end = p + n;
	unsigned written = 0, found = 0;

	if (n < 3)
		return;
	j.fd = memfd_create("journal", MFD_CLOEXEC);
	if (j.fd < 0 || ftruncate(j.fd, FILE_BYTES) != 0)
		abort();
	j.size = FILE_BYTES;
	j.seed = SEED;
	for (at = p + 3; at < end && at + 1 + *at <= end; at += 1 + *at) {
		buf_auto struct buf payload = BUF_INIT;

		for (unsigned k = 0; k < *at % 40u + 1; k++) /* some of them longer than a block */
			buf_append(&payload, at + 1, *at);
		if (!journal_fits(&j, payload.len))
			break;
		if (journal_append(&j, ++written, &payload, &e) != 0)
			abort();
	}
	mem_auto char *image = mem_alloc(FILE_BYTES);
	if (pread(j.fd, image, FILE_BYTES, 0) != FILE_BYTES)
		abort();
	image[(p[0] * 256u + p[1]) % FILE_BYTES] ^= (char)p[2];
	at = p + 3;
	while (journal_next(&c, image, FILE_BYTES)) {
		size_t times = *at % 40u + 1;

		if (++found > written || c.head.ordinal != found || c.head.length != times * *at)
			abort();
		for (size_t k = 0; k < times; k++)
			if (memcmp((const char *)c.payload + k * *at, at + 1, *at) != 0)
				abort();
		at += 1 + *at;
	}
	if (p[2] == 0 && found != written)
		abort();
	journal_close(&j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	mem_auto uint8_t *copy = mem_dup(data + 1, size - 1);
	switch (data[0] % 3) {
	case 0: file(copy, size - 1); break;
	case 1: group(copy, size - 1); break;
	default: damaged(copy, size - 1);
	}
	return 0;
}
