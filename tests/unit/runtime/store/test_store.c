#include "tests/unit/runtime/store/rig.h"

#include "runtime/base/fd.h"

#include <fcntl.h>
#include <lmdb.h>
#include <pthread.h>
#include <time.h>

static void a_new_store_is_empty_in(struct rig *r)
{
	rig_open(r);
	ck_assert(store_is_new(r->s));
	ck_assert_uint_eq(store_last_sequence(r->s), 0);
	ck_assert_uint_eq(store_first_sequence(r->s), 1);
	ck_assert_int_eq(strncmp(store_runtime_id(r->s), "rt", 2), 0);
	ck_assert_uint_eq(rig_events(r, 0, 0, -1, NULL).count, 0);
	rig_verify_ok(r);
}
RIG_TEST(a_new_store_is_empty)

static void events_come_back_in_order_in(struct rig *r)
{
	struct rig_seen x;
	char id[ID_TEXT_MAX];

	rig_open(r);
	snprintf(id, sizeof(id), "%s", store_runtime_id(r->s));
	ck_assert_uint_eq(rig_append(r, 300, "sess_a", "proc_1"), 300);
	ck_assert_uint_eq(store_last_sequence(r->s), 300);
	x = rig_events(r, 0, 0, -1, NULL);
	ck_assert(x.gapless && x.first == 1 && x.last == 300 && x.count == 300);
	rig_verify_ok(r);
	rig_close(r);

	rig_open(r); /* now they come from the database */
	ck_assert(!store_is_new(r->s));
	ck_assert_str_eq(store_runtime_id(r->s), id);
	ck_assert_uint_eq(store_last_sequence(r->s), 300);
	x = rig_events(r, 0, 0, -1, NULL);
	ck_assert(x.gapless && x.first == 1 && x.last == 300);
	rig_append(r, 10, "sess_a", "proc_1"); /* and from both */
	x = rig_events(r, 120, 308, -1, NULL);
	ck_assert(x.gapless && x.first == 121 && x.last == 307);
	rig_verify_ok(r);
}
RIG_TEST(events_come_back_in_order)

struct order {
	struct rig *r;
	unsigned expect, next_seq_ok;
	uint64_t next_seq;
};

static void in_order(void *ctx, const struct store_result *res)
{
	struct order *o = ctx;

	ck_assert_int_eq(res->status, 0);
	ck_assert_uint_eq(res->first_sequence, o->next_seq);
	o->next_seq = res->last_sequence + 1;
	ck_assert_uint_eq(store_last_sequence(o->r->s), res->last_sequence);
	o->expect++;
}

static void thousands_of_batches_keep_their_order_in(struct rig *r)
{
	struct order o = { .r = r, .next_seq = 1 };
	struct store_stats st;
	struct err e = ERR_INIT;
	unsigned n = 5000;

	rig_open(r);
	for (unsigned i = 0; i < n; i++) {
		struct store_batch *b = store_batch_new(r->s);

		for (unsigned j = 0; j <= i % 3; j++)
			rig_event(b, i % 2 ? EVENT_RUNTIME_WARNING : EVENT_PROCESS_OUTPUT, "sess_a", "proc_1", i);
		store_submit(r->s, b, i % 5 ? 0 : STORE_MUST, in_order, &o);
		if (i % 100 == 0)
			store_dispatch(r->s);
	}
	store_flush(r->s);
	ck_assert_uint_eq(o.expect, n);
	ck_assert_uint_eq(store_queued(r->s), 0);
	ck_assert_int_eq(store_stats_get(r->s, &st, &e), 0);
	ck_assert_uint_eq(st.batches, n);
	ck_assert_uint_eq(st.events, o.next_seq - 1);
	/* group commit: far fewer commits than batches */
	ck_assert_uint_lt(st.commits, n / 2);
	rig_verify_ok(r);
}
RIG_TEST(thousands_of_batches_keep_their_order)

