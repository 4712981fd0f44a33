/*
 * Groups that only the journal has: readers see them as if they were in the database, and a crash at any moment, even
 * within a write, loses no acknowledged group and adds none.
 */

#include "runtime/base/hash.h"
#include "runtime/store/journal.h"
#include "tests/unit/runtime/store/store_contents.h"

#include <errno.h>

#define NEVER 600000u /* ms: settled only on request */

START_TEST(acknowledged_groups_are_read)
{
	struct spool_file f = SPOOL_FILE_INIT;
	struct rig r;

	rig_init(&r);
	r.o.settle_ms = NEVER;
	r.o.real_us = fake_us;
	tick = 0;
	rig_open(&r);
	for (unsigned round = 0; round < 3; round++) { /* on an empty database, and on a settled one */
		uint64_t settles = stats(&r).settles;

		write_all(&r, &f, round);
		ck_assert_uint_eq(stats(&r).settles, settles);
		ck_assert_uint_ge(stats(&r).journal_groups, 16);
		mem_auto char *before = read_everything(&r);
		rig_verify_ok(&r);
		ck_assert_uint_eq(stats(&r).settles, settles + 1);
		ck_assert_uint_eq(stats(&r).journal_groups, 0);
		mem_auto char *after = read_everything(&r);
		ck_assert_str_eq(before, after);
	}
	mem_auto char *last = read_everything(&r);
	rig_close(&r);
	rig_open(&r);
	mem_auto char *reopened = read_everything(&r);
	ck_assert_str_eq(last, reopened);
	spool_done(&f);
	rig_done(&r);
}
END_TEST

/* The snapshot of a reader does not change when all groups are settled and more are written. */
static void a_snapshot_does_not_change_when_groups_are_settled_in(struct rig *r)
{
	buf_auto struct buf a = BUF_INIT, b = BUF_INIT;
	struct err e = ERR_INIT;

	r->o.settle_ms = NEVER;
	rig_open(r);
	rig_append(r, 5, "sess_a", "proc_1");
	store_snapshot_begin(r->s);
	rig_verify_ok(r);
	rig_append(r, 5, "sess_a", "proc_1");
	rig_verify_ok(r);
	ck_assert_int_eq(store_model_get(r->s, 1, "sess_a", &a, &e), 0);
	ck_assert_str_eq(buf_cstr(&a), "{\"count\":5}");
	struct store *held = r->s;
	store_snapshot_end(&held);
	ck_assert_int_eq(store_model_get(r->s, 1, "sess_a", &b, &e), 0);
	ck_assert_str_eq(buf_cstr(&b), "{\"count\":10}");
}
RIG_TEST(a_snapshot_does_not_change_when_groups_are_settled)

static void groups_are_settled_automatically_in(struct rig *r)
{
	rig_open(r);
	ck_assert_uint_eq(rig_append(r, 3, "sess_a", "proc_1"), 3);
	for (int i = 0; stats(r).journal_groups; i++) {
		ck_assert_int_lt(i, 6000);
		usleep(10000);
	}
	ck_assert_uint_ge(stats(r).settles, 1);
	/* and during continuous writes */
	rig_close(r);
	r->o.settle_ms = NEVER;
	rig_open(r);
	ck_assert_uint_eq(rig_append(r, 300, "sess_a", "proc_1"), 300);
	ck_assert_uint_ge(stats(r).settles, 3);
	/* a group larger than the journal is committed directly */
	struct store_batch *b = store_batch_new(r->s);
	mem_auto char *large = mem_zalloc(1, 2 << 20);
	store_batch_inline(b, "out_big", large, 2 << 20);
	submit(r, b);
	ck_assert_uint_eq(stats(r).journal_groups, 0);
	rig_verify_ok(r);
}
RIG_TEST(groups_are_settled_automatically)

/* ---- crashes ---- */

static void copy_file(const char *from, const char *to)
{
	int in = open(from, O_RDONLY), out = open(to, O_RDWR | O_CREAT | O_TRUNC, 0600);
	static char tmp[1 << 16];
	ssize_t n;

	ck_assert(in >= 0 && out >= 0);
	while ((n = read(in, tmp, sizeof(tmp))) > 0)
		ck_assert_int_eq(write(out, tmp, (size_t)n), n);
	close(in);
	close(out);
}

static char *path_of(const struct rig *r, const char *name) { return mem_printf("%s/%s", r->store_dir, name); }

