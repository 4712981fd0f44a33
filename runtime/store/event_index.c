#include "runtime/store/event_index.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of a list: it is rewritten for each event that is added, so it must not become long. */
#define POSTINGS_MAX 96u
#define DISTANCE_MAX                                                                                     \
	10u /* bytes of a distance: seven bits each, the lowest first, all but the last with the top bit \
	     */

/*
 * The part of an id that sorts by time comes first: the lists of ids that were created together, such as a session,
 * its thread, its turn and its process, are then on one page at the end of the table, and a commit writes that page
 * instead of one page per field. False if the id is too long for a key.
 */
static bool make_prefix(int field, const struct id_text *id, struct db_key *ret)
{
	const char *sep = memchr(id->text, '_', id->len);
	size_t head = sep ? (size_t)(sep + 1 - id->text) : 0;

	db_key_reset(ret);
	db_key_add(ret, id->text + head, id->len - head);
	db_key_u8(ret, 0);
	db_key_u8(ret, (uint8_t)field);
	db_key_add(ret, id->text, head);
	db_key_u8(ret, 0);
	return db_key_ok(ret) && ret->len + sizeof(uint64_t) <= DB_KEY_MAX;
}

/* False if the event has no such id, or the field is not indexed. */
static bool make_event_prefix(const struct event_view *ev, int field, struct db_key *ret)
{
	const struct id_text *id = &ev->ids[field];

	return id->text && id_field_indexed((enum id_field)field) && make_prefix(field, id, ret);
}

static size_t put_distance(unsigned char *at, uint64_t v)
{
	size_t n = 0;

	for (; v >= 0x80; v >>= 7)
		at[n++] = (unsigned char)(v | 0x80);
	at[n++] = (unsigned char)v;
	return n;
}

/* 1; 0 at the end of the list; −1 if it is malformed. */
static int next_posting(const unsigned char **at, const unsigned char *end, uint64_t *sequence)
{
	uint64_t v = 0;
	unsigned shift = 0;

	if (*at == end)
		return 0;
	for (;; shift += 7) {
		unsigned char b;

		if (*at == end || shift >= 7 * DISTANCE_MAX)
			return -1;
		b = *(*at)++;
		v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80))
			break;
	}
	if (v == 0 || v > UINT64_MAX - *sequence)
		return -1;
	*sequence += v;
	return 1;
}

static int set_corrupt(struct err *e) { return err_set(e, ERR_CORRUPT, "a posting list of the index is malformed"); }

/* Begins to read the list under the cursor; false if it belongs to another id. */
static bool enter_postings(const struct db_key *prefix, const MDB_val *k, const MDB_val *v, uint64_t *ret_first,
			   const unsigned char **ret_at, const unsigned char **ret_end)
{
	if (k->mv_size != prefix->len + sizeof(uint64_t) || memcmp(k->mv_data, prefix->bytes, prefix->len) != 0)
		return false;
	*ret_first = db_u64_at((const char *)k->mv_data + prefix->len);
	*ret_at = v->mv_data;
	*ret_end = *ret_at + v->mv_size;
	return true;
}

/* Moves the cursor to the last list of the id that begins at or before `sequence`: an LMDB code. */
static int seek_postings(MDB_cursor *cur, const struct db_key *prefix, uint64_t sequence, MDB_val *k, MDB_val *v)
{
	struct db_key key = *prefix;
	int rc;

	db_key_u64(&key, sequence);
	*k = db_key_val(&key);
	rc = mdb_cursor_get(cur, k, v, MDB_SET_RANGE);
	if (rc == 0 && k->mv_size == key.len && memcmp(k->mv_data, key.bytes, key.len) == 0)
		return 0;
	if (rc != 0 && rc != MDB_NOTFOUND)
		return rc;
	rc = mdb_cursor_get(cur, k, v, rc == 0 ? MDB_PREV : MDB_LAST);
	if (rc == 0 && (k->mv_size != key.len || memcmp(k->mv_data, prefix->bytes, prefix->len) != 0))
		return MDB_NOTFOUND;
	return rc;
}

/* ---- writing ---- */

static int put_postings(const struct db *d, MDB_txn *txn, const struct db_key *prefix, uint64_t first, const void *p,
			size_t n, struct err *e)
{
	struct db_key key = *prefix;
	MDB_val k, v = { .mv_size = n, .mv_data = (void *)(uintptr_t)p };
	int rc;

	db_key_u64(&key, first);
	k = db_key_val(&key);
	rc = mdb_put(txn, d->t[DB_INDEX], &k, &v, 0);
	return rc == 0 ? 0 : db_err(e, rc, "write an index entry");
}

/* A list that is being written. */
struct postings {
	uint64_t first, last;
	size_t len;
	unsigned char bytes[POSTINGS_MAX + DISTANCE_MAX];
};