static void deferred_events_are_committed_with_the_next_immediate_one_in(struct rig *r)
{
	struct store_batch *b;
	struct store_stats st;
	struct err e = ERR_INIT;

	r->o.soon_ms = 600000;
	rig_open(r);
	for (unsigned i = 0; i < 5; i++) {
		b = store_batch_new(r->s);
		rig_event(b, EVENT_PROCESS_OUTPUT, "sess_a", "proc_1", i);
		store_submit(r->s, b, 0, rig_result, r);
	}
	ck_assert_int_eq(store_stats_get(r->s, &st, &e), 0);
	ck_assert_uint_eq(st.events, 0);
	b = store_batch_new(r->s);
	rig_event(b, EVENT_RUNTIME_WARNING, "sess_a", "proc_1", 9);
	store_submit(r->s, b, 0, rig_result, r);
	bool all = false;
	while (!all) {
		struct pollfd p = { .fd = store_dispatch_fd(r->s), .events = POLLIN };

		ck_assert_int_ge(poll(&p, 1, 60000), 1);
		store_dispatch(r->s);
		all = r->decided == 6;
	}
	ck_assert_uint_eq(r->last.first_sequence, 6);
	ck_assert_int_eq(store_stats_get(r->s, &st, &e), 0);
	ck_assert_uint_eq(st.commits, 1);
}
RIG_TEST(deferred_events_are_committed_with_the_next_immediate_one)

static void deferred_events_are_committed_after_their_delay_in(struct rig *r)
{
	struct store_batch *b;
	struct pollfd p;

	r->o.soon_ms = 20;
	rig_open(r);
	b = store_batch_new(r->s);
	rig_event(b, EVENT_PROCESS_OUTPUT, "sess_a", "proc_1", 1);
	store_submit(r->s, b, 0, rig_result, r);
	p = (struct pollfd){ .fd = store_dispatch_fd(r->s), .events = POLLIN };
	ck_assert_int_eq(poll(&p, 1, 60000), 1);
	store_dispatch(r->s);
	ck_assert_uint_eq(r->decided, 1);
}
RIG_TEST(deferred_events_are_committed_after_their_delay)

static void heard(void *ctx, uint64_t last) { *(uint64_t *)ctx = last; }

static void close_commits_what_is_queued_in(struct rig *r)
{
	uint64_t last = 0;

	r->o.soon_ms = 600000;
	rig_open(r);
	store_listen(r->s, heard, &last);
	for (unsigned i = 0; i < 500; i++) {
		struct store_batch *b = store_batch_new(r->s);

		rig_event(b, EVENT_PROCESS_OUTPUT, "sess_a", "proc_1", i);
		store_submit(r->s, b, 0, rig_result, r);
	}
	rig_close(r);
	ck_assert_uint_eq(r->decided, 500);
	ck_assert_uint_eq(r->failed, 0);
	ck_assert_uint_eq(last, 500);
	rig_open(r);
	ck_assert_uint_eq(store_last_sequence(r->s), 500);
}
RIG_TEST(close_commits_what_is_queued)

static void an_invalid_event_does_not_affect_its_batch_in(struct rig *r)
{
	struct store_batch *b;
	struct err e = ERR_INIT;

	rig_open(r);
	b = store_batch_new(r->s);
	rig_event(b, EVENT_RUNTIME_WARNING, "sess_a", NULL, 1);
	ck_assert_int_lt(rig_draft_event(b, EVENT_PROCESS_OUTPUT, "sess_a", NULL, 1, &e), 0);
	ck_assert_int_eq(e.code, ERR_INVALID);
	rig_event(b, EVENT_RUNTIME_WARNING, "sess_a", NULL, 2);
	store_submit(r->s, b, 0, rig_result, r);
	store_flush(r->s);
	ck_assert_uint_eq(r->last.first_sequence, 1);
	ck_assert_uint_eq(r->last.last_sequence, 2);
	rig_verify_ok(r);
	b = store_batch_new(r->s);
	rig_event(b, EVENT_RUNTIME_WARNING, "sess_a", NULL, 1);
	store_batch_free(b);
}
RIG_TEST(an_invalid_event_does_not_affect_its_batch)

