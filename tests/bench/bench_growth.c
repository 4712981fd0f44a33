/*
 * Where the bytes of a store's database are, for bench.py growth: one line per table (entries, bytes of keys, bytes of
 * values, pages), then one per event type and one per kind of read model (entries, bytes of keys and values). The
 * database is opened as it is, next to a running daemon; what is still in the journal is not counted.
 *
 * bench_growth DIR
 */

#include "runtime/base/err.h"
#include "runtime/event/event.h"
#include "runtime/store/db.h"
#include "runtime/store/record.h"

#include <stdio.h>
#include <stdlib.h>

struct sum {
	uint64_t entries, keys, values;
};

static void exit_with(const char *what, const char *why)
{
	fprintf(stderr, "bench_growth: %s: %s\n", what, why);
	exit(1);
}

/* The number of events and of their bytes before compression, which several of them share. */
static void sum_events(const MDB_val *k, const MDB_val *v, struct sum *types)
{
	record_block_auto struct record_block block = RECORD_BLOCK_INIT;
	struct err e = ERR_INIT;
	struct event_view ev;

	if (record_open(v->mv_data, v->mv_size, db_u64_at(k->mv_data), &block, &e) != 0)
		exit_with("record", e.message);
	for (uint64_t sequence = block.first; sequence <= block.last; sequence++) {
		if (record_event(&block, sequence, &ev, &e) != 0)
			exit_with("event", e.message);
		types[ev.type].entries++;
		types[ev.type].values += block.event[sequence - block.first].length;
	}
}

/* Adds every entry of a table to `total`, and to the row of `parts` that its key or value selects. */
static void sum_table(MDB_txn *txn, MDB_dbi dbi, struct sum *total, struct sum *parts, bool events)
{
	MDB_cursor *cur;
	MDB_val k, v;
	int rc = mdb_cursor_open(txn, dbi, &cur);

	while (rc == 0 && (rc = mdb_cursor_get(cur, &k, &v, MDB_NEXT)) == 0) {
		struct sum *part = parts && !events ? &parts[*(unsigned char *)k.mv_data] : NULL;

		for (struct sum *s = total; s; s = s == total ? part : NULL) {
			s->entries++;
			s->keys += k.mv_size;
			s->values += v.mv_size;
		}
		if (events)
			sum_events(&k, &v, parts);
	}
	if (rc != MDB_NOTFOUND)
		exit_with("table", mdb_strerror(rc));
	mdb_cursor_close(cur);
}

static void print_sum(const char *what, const char *name, const struct sum *s, const MDB_stat *pages)
{
	printf("%s %s %llu %llu %llu", what, name, (unsigned long long)s->entries, (unsigned long long)s->keys,
	       (unsigned long long)s->values);
	if (pages)
		printf(" %zu", pages->ms_leaf_pages + pages->ms_branch_pages + pages->ms_overflow_pages);
	printf("\n");
}

int main(int argc, char **argv)
{
	static const char *const names[] = {
#define X(name, text) text,
		DB_TABLES(X)
#undef X
	};
	static struct sum types[EVENT_TYPE_COUNT], kinds[256];
	struct err e = ERR_INIT;
	struct db db;
	bool empty;
	MDB_txn *txn;

	if (argc != 2)
		exit_with("usage", "bench_growth DIR");
	if (db_open(argv[1], 1ull << 36, MDB_RDONLY, &db, &empty, &e) != 0)
		exit_with(argv[1], e.message);
	if (empty || mdb_txn_begin(db.env, NULL, MDB_RDONLY, &txn) != 0)
		exit_with(argv[1], "no tables");
	for (int i = 0; i < DB_TABLE_COUNT; i++) {
		bool models = i == DB_MODELS_A || i == DB_MODELS_B;
		struct sum total = { 0 };
		MDB_stat st;

		mdb_stat(txn, db.t[i], &st);
		sum_table(txn, db.t[i], &total, i == DB_EVENTS ? types : models ? kinds : NULL, i == DB_EVENTS);
		print_sum("table", names[i], &total, &st);
	}
	for (int i = 0; i < EVENT_TYPE_COUNT; i++)
		if (types[i].entries)
			print_sum("event", event_info((enum event_type)i)->name, &types[i], NULL);
	for (int i = 0; i < 256; i++) {
		char kind[8];

		snprintf(kind, sizeof(kind), "%d", i);
		if (kinds[i].entries)
			print_sum("model", kind, &kinds[i], NULL);
	}
	mdb_txn_abort(txn);
	db_close(&db);
	return 0;
}
