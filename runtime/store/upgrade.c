/*
 * From version 2 to 3 only the number changes: version 3 may have groups that are only in the journal, where programs
 * of version 2 would not look. From 1 to 2 the keys of the index change (event_index_prefix): the table is emptied and
 * filled again from the log, in transactions of bounded size. The last one writes the version, so an interrupted
 * upgrade starts over.
 */

#include "runtime/store/upgrade.h"

#include "runtime/base/err.h"
#include "runtime/base/log.h"
#include "runtime/event/event.h"
#include "runtime/store/event_index.h"
#include "runtime/store/store_meta.h"
#include "runtime/store/store_private.h"

#define INDEX_VERSION 2u /* the first with the current index */
#define EVENTS_A_TXN 150 /* each with several index entries */

static int index_event(struct store *store, MDB_txn *txn, uint64_t sequence, struct err *e)
{
	struct db_key k;
	MDB_val kv = db_key_sequence(&k, sequence), v;
	struct err why = ERR_INIT;
	struct event_view ev;
	int rc = mdb_get(txn, store->db.t[DB_EVENTS], &kv, &v);
	if (rc != 0 && rc != MDB_NOTFOUND)
		return db_err(e, rc, "read an event");
	if (rc == 0 && record_view(v.mv_data, v.mv_size, sequence, &ev, &why) == 0)
		return event_index_put(&store->db, txn, &ev, e);
	/* a store with a damaged record still opens; `bailiff store verify` reports it */
	log_error("store: event %llu has no index entries: %s", (unsigned long long)sequence,
		  rc == 0 ? why.message : "it is missing");
	return 0;
}

/* Indexes the events from *next on and advances *next, in the end past the last event. */
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
			       "the store has version %u; start bailiffd on it once to upgrade it to version %u",
			       version, STORE_VERSION);
	log_info("store: upgrading from version %u to version %u", version, STORE_VERSION);
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
			return err_wrap(e, "upgrade the store to version %u", STORE_VERSION);
		}
		rc = mdb_txn_commit(txn);
		if (rc != 0)
			return db_err(e, rc, "commit");
		emptied = true;
		done = next > store->settled.sequence;
	}
	return 0;
}
