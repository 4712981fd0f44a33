#include "runtime/store/spool.h"
#include "tests/unit/runtime/store/rig.h"

#include <errno.h>
#include <sched.h>
#include <sys/mount.h>

/* Waits until the writer, which checks at least twice a second, finds space again. */
static void wait_for_space(struct rig *r)
{
	for (int i = 0; store_full(r->s); i++) {
		ck_assert_int_lt(i, 6000);
		usleep(10000);
	}
}

static void fill_up(struct rig *r)
{
	unsigned i = 0;

	while (rig_append(r, 1, "sess_a", "proc_1") == 1)
		ck_assert_uint_lt(i++, 1000000);
	ck_assert_int_eq(r->err.code, ERR_EXHAUSTED);
	ck_assert(store_full(r->s));
}

static void must(struct rig *r)
{
	struct store_batch *b = store_batch_new(r->s);

	rig_event(b, EVENT_RUNTIME_WARNING, "sess_m", "proc_1", 1);
	store_submit(r->s, b, STORE_MUST, rig_result, r);
}

static void a_full_map_rejects_batches_until_events_are_pruned_in(struct rig *r)
{
	uint64_t last;
	unsigned decided, failed;
	struct rig_seen x;
	struct rig_job j;

	r->o.map_bytes = 1 << 20;
	rig_open(r);
	fill_up(r);
	last = store_last_sequence(r->s);
	ck_assert_uint_gt(last, 100);
	x = rig_events(r, 0, 0, -1, NULL); /* reads still work */
	ck_assert(x.gapless && x.last == last);
	rig_verify_ok(r);
	/* batches with STORE_MUST may use the reserve, and then wait */
	failed = r->failed;
	decided = r->decided;
	for (int i = 0; i < 400; i++)
		must(r);
	store_flush(r->s);
	ck_assert_uint_eq(r->failed, failed);
	ck_assert_uint_gt(r->decided, decided);
	decided = r->decided;
	ck_assert_uint_eq(rig_append(r, 1, "sess_a", "proc_1"), 0); /* and no other batch overtakes them */
	ck_assert_int_eq(r->err.code, ERR_EXHAUSTED);
	j = rig_prune(r, store_last_sequence(r->s) - 10, 0);
	ck_assert_msg(!j.failed, "%s", j.e.message);
	wait_for_space(r);
	while (store_queued(r->s)) {
		struct pollfd p = { .fd = store_dispatch_fd(r->s), .events = POLLIN };

		poll(&p, 1, 1000);
		store_dispatch(r->s);
	}
	ck_assert_uint_eq(r->failed, failed + 1);
	ck_assert_uint_eq(rig_append(r, 20, "sess_a", "proc_1"), 20);
	rig_verify_ok(r);
	rig_close(r);
	rig_open(r);
	ck_assert(!store_full(r->s));
	rig_verify_ok(r);
}
RIG_TEST(a_full_map_rejects_batches_until_events_are_pruned)

static void a_quota_rejects_batches_until_events_are_pruned_in(struct rig *r)
{
	struct store_stats st;
	struct err e = ERR_INIT;
	unsigned failed;

	r->o.quota_bytes = 2 << 20;
	rig_open(r);
	for (unsigned i = 0; !r->failed; i++) {
		struct store_batch *b = store_batch_new(r->s);

		for (int k = 0; k < 50; k++)
			rig_event(b, EVENT_RUNTIME_WARNING, "sess_a", "proc_1", i);
		store_submit(r->s, b, 0, rig_result, r);
		store_flush(r->s);
		ck_assert_uint_lt(i, 10000);
	}
	ck_assert_int_eq(r->err.code, ERR_EXHAUSTED);
	ck_assert_int_eq(store_stats_get(r->s, &st, &e), 0);
	ck_assert(st.full && st.db_bytes > st.quota_bytes && st.db_bytes < 4 << 20);
	failed = r->failed;
	must(r);
	store_flush(r->s);
	ck_assert_uint_eq(r->failed, failed);
	ck_assert_uint_eq(store_queued(r->s), 0);
	rig_prune(r, store_last_sequence(r->s), 0);
	wait_for_space(r);
	ck_assert_uint_eq(rig_append(r, 5, "sess_a", "proc_1"), 5);
	rig_verify_ok(r);
}
RIG_TEST(a_quota_rejects_batches_until_events_are_pruned)

