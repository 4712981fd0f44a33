#include "supervisor/guard/fd_store.h"

#include "runtime/base/fd.h"
#include "runtime/base/mem.h"

#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

static struct fd_store v;

static void setup(void) { fd_store_init(&v, 8); }

static void teardown(void) { fd_store_done(&v); }

static struct plan_key key(unsigned i)
{
	struct plan_key k = { .attempt = i % 2 };
	snprintf(k.id, sizeof k.id, "proc_%u", i / 2);
	return k;
}

static int null_fd(void) { return open("/dev/null", O_RDWR | O_CLOEXEC); }

static bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

START_TEST(deposits_of_one_key_are_merged)
{
	struct plan_key k = key(1);
	struct fd_store_entry *en = fd_store_get(&v, &k);
	int in = null_fd(), out = null_fd(), again = null_fd(), fds[GUARD_SLOT_COUNT];
	uint32_t slots;
	fd_store_deposit(&v, en, 1u << GUARD_SLOT_STDOUT, &out, 0);
	fd_store_deposit(&v, en, 1u << GUARD_SLOT_STDIN, &in, 0);
	ck_assert_ptr_eq(fd_store_get(&v, &k), en);
	ck_assert_uint_eq(fd_store_list(en, fds, &slots), 2);
	ck_assert_int_eq(fds[0], in);
	ck_assert_int_eq(fds[1], out);
	fd_store_deposit(&v, en, 1u << GUARD_SLOT_STDIN, &again, 0);
	ck_assert(!is_open(in));
	fd_store_withdraw(&v, en, 1u << GUARD_SLOT_STDIN);
	ck_assert(!is_open(again));
	ck_assert(is_open(out));
	fd_store_list(en, fds, &slots);
	ck_assert_uint_eq(slots, 1u << GUARD_SLOT_STDOUT);
}
END_TEST

START_TEST(a_full_store_rejects_new_keys_until_one_is_removed)
{
	for (unsigned i = 0; i < 8; i++) {
		struct plan_key k = key(i);
		ck_assert_ptr_nonnull(fd_store_get(&v, &k));
	}
	struct plan_key k = key(8), gone = key(3);
	ck_assert_ptr_null(fd_store_get(&v, &k));
	struct fd_store_entry *en = fd_store_find(&v, &gone);
	fd_store_release(&v, en, false);
	ck_assert_int_eq(en->state, FD_STORE_GONE);
	ck_assert_uint_eq(v.ngone, 1);
	fd_store_forget(&v, en);
	ck_assert_ptr_null(fd_store_find(&v, &gone));
	ck_assert_ptr_nonnull(fd_store_get(&v, &k));
	unsigned n = 0;
	for (struct fd_store_entry *at = fd_store_next(&v, 0); at; at = fd_store_next(&v, (size_t)(at - v.entries) + 1))
		n++;
	ck_assert_uint_eq(n, 8);
}
END_TEST

START_TEST(releasing_a_live_process_kills_it)
{
	struct plan_key k = key(0);
	pid_t pid = fork();
	if (pid == 0) {
		for (;;)
			pause();
	}
	int pidfd = fd_pidfd_open(pid), out = null_fd();
	struct fd_store_entry *en = fd_store_get(&v, &k);
	fd_store_deposit(&v, en, 1u << GUARD_SLOT_PIDFD, &pidfd, pid);
	fd_store_deposit(&v, en, 1u << GUARD_SLOT_STDOUT, &out, 0);
	ck_assert(fd_store_owns_pid(&v, pid));
	fd_store_release(&v, en, false);
	ck_assert_int_eq(en->state, FD_STORE_DYING);
	ck_assert(en->was_alive);
	ck_assert(!is_open(out));
	/* The handover still lists it, because its key is in use, but without descriptors. */
	int listed[GUARD_SLOT_COUNT];
	uint32_t slots = 1;
	ck_assert_ptr_eq(fd_store_next(&v, 0), en);
	ck_assert_uint_eq(fd_store_list(en, listed, &slots), 0);
	ck_assert_uint_eq(slots, 0);
	struct pollfd p = { .fd = en->fd[GUARD_SLOT_PIDFD], .events = POLLIN };
	ck_assert_int_eq(poll(&p, 1, 60000), 1);
	fd_store_reap(&v, en);
	ck_assert_int_eq(en->state, FD_STORE_GONE);
	ck_assert_ptr_null(fd_store_next(&v, 0));
	ck_assert_int_eq(waitpid(pid, NULL, 0), -1);
	fd_store_forget(&v, en);
	ck_assert_uint_eq(v.ndying + v.ngone, 0);
	ck_assert_uint_eq(v.high, 0);
}
END_TEST