static char *load(const char *path, size_t *ret_len)
{
	int fd = open(path, O_RDONLY);
	struct stat st;

	ck_assert(fd >= 0 && fstat(fd, &st) == 0);
	char *p = mem_alloc((size_t)st.st_size + 1);
	ck_assert_int_eq(pread(fd, p, (size_t)st.st_size, 0), st.st_size);
	close(fd);
	*ret_len = (size_t)st.st_size;
	return p;
}

static void save(const char *path, const char *p, size_t n)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	ck_assert(fd >= 0);
	ck_assert_int_eq(pwrite(fd, p, n, 0), (ssize_t)n);
	close(fd);
}

#define GROUPS 12

/* A store at the moment of a power cut: the settled database, the journal with GROUPS groups, and the journal's earlier
 * bytes. */
struct wreck {
	struct rig r, copy;
	char *stale, *file; /* the journal's bytes before and at the end */
	size_t size;
	size_t ends[GROUPS + 1];   /* where each group ends */
	uint64_t last[GROUPS + 1]; /* the newest event then; [0]: of the database */
	char *looks[GROUPS + 1];
};

static void grow(struct rig *r, unsigned i)
{
	struct store_batch *b = store_batch_new(r->s);

	for (unsigned k = 0; k < 1 + i % 3 * 12; k++) /* some of them longer than a block */
		rig_event(b, EVENT_RUNTIME_WARNING, k % 2 ? "sess_2" : "sess_3", "sess_1", i + k);
	if (i == 4) {
		store_batch_free(b);
		b = store_batch_new(r->s);
		store_batch_meta(b, "m", "four", 4);
	}
	submit(r, b);
}

static void wreck_init(struct wreck *w)
{
	mem_auto char *journal = NULL;
	size_t n;

	memset(w, 0, sizeof(*w));
	rig_init(&w->r);
	rig_init(&w->copy);
	w->r.o.settle_ms = w->copy.o.settle_ms = NEVER;
	w->r.o.journal_bytes = w->copy.o.journal_bytes = 256 * 1024;
	journal = path_of(&w->r, "journal");
	rig_open(&w->r);
	for (unsigned i = 0; i < 20; i++) /* so that older records follow the new ones */
		grow(&w->r, i);
	rig_verify_ok(&w->r);
	w->stale = load(journal, &w->size);
	for (unsigned i = 0; i <= GROUPS; i++) {
		struct journal_cursor c = { 0 };

		if (i)
			grow(&w->r, i);
		free(w->file);
		w->file = load(journal, &n);
		ck_assert_uint_eq(n, w->size);
		c.seed = hash64(store_runtime_id(w->r.s), strlen(store_runtime_id(w->r.s)), 0);
		for (unsigned k = 0; k < i; k++)
			ck_assert(journal_next(&c, w->file, n));
		ck_assert(i == 0 || !journal_next(&c, w->file, n));
		w->ends[i] = c.at;
		w->last[i] = store_last_sequence(w->r.s);
		w->looks[i] = read_everything(&w->r);
	}
	ck_assert_uint_eq(stats(&w->r).journal_groups, GROUPS);
	ck_assert_int_eq(mkdir(w->copy.store_dir, 0700), 0);
	ck_assert_int_eq(mkdir(w->copy.spool_dir, 0700), 0);
}

static void wreck_done(struct wreck *w)
{
	for (unsigned i = 0; i <= GROUPS; i++)
		free(w->looks[i]);
	free(w->stale);
	free(w->file);
	rig_done(&w->r);
	rig_done(&w->copy);
}

/* Opens a copy with this journal; it must equal the store after `groups` groups. */
static void expect(struct wreck *w, const char *journal, unsigned groups, bool again)
{
	mem_auto char *from = path_of(&w->r, "data.mdb"), *to = path_of(&w->copy, "data.mdb"),
		      *file = path_of(&w->copy, "journal");
	mem_auto char *text = NULL;

	copy_file(from, to);
	save(file, journal, w->size);
	for (int i = 0; i < (again ? 2 : 1); i++) {
		rig_open(&w->copy);
		ck_assert_uint_eq(store_last_sequence(w->copy.s), w->last[groups]);
		free(text);
		text = read_everything(&w->copy);
		ck_assert_str_eq(text, w->looks[groups]);
		if (again)
			rig_verify_ok(&w->copy);
		rig_close(&w->copy);
	}
}

/* Sets the end of the groups in this store's journal; returns whether the block there contains only zeroes. */
static bool zeroes_behind(struct rig *r, size_t *ret_end)
{
	mem_auto char *path = path_of(r, "journal"), *file = NULL;
	struct journal_cursor c = { .seed = hash64(store_runtime_id(r->s), strlen(store_runtime_id(r->s)), 0) };
	size_t n;

	file = load(path, &n);
	while (journal_next(&c, file, n))
		;
	*ret_end = c.at;
	for (size_t i = c.at; i < c.at + JOURNAL_BLOCK && i < n; i++)
		if (file[i])
			return false;
	return c.at < n;
}

