/*
 * A medium that fails: the calls that LMDB and the store write with are replaced in this program (the libraries are
 * bound to these as well), and every N-th of them fails once, for every N that a short script reaches. Afterwards all
 * acknowledged events must be there without a gap, all batches with STORE_MUST must have been written, and the store
 * must recover automatically.
 */

#include "runtime/store/spool.h"
#include "tests/unit/runtime/store/rig.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/uio.h>

static _Atomic long countdown = -1; /* calls until the one that fails; < 0: no call fails */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned failed_calls;
static int fault;
static bool stay; /* all calls fail until `countdown` is set again */

static atomic_bool stalled, waiting; /* syncs do not return while the first is set */

static void stall(void)
{
	while (stalled) {
		waiting = true;
		usleep(1000);
	}
}

static bool hit(void)
{
	pthread_mutex_lock(&mutex);
	bool r = countdown == 0;
	if (countdown > 0 || (r && !stay))
		countdown--;
	failed_calls += r;
	pthread_mutex_unlock(&mutex);
	return r;
}

/* Ends the failures and returns how many calls failed. */
static unsigned stop_failures(void)
{
	pthread_mutex_lock(&mutex);
	unsigned n = failed_calls;
	countdown = -1;
	pthread_mutex_unlock(&mutex);
	return n;
}

int fdatasync(int fd)
{
	stall();
	if (hit()) {
		errno = fault;
		return -1;
	}
	return (int)syscall(SYS_fdatasync, fd);
}

ssize_t pwrite(int fd, const void *p, size_t n, off_t at)
{
	if (hit()) {
		errno = fault;
		return -1;
	}
	return syscall(SYS_pwrite64, fd, p, n, at);
}

ssize_t pwrite64(int fd, const void *p, size_t n, off_t at) { return pwrite(fd, p, n, at); }

ssize_t pwritev(int fd, const struct iovec *iov, int n, off_t at)
{
	if (hit()) {
		if (fault == ENOSPC) { /* a full disk first writes less */
			ssize_t w = syscall(SYS_pwrite64, fd, iov[0].iov_base, iov[0].iov_len / 2, at);

			return w;
		}
		errno = fault;
		return -1;
	}
	return syscall(SYS_pwritev, fd, iov, n, at, 0);
}

ssize_t pwritev64(int fd, const struct iovec *iov, int n, off_t at) { return pwritev(fd, iov, n, at); }

struct script {
	uint64_t acked, musts, refused;
	struct rig *r;
};

static void decided(void *ctx, const struct store_result *res)
{
	struct script *s = ctx;

	if (res->status == 0) {
		s->acked = res->last_sequence;
		return;
	}
	s->refused++;
	if (res->err->code != ERR_UNAVAILABLE && res->err->code != ERR_EXHAUSTED)
		ck_abort_msg("refused with %d: %s", res->err->code, res->err->message);
}

static void must_decided(void *ctx, const struct store_result *res)
{
	struct script *s = ctx;

	if (res->status != 0)
		ck_abort_msg("what must be written was refused: %s", res->err->message);
	s->musts++;
	s->acked = res->last_sequence;
}

#define BATCHES 8

static void play(struct script *s)
{
	struct spool_file f = SPOOL_FILE_INIT;
	struct err e = ERR_INIT;
	int dir = open(s->r->spool_dir, O_RDONLY | O_DIRECTORY);

	ck_assert_msg(spool_open(dir, "out_1", 0, &f, &e) == 0, "%s", e.message);
	close(dir);
	ck_assert_int_eq(ftruncate(f.fd, 1000), 0);
	for (unsigned i = 0; i < BATCHES; i++) {
		struct store_batch *b = store_batch_new(s->r->s);

		rig_event(b, i % 4 == 3 ? EVENT_PROCESS_OUTPUT : EVENT_RUNTIME_WARNING, "sess_a", "proc_1", i);
		if (i == 3)
			store_batch_spool(b, "out_1", f.fd, 0, 1000);
		store_submit(s->r->s, b, i % 2 ? STORE_MUST : 0, i % 2 ? must_decided : decided, s);
		if (i % 3 == 0)
			store_flush(s->r->s);
	}
	while (store_queued(s->r->s)) { /* deferred batches are retried automatically */
		struct pollfd p = { .fd = store_dispatch_fd(s->r->s), .events = POLLIN };

		poll(&p, 1, 100);
		store_dispatch(s->r->s);
	}
	spool_done(&f);
}

