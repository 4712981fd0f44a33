/* Whether the host is as a sandbox recorded it, checked as the peer; and a checker that cannot switch back to its ids.
 */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "sandbox/become_peer.h"
#include "sandbox/host_fingerprint.h"
#include "tests/unit/suite.h"

#include <grp.h>
#include <seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define OTHER_ID 4711u

/* The kernel passes over the call, without a word, if it is to this id. */
static void pass_over(int call, uint32_t id)
{
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_ALLOW);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || !f ||
	    seccomp_rule_add(f, SCMP_ACT_ERRNO(0), call, 1, SCMP_A0(SCMP_CMP_EQ, id)) < 0 || seccomp_load(f) < 0)
		_exit(101);
	seccomp_release(f);
}

/* The exit code of a look with a call passed over, or −signal. */
static int check_without(int call, uint32_t id)
{
	static const char *const argv[] = { "true" };
	const struct plan_spec spec = { .cwd = "/", .argv = argv, .argc = 1 };
	const struct fingerprint_peer peer = { .uid = OTHER_ID, .gid = OTHER_ID, .switches = true };
	const struct rlimit none = { 0 };
	int status;
	pid_t pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		struct buf plan = BUF_INIT;
		struct host_fingerprint s = { 0 };
		struct err e = ERR_INIT;
		signal(SIGABRT, SIG_DFL);
		if (setrlimit(RLIMIT_CORE, &none) < 0 || setgroups(0, NULL) < 0 || plan_build(&spec, &plan, &e) < 0)
			_exit(100);
		if (call >= 0)
			pass_over(call, id);
		bool held = fingerprint_matches(&s, (const struct plan_head *)(const void *)plan.data, &peer);
		if (setfsuid((uid_t)-1) != 0 || setfsgid((gid_t)-1) != 0)
			_exit(102);
		_exit(held ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

START_TEST(who_cannot_come_back_does_not_go_on)
{
	if (geteuid() != 0)
		return; /* only root can change its ids */
	ck_assert_int_eq(check_without(-1, 0), 0);
	ck_assert_int_eq(check_without(SCMP_SYS(setfsuid), 0), -SIGABRT);
	ck_assert_int_eq(check_without(SCMP_SYS(setfsgid), 0), -SIGABRT);
	/* If the process never became the peer, its result is not valid for the peer. */
	ck_assert_int_eq(check_without(SCMP_SYS(setfsuid), OTHER_ID), 1);
	ck_assert_int_eq(check_without(SCMP_SYS(setfsgid), OTHER_ID), 1);
}
END_TEST

int main(void) { return SUITE("sight", who_cannot_come_back_does_not_go_on); }
