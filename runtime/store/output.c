/* Reads outputs: first the inline bytes, then chunks of the spool file, each checked as a whole. */

#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/store/chunk.h"
#include "runtime/store/damage.h"
#include "runtime/store/layer.h"
#include "runtime/store/reader.h"
#include "runtime/store/store_private.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define READ_MAX (1u << 20)

/* Appends the part of the range that is stored inline. ERR_EXPIRED if the output was removed. */
static int read_inline(const struct reader *r, const char *ref, uint64_t offset, size_t length, struct buf *out,
		       size_t *ret_got, struct err *e)
{
	MDB_val key = db_key_text(ref);
	const struct group_entry *newer;
	const void *v;
	const unsigned char *p;
	size_t n;
	int rc = 0;

	*ret_got = 0;
	if (key.mv_size == 0 || key.mv_size >= BATCH_REF_MAX)
		return 0;
	newer = layer_note(r->over, 1u << GROUP_INLINE | 1u << GROUP_EXPIRE, 0, ref);
	if (newer) {
		v = newer->tag == GROUP_EXPIRE ? "\1" : newer->data;
		n = newer->tag == GROUP_EXPIRE ? 1 : newer->len;
	} else
		rc = db_seal_get(r->txn, r->db->t[DB_BLOBS], &key, &v, &n, e);
	if (rc < 0)
		return err_wrap(e, "output '%s'", ref);
	if (rc > 0)
		return 0;
	p = v;
	if (n == 0 || p[0] > 1)
		return err_set(e, ERR_CORRUPT, "output '%s' is malformed", ref);
	if (p[0] == 1)
		return err_set(e, ERR_EXPIRED, "output '%s' has expired", ref);
	p++;
	n--;
	if (offset >= n)
		return 0;
	*ret_got = n - offset < length ? (size_t)(n - offset) : length;
	buf_append(out, p + offset, *ret_got);
	return 0;
}

/*
 * The chunk that contains the byte at `offset`; 1 if there is none. In the table it is the row before the first one
 * with a larger offset.
 */
static int find_chunk(const struct reader *r, const char *ref, uint64_t offset, struct chunk *ret, struct err *e)
{
	db_cursor_auto MDB_cursor *cur = NULL;
	char found[BATCH_REF_MAX];
	struct chunk c;
	struct db_key k;
	MDB_val kv, v;
	int rc;

	if (offset == UINT64_MAX)
		return 1;
	if (layer_chunk(r->over, ref, offset, ret))
		return 0;
	chunk_key(&k, ref, offset + 1);
	kv = db_key_val(&k);
	rc = mdb_cursor_open(r->txn, r->db->t[DB_CHUNKS], &cur);
	if (rc != 0)
		return db_err(e, rc, "read chunks");
	rc = mdb_cursor_get(cur, &kv, &v, MDB_SET_RANGE);
	if (rc == 0)
		rc = mdb_cursor_get(cur, &kv, &v, MDB_PREV);
	else if (rc == MDB_NOTFOUND)
		rc = mdb_cursor_get(cur, &kv, &v, MDB_LAST);
	if (rc != 0)
		return rc == MDB_NOTFOUND ? 1 : db_err(e, rc, "read chunks");
	if (kv.mv_size <= strlen(ref) || memcmp(kv.mv_data, ref, strlen(ref) + 1) != 0)
		return 1;
	if (chunk_parse(&kv, &v, found, &c, e) != 0)
		return -1;
	if (offset - c.offset >= c.length)
		return 1;
	*ret = c;
	return 0;
}

static int read_chunks(const struct reader *r, const char *ref, uint64_t offset, size_t length, struct buf *out,
		       struct err *e)
{
	mem_auto char *tmp = NULL;
	fd_auto int fd = -1;
	struct chunk c;
	int rc;

	while (length > 0 && (rc = find_chunk(r, ref, offset, &c, e)) != 1) {
		size_t skip, n;

		if (rc < 0)
			return -1;
		if (fd < 0) {
			fd = openat(r->store->spool_fd, ref, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
			if (fd < 0 && errno == ENOENT)
				return err_set(e, ERR_CORRUPT, "spool file '%s' is missing", ref);
			if (fd < 0)
				return err_sys(e, errno, "open spool file '%s'", ref);
			tmp = mem_alloc(CHUNK_MAX);
		}
		if (chunk_read(fd, ref, &c, tmp, e) != 0)
			return -1;
		skip = (size_t)(offset - c.offset);
		n = c.length - skip < length ? c.length - skip : length;
		buf_append(out, tmp + skip, n);
		offset += n;
		length -= n;
	}
	return 0;
}

/* At most READ_MAX bytes at a time: a read transaction is open meanwhile, and the caller is often the loop thread. */
static int read_output(struct store *store, const char *output_ref, uint64_t offset, size_t length, struct buf *out,
		       struct err *e)
{
	reader_auto struct reader r = READER_INIT;
	size_t before = out->len, got;

	if (!id_valid(output_ref, strlen(output_ref)))
		return err_field(e, "outputRef", "not an output ref");
	if (length > READ_MAX)
		length = READ_MAX;
	if (reader_begin(store, &r, e) != 0)
		return -1;
	if (read_inline(&r, output_ref, offset, length, out, &got, e) != 0)
		return -1;
	if (read_chunks(&r, output_ref, offset + got, length - got, out, e) != 0) {
		out->len = before; /* return nothing of a damaged range */
		return -1;
	}
	return 0;
}

int store_output_read(struct store *store, const char *output_ref, uint64_t offset, size_t length, struct buf *out,
		      struct err *e)
{
	return damage_note(store, read_output(store, output_ref, offset, length, out, e), e);
}

int store_output_open(struct store *store, const char *output_ref, struct err *e)
{
	int fd = id_valid(output_ref, strlen(output_ref))
			 ? openat(store->spool_fd, output_ref, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)
			 : -1;

	if (fd < 0)
		return err_set(e, ERR_NOT_FOUND, "output '%s' has no spool file", output_ref);
	return fd;
}

int store_output_whole(struct store *store, const char *output_ref, size_t most, struct buf *out, struct err *e)
{
	size_t start = out->len, before;

	do {
		before = out->len;
		if (store_output_read(store, output_ref, before - start, READ_MAX, out, e) < 0 ||
		    (out->len - start > most &&
		     err_set(e, ERR_EXHAUSTED, "'%s' has more than %zu bytes", output_ref, most) < 0)) {
			out->len = start;
			return -1;
		}
	} while (out->len - before == READ_MAX);
	return 0;
}