static void idempotency_keys_are_stored_and_replaced_in(struct rig *r)
{
	uint8_t hash[32] = { 1 }, got[32];
	char method[64], long_key[250];
	buf_auto struct buf out = BUF_INIT;
	struct store_batch *b;
	struct err e = ERR_INIT;
	struct store_stats st;

	rig_open(r);
	for (int i = 0; i < 3; i++) {
		char result[32];

		snprintf(result, sizeof(result), "{\"n\":%d}", i);
		hash[0] = (uint8_t)i;
		b = store_batch_new(r->s);
		store_batch_idempotency(b, 1000, "key-1", "start_process", hash, result, strlen(result));
		store_batch_idempotency(b, 1001, "key-1", "other", hash, "{}", 2);
		store_batch_meta(b, "policy", result, strlen(result));
		store_submit(r->s, b, 0, rig_result, r);
		store_flush(r->s);
		ck_assert_uint_eq(r->last.first_sequence, 0);
	}
	ck_assert_int_eq(store_idempotency_get(r->s, 1000, "key-1", method, got, &out, &e), 0);
	ck_assert_str_eq(method, "start_process");
	ck_assert_str_eq(buf_cstr(&out), "{\"n\":2}");
	ck_assert_int_eq(got[0], 2);
	ck_assert_int_eq(store_idempotency_get(r->s, 1002, "key-1", method, got, &out, &e), 1);
	ck_assert_int_eq(store_idempotency_get(r->s, 1000, "key-2", method, got, &out, &e), 1);
	ck_assert_int_eq(store_stats_get(r->s, &st, &e), 0);
	ck_assert_uint_eq(st.idem_records, 2);
	buf_reset(&out);
	ck_assert_int_eq(store_meta_get(r->s, "policy", &out, &e), 0);
	ck_assert_str_eq(buf_cstr(&out), "{\"n\":2}");
	ck_assert_int_eq(store_meta_get(r->s, "version", &out, &e), 1);
	b = store_batch_new(r->s);
	store_batch_meta(b, "policy", NULL, 0);
	store_batch_meta(b, "never stored", NULL, 0);
	store_submit(r->s, b, 0, rig_result, r);
	store_flush(r->s);
	ck_assert_int_eq(store_meta_get(r->s, "policy", &out, &e), 1);
	rig_verify_ok(r);
	ck_assert_int_eq(store_meta_get(r->s, "policy", &out, &e), 1); /* also in the database */

	/* an invalid batch does not affect others of its group */
	memset(long_key, 'k', sizeof(long_key) - 1);
	long_key[sizeof(long_key) - 1] = '\0';
	for (int i = 0; i < 3; i++) {
		b = store_batch_new(r->s);
		rig_event(b, EVENT_PROCESS_OUTPUT, "sess_a", "proc_1", 1);
		if (i == 1)
			store_batch_idempotency(b, 1000, long_key, "m", hash, "{}", 2);
		store_submit(r->s, b, STORE_MUST, rig_result, r);
	}
	store_flush(r->s);
	ck_assert_uint_eq(r->failed, 1);
	ck_assert_int_eq(r->err.code, ERR_INVALID);
	ck_assert_uint_eq(store_last_sequence(r->s), 2);
	rig_verify_ok(r);
}
RIG_TEST(idempotency_keys_are_stored_and_replaced)

static void a_second_opener_is_rejected_in(struct rig *r)
{
	struct store_options ro = r->o;
	struct store *other = NULL;
	struct err e = ERR_INIT;
	char pid[32];

	rig_open(r);
	snprintf(pid, sizeof(pid), "pid %d", (int)getpid());
	ck_assert_int_lt(store_open(&r->o, &other, &e), 0);
	ck_assert_ptr_nonnull(strstr(e.message, pid));
	ck_assert_int_eq(e.code, ERR_CONFLICT);
	ro.read_only = true;
	e = ERR_INIT;
	ck_assert_int_lt(store_open(&ro, &other, &e), 0);
	ck_assert_int_eq(e.code, ERR_CONFLICT);
	rig_append(r, 3, "sess_a", NULL);
	rig_close(r);

	r->o.read_only = true;
	rig_open(r);
	ck_assert_uint_eq(rig_events(r, 0, 0, -1, NULL).count, 3);
	rig_verify_ok(r);
	struct store_batch *b = store_batch_new(r->s);
	store_batch_meta(b, "x", "y", 1);
	store_submit(r->s, b, STORE_MUST, rig_result, r);
	store_dispatch(r->s);
	ck_assert_uint_eq(r->failed, 1);
}
RIG_TEST(a_second_opener_is_rejected)

