/*
 * Version 3 may have groups that are in the journal only, which programs of version 2 would not look for: nothing but
 * the version changes. Version 2 has other keys in the index than version 1 (event_index_prefix). The table is emptied
 * and filled again from the log, in transactions of a bounded size; the version is written with the last of them, so
 * that an interrupted run starts over.
 */

#include "runtime/store/upgrade.h"

#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/event/event.h"
#include "runtime/store/event_index.h"
#include "runtime/store/store_meta.h"
#include "runtime/store/store_private.h"

#define INDEX_VERSION 2u /* since when the index is as it is */
#define EVENTS_A_TXN 150 /* with an entry for each indexed id of each */

static int index_event(struct store *store, MDB_txn *txn, uint64_t sequence, struct err *e)
{
	struct db_key k = { .len = 0 };
	struct err why = ERR_INIT;
	struct event_view ev;
	MDB_val kv, v;
	int rc;

	db_key_u64(&k, sequence);
	kv = db_key_val(&k);
	rc = mdb_get(txn, store->db.t[DB_EVENTS], &kv, &v);
	if (rc != 0 && rc != MDB_NOTFOUND)
		return db_err(e, rc, "read an event");
	if (rc == 0 && record_view(v.mv_data, v.mv_size, sequence, &ev, &why) == 0)
		return event_index_put(&store->db, txn, &ev, e);
	/* a store with a bad record still opens; `store verify` tells of it */
	log_error("store: event %llu has no index entries: %s", (unsigned long long)sequence,
		  rc == 0 ? why.message : "it is missing");
	return 0;
}

/* From *next on; *next is then past the last event, or where the next transaction goes on. */
static int index_some(struct store *store, MDB_txn *txn, uint64_t *next, struct err *e)
{
	const uint32_t version = STORE_VERSION;

	for (unsigned i = 0; i < EVENTS_A_TXN && *next <= store->settled.sequence; i++, (*next)++)
		if (index_event(store, txn, *next, e) != 0)
			return -1;
	return *next <= store->settled.sequence
		       ? 0
		       : db_meta_put(txn, &store->db, META_VERSION, &version, sizeof(version), e);
}

int upgrade_store(struct store *store, uint32_t version, struct err *e)
{
	bool emptied = version >= INDEX_VERSION;
	uint64_t next = emptied ? store->settled.sequence + 1 : atomic_load(&store->first);
	bool done = false;

	if (version == STORE_VERSION)
		return 0;
	if (store->read_only)
		return err_set(e, ERR_UNAVAILABLE,
			       "the store is of version %u: start bailiffd on it once, which makes it version %u",
			       version, STORE_VERSION);
	log_info("store: bringing version %u to version %u", version, STORE_VERSION);
	while (!done) {
		MDB_txn *txn;
		int rc = mdb_txn_begin(store->db.env, NULL, 0, &txn);

		if (rc != 0)
			return db_err(e, rc, "begin a transaction");
		if (!emptied)
			rc = mdb_drop(txn, store->db.t[DB_INDEX], 0);
		if (rc != 0)
			db_err(e, rc, "empty the index");
		else
			rc = index_some(store, txn, &next, e);
		if (rc != 0) {
			mdb_txn_abort(txn);
			return err_wrap(e, "bring the store to version %u", STORE_VERSION);
		}
		rc = mdb_txn_commit(txn);
		if (rc != 0)
			return db_err(e, rc, "commit");
		emptied = true;
		done = next > store->settled.sequence;
	}
	return 0;
}