static void init(struct rig *r)
{
	rig_init_quick(r);
	if (!freopen("/dev/null", "w", stderr)) /* hides the messages about intended failures */
		ck_abort_msg("no /dev/null");
}

static void check_after(struct script *s)
{
	struct rig *r = s->r;
	struct rig_seen x;

	countdown = -1;
	ck_assert_uint_eq(s->musts, BATCHES / 2);
	ck_assert_uint_eq(store_last_sequence(r->s), s->acked);
	rig_verify_ok(r);
	rig_close(r);
	rig_open(r);
	ck_assert_uint_ge(store_last_sequence(r->s), s->acked);
	x = rig_events(r, 0, 0, -1, NULL);
	ck_assert(x.gapless && x.count == store_last_sequence(r->s));
	ck_assert_uint_eq(store_last_sequence(r->s), BATCHES - s->refused);
	ck_assert_uint_eq(rig_append(r, 2, "sess_b", "proc_2"), 2);
	rig_verify_ok(r);
}

static void every_call(int errnum)
{
	unsigned hits = 0, refused = 0;

	fault = errnum;
	for (long n = 0;; n++) {
		struct script s = { 0 };
		struct rig r;
		bool done;

		init(&r);
		rig_open(&r);
		s.r = &r;
		countdown = n;
		play(&s);
		done = countdown >= 0;
		check_after(&s);
		rig_done(&r);
		refused += (unsigned)s.refused;
		if (done)
			break;
		hits++;
	}
	printf("# %s: %u places, %u refusals\n", strerrorname_np(errnum), hits, refused);
	ck_assert_uint_gt(hits, 5); /* how many there are depends on how batches group */
}

START_TEST(an_io_error_in_any_call_loses_nothing) { every_call(EIO); }
END_TEST

START_TEST(a_full_disk_in_any_call_loses_nothing) { every_call(ENOSPC); }
END_TEST

START_TEST(an_interruption_of_any_call_loses_nothing) { every_call(EINTR); }
END_TEST

/* While the disk fails, batches are rejected or, with STORE_MUST, deferred, and reads work; then the store recovers. */
START_TEST(the_store_recovers_when_the_disk_does)
{
	struct script s = { 0 };
	struct store_batch *b;
	struct rig_seen x;
	struct rig r;

	init(&r);
	rig_open(&r);
	s.r = &r;
	rig_append(&r, 10, "sess_a", "proc_1");
	fault = EIO;
	stay = true;
	countdown = 0;
	b = store_batch_new(r.s);
	rig_event(b, EVENT_RUNTIME_WARNING, "sess_a", "proc_1", 1);
	store_submit(r.s, b, STORE_MUST, must_decided, &s);
	ck_assert_uint_eq(rig_append(&r, 1, "sess_a", "proc_1"), 0);
	ck_assert_int_eq(r.err.code, ERR_UNAVAILABLE);
	ck_assert_uint_eq(store_queued(r.s), 1);
	x = rig_events(&r, 0, 0, -1, NULL);
	ck_assert(x.gapless && x.count == 10);
	countdown = -1;
	while (store_queued(r.s)) {
		struct pollfd p = { .fd = store_dispatch_fd(r.s), .events = POLLIN };

		poll(&p, 1, 100);
		store_dispatch(r.s);
	}
	ck_assert_uint_eq(s.musts, 1);
	ck_assert_uint_eq(rig_append(&r, 5, "sess_a", "proc_1"), 5);
	rig_verify_ok(&r);
	rig_done(&r);
}
END_TEST