static void a_missing_store_cannot_be_opened_for_reading_in(struct rig *r)
{
	struct store *s = NULL;
	struct err e = ERR_INIT;

	r->o.read_only = true;
	ck_assert_int_lt(store_open(&r->o, &s, &e), 0);
	mkdir(r->store_dir, 0700);
	mkdir(r->spool_dir, 0700);
	e = ERR_INIT;
	ck_assert_int_lt(store_open(&r->o, &s, &e), 0);
	ck_assert_int_eq(e.code, ERR_NOT_FOUND);
}
RIG_TEST(a_missing_store_cannot_be_opened_for_reading)

/* Writes another version number, as a later program would. */
static void write_version(struct rig *r, uint32_t version)
{
	extern uint64_t hash64(const void *p, size_t n, uint64_t seed);
	char value[12];
	uint64_t seal = hash64(&version, 4, hash64("version", 7, 0));
	MDB_val k = { 7, (void *)(uintptr_t) "version" }, v = { 12, value };
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;

	memcpy(value, &seal, 8);
	memcpy(value + 8, &version, 4);
	ck_assert_int_eq(mdb_env_create(&env), 0);
	mdb_env_set_maxdbs(env, 16);
	mdb_env_set_mapsize(env, 1u << 30);
	ck_assert_int_eq(mdb_env_open(env, r->store_dir, 0, 0600), 0);
	ck_assert_int_eq(mdb_txn_begin(env, NULL, 0, &txn), 0);
	ck_assert_int_eq(mdb_dbi_open(txn, "meta", 0, &dbi), 0);
	ck_assert_int_eq(mdb_put(txn, dbi, &k, &v, 0), 0);
	ck_assert_int_eq(mdb_txn_commit(txn), 0);
	mdb_env_close(env);
}

static void a_newer_version_is_rejected_and_left_unchanged_in(struct rig *r)
{
	char path[200];
	struct stat before, after;
	char *a, *b;
	struct err e = ERR_INIT;
	struct store *s = NULL;
	int fd;

	rig_open(r);
	rig_append(r, 3, "sess_a", NULL);
	rig_close(r);
	write_version(r, 6);
	snprintf(path, sizeof(path), "%s/data.mdb", r->store_dir);
	fd = open(path, O_RDONLY);
	ck_assert_int_eq(fstat(fd, &before), 0);
	a = mem_alloc((size_t)before.st_size);
	b = mem_alloc((size_t)before.st_size);
	ck_assert_int_eq(pread(fd, a, (size_t)before.st_size, 0), before.st_size);
	ck_assert_int_lt(store_open(&r->o, &s, &e), 0);
	ck_assert_int_eq(e.code, ERR_UNAVAILABLE);
	ck_assert_ptr_nonnull(strstr(e.message, "version 6"));
	ck_assert_int_eq(fstat(fd, &after), 0);
	ck_assert_int_eq(before.st_size, after.st_size);
	ck_assert_int_eq(pread(fd, b, (size_t)before.st_size, 0), before.st_size);
	ck_assert_mem_eq(a, b, (size_t)before.st_size);
	free(a);
	free(b);
	close(fd);
	write_version(r, 1);
	rig_open(r);
	rig_verify_ok(r);
}
RIG_TEST(a_newer_version_is_rejected_and_left_unchanged)

/* The index of version 1, with the field first. */
static void write_old_index(struct rig *r, unsigned events)
{
	unsigned char key[16] = { ID_SESSION, 's', 'e', 's', 's', '_', 'a', 0 };
	MDB_val k = { 16, key }, none = { 0 };
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;

	ck_assert_int_eq(mdb_env_create(&env), 0);
	mdb_env_set_maxdbs(env, 16);
	mdb_env_set_mapsize(env, 1u << 30);
	ck_assert_int_eq(mdb_env_open(env, r->store_dir, 0, 0600), 0);
	ck_assert_int_eq(mdb_txn_begin(env, NULL, 0, &txn), 0);
	ck_assert_int_eq(mdb_dbi_open(txn, "index", 0, &dbi), 0);
	ck_assert_int_eq(mdb_drop(txn, dbi, 0), 0);
	for (unsigned i = 1; i <= events; i++) {
		key[14] = (unsigned char)(i >> 8);
		key[15] = (unsigned char)i;
		ck_assert_int_eq(mdb_put(txn, dbi, &k, &none, 0), 0);
	}
	ck_assert_int_eq(mdb_txn_commit(txn), 0);
	mdb_env_close(env);
}

