#include "runtime/base/clock.h"
#include "runtime/store/db.h"
#include "runtime/store/spool.h"
#include "runtime/store/store_dirs.h"
#include "tests/unit/runtime/store/rig.h"

static void fill(struct rig *r, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct store_batch *b = store_batch_new(r->s);
		char proc[32];

		snprintf(proc, sizeof(proc), "proc_%u", i);
		for (unsigned j = 0; j < 5; j++)
			rig_event(b, EVENT_RUNTIME_WARNING, i % 3 ? "sess_a" : "sess_b", proc, i);
		store_submit(r->s, b, 0, rig_result, r);
	}
	store_flush(r->s);
	ck_assert_uint_eq(r->failed, 0);
}

static void a_pruned_store_is_verified_from_its_snapshot_in(struct rig *r)
{
	struct store_query q = { .index = -1 };
	struct rig_seen seen = { .gapless = true };
	buf_auto struct buf before = BUF_INIT, after = BUF_INIT;
	struct err e = ERR_INIT;
	struct rig_job j;
	struct rig_verdict x = { 0 };

	rig_open(r);
	fill(r, 200);
	ck_assert_int_eq(store_model_get(r->s, 1, "sess_a", &before, &e), 0);
	j = rig_prune(r, 601, 0);
	ck_assert_msg(!j.failed && j.a == 600, "%s", j.e.message);
	ck_assert_uint_eq(store_first_sequence(r->s), 601);
	ck_assert_uint_eq(store_last_sequence(r->s), 1000);
	rig_verify_ok(r);
	ck_assert_int_eq(store_model_get(r->s, 1, "sess_a", &after, &e), 0);
	ck_assert_str_eq(buf_cstr(&before), buf_cstr(&after));
	ck_assert_int_lt(store_events(r->s, &q, rig_see, &seen, &e), 0);
	ck_assert_int_eq(e.code, ERR_EXPIRED);
	ck_assert_ptr_nonnull(strstr(e.message, "601"));
	q.after = 599;
	ck_assert_int_lt(store_events(r->s, &q, rig_see, &seen, &e), 0);
	q.after = 600;
	ck_assert_int_eq(store_events(r->s, &q, rig_see, &seen, &e), 0);
	ck_assert(seen.gapless && seen.first == 601 && seen.last == 1000);
	rig_close(r);
	rig_open(r);
	ck_assert_uint_eq(store_first_sequence(r->s), 601);
	seen = rig_events(r, 600, 0, ID_SESSION, "sess_a");
	ck_assert_uint_gt(seen.count, 0);
	fill(r, 20);
	rig_verify_ok(r);
	store_rebuild(r->s, rig_verdict_cb, &x); /* on top of the snapshot */
	rig_wait(r, &x.done);
	ck_assert_msg(!x.failed, "%s", x.e.message);
	rig_verify_ok(r);
	j = rig_prune(r, UINT64_MAX, 0); /* never the newest */
	ck_assert(!j.failed);
	ck_assert_uint_eq(store_first_sequence(r->s), 1100);
	rig_verify_ok(r);
	j = rig_prune(r, 5, 0);
	ck_assert(!j.failed && j.a == 0);
	rig_close(r);
	rig_open(r);
	rig_append(r, 3, "sess_a", NULL);
	ck_assert_uint_eq(store_last_sequence(r->s), 1103);
	rig_verify_ok(r);
}
RIG_TEST(a_pruned_store_is_verified_from_its_snapshot)

