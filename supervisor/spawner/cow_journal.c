/*
 * Reads the journal of an apply. A kill or a power cut can tear its end: the records that were written since the last
 * sync. None of their changes had begun, because a change begins after its record is synced. Any other record that
 * cannot be read is damage: what follows it did happen, so that an undo by the rest would restore a part and call it
 * all.
 *
 * The marks tell the two apart. UNDO_SYNCED is written after everything before it was synced, UNDO_END at the end of
 * the apply. Their hashes are bound to their offsets, so that they are found behind a record that cannot be read; one
 * that is there proves damage.
 */

#include "supervisor/spawner/cow_undo.h"

#include "runtime/base/buf.h"
#include "runtime/base/fd.h"

#include <errno.h>
#include <string.h>

#define JOURNAL_BYTES_MAX ((uint64_t)UNDO_RECORDS_MAX * 4 * (sizeof(struct undo_record) + CHANGE_PATH_MAX))

static bool is_record(const struct buf *text, size_t at, struct undo_record *ret)
{
	if (text->len - at < sizeof *ret)
		return false;
	memcpy(ret, text->data + at, sizeof *ret);
	return ret->kind < UNDO_KIND_COUNT && (ret->kind == UNDO_CHANGE) == (ret->path_len > 0) &&
	       ret->path_len <= CHANGE_PATH_MAX && text->len - at - sizeof *ret >= ret->path_len &&
	       ret->hash ==
		       hash64(text->data + at + sizeof ret->hash, sizeof *ret - sizeof ret->hash + ret->path_len, at);
}

/* Whether everything before some later offset was synced. A journal of an earlier version has no marks: there, any
 * record that follows counts as one. */
static bool is_synced_beyond(const struct buf *text, size_t at, bool marked)
{
	struct undo_record r;
	while (++at < text->len) {
		if (is_record(text, at, &r) && (!marked || r.kind == UNDO_SYNCED || r.kind == UNDO_END))
			return true;
	}
	return false;
}

static int read_text(int fd, struct buf *text)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return -1;
	errno = EFBIG;
	if ((uint64_t)st.st_size > JOURNAL_BYTES_MAX)
		return -1;
	ssize_t n = fd_pread_all(fd, buf_reserve(text, (size_t)st.st_size + 1), (size_t)st.st_size, 0);
	if (n < 0)
		return -1;
	buf_extend(text, (size_t)n);
	return 0;
}

int cow_journal_read(int fd, cow_journal_fn fn, void *ctx, struct cow_journal_end *ret)
{
	buf_auto struct buf text = BUF_INIT;
	struct undo_record r;
	size_t at = 0;
	bool marked = false, ended = false, valid = true;
	if (read_text(fd, &text) < 0)
		return -1;
	for (; at < text.len && is_record(&text, at, &r); at += sizeof r + r.path_len) {
		marked |= r.kind == UNDO_SYNCED;
		ended |= r.kind == UNDO_END;
		if (!(valid = fn(ctx, &r, text.data + at + sizeof r) == 0))
			break;
	}
	ret->valid = at;
	ret->interrupted = marked ? !ended : at < text.len || at == 0;
	/* After the end there are only notes of undos, whose last one can be torn. */
	ret->damaged = !valid || is_synced_beyond(&text, at, marked || at == 0);
	return 0;
}
