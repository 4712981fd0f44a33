#include "supervisor/control/peer.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "sandbox/init_name.h"
#include "tests/unit/suite.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

START_TEST(the_status_of_a_process_is_parsed)
{
	struct peer_status s;
	ck_assert_int_eq(
		peer_status_parse("Name:\tx\nUmask:\t0\nState:\tS (sleeping)\nPPid:\t77\nNSpid:\t5\t4\t1\nRest:\t1\n",
				  &s),
		0);
	ck_assert_int_eq(s.parent, 77);
	ck_assert_uint_eq(s.namespaces, 3);
	ck_assert_int_eq(s.innermost, 1);
	ck_assert(!s.init_name && !s.ended);
	ck_assert_int_eq(peer_status_parse("Name:\tbailiff-init\nState:\tZ (zombie)\nPPid:\t0\n", &s), 0);
	ck_assert_uint_eq(s.namespaces, 1);
	ck_assert(s.init_name && s.ended);
	ck_assert_int_eq(peer_status_parse("Name:\tbailiff-init2\nState:\tR\nPPid:\t0\n", &s), 0);
	ck_assert(!s.init_name);
	/* A program's name cannot forge a line: the kernel writes a newline in a name as \\n. */
	ck_assert_int_eq(peer_status_parse("Name:\t\\nPPid:\t1\nState:\tR\nPPid:\t5\n", &s), 0);
	ck_assert_int_eq(s.parent, 5);
	ck_assert_int_eq(peer_status_parse("Name:\tx\nPPid:\t1\n", &s), -1);
	ck_assert_int_eq(peer_status_parse("State:\tR\nPPid:\t1\n", &s), -1);
	ck_assert_int_eq(peer_status_parse("", &s), -1);
	ck_assert_int_eq(peer_status((int32_t)getpid(), &s), 0);
	ck_assert_int_eq(s.parent, getppid());
	ck_assert_int_eq(peer_status(0x7ffffff, &s), -1);
}
END_TEST

START_TEST(ordinary_peers_are_accepted)
{
	int fds[2];
	struct peer p;
	struct err e = ERR_INIT;
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	ck_assert_int_eq(peer_read(fds[0], &p, &e), 0);
	ck_assert_int_eq(p.pid, getpid());
	ck_assert_uint_eq(p.uid, geteuid());
	ck_assert_int_eq(peer_check(fds[0], &p, &e), 0);
	/* The name alone is not enough: only pid 1 of a namespace below ours is an init. */
	prctl(PR_SET_NAME, SANDBOX_INIT_NAME, 0, 0, 0);
	ck_assert_int_eq(peer_check(fds[0], &p, &e), 0);
	/* A peer without a pid in this namespace could be anywhere. */
	p.pid = 0;
	ck_assert_int_eq(peer_check(fds[0], &p, &e), -1);
	ck_assert_int_eq(e.code, ERR_NOT_ALLOWED);
}
END_TEST

/* Opens a listening abstract socket; the child connects to it from its own pid namespace. */
static int listen_on(struct sockaddr_un *a, socklen_t *len)
{
	static int serial;
	*a = (struct sockaddr_un){ .sun_family = AF_UNIX };
	*len = (socklen_t)(sizeof a->sun_family + 1 +
			   (size_t)snprintf(a->sun_path + 1, 64, "bailiff-peer-%d-%d", getpid(), serial++));
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)a, *len), 0);
	ck_assert_int_eq(listen(fd, 5), 0);
	return fd;
}

/*
 * Starts a child with `depth` nested pid namespaces, and below the innermost init a chain of processes of which the
 * last one connects. The init at level `named` has the name of a sandbox's init. The child unshares, because the effect
 * on this process would last.
 */
static pid_t start_namespaces(const struct sockaddr_un *a, socklen_t len, int depth, int named)
{
	pid_t child = fork();
	if (child)
		return child;
	for (int level = 0; level < depth; level++) {
		if (unshare(CLONE_NEWPID) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) < 0)
			_exit(77);
		pid_t init = fork();
		if (init) {
			waitpid(init, NULL, 0);
			_exit(0);
		}
		if (level == named)
			prctl(PR_SET_NAME, SANDBOX_INIT_NAME, 0, 0, 0);
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	}
	for (int i = 0; i < 3; i++) {
		if (fork()) {
			for (;;)
				pause();
		}
		prctl(PR_SET_NAME, "shed", 0, 0, 0);
	}
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	if (connect(fd, (const struct sockaddr *)a, len) < 0)
		_exit(1);
	for (;;)
		pause();
}

/* Whether a client at that depth is accepted; −1: pid namespaces are not available. */
static int is_accepted(int depth, int named)
{
	struct sockaddr_un a;
	socklen_t len;
	struct peer p;
	struct err e = ERR_INIT;
	int listener = listen_on(&a, &len), ended;
	pid_t child = start_namespaces(&a, len, depth, named);
	struct pollfd ready = { .fd = listener, .events = POLLIN };
	while (poll(&ready, 1, 10) == 0) {
		if (waitpid(child, &ended, WNOHANG) == child) {
			close(listener);
			return -1;
		}
	}
	int fd = accept(listener, NULL, NULL);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(peer_read(fd, &p, &e), 0);
	int r = peer_check(fd, &p, &e);
	if (r < 0) {
		ck_assert_int_eq(e.code, ERR_NOT_ALLOWED);
		ck_assert_msg(strstr(e.message, "inside a sandbox") != NULL, "%s", e.message);
	}
	struct pollfd gone = { .fd = fd_pidfd_open(p.pid), .events = POLLIN };
	kill(p.pid, SIGKILL);
	ck_assert_int_eq(poll(&gone, 1, 60000), 1);
	close(gone.fd);
	/* The namespace of an ended process can no longer be determined. */
	ck_assert_int_eq(peer_check(fd, &p, &e), -1);
	ck_assert_int_eq(e.code, ERR_NOT_ALLOWED);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(fd);
	close(listener);
	return r == 0;
}

START_TEST(peers_in_a_sandbox_are_rejected)
{
	SKIP_IF(suite_under("valgrind"), "valgrind lacks pidfd_open");
	SKIP_IF(is_accepted(1, -1) < 0, "requires pid namespaces");
	ck_assert_int_eq(is_accepted(1, -1), 1); /* another program's container */
	ck_assert_int_eq(is_accepted(1, 0), 0);
	ck_assert_int_eq(is_accepted(3, -1), 1);
	for (int named = 0; named < 3; named++) /* a container in a sandbox, and a sandbox in a container */
		ck_assert_int_eq(is_accepted(3, named), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("peer");
	TCase *t = tcase_create("all");
	tcase_set_timeout(t, 120);
	tcase_add_test(t, the_status_of_a_process_is_parsed);
	tcase_add_test(t, ordinary_peers_are_accepted);
	tcase_add_test(t, peers_in_a_sandbox_are_rejected);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
