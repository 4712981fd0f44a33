#include "runtime/store/event_index.h"

#include "runtime/base/err.h"
#include "runtime/event/event.h"

#include <string.h>

/*
 * The part of an id that sorts by time comes first: the entries of ids that were created together, such as a session,
 * its thread, its turn and its process, are then on one page at the end of the table, and a commit writes that page
 * instead of one page per field.
 */
void event_index_prefix(int field, const char *id, size_t len, struct db_key *ret)
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

bool event_index_key(const struct event_view *ev, int field, struct db_key *ret)
{
	const struct id_text *id = &ev->ids[field];

	if (!id->text || !id_field_indexed((enum id_field)field))
		return false;
	event_index_prefix(field, id->text, id->len, ret);
	db_key_u64(ret, ev->sequence);
	return db_key_ok(ret);
}

int event_index_put(const struct db *d, MDB_txn *txn, const struct event_view *ev, struct err *e)
{
	MDB_val kv, none = { 0 };
	struct db_key k;

	for (int f = 0; f < ID_FIELD_COUNT; f++) {
		if (!event_index_key(ev, f, &k))
			continue;
		kv = db_key_val(&k);
		int rc = mdb_put(txn, d->t[DB_INDEX], &kv, &none, 0);
		if (rc != 0)
			return db_err(e, rc, "write an index entry");
	}
	return 0;
}
