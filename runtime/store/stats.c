/* Statistics. */

#include "runtime/store/idempotency_records.h"
#include "runtime/store/layer.h"
#include "runtime/store/read_models.h"
#include "runtime/store/reader.h"
#include "runtime/store/store_private.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* By how many documents the layers change the number in the table. */
static int64_t count_new_models(const struct reader *r, MDB_dbi dbi)
{
	docs_list_auto struct docs_list list = DOCS_LIST_INIT;
	struct models m = { .txn = r->txn, .dbi = dbi };
	int64_t more = 0;

	layer_docs(r->over, &list, -1, NULL);
	for (size_t i = 0; i < list.count; i++) {
		const struct doc *n = list.all[i];
		const char *p;
		size_t len;
		bool there = models_get(&m, n->kind, n->id, n->id_len, &p, &len, NULL) == 0;

		more += !n->gone - there;
	}
	return more;
}

/* By how many idempotency records. */
static uint64_t count_new_keys(const struct reader *r)
{
	uint64_t more = 0;

	for (const struct layer *l = r->over; l; l = l->older)
		for (size_t i = 0; i < l->nnotes; i++) {
			const struct group_entry *n = &l->notes[i];

			more += n->tag == GROUP_IDEM && layer_note(r->over, 1u << GROUP_IDEM, n->uid, n->key) == n &&
				!idempotency_record_exists(r->txn, r->db, n->uid, n->key);
		}
	return more;
}

int store_stats_get(struct store *store, struct store_stats *ret, struct err *e)
{
	reader_auto struct reader r = READER_INIT;
	char journal_note[sizeof(store->journal_note)];
	struct store_stats st;
	struct tip floor;
	uint64_t last;
	MDB_dbi models;

	if (reader_begin(store, &r, e) != 0 || reader_floor(&r, &floor, e) != 0 || reader_models(&r, &models, e) != 0)
		return -1;
	pthread_mutex_lock(&store->mutex);
	st = store->stats;
	snprintf(journal_note, sizeof(journal_note), "%s", store->journal_note);
	pthread_mutex_unlock(&store->mutex);
	if (reader_last(&r, &last, e) != 0)
		return -1;
	st.events = last - floor.sequence;
	st.first_sequence = floor.sequence + 1;
	st.last_sequence = store->last;
	st.models = db_entries(r.txn, models) + (uint64_t)count_new_models(&r, models);
	st.idem_records = db_entries(r.txn, r.db->t[DB_IDEM]) + count_new_keys(&r);
	st.map_bytes = r.db->map_bytes;
	if (r.db->smaller)
		snprintf(st.note, sizeof(st.note), "the address space is too small: the map has only %llu MiB",
			 (unsigned long long)(r.db->map_bytes >> 20));
	reader_end(&r);
	st.db_bytes = space_db_bytes(store);
	st.quota_bytes = store->space.quota;
	st.full = atomic_load(&store->full);
	if (faccessat(store->dir_fd, "ballast", F_OK, 0) != 0 && !store->read_only && !st.note[0])
		snprintf(st.note, sizeof(st.note),
			 "there is no ballast file; a full disk may prevent ends from being recorded");
	if (journal_note[0] && !st.note[0])
		snprintf(st.note, sizeof(st.note), "no journal, so commits take longer: %.110s", journal_note);
	*ret = st;
	return 0;
}