/* Preparing for a group writes once after the last group; no acknowledged group is changed. */
static void preparing_for_a_group_keeps_the_journal_in(struct rig *r)
{
	bool seen = false;
	unsigned n = 0;

	r->o.settle_ms = NEVER;
	rig_open(r);
	store_prepare(r->s); /* an empty journal */
	for (unsigned round = 0; !seen; round++) {
		ck_assert_uint_lt(round, 100); /* while the disk is slow nothing is prepared, but not every time */
		n += rig_append(r, 60, "sess_a", "proc_1"); /* so that older records follow the new ones */
		rig_verify_ok(r);
		n += rig_append(r, 3, "sess_a", "proc_1");
		size_t end, now;
		ck_assert(!zeroes_behind(r, &end));
		for (int i = 0; i < 20 && !seen; i++) {
			store_prepare(r->s);
			usleep(3000);
			seen = zeroes_behind(r, &now);
			ck_assert_uint_eq(end, now);
		}
		ck_assert_uint_eq(stats(r).journal_groups, 3);
		n += rig_append(r, 3, "sess_a", "proc_1");
		ck_assert_uint_eq(stats(r).journal_groups, 6);
		ck_assert_uint_eq(store_last_sequence(r->s), n);
	}
	store_prepare(r->s);
	rig_verify_ok(r);
	rig_close(r);
	rig_open(r);
	ck_assert_uint_eq(store_last_sequence(r->s), n);
	rig_verify_ok(r);
	rig_close(r);
	r->o.read_only = true;
	rig_open(r);
	store_prepare(r->s);
}

/* Nothing is prepared where a sync takes long. */
START_TEST(preparing_for_a_group_keeps_the_journal)
{
	struct rig r;

	rig_init_quick(&r);
	preparing_for_a_group_keeps_the_journal_in(&r);
	rig_done(&r);
}
END_TEST

/* Padding follows. */
static size_t payload_end(const struct wreck *w, unsigned group)
{
	struct journal_head h;

	memcpy(&h, w->file + w->ends[group], sizeof(h));
	return w->ends[group] + sizeof(h) + h.length;
}

/* Everything up to a byte has reached the disk; the rest is unchanged. */
START_TEST(a_power_cut_anywhere_leaves_a_prefix)
{
	mem_auto char *image = NULL;
	struct wreck w;
	unsigned whole = 0, n = 0;

	wreck_init(&w);
	image = mem_dup(w.stale, w.size);
	for (size_t at = 0; at <= w.ends[GROUPS]; at += 512) {
		size_t end = at;

		memcpy(image, w.file, at);
		while (whole < GROUPS && payload_end(&w, whole) <= at)
			whole++;
		expect(&w, image, whole, at % 8192 == 0);
		/* zeroes instead of older records */
		if (at % 4096 == 0) {
			mem_auto char *blank = mem_zalloc(1, w.size);
			memcpy(blank, w.file, end);
			expect(&w, blank, whole, false);
		}
		n++;
	}
	ck_assert_uint_eq(whole, GROUPS);
	printf("# %u cuts, %u groups\n", n, whole);
	wreck_done(&w);
}
END_TEST

/* Any sectors of the last write may be missing: it was not acknowledged, and all groups before it are kept. */
START_TEST(a_torn_write_is_ignored)
{
	struct wreck w;
	unsigned torn = 0;

	wreck_init(&w);
	srand(7);
	for (unsigned g = 0; g < GROUPS; g++) {
		size_t from = w.ends[g], to = w.ends[g + 1], payload = payload_end(&w, g);

		for (int round = 0; round < 6; round++) {
			mem_auto char *image = mem_dup(w.stale, w.size);
			bool all = true;

			memcpy(image, w.file, from);
			for (size_t s = from; s < to; s += 512) {
				bool there = rand() % 4 != 0;

				if (there)
					memcpy(image + s, w.file + s, 512);
				/* padding is ignored, and a sector may be equal to its earlier contents */
				all &= there || s >= payload || memcmp(image + s, w.file + s, 512) == 0;
			}
			expect(&w, image, all ? g + 1 : g, false);
			torn += !all;
		}
	}
	ck_assert_uint_gt(torn, 20);
	wreck_done(&w);
}
END_TEST