static void a_store_of_version_1_is_upgraded_in(struct rig *r)
{
	struct err e = ERR_INIT;
	struct store *s = NULL;
	struct rig_seen x;

	rig_open(r);
	rig_append(r, 400, "sess_a", "proc_1");
	rig_close(r);
	write_old_index(r, 400);
	write_version(r, 1);
	r->o.read_only = true;
	ck_assert_int_lt(store_open(&r->o, &s, &e), 0);
	ck_assert_int_eq(e.code, ERR_UNAVAILABLE);
	r->o.read_only = false;
	for (int i = 0; i < 2; i++) {
		rig_open(r);
		x = rig_events(r, 0, 0, ID_SESSION, "sess_a");
		ck_assert_uint_eq(x.count, 400);
		ck_assert_uint_eq(rig_events(r, 0, 0, ID_PROCESS, "proc_1").count, 400);
		rig_verify_ok(r);
		rig_close(r);
		if (i == 0) { /* and the upgrade is recorded */
			r->o.read_only = true;
			ck_assert_int_eq(store_open(&r->o, &s, &e), 0);
			store_close(s);
			r->o.read_only = false;
		}
	}
}
RIG_TEST(a_store_of_version_1_is_upgraded)

/* A store without a journal, as version 2 left it. */
static void a_store_of_version_2_opens_in(struct rig *r)
{
	char path[200];

	r->o.no_journal = true;
	rig_open(r);
	rig_append(r, 40, "sess_a", "proc_1");
	rig_close(r);
	snprintf(path, sizeof(path), "%s/journal", r->store_dir);
	ck_assert_int_lt(access(path, F_OK), 0);
	write_version(r, 2);
	r->o.no_journal = false;
	for (int i = 0; i < 2; i++) {
		rig_open(r);
		ck_assert_uint_eq(rig_events(r, 0, 0, ID_SESSION, "sess_a").count, (unsigned)(40 + i));
		ck_assert_uint_eq(rig_append(r, 1, "sess_a", "proc_1"), 1);
		rig_verify_ok(r);
		rig_close(r);
		ck_assert_int_eq(access(path, F_OK), 0);
	}
}
RIG_TEST(a_store_of_version_2_opens)

static void directories_can_be_given_as_descriptors_in(struct rig *r)
{
	char dir[64], spool[64];
	int a, b;

	ck_assert_int_eq(mkdir(r->store_dir, 0700), 0);
	ck_assert_int_eq(mkdir(r->spool_dir, 0700), 0);
	a = open(r->store_dir, O_RDONLY | O_DIRECTORY);
	b = open(r->spool_dir, O_RDONLY | O_DIRECTORY);
	snprintf(dir, sizeof(dir), "/proc/self/fd/%d", a);
	snprintf(spool, sizeof(spool), "/proc/self/fd/%d", b);
	r->o.dir = dir;
	r->o.spool_dir = spool;
	rig_open(r);
	rig_append(r, 20, "sess_a", "proc_1");
	rig_verify_ok(r);
	struct rig_job j = { 0 };
	store_compact(r->s, rig_compact_cb, &j);
	rig_wait(r, &j.done);
	ck_assert_msg(!j.failed, "%s", j.e.message);
	rig_append(r, 20, "sess_a", "proc_1");
	rig_verify_ok(r);
	/* every descriptor that it opens is closed on exec */
	for (int fd = 3; fd < 64; fd++)
		if (fd != a && fd != b && fcntl(fd, F_GETFD) >= 0) {
			char link[64], path[256];
			ssize_t n;

			snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
			n = readlink(link, path, sizeof(path) - 1);
			path[n > 0 ? n : 0] = '\0';
			if (strstr(path, r->dir))
				ck_assert_msg(fcntl(fd, F_GETFD) & FD_CLOEXEC, "%s", path);
		}
	rig_close(r);
	close(a);
	close(b);
}
RIG_TEST(directories_can_be_given_as_descriptors)

