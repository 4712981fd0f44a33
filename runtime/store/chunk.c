#include "runtime/store/chunk.h"

#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/hash.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/store/layer.h"
#include "runtime/store/reader.h"
#include "runtime/store/store_private.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void chunk_key(struct db_key *k, const char *ref, uint64_t offset)
{
	db_key_reset(k);
	db_key_add(k, ref, strlen(ref) + 1);
	db_key_u64(k, offset);
}

int chunk_parse(const MDB_val *key, const MDB_val *value, char *ret_ref, struct chunk *ret, struct err *e)
{
	struct chunk_row row;
	const char *nul = key->mv_size > 9 ? memchr(key->mv_data, 0, key->mv_size) : NULL;

	if (!nul || (size_t)(nul - (const char *)key->mv_data) + 9 != key->mv_size || key->mv_size - 9 >= BATCH_REF_MAX)
		return err_set(e, ERR_CORRUPT, "a chunk's key is malformed");
	if (value->mv_size != sizeof(row))
		return err_set(e, ERR_CORRUPT, "a chunk of '%s' is malformed", (const char *)key->mv_data);
	memcpy(&row, value->mv_data, sizeof(row));
	if (row.length == 0 || row.length > CHUNK_MAX || row.version != 0)
		return err_set(e, ERR_CORRUPT, "a chunk of '%s' is malformed", (const char *)key->mv_data);
	memcpy(ret_ref, key->mv_data, key->mv_size - 8);
	*ret = (struct chunk){ .offset = db_u64_at(nul + 1), .length = row.length, .checksum = row.checksum };
	return 0;
}

/* Reads and checks a whole chunk: a checksum proves nothing about a part of it. */
int chunk_read(int fd, const char *ref, const struct chunk *c, char *dst, struct err *e)
{
	ssize_t n = fd_pread_all(fd, dst, c->length, c->offset);

	if (n < 0)
		return err_sys(e, errno, "read spool file '%s'", ref);
	if ((size_t)n != c->length)
		return err_set(e, ERR_CORRUPT, "spool file '%s' ends before byte %llu", ref,
			       (unsigned long long)(c->offset + c->length));
	if (hash64(dst, c->length, c->offset) != c->checksum)
		return err_set(e, ERR_CORRUPT, "spool file '%s': bytes %llu to %llu do not match their checksum", ref,
			       (unsigned long long)c->offset, (unsigned long long)(c->offset + c->length));
	return 0;
}

/* ---- making ranges durable ---- */

void chunk_syncs_done(struct chunk_syncs *y)
{
	free(y->files);
	*y = (struct chunk_syncs){ 0 };
}

static bool was_synced(const struct chunk_syncs *y, const struct stat *st)
{
	for (size_t i = 0; i < y->count; i++)
		if (y->files[i].ino == st->st_ino && y->files[i].dev == st->st_dev)
			return true;
	return false;
}

/*
 * After a failed sync the next one may succeed without having written anything, because the kernel marks the pages
 * clean when it reports the error. Writing the same bytes again makes them dirty. It does not say which pages failed,
 * so from the first failure on this is done with every range.
 */
static int write_again(const struct batch_range *r, char *tmp)
{
	for (uint64_t done = 0; done < r->length;) {
		size_t want = r->length - done < CHUNK_MAX ? (size_t)(r->length - done) : CHUNK_MAX;
		ssize_t n = fd_pread_all(r->fd, tmp, want, r->offset + done);

		if (n <= 0 || pwrite(r->fd, tmp, (size_t)n, (off_t)(r->offset + done)) != n)
			return -1;
		done += (uint64_t)n;
	}
	return 0;
}

static int sync_error(struct err *e, int errnum, const char *ref)
{
	err_sys(e, errnum, "sync spool file '%s'", ref);
	if (errnum == ENOSPC || errnum == EDQUOT)
		e->code = ERR_EXHAUSTED;
	return -1;
}