/* A record holds several events; retention can end at each of them. */
static void pruning_can_end_within_a_record_in(struct rig *r)
{
	rig_open(r);
	fill(r, 12);
	for (uint64_t first = 2; first <= 58; first++) {
		struct store_query q = { .index = -1, .after = first - 1 };
		struct rig_seen seen = { .gapless = true };
		struct err e = ERR_INIT;
		struct rig_job j = rig_prune(r, first, 0);

		ck_assert_msg(!j.failed && j.a == 1, "%s", j.e.message);
		if (first % 7 == 0) {
			rig_close(r);
			rig_open(r);
		}
		ck_assert_uint_eq(store_first_sequence(r->s), first);
		ck_assert_int_eq(store_events(r->s, &q, rig_see, &seen, &e), 0);
		ck_assert(seen.gapless && seen.first == first && seen.last == 60);
		rig_verify_ok(r);
	}
	ck_assert_uint_eq(rig_append(r, 3, "sess_a", NULL), 3);
	rig_verify_ok(r);
}
RIG_TEST(pruning_can_end_within_a_record)

/* The used share of the model pages. */
static double filled_part(struct rig *r)
{
	struct err e = ERR_INIT;
	size_t used = 0;
	MDB_cursor *cur;
	MDB_val k, v;
	MDB_stat st;
	struct db db;
	MDB_txn *txn;
	bool empty;

	ck_assert_int_eq(db_open(r->store_dir, 1u << 30, 0, &db, &empty, &e), 0);
	ck_assert_int_eq(mdb_txn_begin(db.env, NULL, MDB_RDONLY, &txn), 0);
	ck_assert_int_eq(mdb_stat(txn, db.t[DB_MODELS_A], &st), 0);
	ck_assert_int_eq(mdb_cursor_open(txn, db.t[DB_MODELS_A], &cur), 0);
	while (mdb_cursor_get(cur, &k, &v, MDB_NEXT) == 0)
		used += k.mv_size + v.mv_size + 10;
	mdb_cursor_close(cur);
	mdb_txn_abort(txn);
	db_close(&db);
	return (double)used / (double)(st.ms_leaf_pages * st.ms_psize);
}

/* Two kinds of documents, each in the order of its ids, settled many times. */
static void documents_fill_their_pages_in(struct rig *r)
{
	rig_open(r);
	for (unsigned i = 0; i < 3000; i++) {
		struct store_batch *b = store_batch_new(r->s);
		char session[32], process[32];

		snprintf(session, sizeof(session), "sess_%06u", i);
		snprintf(process, sizeof(process), "proc_%06u", i);
		rig_event(b, EVENT_RUNTIME_WARNING, session, process, i);
		store_submit(r->s, b, 0, rig_result, r);
		if (i % 50 == 0)
			store_flush(r->s);
	}
	store_flush(r->s);
	rig_verify_ok(r);
	rig_close(r);
	ck_assert_double_gt(filled_part(r), 0.8);
	rig_open(r);
	rig_verify_ok(r);
}
RIG_TEST(documents_fill_their_pages)

static void the_store_can_be_pruned_during_writes_in(struct rig *r)
{
	struct rig_job j = { 0 };

	rig_open(r);
	fill(r, 300);
	store_prune(r->s, 1400, 0, rig_prune_cb, &j);
	while (!j.done)
		rig_append(r, 1, "sess_c", "proc_1");
	ck_assert(!j.failed && j.a == 1399);
	rig_verify_ok(r);
}
RIG_TEST(the_store_can_be_pruned_during_writes)

static void old_idempotency_keys_are_pruned_in(struct rig *r)
{
	uint8_t hash[32] = { 0 }, got[32];
	char method[64];
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;
	uint64_t middle = 0;
	struct store_stats st;

	rig_open(r);
	rig_append(r, 1, "sess_a", NULL);
	for (int i = 0; i < 600; i++) {
		struct store_batch *b = store_batch_new(r->s);
		char key[16];

		if (i == 300) {
			uint64_t now = clock_real_us();

			while ((middle = clock_real_us()) == now)
				continue;
		}
		snprintf(key, sizeof(key), "key-%d", i);
		store_batch_idempotency(b, 1000, key, "m", hash, "{}", 2);
		store_submit(r->s, b, 0, rig_result, r);
	}
	store_flush(r->s);
	struct rig_job j = rig_prune(r, 0, middle);
	ck_assert_msg(!j.failed, "%s", j.e.message);
	ck_assert_int_eq(store_stats_get(r->s, &st, &e), 0);
	ck_assert_uint_eq(st.idem_records, 300);
	ck_assert_int_eq(store_idempotency_get(r->s, 1000, "key-299", method, got, &out, &e), 1);
	ck_assert_int_eq(store_idempotency_get(r->s, 1000, "key-300", method, got, &out, &e), 0);
	rig_verify_ok(r);
}
RIG_TEST(old_idempotency_keys_are_pruned)