/* A long scan on the loop thread while the writer commits returns each event once, in order. */
static void a_scan_during_commits_returns_each_event_once_in(struct rig *r)
{
	uint64_t seen = 0;

	rig_open(r);
	for (unsigned i = 0; i < 2000; i++) {
		struct store_batch *b = store_batch_new(r->s);
		struct rig_seen x;

		rig_event(b, EVENT_RUNTIME_WARNING, i % 2 ? "sess_a" : "sess_b", "proc_1", i);
		store_submit(r->s, b, 0, rig_result, r);
		if (i % 50)
			continue;
		store_dispatch(r->s);
		x = rig_events(r, seen, 0, -1, NULL);
		ck_assert(x.gapless);
		if (x.count) {
			ck_assert_uint_eq(x.first, seen + 1);
			seen = x.last;
		}
		ck_assert_uint_eq(seen, store_last_sequence(r->s));
	}
	store_flush(r->s);
	rig_verify_ok(r);
}
RIG_TEST(a_scan_during_commits_returns_each_event_once)

static void a_truncated_file_is_rejected_in(struct rig *r)
{
	char path[200];
	struct stat st;
	struct err e = ERR_INIT;
	struct store *s = NULL;

	rig_open(r);
	rig_append(r, 50, "sess_a", NULL);
	rig_close(r);
	snprintf(path, sizeof(path), "%s/data.mdb", r->store_dir);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_eq(truncate(path, st.st_size / 2), 0);
	ck_assert_int_lt(store_open(&r->o, &s, &e), 0);
	ck_assert_int_eq(e.code, ERR_CORRUPT);
	ck_assert_int_eq(truncate(path, 0), 0);
	ck_assert_int_lt(store_open(&r->o, &s, &e), 0); /* its journal is still there */
	ck_assert_int_eq(e.code, ERR_CORRUPT);
	snprintf(path, sizeof(path), "%s/journal", r->store_dir);
	ck_assert_int_eq(unlink(path), 0);
	rig_open(r); /* an empty file without a journal is not a store */
	ck_assert(store_is_new(r->s));
}
RIG_TEST(a_truncated_file_is_rejected)

/* LMDB does not write the last page if the transaction that took it has freed it again. */
static void a_file_without_a_free_page_at_its_end_opens_in(struct rig *r)
{
	char path[200];
	uint64_t newest[2], last;
	uint32_t page;

	rig_open(r);
	rig_append(r, 50, "sess_a", NULL);
	rig_close(r);
	snprintf(path, sizeof(path), "%s/data.mdb", r->store_dir);
	fd_auto int fd = open(path, O_RDWR | O_CLOEXEC);
	ck_assert_int_eq(pread(fd, &page, sizeof(page), 40), sizeof(page));
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pread(fd, &newest[i], sizeof(*newest), i * (off_t)page + 144), sizeof(*newest));
	const off_t at = (newest[1] > newest[0]) * (off_t)page + 136;
	ck_assert_int_eq(pread(fd, &last, sizeof(last), at), sizeof(last));
	last++;
	ck_assert_int_eq(pwrite(fd, &last, sizeof(last), at), sizeof(last));
	rig_open(r);
	rig_verify_ok(r);
	rig_append(r, 50, "sess_a", NULL);
	rig_verify_ok(r);
}
RIG_TEST(a_file_without_a_free_page_at_its_end_opens)

int main(void)
{
	return SUITE("store", a_new_store_is_empty, events_come_back_in_order, thousands_of_batches_keep_their_order,
		     deferred_events_are_committed_with_the_next_immediate_one,
		     deferred_events_are_committed_after_their_delay, close_commits_what_is_queued,
		     an_invalid_event_does_not_affect_its_batch, idempotency_keys_are_stored_and_replaced,
		     a_second_opener_is_rejected, a_missing_store_cannot_be_opened_for_reading,
		     a_newer_version_is_rejected_and_left_unchanged, a_store_of_version_1_is_upgraded,
		     a_store_of_version_2_opens, directories_can_be_given_as_descriptors,
		     a_scan_during_commits_returns_each_event_once, a_truncated_file_is_rejected,
		     a_file_without_a_free_page_at_its_end_opens);
}