/*
 * Submits a batch to a disk that fails, and another one once the writer has failed and the disk works again, before
 * the loop thread has learned about it: the second one may have been derived from the first.
 */
static void submit_two(struct rig *r, unsigned flags)
{
	struct store_batch *b = store_batch_new(r->s);
	struct pollfd p = { .fd = store_dispatch_fd(r->s), .events = POLLIN };

	fault = EIO;
	stay = true;
	countdown = 0;
	rig_event(b, EVENT_RUNTIME_WARNING, "sess_a", "proc_1", 1);
	store_submit(r->s, b, STORE_NOW, rig_result, r);
	ck_assert_int_eq(poll(&p, 1, 60000), 1);
	stop_failures();
	b = store_batch_new(r->s);
	rig_event(b, EVENT_RUNTIME_WARNING, "sess_a", "proc_1", 2);
	store_submit(r->s, b, flags | STORE_NOW, rig_result, r);
	while (store_queued(r->s)) {
		poll(&p, 1, 100);
		store_dispatch(r->s);
	}
	ck_assert_uint_eq(r->decided, 2);
}

START_TEST(a_batch_after_a_rejected_one_is_rejected_too)
{
	struct rig r;

	init(&r);
	rig_open(&r);
	submit_two(&r, 0);
	ck_assert_uint_eq(r.failed, 2);
	ck_assert_uint_eq(store_last_sequence(r.s), 0);
	ck_assert_uint_eq(rig_append(&r, 5, "sess_a", "proc_1"), 5);
	rig_verify_ok(&r);
	rig_done(&r);
}
END_TEST

START_TEST(a_batch_after_a_deferred_one_is_written)
{
	struct rig r;

	init(&r);
	rig_open(&r);
	submit_two(&r, STORE_MUST);
	ck_assert_uint_eq(r.failed, 0);
	ck_assert_uint_eq(store_last_sequence(r.s), 2);
	rig_verify_ok(&r);
	rig_done(&r);
}
END_TEST

/* After the acknowledgement the database can no longer be written, not even at the close: the journal has all groups.
 */
START_TEST(groups_that_cannot_be_settled_are_not_lost)
{
	struct rig_verdict v;
	struct store_stats st;
	struct err e = ERR_INIT;
	struct rig_seen x;
	struct rig r;

	init(&r);
	r.o.settle_ms = 60000;
	rig_open(&r);
	ck_assert_uint_eq(rig_append(&r, 10, "sess_a", "proc_1"), 10);
	ck_assert_int_eq(store_stats_get(r.s, &st, &e), 0);
	ck_assert_uint_eq(st.settles, 0);
	ck_assert_uint_eq(st.journal_groups, 10);
	fault = EIO;
	stay = true;
	countdown = 0;
	v = rig_verify(&r); /* which settles first */
	ck_assert(v.failed);
	ck_assert_uint_eq(rig_append(&r, 1, "sess_a", "proc_1"), 0);
	x = rig_events(&r, 0, 0, -1, NULL);
	ck_assert(x.gapless && x.count == 10);
	rig_close(&r);
	countdown = -1;
	rig_open(&r);
	x = rig_events(&r, 0, 0, -1, NULL);
	ck_assert(x.gapless && x.count == 10);
	ck_assert_uint_eq(rig_append(&r, 5, "sess_a", "proc_1"), 5);
	rig_verify_ok(&r);
	/* and when the disk recovers by itself */
	countdown = 0;
	v = rig_verify(&r);
	ck_assert(v.failed);
	countdown = -1;
	ck_assert_uint_eq(rig_append(&r, 5, "sess_a", "proc_1"), 5);
	rig_verify_ok(&r);
	ck_assert_uint_eq(store_last_sequence(r.s), 20);
	rig_done(&r);
}
END_TEST

