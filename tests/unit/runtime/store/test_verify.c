#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/store/db.h"
#include "tests/unit/runtime/store/rig.h"

#include <fcntl.h>
#include <lmdb.h>
#include <sys/sendfile.h>
#include <time.h>

static void fill(struct rig *r, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct store_batch *b = store_batch_new(r->s);
		char proc[32];

		snprintf(proc, sizeof(proc), "proc_%u", i % 17);
		for (unsigned j = 0; j < 5; j++)
			rig_event(b, EVENT_RUNTIME_WARNING, i % 3 ? "sess_a" : "sess_b", proc, i);
		store_submit(r->s, b, 0, rig_result, r);
	}
	store_flush(r->s);
	ck_assert_uint_eq(r->failed, 0);
}

/* Changes a value in the database directly, without its checksum or with a forged one. */
static void tamper(struct rig *r, const char *table, const void *key, size_t key_len, bool remove)
{
	MDB_val k = { key_len, (void *)(uintptr_t)key }, v = { 0 };
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;

	ck_assert_int_eq(mdb_env_create(&env), 0);
	mdb_env_set_maxdbs(env, 16);
	mdb_env_set_mapsize(env, 1u << 30);
	ck_assert_int_eq(mdb_env_open(env, r->store_dir, 0, 0600), 0);
	ck_assert_int_eq(mdb_txn_begin(env, NULL, 0, &txn), 0);
	ck_assert_int_eq(mdb_dbi_open(txn, table, 0, &dbi), 0);
	if (remove) {
		ck_assert_int_eq(mdb_del(txn, dbi, &k, NULL), 0);
	} else {
		ck_assert_int_eq(mdb_get(txn, dbi, &k, &v), 0);
		char *copy = mem_dup(v.mv_data, v.mv_size);
		v.mv_data = copy;
		copy[v.mv_size - 1] ^= 1;
		ck_assert_int_eq(mdb_put(txn, dbi, &k, &v, 0), 0);
		free(copy);
	}
	ck_assert_int_eq(mdb_txn_commit(txn), 0);
	mdb_env_close(env);
}

static void a_rebuild_repairs_documents_in(struct rig *r)
{
	struct rig_verdict x;
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	rig_open(r);
	fill(r, 300);
	rig_close(r);
	tamper(r, "models_a", "\1sess_a", 7, false);
	tamper(r, "models_a", "\2proc_3", 7, true);
	rig_open(r);
	x = rig_verify(r);
	ck_assert(!x.failed && !x.v.ok);
	ck_assert_uint_eq(x.v.nproblems, 2);
	ck_assert_ptr_nonnull(strstr(x.v.problems[0].what, "model 1 'sess_a' differs"));
	ck_assert_ptr_nonnull(strstr(x.v.problems[1].what, "model 2 'proc_3' is missing"));
	ck_assert_int_lt(store_model_get(r->s, 1, "sess_a", &out, &e), 0);
	ck_assert_int_eq(e.code, ERR_CORRUPT);
	ck_assert_uint_eq(out.len, 0);

	x = (struct rig_verdict){ 0 };
	store_rebuild(r->s, rig_verdict_cb, &x);
	for (unsigned i = 0; i < 50 || !x.done; i++) /* while the store continues */
		rig_append(r, 1, "sess_c", "proc_9");
	ck_assert_msg(!x.failed && x.v.ok, "%s", x.e.message);
	ck_assert_uint_ge(x.v.events, 1500);
	rig_verify_ok(r);
	ck_assert_int_eq(store_model_get(r->s, 1, "sess_a", &out, &e), 0);
	rig_close(r);
	rig_open(r);
	fill(r, 10);
	rig_verify_ok(r);
	x = (struct rig_verdict){ 0 };
	store_rebuild(r->s, rig_verdict_cb, &x); /* back into the first table */
	rig_wait(r, &x.done);
	ck_assert(!x.failed && x.v.ok);
	rig_verify_ok(r);
}
RIG_TEST(a_rebuild_repairs_documents)

