#include "runtime/store/commit.h"

#include "runtime/base/clock.h"
#include "runtime/base/mem.h"
#include "runtime/store/chunk.h"
#include "runtime/store/event_index.h"
#include "runtime/store/idempotency_records.h"
#include "runtime/store/layer.h"
#include "runtime/store/read_models.h"
#include "runtime/store/record.h"
#include "runtime/store/store_meta.h"
#include "runtime/store/store_private.h"

#include <string.h>

/*
 * The time of every successful commit goes to sync_us_total, upkeep included. Groups in the journal do not pass here.
 */
int commit_txn(struct store *store, int (*fn)(struct store *store, MDB_txn *txn, void *ctx, struct err *e), void *ctx,
	       bool *ret_in_doubt, struct err *e)
{
	MDB_txn *txn;
	uint64_t start = clock_mono_ns();
	int rc;

	*ret_in_doubt = false;
	rc = mdb_txn_begin(store->db.env, NULL, 0, &txn);
	if (rc != 0)
		return db_err(e, rc, "begin a transaction");
	store->txn_id = mdb_txn_id(txn);
	if (fn(store, txn, ctx, e) != 0) {
		mdb_txn_abort(txn);
		return -1;
	}
	rc = mdb_txn_commit(txn);
	if (rc != 0) {
		*ret_in_doubt = true;
		return db_err(e, rc, "commit");
	}
	pthread_mutex_lock(&store->mutex);
	store->stats.sync_us_total += (clock_mono_ns() - start) / 1000;
	pthread_mutex_unlock(&store->mutex);
	return 0;
}

void commit_count(struct store *store, uint64_t start_ns)
{
	uint64_t took = (clock_mono_ns() - start_ns) / 1000;

	pthread_mutex_lock(&store->mutex);
	store->stats.commits++;
	if (took > store->stats.max_commit_us)
		store->stats.max_commit_us = took;
	pthread_mutex_unlock(&store->mutex);
}

/* What the transaction at hand settles, and what it found. */
struct settling {
	const struct layer *head;
	struct tip tip;                                /* of the log in the database */
	struct record_event events[RECORD_EVENTS_MAX]; /* to be written after it; they point into the groups */
	size_t nevents, bytes;
	struct buf record; /* of the events at hand */
	struct index_batch index;
	uint64_t freed;
	char **expired;
	size_t nexpired;
};

/* Bytes of events that are compressed together: a reader of one event expands all of them. */
#define BLOCK_BYTES 12288u

/* The log is append-only, and MDB_APPEND makes LMDB check that. Events that do not fit into one record get two. */
static int put_record(struct store *store, MDB_txn *txn, struct settling *g, const struct record_event *events,
		      size_t n, struct err *e)
{
	struct db_key k;
	MDB_val kv = db_key_sequence(&k, g->tip.sequence + 1), v;
	int rc;

	if (!record_write(&g->record, events, n, &g->tip)) {
		if (put_record(store, txn, g, events, n / 2, e) != 0)
			return -1;
		return put_record(store, txn, g, events + n / 2, n - n / 2, e);
	}
	v = (MDB_val){ .mv_size = g->record.len, .mv_data = g->record.data };
	rc = mdb_put(txn, store->db.t[DB_EVENTS], &kv, &v, MDB_APPEND);
	if (rc == MDB_KEYEXIST) /* there is a larger key: another program wrote here */
		return err_set(e, ERR_CORRUPT, "the log continues after its last event");
	return rc == 0 ? 0 : db_err(e, rc, "write an event");
}

static int put_events(struct store *store, MDB_txn *txn, struct settling *g, struct err *e)
{
	size_t n = g->nevents;

	g->nevents = g->bytes = 0;
	return n ? put_record(store, txn, g, g->events, n, e) : 0;
}

static uint64_t last_sequence(const struct settling *g) { return g->tip.sequence + g->nevents; }