/* The newest list of the id: 0, or 1 if there is none that takes more sequences. */
static int load_postings(MDB_cursor *cur, const struct db_key *prefix, uint64_t sequence, struct postings *ret,
			 struct err *e)
{
	const unsigned char *at, *end;
	MDB_val k, v;
	int rc = seek_postings(cur, prefix, sequence, &k, &v);

	if (rc == MDB_NOTFOUND)
		return 1;
	if (rc != 0)
		return db_err(e, rc, "read an index");
	if (v.mv_size >= POSTINGS_MAX || !enter_postings(prefix, &k, &v, &ret->first, &at, &end))
		return 1;
	ret->last = ret->first;
	while ((rc = next_posting(&at, end, &ret->last)) > 0)
		;
	if (rc < 0 || ret->last >= sequence)
		return set_corrupt(e);
	ret->len = v.mv_size;
	if (ret->len)
		memcpy(ret->bytes, v.mv_data, ret->len);
	return 0;
}

/* Appends ascending sequences to the newest list of the id, or begins another one. */
static int put_sequences(const struct db *d, MDB_txn *txn, MDB_cursor *cur, const struct db_key *prefix,
			 const uint64_t *sequences, size_t n, struct err *e)
{
	struct postings list;
	int found = load_postings(cur, prefix, sequences[0], &list, e);

	if (found < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		if (found == 0 && list.len < POSTINGS_MAX) {
			list.len += put_distance(list.bytes + list.len, sequences[i] - list.last);
		} else {
			if (found == 0 && put_postings(d, txn, prefix, list.first, list.bytes, list.len, e) != 0)
				return -1;
			list.first = sequences[i];
			list.len = 0;
			found = 0;
		}
		list.last = sequences[i];
	}
	return put_postings(d, txn, prefix, list.first, list.bytes, list.len, e);
}

int event_index_put(const struct db *d, MDB_txn *txn, const struct event_view *ev, struct err *e)
{
	db_cursor_auto MDB_cursor *cur = NULL;
	struct db_key prefix;
	int rc = mdb_cursor_open(txn, d->t[DB_INDEX], &cur);

	if (rc != 0)
		return db_err(e, rc, "read an index");
	for (int f = 0; f < ID_FIELD_COUNT; f++)
		if (make_event_prefix(ev, f, &prefix) && put_sequences(d, txn, cur, &prefix, &ev->sequence, 1, e) != 0)
			return -1;
	return 0;
}

/* ---- many events ---- */

struct batch_list {
	int field;
	struct id_text id; /* of the first event */
	uint64_t *sequences;
	size_t count, size;
};

/* Most events have the ids of the previous one. The map's key is the field, as a character other than NUL, and the id.
 */
static struct batch_list *find_list(struct index_batch *b, int field, const struct id_text *id)
{
	struct batch_list *l = b->latest[field];
	char key[UINT8_MAX + 2]; /* the length of an id is one byte (event.h) */

	if (l && l->id.len == id->len && memcmp(l->id.text, id->text, id->len) == 0)
		return l;
	key[0] = (char)(field + 1);
	memcpy(key + 1, id->text, id->len);
	key[1 + id->len] = '\0';
	l = strmap_get(&b->lists, key);
	if (!l) {
		l = mem_zalloc(1, sizeof(*l));
		l->field = field;
		l->id = *id;
		strmap_put(&b->lists, key, l);
	}
	b->latest[field] = l;
	return l;
}

void index_batch_add(struct index_batch *b, const struct event_view *ev)
{
	for (int f = 0; f < ID_FIELD_COUNT; f++) {
		if (!ev->ids[f].text || !id_field_indexed((enum id_field)f))
			continue;
		struct batch_list *l = find_list(b, f, &ev->ids[f]);

		if (l->count == l->size) {
			l->size = l->size ? 2 * l->size : 16;
			l->sequences = mem_realloc(l->sequences, l->size * sizeof(*l->sequences));
		}
		l->sequences[l->count++] = ev->sequence;
	}
}

struct batch_put {
	const struct db *db;
	MDB_txn *txn;
	MDB_cursor *cur;
	struct err *e;
	int rc;
};

static void put_list(void *ctx, const char *key, void *value)
{
	const struct batch_list *l = value;
	struct batch_put *x = ctx;
	struct db_key prefix;

	if (x->rc == 0 && make_prefix(l->field, &l->id, &prefix))
		x->rc = put_sequences(x->db, x->txn, x->cur, &prefix, l->sequences, l->count, x->e);
}

int index_batch_put(struct index_batch *b, const struct db *d, MDB_txn *txn, struct err *e)
{
	db_cursor_auto MDB_cursor *cur = NULL;
	int rc = mdb_cursor_open(txn, d->t[DB_INDEX], &cur);
	struct batch_put x = { .db = d, .txn = txn, .cur = cur, .e = e };

	if (rc != 0)
		return db_err(e, rc, "read an index");
	strmap_each(&b->lists, put_list, &x);
	return x.rc;
}