static void compaction_shrinks_the_file_in(struct rig *r)
{
	struct rig_job j = { 0 };
	struct rig_seen x;

	rig_open(r);
	fill(r, 600);
	rig_prune(r, 2900, 0);
	store_compact(r->s, rig_compact_cb, &j);
	while (!j.done)
		rig_append(r, 1, "sess_c", "proc_1");
	ck_assert_msg(!j.failed, "%s", j.e.message);
	ck_assert_uint_lt(j.b, j.a / 2);
	rig_append(r, 5, "sess_c", "proc_1");
	rig_verify_ok(r);
	x = rig_events(r, 2899, 0, -1, NULL);
	ck_assert(x.gapless && x.first == 2900 && x.last == store_last_sequence(r->s));
	rig_close(r);
	rig_open(r);
	rig_verify_ok(r);
}
RIG_TEST(compaction_shrinks_the_file)

/* The copy goes to a pipe, which blocks until it is read and cannot be synced. */
static void writes_and_reads_do_not_wait_for_a_compaction_in(struct rig *r)
{
	struct rig_job j = { 0 };
	struct rig_seen x;
	uint64_t before;
	char pipe[192];

	rig_open(r);
	fill(r, 600);
	snprintf(pipe, sizeof(pipe), "%s/" STORE_DIRS_DATA_NEW, r->store_dir);
	ck_assert_int_eq(mkfifo(pipe, 0600), 0);
	before = store_last_sequence(r->s);
	store_compact(r->s, rig_compact_cb, &j);
	for (int i = 0; i < 100; i++)
		rig_append(r, 1, "sess_c", "proc_1");
	ck_assert(!j.done);
	x = rig_events(r, before, 0, -1, NULL);
	ck_assert(x.gapless && x.first == before + 1 && x.last == before + 100);

	pid_t pid = fork();
	if (pid == 0) {
		char piece[4096];
		int fd = open(pipe, O_RDONLY);

		while (read(fd, piece, sizeof(piece)) > 0)
			;
		_exit(0);
	}
	rig_wait(r, &j.done);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	ck_assert(j.failed && strstr(j.e.message, "sync the copy"));
	ck_assert_int_ne(access(pipe, F_OK), 0);
	rig_verify_ok(r);
	rig_close(r);
	rig_open(r);
	rig_verify_ok(r);
	ck_assert_uint_ge(store_last_sequence(r->s), before + 100);
}
RIG_TEST(writes_and_reads_do_not_wait_for_a_compaction)

/* The store is closed while a copy is being written. */
static void closing_the_store_ends_a_compaction_in(struct rig *r)
{
	struct rig_job j = { 0 };

	rig_open(r);
	fill(r, 600);
	store_compact(r->s, rig_compact_cb, &j);
	rig_append(r, 1, "sess_c", "proc_1");
	rig_close(r);
	ck_assert(j.done);
	rig_open(r);
	rig_verify_ok(r);
}
RIG_TEST(closing_the_store_ends_a_compaction)