START_TEST(a_flipped_bit_ends_the_journal)
{
	struct wreck w;

	wreck_init(&w);
	srand(11);
	for (unsigned i = 0; i < 60; i++) {
		unsigned g = (unsigned)rand() % GROUPS;
		mem_auto char *image = mem_dup(w.file, w.size);
		struct journal_head h;

		memcpy(&h, image + w.ends[g], sizeof(h));
		image[w.ends[g] + (size_t)rand() % (sizeof(h) + h.length)] ^= (char)(1 << rand() % 8);
		expect(&w, image, g, false);
	}
	wreck_done(&w);
}
END_TEST

/* Whether the database is newer than the journal, equal or older: no group is applied twice or silently omitted. */
START_TEST(groups_are_applied_once_to_a_newer_or_older_database)
{
	mem_auto char *data = NULL, *old = NULL, *to = NULL, *journal = NULL;
	struct err e = ERR_INIT;
	struct store *s = NULL;
	struct wreck w;

	wreck_init(&w);
	data = path_of(&w.r, "data.mdb");
	old = path_of(&w.r, "data.old");
	to = path_of(&w.copy, "data.mdb");
	journal = path_of(&w.copy, "journal");
	expect(&w, w.file, GROUPS, true);
	copy_file(data, old);
	rig_verify_ok(&w.r); /* settled: a crash before the journal is written to again */
	expect(&w, w.file, GROUPS, true);
	grow(&w.r, 2); /* the journal continues after groups that the older database lacks */
	free(w.file);
	mem_auto char *live = path_of(&w.r, "journal");
	w.file = load(live, &w.size);
	copy_file(old, to);
	save(journal, w.file, w.size);
	ck_assert_int_lt(store_open(&w.copy.o, &s, &e), 0);
	ck_assert_int_eq(e.code, ERR_CORRUPT);
	ck_assert_ptr_nonnull(strstr(e.message, "journal"));
	ck_assert_int_eq(unlink(journal), 0); /* as the message advises */
	rig_open(&w.copy);
	ck_assert_uint_eq(store_last_sequence(w.copy.s), w.last[0]);
	rig_verify_ok(&w.copy);
	rig_close(&w.copy);
	wreck_done(&w);
}
END_TEST

static void the_journal_of_another_store_is_not_used_in(struct rig *r)
{
	mem_auto char *mine = path_of(r, "journal"), *kept = path_of(r, "kept"), *data = path_of(r, "data.mdb");

	r->o.settle_ms = NEVER;
	rig_open(r);
	ck_assert_uint_eq(rig_append(r, 5, "sess_a", "proc_1"), 5);
	copy_file(mine, kept);
	rig_close(r);
	ck_assert_int_eq(unlink(data), 0); /* a new store in the same directory */
	ck_assert_int_eq(unlink(mine), 0);
	rig_open(r);
	ck_assert(store_is_new(r->s));
	rig_close(r);
	copy_file(kept, mine);
	rig_open(r);
	ck_assert_uint_eq(store_last_sequence(r->s), 0);
	ck_assert_uint_eq(rig_append(r, 2, "sess_a", "proc_1"), 2);
	rig_verify_ok(r);
}
RIG_TEST(the_journal_of_another_store_is_not_used)

/* The journal is not settled. */
START_TEST(a_read_only_store_sees_the_journal_and_changes_nothing)
{
	mem_auto char *from = NULL, *to = NULL, *file = NULL, *text = NULL;
	char *a, *b;
	struct wreck w;
	size_t n, m;

	wreck_init(&w);
	from = path_of(&w.r, "data.mdb");
	to = path_of(&w.copy, "data.mdb");
	file = path_of(&w.copy, "journal");
	mem_auto char *lock = path_of(&w.copy, "lock");
	copy_file(from, to);
	save(file, w.file, w.size);
	save(lock, "", 0);
	w.copy.o.read_only = true;
	rig_open(&w.copy);
	text = read_everything(&w.copy);
	ck_assert_str_eq(text, w.looks[GROUPS]);
	rig_verify_ok(&w.copy);
	rig_close(&w.copy);
	a = load(from, &n);
	b = load(to, &m);
	ck_assert(n == m && memcmp(a, b, n) == 0);
	free(b);
	b = load(file, &m);
	ck_assert(m == w.size && memcmp(w.file, b, m) == 0);
	free(a);
	free(b);
	w.copy.o.read_only = false;
	expect(&w, w.file, GROUPS, true);
	wreck_done(&w);
}
END_TEST