static int put_event(struct store *store, MDB_txn *txn, const struct group_entry *n, struct settling *g, struct err *e)
{
	struct event_view ev;

	if ((g->nevents == RECORD_EVENTS_MAX || g->bytes + n->len > BLOCK_BYTES) && put_events(store, txn, g, e) != 0)
		return -1;
	if (event_view_of(n->data, n->len, last_sequence(g) + 1, &ev, e) != 0)
		return -1;
	g->events[g->nevents++] = (struct record_event){ .data = n->data, .len = n->len, .real_us = ev.real_us };
	g->bytes += n->len;
	index_batch_add(&g->index, &ev);
	return 0;
}

static int put_expiry(struct store *store, MDB_txn *txn, const struct group_entry *n, struct settling *g, struct err *e)
{
	uint64_t freed = 0;

	if (chunk_expire(txn, &store->db, n->key, &freed, e) != 0)
		return -1;
	g->freed += freed;
	g->expired = mem_realloc(g->expired, (g->nexpired + 1) * sizeof(*g->expired));
	g->expired[g->nexpired++] = mem_strdup(n->key);
	return 0;
}

/* Without a value it is removed. */
static int put_meta(struct store *store, MDB_txn *txn, const struct group_entry *n, struct err *e)
{
	struct db_key k = { .len = 0 };

	db_key_add(&k, META_USER, strlen(META_USER));
	db_key_add(&k, n->key, n->key_len);
	MDB_val key = db_key_val(&k);
	if (n->len)
		return db_seal_put(txn, store->db.t[DB_META], &key, n->data, n->len, e);
	int rc = mdb_del(txn, store->db.t[DB_META], &key, NULL);
	return rc == 0 || rc == MDB_NOTFOUND ? 0 : db_err(e, rc, "remove a meta value");
}

static int put_entry(struct store *store, MDB_txn *txn, const struct group_entry *n, struct settling *g, struct err *e)
{
	MDB_val key = { .mv_size = n->key_len, .mv_data = (void *)(uintptr_t)n->key };

	switch (n->tag) {
	case GROUP_EVENT: return put_event(store, txn, n, g, e);
	case GROUP_RANGE: return chunk_put(txn, &store->db, n, e);
	case GROUP_INLINE: return db_seal_put(txn, store->db.t[DB_BLOBS], &key, n->data, n->len, e);
	case GROUP_EXPIRE: return put_expiry(store, txn, n, g, e);
	case GROUP_IDEM: return idempotency_record_put(txn, &store->db, n, e);
	case GROUP_META: return put_meta(store, txn, n, e);
	case GROUP_TAGS: break;
	}
	return err_set(e, ERR_INTERNAL, "a group has an entry of an unknown kind");
}

/* The sequence after the group must be the one of the projection, which clients of a journaled group already have. */
static int put_group(struct store *store, MDB_txn *txn, const struct layer *l, struct settling *g, struct err *e)
{
	struct group_entry n;
	size_t at = 0;
	int rc;

	while ((rc = group_next(l->group.data, l->group.len, &at, &n, e)) > 0)
		if (put_entry(store, txn, &n, g, e) != 0)
			return -1;
	if (rc == 0 && last_sequence(g) != l->last_sequence)
		return err_set(e, ERR_INTERNAL, "group %llu ends at event %llu instead of %llu",
			       (unsigned long long)l->ordinal, (unsigned long long)last_sequence(g),
			       (unsigned long long)l->last_sequence);
	return rc;
}