/* Writes the key of the record with this event. Returns the sequence of its first one. */
static uint64_t record_of(struct rig *r, uint64_t sequence, unsigned char key[8])
{
	struct err e = ERR_INIT;
	uint64_t first;
	struct db db;
	MDB_txn *txn;
	MDB_val v;
	bool empty;

	ck_assert_int_eq(db_open(r->store_dir, 1u << 30, 0, &db, &empty, &e), 0);
	ck_assert_int_eq(mdb_txn_begin(db.env, NULL, MDB_RDONLY, &txn), 0);
	ck_assert_int_eq(db_event_get(txn, &db, sequence, &first, &v, &e), 0);
	mdb_txn_abort(txn);
	db_close(&db);
	for (int i = 0; i < 8; i++)
		key[i] = (unsigned char)(first >> (56 - 8 * i));
	return first;
}

static void a_tampered_record_is_not_returned_in(struct rig *r)
{
	unsigned char key[8];
	uint64_t first;
	struct store_query q = { .index = -1 };
	struct rig_seen seen = { 0 };
	struct err e = ERR_INIT;
	struct rig_verdict x;

	rig_open(r);
	fill(r, 500);
	rig_close(r);
	first = record_of(r, 40, key);
	ck_assert(first > 1 && first < 40); /* several events are stored together */
	tamper(r, "events", key, 8, false);
	rig_open(r); /* it is not among the last ones */
	ck_assert_int_lt(store_events(r->s, &q, rig_see, &seen, &e), 0);
	ck_assert_int_eq(e.code, ERR_CORRUPT);
	ck_assert_uint_eq(seen.count, first - 1);
	x = rig_verify(r);
	ck_assert(!x.failed && !x.v.ok);
	ck_assert_uint_eq(x.v.problems[0].sequence, first);
	rig_close(r);
	tamper(r, "events", key, 8, true);
	rig_open(r);
	e = ERR_INIT;
	seen = (struct rig_seen){ 0 };
	ck_assert_int_lt(store_events(r->s, &q, rig_see, &seen, &e), 0);
	ck_assert_int_eq(e.code, ERR_CORRUPT);
	x = rig_verify(r);
	ck_assert(!x.failed && !x.v.ok);
	rig_close(r);
	record_of(r, 2500, key);
	tamper(r, "events", key, 8, false); /* the last one: not even opened */
	e = ERR_INIT;
	ck_assert_int_lt(store_open(&r->o, &r->s, &e), 0);
	ck_assert_int_eq(e.code, ERR_CORRUPT);
}
RIG_TEST(a_tampered_record_is_not_returned)

static void a_missing_index_entry_is_detected_in(struct rig *r)
{
	char key[32] = "a\0\0sess_\0\0\0\0\0\0\0\0\x06"; /* the list of sess_a's events, from 6 on */
	struct rig_verdict x;

	key[2] = ID_SESSION;
	rig_open(r);
	fill(r, 20);
	rig_close(r);
	tamper(r, "index", key, 17, true);
	rig_open(r);
	x = rig_verify(r);
	ck_assert(!x.v.ok);
	ck_assert_uint_eq(x.v.problems[0].sequence, 6);
}
RIG_TEST(a_missing_index_entry_is_detected)

/* A flipped byte gives an error, a problem, or nothing if the byte is not used; never a crash.
 */
static void try_flipped(struct rig *r, unsigned *refused, unsigned *found)
{
	struct store_query q = { .index = -1 };
	struct rig_seen seen = { .gapless = true };
	struct err e = ERR_INIT;
	struct rig_verdict x;

	if (store_open(&r->o, &r->s, &e) != 0) {
		ck_assert_msg(e.code == ERR_CORRUPT || e.code == ERR_UNAVAILABLE, "%d %s", e.code, e.message);
		++*refused;
		return;
	}
	if (store_events(r->s, &q, rig_see, &seen, &e) != 0)
		ck_assert_int_eq(e.code, ERR_CORRUPT);
	x = rig_verify(r);
	*found += x.failed || !x.v.ok;
	rig_close(r);
}

