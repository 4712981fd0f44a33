#include "supervisor/guard/vault.h"

#include "runtime/base/fd.h"
#include "runtime/base/mem.h"

#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static struct vault v;

static void setup(void) { vault_init(&v, 8); }

static void teardown(void) { vault_done(&v); }

static struct plan_key key(unsigned i)
{
	struct plan_key k = { .attempt = i % 2 };
	snprintf(k.id, sizeof k.id, "proc_%u", i / 2);
	return k;
}

static int null_fd(void) { return open("/dev/null", O_RDWR | O_CLOEXEC); }

static bool is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

START_TEST(deposits_merge)
{
	struct plan_key k = key(1);
	struct vault_entry *en = vault_get(&v, &k);
	int in = null_fd(), out = null_fd(), again = null_fd(), fds[GUARD_SLOT_COUNT];
	uint32_t slots;
	vault_deposit(en, 1u << GUARD_SLOT_STDOUT, &out, 0);
	vault_deposit(en, 1u << GUARD_SLOT_STDIN, &in, 0);
	ck_assert_ptr_eq(vault_get(&v, &k), en);
	ck_assert_uint_eq(vault_list(en, fds, &slots), 2);
	ck_assert_int_eq(fds[0], in);
	ck_assert_int_eq(fds[1], out);
	vault_deposit(en, 1u << GUARD_SLOT_STDIN, &again, 0);
	ck_assert(!is_open(in));
	vault_withdraw(en, 1u << GUARD_SLOT_STDIN);
	ck_assert(!is_open(again));
	ck_assert(is_open(out));
	vault_list(en, fds, &slots);
	ck_assert_uint_eq(slots, 1u << GUARD_SLOT_STDOUT);
}
END_TEST

START_TEST(fills_up_and_empties)
{
	for (unsigned i = 0; i < 8; i++) {
		struct plan_key k = key(i);
		ck_assert_ptr_nonnull(vault_get(&v, &k));
	}
	struct plan_key k = key(8), gone = key(3);
	ck_assert_ptr_null(vault_get(&v, &k));
	struct vault_entry *en = vault_find(&v, &gone);
	vault_release(&v, en);
	ck_assert_int_eq(en->state, VAULT_GONE);
	ck_assert_uint_eq(v.ngone, 1);
	vault_forget(&v, en);
	ck_assert_ptr_null(vault_find(&v, &gone));
	ck_assert_ptr_nonnull(vault_get(&v, &k));
	unsigned n = 0;
	for (struct vault_entry *at = vault_next(&v, 0); at; at = vault_next(&v, (size_t)(at - v.entries) + 1))
		n++;
	ck_assert_uint_eq(n, 8);
}
END_TEST

START_TEST(release_of_the_living)
{
	struct plan_key k = key(0);
	pid_t pid = fork();
	if (pid == 0) {
		for (;;)
			pause();
	}
	int pidfd = fd_pidfd_open(pid), out = null_fd();
	struct vault_entry *en = vault_get(&v, &k);
	vault_deposit(en, 1u << GUARD_SLOT_PIDFD, &pidfd, pid);
	vault_deposit(en, 1u << GUARD_SLOT_STDOUT, &out, 0);
	ck_assert(vault_owns_pid(&v, pid));
	vault_release(&v, en);
	ck_assert_int_eq(en->state, VAULT_DYING);
	ck_assert(en->was_alive);
	ck_assert(!is_open(out));
	/* It is still told of in the hand-over, as its key is in use, and with nothing to adopt. */
	int listed[GUARD_SLOT_COUNT];
	uint32_t slots = 1;
	ck_assert_ptr_eq(vault_next(&v, 0), en);
	ck_assert_uint_eq(vault_list(en, listed, &slots), 0);
	ck_assert_uint_eq(slots, 0);
	struct pollfd p = { .fd = en->fd[GUARD_SLOT_PIDFD], .events = POLLIN };
	ck_assert_int_eq(poll(&p, 1, 60000), 1);
	vault_reap(&v, en);
	ck_assert_int_eq(en->state, VAULT_GONE);
	ck_assert_ptr_null(vault_next(&v, 0));
	ck_assert_int_eq(waitpid(pid, NULL, 0), -1);
	vault_forget(&v, en);
	ck_assert_uint_eq(v.ndying + v.ngone, 0);
	ck_assert_uint_eq(v.high, 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("vault");
	TCase *t = tcase_create("vault");
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, deposits_merge);
	tcase_add_test(t, fills_up_and_empties);
	tcase_add_test(t, release_of_the_living);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