/* Writes each document once, in the version of the newest layer. */
static int put_docs(struct store *store, MDB_txn *txn, const struct layer *head, struct err *e)
{
	docs_list_auto struct docs_list list = DOCS_LIST_INIT;
	struct models m = { .txn = txn, .dbi = store->db.t[store->models] };
	buf_auto struct buf space = BUF_INIT;

	layer_docs(head, &list, -1, NULL);
	docs_list_sort(&list, false); /* new ones of a kind in their order: they fill pages (read_models.c, fences) */
	for (size_t i = 0; i < list.count; i++) {
		const struct doc *n = list.all[i];
		size_t len = 0;
		const char *text = n->gone ? NULL : docs_text(n, &space, &len);
		int rc = n->gone ? models_del(&m, n->kind, n->id, n->id_len, e)
				 : models_put(&m, n->kind, n->id, n->id_len, text, len, e);

		if (rc != 0)
			return -1;
	}
	return 0;
}

/* Oldest group first; `settling` is set before the commit, so that no reader sees both. */
static int put_layers(struct store *store, MDB_txn *txn, void *ctx, struct err *e)
{
	struct settling *g = ctx;
	mem_auto const struct layer **all = mem_zalloc(g->head->depth, sizeof(*all));
	unsigned n = g->head->depth, i = n;

	for (const struct layer *l = g->head; l; l = l->older)
		all[--i] = l;
	g->tip = store->settled;
	for (i = 0; i < n; i++)
		if (put_group(store, txn, all[i], g, e) != 0)
			return -1;
	if (put_events(store, txn, g, e) != 0 || index_batch_put(&g->index, &store->db, txn, e) != 0 ||
	    put_docs(store, txn, g->head, e) != 0)
		return -1;
	pthread_mutex_lock(&store->mutex);
	store->settling = store->txn_id; /* readers of this or a later transaction need no layers */
	pthread_mutex_unlock(&store->mutex);
	return db_meta_put(txn, &store->db, META_APPLIED, &store->ordinal, sizeof(store->ordinal), e);
}

static void settling_done(struct settling *g)
{
	for (size_t i = 0; i < g->nexpired; i++)
		free(g->expired[i]);
	free(g->expired);
	buf_done(&g->record);
	index_batch_done(&g->index);
	free(g);
}

/* The rows are removed; the writer removes the files when no backup is copying them. */
static void queue_unlinks(struct store *store, struct settling *g)
{
	if (!g->nexpired)
		return;
	space_spool_add(store, -(int64_t)g->freed, -(int64_t)g->nexpired);
	store->unlinks = mem_realloc(store->unlinks, (store->nunlinks + g->nexpired) * sizeof(*store->unlinks));
	for (size_t i = 0; i < g->nexpired; i++)
		store->unlinks[store->nunlinks++] = g->expired[i];
	g->nexpired = 0;
}

int commit_layers(struct store *store, const struct layer *head, struct settling **ret, bool *ret_in_doubt,
		  struct err *e)
{
	struct settling *g = mem_zalloc(1, sizeof(*g));

	g->head = head;
	if (commit_txn(store, put_layers, g, ret_in_doubt, e) != 0) {
		if (*ret_in_doubt) {
			*ret = g;
			return -1;
		}
		commit_undone(store, g);
		return -1;
	}
	*ret = g;
	return 0;
}

void commit_undone(struct store *store, struct settling *g)
{
	pthread_mutex_lock(&store->mutex);
	store->settling = SIZE_MAX;
	pthread_mutex_unlock(&store->mutex);
	settling_done(g);
}

/* Only now is the memory of the layers released; readers that hold them keep references. */
void commit_settled(struct store *store, struct settling *g)
{
	struct layer *layers;

	if (g) {
		store->settled = g->tip;
		atomic_store(&store->settled_until, g->tip.sequence);
		queue_unlinks(store, g);
		settling_done(g);
	}
	pthread_mutex_lock(&store->mutex);
	layers = store->layers;
	store->layers = NULL;
	store->settling = SIZE_MAX;
	store->applied = store->ordinal;
	store->settle_retry = store->settle_asked = false;
	store->stats.settles++;
	store->stats.journal_groups = 0;
	pthread_cond_broadcast(&store->decided);
	pthread_mutex_unlock(&store->mutex);
	layer_unref(layers);
}