/* If preparing for a group fails, the journal is abandoned as if the group itself had failed, and nothing is lost. */
START_TEST(a_failed_preparation_loses_nothing)
{
	struct store_stats st;
	struct err e = ERR_INIT;
	struct rig_seen x;
	struct rig r;

	init(&r);
	r.o.settle_ms = 60000;
	rig_open(&r);
	fault = EIO;
	stay = true;
	for (unsigned n = 0;; n++) {
		ck_assert_uint_lt(n, 60); /* while the disk is slow nothing is prepared, but not every time */
		ck_assert_uint_eq(rig_append(&r, 1, "sess_a", "proc_1"), 1);
		usleep(3000);
		countdown = 0;
		store_prepare(r.s);
		usleep(3000);
		bool tried = stop_failures() > 0;
		do
			ck_assert_int_eq(store_stats_get(r.s, &st, &e), 0);
		while (tried && st.journal_bytes);
		ck_assert_uint_eq(st.journal_groups, n + 1);
		if (tried)
			break;
	}
	ck_assert_ptr_nonnull(strstr(st.note, "journal"));
	ck_assert_uint_eq(st.settles, 0);
	ck_assert_uint_eq(rig_append(&r, 2, "sess_a", "proc_1"), 2);
	ck_assert_int_eq(store_stats_get(r.s, &st, &e), 0);
	ck_assert_uint_eq(st.settles, 2);
	ck_assert_uint_eq(st.journal_groups, 0);
	store_prepare(r.s); /* without one */
	rig_verify_ok(&r);
	uint64_t last = store_last_sequence(r.s);
	rig_close(&r);
	rig_open(&r);
	x = rig_events(&r, 0, 0, -1, NULL);
	ck_assert(x.gapless && x.count == last);
	rig_done(&r);
}
END_TEST

/* Reads, models and submits on the loop thread do not wait for a disk that hangs. */
START_TEST(a_stalled_disk_does_not_block_the_loop_thread)
{
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;
	struct rig_seen x;
	struct store_stats st;
	struct rig r;

	init(&r);
	rig_open(&r);
	rig_append(&r, 600, "sess_a", "proc_1");
	rig_close(&r);
	rig_open(&r);
	stalled = true;
	for (int i = 0; i < 100; i++) {
		struct store_batch *b = store_batch_new(r.s);

		rig_event(b, EVENT_RUNTIME_WARNING, "sess_b", "proc_1", 1);
		store_submit(r.s, b, 0, rig_result, &r);
	}
	while (!waiting)
		usleep(1000);
	x = rig_events(&r, 0, 0, -1, NULL);
	ck_assert(x.gapless && x.count == 600);
	ck_assert_uint_eq(rig_events(&r, 0, 0, ID_SESSION, "sess_a").count, 600);
	ck_assert_int_eq(store_model_get(r.s, 1, "sess_a", &out, &e), 0);
	ck_assert_str_eq(buf_cstr(&out), "{\"count\":600}");
	ck_assert_int_eq(store_model_get(r.s, 1, "sess_b", &out, &e), 1);
	ck_assert_int_eq(store_stats_get(r.s, &st, &e), 0);
	store_dispatch(r.s);
	ck_assert_uint_eq(store_queued(r.s), 100);
	stalled = false;
	store_flush(r.s);
	ck_assert_uint_eq(store_last_sequence(r.s), 700);
	rig_verify_ok(&r);
	rig_done(&r);
}
END_TEST

int main(void)
{
	return SUITE("medium", an_io_error_in_any_call_loses_nothing, a_full_disk_in_any_call_loses_nothing,
		     an_interruption_of_any_call_loses_nothing, the_store_recovers_when_the_disk_does,
		     a_batch_after_a_rejected_one_is_rejected_too, a_batch_after_a_deferred_one_is_written,
		     groups_that_cannot_be_settled_are_not_lost, a_failed_preparation_loses_nothing,
		     a_stalled_disk_does_not_block_the_loop_thread);
}