/* Verification finds the groups that the database lacks. */
START_TEST(a_missing_journal_is_detected)
{
	mem_auto char *from = NULL, *to = NULL, *file = NULL, *lock = NULL;
	struct rig_verdict v;
	struct wreck w;

	wreck_init(&w);
	from = path_of(&w.r, "data.mdb");
	to = path_of(&w.copy, "data.mdb");
	file = path_of(&w.copy, "journal");
	lock = path_of(&w.copy, "lock");
	copy_file(from, to);
	save(file, w.file, w.size);
	save(lock, "", 0);
	w.copy.o.read_only = true;
	rig_open(&w.copy);
	rig_flip(file, (off_t)w.ends[5] + 20);
	v = rig_verify(&w.copy);
	ck_assert(!v.failed && !v.v.ok);
	ck_assert_ptr_nonnull(strstr(v.v.problems[0].what, "journal"));
	rig_close(&w.copy);
	wreck_done(&w);
}
END_TEST

/* If the journal cannot be created, the store is slower and equally safe, and reports it. */
static void a_store_works_without_a_journal_in(struct rig *r)
{
	mem_auto char *path = path_of(r, "journal");

	ck_assert_int_eq(mkdir(r->store_dir, 0700), 0);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	rig_open(r);
	ck_assert_uint_eq(rig_append(r, 5, "sess_a", "proc_1"), 5);
	ck_assert_uint_eq(stats(r).settles, 5);
	ck_assert_uint_eq(stats(r).journal_bytes, 0);
	ck_assert_ptr_nonnull(strstr(stats(r).note, "journal"));
	rig_verify_ok(r);
	rig_close(r);
	ck_assert_int_eq(rmdir(path), 0);
	rig_open(r);
	ck_assert_uint_eq(rig_append(r, 5, "sess_a", "proc_1"), 5);
	ck_assert_uint_gt(stats(r).journal_bytes, 0);
	ck_assert_str_eq(stats(r).note, "");
	rig_verify_ok(r);
}
RIG_TEST(a_store_works_without_a_journal)

/* Upkeep and backups include all acknowledged groups. */
static void upkeep_and_backups_include_the_journal_in(struct rig *r)
{
	mem_auto char *dir = mem_printf("%s/copy", r->dir);
	struct rig_job j = { 0 };
	struct rig copy;

	r->o.settle_ms = NEVER;
	rig_open(r);
	ck_assert_uint_eq(rig_append(r, 30, "sess_a", "proc_1"), 30);
	store_backup(r->s, dir, rig_backup_cb, &j);
	rig_wait(r, &j.done);
	ck_assert_msg(!j.failed, "%s", j.e.message);
	rig_at(&copy, dir);
	rig_open(&copy);
	ck_assert_uint_eq(store_last_sequence(copy.s), 30);
	rig_verify_ok(&copy);
	rig_close(&copy);
	ck_assert_uint_eq(rig_append(r, 10, "sess_b", "proc_1"), 10);
	j = rig_prune(r, 36, 0);
	ck_assert_msg(!j.failed && j.a == 35, "%s", j.e.message);
	ck_assert_uint_eq(rig_append(r, 10, "sess_b", "proc_1"), 10);
	j = (struct rig_job){ 0 };
	store_compact(r->s, rig_compact_cb, &j);
	rig_wait(r, &j.done);
	ck_assert_msg(!j.failed, "%s", j.e.message);
	ck_assert_uint_eq(rig_append(r, 10, "sess_b", "proc_1"), 10);
	struct rig_verdict v = { 0 };
	store_rebuild(r->s, rig_verdict_cb, &v);
	rig_wait(r, &v.done);
	ck_assert(v.v.ok && v.v.last_sequence == 60);
	ck_assert_uint_eq(rig_append(r, 10, "sess_b", "proc_1"), 10);
	rig_verify_ok(r);
	ck_assert_uint_eq(rig_events(r, 35, 0, -1, NULL).count, 35);
}
RIG_TEST(upkeep_and_backups_include_the_journal)

int main(void)
{
	return SUITE("journal", acknowledged_groups_are_read, a_snapshot_does_not_change_when_groups_are_settled,
		     groups_are_settled_automatically, a_power_cut_anywhere_leaves_a_prefix, a_torn_write_is_ignored,
		     a_flipped_bit_ends_the_journal, groups_are_applied_once_to_a_newer_or_older_database,
		     the_journal_of_another_store_is_not_used, a_read_only_store_sees_the_journal_and_changes_nothing,
		     a_missing_journal_is_detected, a_store_works_without_a_journal,
		     upkeep_and_backups_include_the_journal, preparing_for_a_group_keeps_the_journal);
}