/* An init is kept if the runtime requests it, its end of the status socket is closed, and it was not killed. */
START_TEST(an_init_is_kept_on_release_only_if_it_can_be_used_again)
{
	for (int i = 0; i < 4; i++) {
		bool wanted = i != 1, closed = i != 2, killed = i == 3;
		struct plan_key k = key(i);
		int status[2];
		pid_t pid = fork();
		if (pid == 0) {
			for (;;)
				pause();
		}
		int pidfd = fd_pidfd_open(pid);
		struct pollfd end = { .fd = fd_pidfd_open(pid), .events = POLLIN };
		ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, status), 0);
		struct fd_store_entry *en = fd_store_get(&v, &k);
		fd_store_deposit(&v, en, 1u << GUARD_SLOT_PIDFD, &pidfd, pid);
		fd_store_deposit(&v, en, 1u << GUARD_SLOT_STATUS, &status[0], 0);
		if (closed)
			close(status[1]);
		en->killed = killed; /* the signal may take a while */
		fd_store_release(&v, en, wanted);
		ck_assert_int_eq(en->state, i == 0 ? FD_STORE_GONE : FD_STORE_DYING);
		ck_assert_int_eq(poll(&end, 1, i == 0 ? 0 : 60000), i == 0 ? 0 : 1);
		ck_assert(!is_open(status[0]));
		if (i == 0)
			kill(pid, SIGKILL);
		else
			fd_store_reap(&v, en);
		if (i == 0)
			ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
		if (!closed)
			close(status[1]);
		close(end.fd);
		fd_store_forget(&v, en);
	}
}
END_TEST

/* A process is killed when its timer expires, without a request; the runtime still finds its entry. */
START_TEST(an_expired_timer_kills_the_process)
{
	struct plan_key k = key(0);
	pid_t pid = fork();
	if (pid == 0) {
		for (;;)
			pause();
	}
	int pidfd = fd_pidfd_open(pid), timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
	const struct itimerspec far = { .it_value.tv_sec = 3600 }, near = { .it_value.tv_nsec = 1 };
	struct pollfd polls[8], end = { .events = POLLIN };
	struct fd_store_entry *en = fd_store_get(&v, &k);
	timerfd_settime(timer, 0, &far, NULL);
	fd_store_deposit(&v, en, 1u << GUARD_SLOT_LIMIT, &timer, 0);
	ck_assert_uint_eq(fd_store_fill_polls(&v, polls), 0); /* no process to kill yet */
	fd_store_deposit(&v, en, 1u << GUARD_SLOT_PIDFD, &pidfd, pid);
	ck_assert_uint_eq(fd_store_fill_polls(&v, polls), 1);
	ck_assert_int_eq(poll(polls, 1, 0), 0);
	fd_store_handle_polls(&v, polls);
	end.fd = pidfd;
	ck_assert_int_eq(poll(&end, 1, 0), 0);
	timerfd_settime(timer, 0, &near, NULL);
	ck_assert_uint_eq(fd_store_fill_polls(&v, polls), 1);
	ck_assert_int_eq(poll(polls, 1, 60000), 1);
	fd_store_handle_polls(&v, polls);
	ck_assert_int_eq(poll(&end, 1, 60000), 1);
	ck_assert_int_eq(en->state, FD_STORE_HELD);
	ck_assert_uint_eq(fd_store_fill_polls(&v, polls), 0);
	ck_assert_uint_eq(v.nlimited, 0);
	fd_store_release(&v, en, false);
	ck_assert_int_eq(en->state, FD_STORE_GONE);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("fd_store");
	TCase *t = tcase_create("vault");
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, deposits_of_one_key_are_merged);
	tcase_add_test(t, a_full_store_rejects_new_keys_until_one_is_removed);
	tcase_add_test(t, releasing_a_live_process_kills_it);
	tcase_add_test(t, an_init_is_kept_on_release_only_if_it_can_be_used_again);
	tcase_add_test(t, an_expired_timer_kills_the_process);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