/* Copies a file of the store to one next to it, or back. */
static void copy_file(struct rig *r, const char *name, bool back)
{
	mem_auto char *path = mem_printf("%s/%s", r->store_dir, name), *copy = mem_printf("%s.copy", path);
	fd_auto int from = open(back ? copy : path, O_RDONLY);
	fd_auto int to = open(back ? path : copy, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	struct stat st;

	ck_assert(from >= 0 && to >= 0 && fstat(from, &st) == 0);
	for (off_t done = 0; done < st.st_size;)
		ck_assert_int_gt(sendfile(to, from, &done, (size_t)(st.st_size - done)), 0);
}

static void copy_store(struct rig *r, bool back)
{
	copy_file(r, "data.mdb", back);
	copy_file(r, "journal", back);
}

static void flipped_bytes_never_crash_the_store_in(struct rig *r)
{
	unsigned refused = 0, found = 0, tries = 0;
	unsigned seed = (unsigned)time(NULL);
	char path[200];
	struct stat st;
	off_t at;

	rig_open(r);
	fill(r, 120);
	rig_close(r);
	snprintf(path, sizeof(path), "%s/data.mdb", r->store_dir);
	ck_assert_int_eq(stat(path, &st), 0);
	copy_store(r, false);
	printf("# seed %u, %lld bytes\n", seed, (long long)st.st_size);
	srand(seed);
	for (; tries < 400; tries++) {
		/* half of them in page headers, which are the most critical */
		at = tries % 2 ? rand() % st.st_size : (rand() % (st.st_size / 4096)) * 4096 + rand() % 32;
		unsigned before = refused;
		rig_flip(path, at);
		try_flipped(r, &refused, &found);
		rig_flip(path, at);
		/*
		 * A store that opens may write: with a flipped transaction number LMDB takes the older meta page, and
		 * the journal is settled again into pages that the newer one uses.
		 */
		if (refused == before)
			copy_store(r, true);
	}
	printf("# %u flips: %u refused at open, %u found by verify\n", tries, refused, found);
	ck_assert_uint_gt(refused + found, tries / 10);
	rig_open(r);
	rig_verify_ok(r);
}
RIG_TEST(flipped_bytes_never_crash_the_store)

/* Verify runs while batches are committed. */
static void verification_succeeds_during_writes_in(struct rig *r)
{
	rig_open(r);
	fill(r, 200);
	for (int i = 0; i < 5; i++) {
		struct rig_verdict x = { 0 };

		store_verify(r->s, rig_verdict_cb, &x);
		while (!x.done)
			rig_append(r, 1, "sess_c", "proc_9");
		ck_assert_msg(!x.failed && x.v.ok, "%s %s", x.e.message, x.v.problems[0].what);
	}
	DIR *d = opendir(r->store_dir);
	struct dirent *ent;
	while ((ent = readdir(d)))
		ck_assert_int_ne(strncmp(ent->d_name, "scratch", 7), 0);
	closedir(d);
}
RIG_TEST(verification_succeeds_during_writes)

static void closing_interrupts_verification_in(struct rig *r)
{
	struct rig_verdict x = { 0 }, y = { 0 };

	rig_open(r);
	fill(r, 200);
	store_verify(r->s, rig_verdict_cb, &x);
	store_verify(r->s, rig_verdict_cb, &y);
	rig_close(r);
	ck_assert(x.done && y.done);
}
RIG_TEST(closing_interrupts_verification)

int main(void)
{
	return SUITE("verify", a_rebuild_repairs_documents, a_tampered_record_is_not_returned,
		     a_missing_index_entry_is_detected, flipped_bytes_never_crash_the_store,
		     verification_succeeds_during_writes, closing_interrupts_verification);
}