static void free_list(void *ctx, const char *key, void *value)
{
	struct batch_list *l = value;

	free(l->sequences);
	free(l);
}

void index_batch_done(struct index_batch *b)
{
	strmap_each(&b->lists, free_list, NULL);
	strmap_done(&b->lists);
}

/* The oldest event is the first of its lists, which begin with their next one then. */
static int remove_first(const struct db *d, MDB_txn *txn, const struct db_key *prefix, uint64_t sequence,
			unsigned *puts, struct err *e)
{
	unsigned char rest[POSTINGS_MAX + DISTANCE_MAX];
	const unsigned char *at, *end;
	struct db_key key = *prefix;
	uint64_t next = sequence;
	MDB_val k, v;
	size_t n = 0;
	int rc, more;

	db_key_u64(&key, sequence);
	k = db_key_val(&key);
	rc = mdb_get(txn, d->t[DB_INDEX], &k, &v);
	if (rc == MDB_NOTFOUND)
		return 0;
	if (rc != 0)
		return db_err(e, rc, "read an index");
	at = v.mv_data;
	end = at + v.mv_size;
	more = next_posting(&at, end, &next);
	if (more < 0 || v.mv_size > sizeof(rest))
		return set_corrupt(e);
	if (more) {
		n = (size_t)(end - at);
		memcpy(rest, at, n);
	}
	++*puts;
	rc = mdb_del(txn, d->t[DB_INDEX], &k, NULL);
	if (rc != 0)
		return db_err(e, rc, "remove an index entry");
	return more ? put_postings(d, txn, prefix, next, rest, n, e) : 0;
}

int event_index_remove(const struct db *d, MDB_txn *txn, const struct event_view *ev, unsigned *puts, struct err *e)
{
	struct db_key prefix;

	for (int f = 0; f < ID_FIELD_COUNT; f++)
		if (make_event_prefix(ev, f, &prefix) && remove_first(d, txn, &prefix, ev->sequence, puts, e) != 0)
			return -1;
	return 0;
}

/* ---- reading ---- */

int index_scan_begin(const struct db *d, MDB_txn *txn, int field, const char *id, size_t len, uint64_t from,
		     struct index_scan *ret, struct err *e)
{
	int rc;

	*ret = (struct index_scan){ .from = from };
	(void)make_prefix(field, &(struct id_text){ .text = id, .len = len }, &ret->prefix);
	rc = mdb_cursor_open(txn, d->t[DB_INDEX], &ret->cur);
	return rc == 0 ? 0 : db_err(e, rc, "read an index");
}

void index_scan_end(struct index_scan *s) { db_cursor_close(&s->cur); }

/* The first list may begin before `from`. */
static int seek_first_postings(struct index_scan *s, MDB_val *k, MDB_val *v)
{
	int rc = seek_postings(s->cur, &s->prefix, s->from, k, v);

	if (rc != MDB_NOTFOUND)
		return rc;
	*k = db_key_val(&s->prefix);
	return mdb_cursor_get(s->cur, k, v, MDB_SET_RANGE);
}

int index_scan_next(struct index_scan *s, uint64_t *ret, struct err *e)
{
	do {
		MDB_val k, v;
		int rc = s->at ? next_posting(&s->at, s->end, &s->sequence) : 0;

		if (rc < 0)
			return set_corrupt(e);
		if (rc > 0)
			continue;
		rc = s->at ? mdb_cursor_get(s->cur, &k, &v, MDB_NEXT) : seek_first_postings(s, &k, &v);
		if (rc != 0 && rc != MDB_NOTFOUND)
			return db_err(e, rc, "read an index");
		if (rc == MDB_NOTFOUND || !enter_postings(&s->prefix, &k, &v, &s->sequence, &s->at, &s->end))
			return 0;
	} while (s->sequence < s->from);
	*ret = s->sequence;
	return 1;
}

int event_index_count(const struct db *d, MDB_txn *txn, uint64_t *ret, struct err *e)
{
	db_cursor_auto MDB_cursor *cur = NULL;
	uint64_t count = 0;
	MDB_val k, v;
	int rc = mdb_cursor_open(txn, d->t[DB_INDEX], &cur);

	while (rc == 0 && (rc = mdb_cursor_get(cur, &k, &v, MDB_NEXT)) == 0) {
		const unsigned char *at = v.mv_data, *end = at + v.mv_size;
		uint64_t sequence = 0;
		int more;

		do
			count++;
		while ((more = next_posting(&at, end, &sequence)) > 0);
		if (more < 0)
			return set_corrupt(e);
	}
	if (rc != MDB_NOTFOUND)
		return db_err(e, rc, "read an index");
	*ret = count;
	return 0;
}
