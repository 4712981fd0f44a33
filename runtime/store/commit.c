#include "runtime/store/commit.h"

#include "runtime/base/log.h"
#include "runtime/store/chunk.h"
#include "runtime/store/idem.h"
#include "runtime/store/models.h"
#include "runtime/store/state.h"

#include <string.h>

int commit_txn(struct store *s, int (*fn)(struct store *s, MDB_txn *txn, void *ctx, struct err *e), void *ctx,
	       bool *ret_in_doubt, struct err *e)
{
	MDB_txn *txn;
	uint64_t start = store_mono_ns(), took;
	int rc;

	*ret_in_doubt = false;
	rc = mdb_txn_begin(s->db.env, NULL, 0, &txn);
	if (rc != 0)
		return db_err(e, rc, "begin a transaction");
	s->txn_id = mdb_txn_id(txn);
	if (fn(s, txn, ctx, e) != 0) {
		mdb_txn_abort(txn);
		return -1;
	}
	rc = mdb_txn_commit(txn);
	if (rc != 0) {
		*ret_in_doubt = true;
		return db_err(e, rc, "commit");
	}
	took = (store_mono_ns() - start) / 1000;
	pthread_mutex_lock(&s->mutex);
	s->stats.commits++;
	s->stats.sync_us_total += took;
	if (took > s->stats.max_commit_us)
		s->stats.max_commit_us = took;
	pthread_mutex_unlock(&s->mutex);
	return 0;
}

/*
 * The part of an id that sorts by time stands first: what is made together, say a session, its thread, its turn and its
 * process, then lies on one page at the end of the table, and a commit touches that page instead of one for each field.
 */
void commit_index_prefix(int field, const char *id, size_t len, struct db_key *ret)
{
	const char *sep = memchr(id, '_', len);
	size_t head = sep ? (size_t)(sep + 1 - id) : 0;

	db_key_reset(ret);
	db_key_add(ret, id + head, len - head);
	db_key_u8(ret, 0);
	db_key_u8(ret, (uint8_t)field);
	db_key_add(ret, id, head);
	db_key_u8(ret, 0);
}

bool commit_index_key(const struct event_view *ev, int field, struct db_key *ret)
{
	const struct id_text *id = &ev->ids[field];

	if (!id->text || !id_field_indexed((enum id_field)field))
		return false;
	commit_index_prefix(field, id->text, id->len, ret);
	db_key_u64(ret, ev->sequence);
	return db_key_ok(ret);
}

int commit_index(const struct db *d, MDB_txn *txn, const struct event_view *ev, struct err *e)
{
	MDB_val kv, none = { 0 };
	struct db_key k;

	for (int f = 0; f < ID_FIELD_COUNT; f++) {
		if (!commit_index_key(ev, f, &k))
			continue;
		kv = db_key_val(&k);
		int rc = mdb_put(txn, d->t[DB_INDEX], &kv, &none, 0);
		if (rc != 0)
			return db_err(e, rc, "write an index entry");
	}
	return 0;
}

static int put_event(struct store *s, MDB_txn *txn, const void *event, size_t len, struct tip *tip, struct models *m, struct err *e)
{
	struct event_view ev;
	struct db_key k;
	MDB_val kv, v = { .mv_size = record_size(len) };
	int rc;

	if (event_view_of(event, len, tip->sequence + 1, &ev, e) != 0)
		return -1;
	db_key_reset(&k);
	db_key_u64(&k, ev.sequence);
	kv = db_key_val(&k);
	rc = mdb_put(txn, s->db.t[DB_EVENTS], &kv, &v, MDB_RESERVE | MDB_APPEND);
	if (rc == MDB_KEYEXIST) /* a larger key than the next sequence: someone else wrote here */
		return err_set(e, ERR_CORRUPT, "the log goes on after its last event");
	if (rc != 0)
		return db_err(e, rc, "write an event");
	record_write(v.mv_data, event, len, ev.real_us, tip);
	if (commit_index(&s->db, txn, &ev, e) != 0)
		return -1;
	event_view_payload(&ev);
	if (s->fold && s->fold(m, &ev, e) != 0)
		return err_wrap(e, "fold event %llu (%s)", (unsigned long long)ev.sequence, event_info(ev.type)->name);
	return 0;
}

static int put_item(struct store *s, MDB_txn *txn, struct batch_item *it, struct err *e)
{
	MDB_val key = { .mv_size = strlen(it->key), .mv_data = it->key };
	struct db_key k;

	switch (it->kind) {
	case ITEM_INLINE:
		return db_seal_put(txn, s->db.t[DB_BLOBS], &key, it->value.data, it->value.len, e);
	case ITEM_EXPIRE:
		return chunk_expire(txn, &s->db, it->key, &it->freed, e);
	case ITEM_IDEM:
		return idem_put(txn, &s->db, it, e);
	case ITEM_META:
		db_key_reset(&k);
		db_key_add(&k, META_USER, strlen(META_USER));
		db_key_add(&k, it->key, key.mv_size);
		if (!db_key_ok(&k))
			return err_set(e, ERR_INVALID, "a meta name of %zu bytes", key.mv_size);
		key = db_key_val(&k);
		return db_seal_put(txn, s->db.t[DB_META], &key, it->value.data, it->value.len, e);
	}
	return err_set(e, ERR_INTERNAL, "an unknown item in a batch");
}

static int put_group(struct store *s, MDB_txn *txn, void *ctx, struct err *e)
{
	struct models m = { .txn = txn, .dbi = s->db.t[s->models] };
	struct tip tip = s->tip;

	for (struct store_batch *b = ctx; b; b = b->next) {
		for (size_t i = 0; i < b->nevents; i++)
			if (put_event(s, txn, b->records.data + b->events[i].offset, b->events[i].length, &tip, &m, e) != 0)
				return -1;
		for (size_t i = 0; i < b->nranges; i++)
			if (chunk_put(txn, &s->db, &b->ranges[i], e) != 0)
				return -1;
		for (size_t i = 0; i < b->nitems; i++)
			if (put_item(s, txn, &b->items[i], e) != 0)
				return -1;
	}
	s->next_tip = tip;
	return 0;
}

void commit_done(struct store *s, struct store_batch *group)
{
	uint64_t next = s->next_tip.sequence + 1;
	int64_t bytes = 0, files = 0;

	for (struct store_batch *b = group; b; b = b->next)
		next -= b->nevents;
	for (struct store_batch *b = group; b; b = b->next) {
		b->status = 0;
		if (b->nevents) {
			b->first_sequence = next;
			b->last_sequence = next + b->nevents - 1;
			next += b->nevents;
		}
		for (size_t i = 0; i < b->nranges; i++) {
			bytes += (int64_t)b->ranges[i].length;
			files += b->ranges[i].first_cited;
		}
	}
	s->tip = s->next_tip;
	if (bytes)
		space_spool_add(s, bytes, files);
}

int commit_group(struct store *s, struct store_batch *group, bool *ret_in_doubt, struct err *e)
{
	if (commit_txn(s, put_group, group, ret_in_doubt, e) != 0)
		return -1;
	commit_done(s, group);
	return 0;
}