static int sync_range(struct store *store, struct batch_range *r, struct chunk_syncs *y, struct err *e)
{
	struct stat st;

	if (r->fd < 0)
		r->fd = openat(store->spool_fd, r->ref, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (r->fd < 0 || fstat(r->fd, &st) != 0)
		return err_sys(e, errno, "open spool file '%s'", r->ref);
	if (was_synced(y, &st) && !store->spool_suspect)
		return 0;
	if (store->spool_suspect && write_again(r, store->chunk_buffer) != 0)
		return sync_error(e, errno ? errno : EIO, r->ref);
	if (fdatasync(r->fd) != 0) {
		store->spool_suspect = true;
		return sync_error(e, errno, r->ref);
	}
	if (y->count == y->cap) {
		y->cap = y->cap ? y->cap * 2 : 16;
		y->files = mem_realloc(y->files, y->cap * sizeof(*y->files));
	}
	y->files[y->count++] = (struct chunk_sync){ .dev = st.st_dev, .ino = st.st_ino };
	return 0;
}

int chunk_is_known(struct reader *rd, const char *ref, struct err *e)
{
	db_cursor_auto MDB_cursor *cur = NULL;
	size_t prefix = strlen(ref) + 1;
	struct db_key k;
	MDB_val kv, v;
	int rc = mdb_cursor_open(rd->txn, rd->db->t[DB_CHUNKS], &cur);

	if (rc != 0)
		return db_err(e, rc, "read chunks");
	chunk_key(&k, ref, 0);
	kv = db_key_val(&k);
	if (mdb_cursor_get(cur, &kv, &v, MDB_SET_RANGE) == 0 && kv.mv_size > prefix &&
	    memcmp(kv.mv_data, ref, prefix) == 0)
		return 1;
	return layer_note(rd->over, 1u << GROUP_RANGE, 0, ref) != NULL;
}

/* The name of a new file is durable only after a sync of its directory: needed for the first range of each output. */
static int sync_name(struct store *store, struct batch_range *r, struct chunk_syncs *y, struct err *e)
{
	reader_auto struct reader rd = READER_INIT;

	if (reader_begin(store, &rd, e) != 0)
		return -1;
	int known = chunk_is_known(&rd, r->ref, e);
	if (known < 0)
		return -1;
	reader_end(&rd);
	r->first_cited = !known;
	if (known || y->dir_synced)
		return 0;
	if (fsync(store->spool_fd) != 0)
		return sync_error(e, errno, "directory");
	y->dir_synced = true;
	return 0;
}

/* Chunks are cut relative to the range, not to the file: ranges are committed one by one and never change. */
static int sum_range(struct batch_range *r, char *tmp, struct err *e)
{
	uint64_t done = 0;

	free(r->chunks);
	r->nchunks = 0;
	r->chunks = mem_zalloc((size_t)(r->length / CHUNK_MAX + 1), sizeof(*r->chunks));
	while (done < r->length) {
		size_t want = r->length - done < CHUNK_MAX ? (size_t)(r->length - done) : CHUNK_MAX;
		uint64_t at = r->offset + done;
		ssize_t n = fd_pread_all(r->fd, tmp, want, at);

		if (n < 0)
			return err_sys(e, errno, "read spool file '%s'", r->ref);
		if ((size_t)n != want)
			return err_set(e, ERR_CORRUPT, "spool file '%s' ends before byte %llu, which an event cites",
				       r->ref, (unsigned long long)(at + want));
		r->chunks[r->nchunks++] = (struct chunk){ .offset = at,
							  .length = (uint32_t)want,
							  .checksum = hash64(tmp, want, at) };
		done += want;
	}
	return 0;
}

/* Syncs before checksumming, so that the checksum is of bytes that are on the disk. */
int chunk_prepare(struct store *store, struct store_batch *b, struct chunk_syncs *y, struct err *e)
{
	uint64_t start;

	if (b->prepared || b->nranges == 0)
		return 0;
	if (!store->chunk_buffer)
		store->chunk_buffer = mem_alloc(CHUNK_MAX);
	start = clock_mono_ns();
	for (size_t i = 0; i < b->nranges; i++) {
		struct batch_range *r = &b->ranges[i];

		if (sync_range(store, r, y, e) != 0 || sync_name(store, r, y, e) != 0)
			return -1;
		if (sum_range(r, store->chunk_buffer, e) != 0) {
			if (e->code != ERR_CORRUPT || !batch_is_must(b))
				return -1;
			/* the event must be written; readers find out that the bytes are missing */
			log_error("store: %s", e->message);
			*e = ERR_INIT;
		}
	}
	pthread_mutex_lock(&store->mutex);
	store->stats.sync_us_total += (clock_mono_ns() - start) / 1000;
	pthread_mutex_unlock(&store->mutex);
	b->prepared = true;
	return 0;
}

int chunk_put(MDB_txn *txn, const struct db *d, const struct group_entry *range, struct err *e)
{
	for (size_t i = 0; i < group_chunks(range); i++) {
		struct chunk c = group_chunk(range, i);
		struct chunk_row row = { .length = c.length, .checksum = c.checksum };
		MDB_val kv, v = { .mv_size = sizeof(row), .mv_data = &row };
		struct db_key k;
		int rc;

		chunk_key(&k, range->key, c.offset);
		kv = db_key_val(&k);
		rc = mdb_put(txn, d->t[DB_CHUNKS], &kv, &v, 0);
		if (rc != 0)
			return db_err(e, rc, "write a chunk's checksum");
	}
	return 0;
}

/* Removes the rows and leaves a marker, so that a reader gets "expired" instead of "not found". */
int chunk_expire(MDB_txn *txn, const struct db *d, const char *ref, uint64_t *ret_freed, struct err *e)
{
	db_cursor_auto MDB_cursor *cur = NULL;
	MDB_val name = db_key_text(ref);
	size_t prefix = strlen(ref) + 1;
	uint64_t freed = 0;
	struct db_key k;
	MDB_val kv, v;
	int rc;

	chunk_key(&k, ref, 0);
	kv = db_key_val(&k);
	rc = mdb_cursor_open(txn, d->t[DB_CHUNKS], &cur);
	if (rc != 0)
		return db_err(e, rc, "remove an output");
	rc = mdb_cursor_get(cur, &kv, &v, MDB_SET_RANGE);
	while (rc == 0 && kv.mv_size > prefix && memcmp(kv.mv_data, ref, prefix) == 0) {
		char parsed[BATCH_REF_MAX];
		struct chunk c;

		if (chunk_parse(&kv, &v, parsed, &c, NULL) == 0)
			freed += c.length;
		rc = mdb_cursor_del(cur, 0);
		if (rc == 0)
			rc = mdb_cursor_get(cur, &kv, &v, MDB_NEXT);
	}
	if (rc != 0 && rc != MDB_NOTFOUND)
		return db_err(e, rc, "remove an output");
	*ret_freed = freed;
	return db_seal_put(txn, d->t[DB_BLOBS], &name, "\1", 1, e);
}