static void spool_files_count_toward_the_quota_in(struct rig *r)
{
	struct spool_file f = SPOOL_FILE_INIT;
	struct store_batch *b;
	struct err e = ERR_INIT;
	int dir;

	r->o.quota_bytes = 2 << 20;
	rig_open(r);
	dir = open(r->spool_dir, O_RDONLY | O_DIRECTORY);
	ck_assert_int_eq(spool_open(dir, "out_1", 0, &f, &e), 0);
	ck_assert_int_eq(ftruncate(f.fd, 3 << 20), 0);
	b = store_batch_new(r->s);
	rig_event(b, EVENT_PROCESS_OUTPUT, "sess_a", "proc_1", 1);
	store_batch_spool(b, "out_1", f.fd, 0, 3 << 20);
	store_submit(r->s, b, 0, rig_result, r);
	store_flush(r->s);
	ck_assert_uint_eq(r->failed, 0);
	ck_assert_uint_eq(rig_append(r, 1, "sess_a", "proc_1"), 0);
	b = store_batch_new(r->s);
	store_batch_expire_output(b, "out_1");
	store_submit(r->s, b, STORE_MUST, rig_result, r);
	store_flush(r->s);
	wait_for_space(r);
	ck_assert_uint_eq(rig_append(r, 1, "sess_a", "proc_1"), 1);
	spool_done(&f);
	close(dir);
}
RIG_TEST(spool_files_count_toward_the_quota)

/* Fills a disk of its own; requires root (or a user namespace). */
START_TEST(a_full_disk_defers_required_batches)
{
	char dir[] = "/tmp/bailiff-disk-XXXXXX", path[200];
	struct rig r;
	uint64_t last;
	unsigned failed;
	int fd;

	SKIP_IF(unshare(CLONE_NEWNS) != 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) != 0,
		"requires a mount namespace: %s", strerror(errno));
	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(mount("tmpfs", dir, "tmpfs", 0, "size=16m"), 0);
	rig_at(&r, dir);
	r.o.ballast_bytes = 2 << 20;
	rig_open(&r);
	ck_assert_uint_eq(rig_append(&r, 20, "sess_a", "proc_1"), 20);
	snprintf(path, sizeof(path), "%s/filler", dir);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	char *block = mem_zalloc(1, 4096);
	while (write(fd, block, 4096) == 4096)
		continue;
	ck_assert_int_eq(errno, ENOSPC);
	fill_up(&r);
	last = store_last_sequence(r.s);
	ck_assert_uint_ge(last, 20);
	ck_assert_uint_eq(rig_events(&r, 0, 0, -1, NULL).count, last);
	/* the ballast is removed for batches with STORE_MUST, and created again when there is space */
	failed = r.failed;
	for (int i = 0; i < 50; i++)
		must(&r);
	store_flush(r.s);
	ck_assert_uint_eq(store_last_sequence(r.s), last + 50);
	ck_assert(store_full(r.s));
	ck_assert_uint_eq(rig_append(&r, 1, "sess_a", "proc_1"), 0);
	/* that space is used up as well: batches wait, and a close tries a last time */
	while (write(fd, block, 4096) == 4096)
		continue;
	for (int i = 0; i < 400; i++)
		must(&r);
	store_flush(r.s);
	ck_assert_uint_gt(store_queued(r.s), 0);
	ck_assert_uint_eq(r.failed, failed + 1);
	ck_assert_int_eq(ftruncate(fd, 0), 0);
	wait_for_space(&r);
	while (store_queued(r.s)) {
		struct pollfd p = { .fd = store_dispatch_fd(r.s), .events = POLLIN };

		poll(&p, 1, 1000);
		store_dispatch(r.s);
	}
	ck_assert_uint_eq(r.failed, failed + 1);
	ck_assert_uint_eq(store_last_sequence(r.s), last + 450);
	ck_assert_uint_eq(rig_append(&r, 20, "sess_a", "proc_1"), 20);
	rig_verify_ok(&r);
	rig_close(&r);
	rig_open(&r);
	rig_verify_ok(&r);
	rig_close(&r);
	free(block);
	close(fd);
	umount2(dir, MNT_DETACH);
	rmdir(dir);
}
END_TEST

static void the_map_is_reduced_to_the_address_space_in(struct rig *r)
{
	struct store_stats st;
	struct err e = ERR_INIT;

	r->o.map_bytes = 1ull << 62; /* more than any machine has */
	rig_open(r);
	ck_assert_uint_eq(rig_append(r, 5, "sess_a", "proc_1"), 5);
	ck_assert_int_eq(store_stats_get(r->s, &st, &e), 0);
	ck_assert_uint_lt(st.map_bytes, 1ull << 62);
	ck_assert_ptr_nonnull(strstr(st.note, "address space"));
	rig_verify_ok(r);
}
RIG_TEST(the_map_is_reduced_to_the_address_space)

int main(void)
{
	return SUITE("space", a_full_map_rejects_batches_until_events_are_pruned,
		     a_quota_rejects_batches_until_events_are_pruned, spool_files_count_toward_the_quota,
		     a_full_disk_defers_required_batches, the_map_is_reduced_to_the_address_space);
}
