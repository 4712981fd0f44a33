#include "runtime/store/stored_doc.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/store/lz.h"

#include <stdint.h>
#include <stdlib.h>

/* A JSON text begins with a brace. Before a compressed one are this byte and the length of the text, big-endian. */
#define COMPRESSED 1
#define COMPRESSED_HEAD 3u

_Static_assert(LZ_MAX <= UINT16_MAX, "a length is 16 bits");

/* Replaces *json and *len by the stored form, in `space`, if that is smaller. */
static void compress_doc(struct buf *space, const char **json, size_t *len)
{
	char *at;
	size_t n;

	if (*len > LZ_MAX)
		return;
	at = buf_reserve(space, COMPRESSED_HEAD + *len);
	n = lz_compress(*json, *len, at + COMPRESSED_HEAD);
	if (!n || n + COMPRESSED_HEAD >= *len)
		return;
	at[0] = COMPRESSED;
	at[1] = (char)(*len >> 8);
	at[2] = (char)*len;
	*json = at;
	*len = n + COMPRESSED_HEAD;
}

/*
 * An unchanged document is not written: in a copy-on-write tree that would copy its page and those above it. Most
 * documents are new, so the first attempt inserts; it changes nothing if there is one already.
 */
int stored_doc_put(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, const char *json, size_t len, struct err *e)
{
	buf_auto struct buf space = BUF_INIT;
	MDB_val old;
	int rc;

	compress_doc(&space, &json, &len);
	rc = db_seal_insert(txn, dbi, key, json, len, &old, e);
	if (rc <= 0)
		return rc;
	return db_seal_same(&old, json, len) ? 1 : db_seal_put(txn, dbi, key, json, len, e);
}

int stored_doc_open(const MDB_val *key, const MDB_val *value, struct buf *space, const char **ret, size_t *ret_len,
		    struct err *e)
{
	const unsigned char *p;
	const void *stored;
	size_t n;

	if (db_seal_open(key, value, &stored, &n, e) != 0)
		return -1;
	p = stored;
	if (n < COMPRESSED_HEAD || p[0] != COMPRESSED) {
		*ret = stored;
		*ret_len = n;
		return 0;
	}
	buf_reset(space);
	if (lz_expand(p + COMPRESSED_HEAD, n - COMPRESSED_HEAD, (size_t)p[1] << 8 | p[2], space, e) != 0)
		return -1;
	*ret = space->data;
	*ret_len = space->len;
	return 0;
}

struct expanded {
	struct expanded *next;
	struct buf text;
};

void expanded_release(struct expanded **list)
{
	while (*list) {
		struct expanded *x = *list;

		*list = x->next;
		buf_done(&x->text);
		free(x);
	}
}

struct buf *expanded_add(struct expanded **list)
{
	struct expanded *x = mem_zalloc(1, sizeof(*x));

	x->next = *list;
	*list = x;
	return &x->text;
}

int stored_doc_get(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, struct expanded **list, const char **ret, size_t *ret_len,
		   struct err *e)
{
	struct buf text = BUF_INIT;
	MDB_val v;
	int rc = mdb_get(txn, dbi, key, &v);

	if (rc != 0)
		return rc == MDB_NOTFOUND ? 1 : db_err(e, rc, "read a value");
	rc = stored_doc_open(key, &v, &text, ret, ret_len, e);
	if (text.data)
		*expanded_add(list) = text;
	return rc;
}