static void a_backup_is_a_store_in(struct rig *r)
{
	struct spool_file f = SPOOL_FILE_INIT;
	struct store_batch *b;
	struct rig_job j = { 0 };
	struct err e = ERR_INIT;
	char dir[128];
	struct rig copy;
	int spool;

	rig_open(r);
	fill(r, 100);
	spool = open(r->spool_dir, O_RDONLY | O_DIRECTORY);
	ck_assert_int_eq(spool_open(spool, "out_1", 0, &f, &e), 0);
	ck_assert_int_eq(pwrite(f.fd, "hello", 5, 1 << 20), 5); /* with a hole */
	b = store_batch_new(r->s);
	rig_event(b, EVENT_PROCESS_OUTPUT, "sess_a", "proc_1", 1);
	store_batch_spool(b, "out_1", f.fd, 1 << 20, 5);
	store_submit(r->s, b, 0, rig_result, r);
	store_flush(r->s);
	snprintf(dir, sizeof(dir), "%.100s/backup", r->dir);
	store_backup(r->s, dir, rig_backup_cb, &j);
	/* an output that expires meanwhile is still in the copy */
	b = store_batch_new(r->s);
	store_batch_expire_output(b, "out_2");
	store_submit(r->s, b, 0, rig_result, r);
	while (!j.done)
		rig_append(r, 1, "sess_c", "proc_1");
	ck_assert_msg(!j.failed, "%s", j.e.message);
	j = (struct rig_job){ 0 };
	store_backup(r->s, dir, rig_backup_cb, &j); /* it is there now */
	rig_wait(r, &j.done);
	ck_assert(j.failed && j.e.code == ERR_INVALID);
	j = (struct rig_job){ 0 };
	store_backup(r->s, "/proc/nowhere/x", rig_backup_cb, &j);
	rig_wait(r, &j.done);
	ck_assert(j.failed);
	spool_done(&f);
	close(spool);
	rig_close(r);

	rig_at(&copy, dir);
	rig_open(&copy);
	ck_assert(!store_is_new(copy.s));
	ck_assert_uint_ge(store_last_sequence(copy.s), 501);
	rig_verify_ok(&copy);
	buf_auto struct buf out = BUF_INIT;
	ck_assert_int_eq(store_output_read(copy.s, "out_1", 1 << 20, 100, &out, &e), 0);
	ck_assert_str_eq(buf_cstr(&out), "hello");
	rig_append(&copy, 3, "sess_a", NULL);
	rig_close(&copy);
}
RIG_TEST(a_backup_is_a_store)

/* Killed at a random moment during upkeep: the store is valid. */
static void a_kill_during_upkeep_leaves_a_valid_store_in(struct rig *r)
{
	unsigned seed = (unsigned)time(NULL);

	printf("# seed %u\n", seed);
	srand(seed);
	rig_open(r);
	fill(r, 300);
	rig_close(r);
	for (int i = 0; i < 40; i++) {
		useconds_t wait = (useconds_t)(rand() % 30000);
		pid_t pid = fork();

		if (pid == 0) {
			uint64_t floor;

			rig_open(r);
			floor = store_first_sequence(r->s) + 20;
			store_prune(r->s, floor, UINT64_MAX, NULL, NULL);
			store_rebuild(r->s, NULL, NULL);
			store_compact(r->s, NULL, NULL);
			for (;;)
				rig_append(r, 1, "sess_c", "proc_1");
		}
		usleep(wait);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		rig_open(r);
		rig_verify_ok(r);
		rig_append(r, 1, "sess_d", "proc_1");
		rig_close(r);
	}
	rig_open(r);
	rig_verify_ok(r);
}
RIG_TEST(a_kill_during_upkeep_leaves_a_valid_store)

int main(void)
{
	return SUITE("upkeep", a_pruned_store_is_verified_from_its_snapshot, pruning_can_end_within_a_record,
		     documents_fill_their_pages, the_store_can_be_pruned_during_writes, old_idempotency_keys_are_pruned,
		     compaction_shrinks_the_file, writes_and_reads_do_not_wait_for_a_compaction,
		     closing_the_store_ends_a_compaction, a_backup_is_a_store,
		     a_kill_during_upkeep_leaves_a_valid_store);
}
