#include "supervisor/control/peer.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"

#include <check.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

START_TEST(status_text)
{
	struct peer_status s;
	ck_assert_int_eq(peer_status_parse("Name:\tx\nUmask:\t0\nPPid:\t77\nNSpid:\t5\t4\t1\nRest:\t1\n", &s), 0);
	ck_assert_int_eq(s.parent, 77);
	ck_assert_uint_eq(s.namespaces, 3);
	ck_assert_int_eq(peer_status_parse("Name:\tx\nPPid:\t0\n", &s), 0);
	ck_assert_uint_eq(s.namespaces, 1);
	ck_assert_int_eq(peer_status_parse("Name:\tx\n", &s), -1);
	ck_assert_int_eq(peer_status_parse("", &s), -1);
	ck_assert_int_eq(peer_status((int32_t)getpid(), &s), 0);
	ck_assert_int_eq(s.parent, getppid());
	ck_assert_int_eq(peer_status(0x7ffffff, &s), -1);
}
END_TEST

static bool is_it(void *ctx, int32_t pid)
{
	return pid == *(int32_t *)ctx;
}

START_TEST(own_children_pass)
{
	int fds[2];
	struct peer p;
	struct err e = ERR_INIT;
	int32_t self = (int32_t)getpid();
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	ck_assert_int_eq(peer_read(fds[0], &p, &e), 0);
	ck_assert_int_eq(p.pid, self);
	ck_assert_uint_eq(p.uid, geteuid());
	/* Not in a namespace below ours: whatever is_init says. */
	ck_assert_int_eq(peer_check(fds[0], &p, is_it, &self, &e), 0);
}
END_TEST

/* A listening socket in the abstract namespace; the child connects from within a pid namespace of its own. */
static int listen_on(struct sockaddr_un *a, socklen_t *len)
{
	*a = (struct sockaddr_un){ .sun_family = AF_UNIX };
	*len = (socklen_t)(sizeof a->sun_family + 1 + (size_t)snprintf(a->sun_path + 1, 64, "bailiff-peer-%d", getpid()));
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)a, *len), 0);
	ck_assert_int_eq(listen(fd, 5), 0);
	return fd;
}

/*
 * Below a child of ours, an init of a new pid namespace, and below that a process that connects. Unsharing is the
 * child's business: it would follow this process. Ends by itself when the init is killed.
 */
static pid_t start_namespace(const struct sockaddr_un *a, socklen_t len)
{
	pid_t child = fork();
	if (child)
		return child;
	if (unshare(CLONE_NEWPID) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWPID) < 0)
		_exit(77);
	pid_t init = fork();
	if (init) {
		waitpid(init, NULL, 0);
		_exit(0);
	}
	if (fork() == 0) {
		int fd = socket(AF_UNIX, SOCK_STREAM, 0);
		if (connect(fd, (const struct sockaddr *)a, len) < 0)
			_exit(1);
	}
	for (;;)
		pause();
}

START_TEST(a_peer_in_our_sandbox)
{
	struct sockaddr_un a;
	socklen_t len;
	struct peer p;
	struct peer_status status;
	struct err e = ERR_INIT;
	int listener = listen_on(&a, &len), ended;
	pid_t child = start_namespace(&a, len);
	struct pollfd ready = { .fd = listener, .events = POLLIN };
	while (poll(&ready, 1, 10) == 0)
		if (waitpid(child, &ended, WNOHANG) == child)
			return; /* no namespaces for us here */
	int fd = accept(listener, NULL, NULL);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(peer_read(fd, &p, &e), 0);
	ck_assert_int_eq(peer_status(p.pid, &status), 0);
	int32_t ours = status.parent, other = 1;
	ck_assert_int_eq(peer_check(fd, &p, is_it, &other, &e), 0); /* somebody else's container */
	ck_assert_int_eq(peer_check(fd, &p, is_it, &ours, &e), -1);
	ck_assert_int_eq(e.code, ERR_NOT_ALLOWED);
	ck_assert_msg(strstr(e.message, "inside a sandbox") != NULL, "%s", e.message);
	kill(ours, SIGKILL);
	waitpid(child, NULL, 0);
	/* Nobody can say any more where it was. */
	ck_assert_int_eq(peer_check(fd, &p, is_it, &other, &e), -1);
	ck_assert_int_eq(e.code, ERR_NOT_ALLOWED);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("peer");
	TCase *t = tcase_create("all");
	tcase_set_timeout(t, 120);
	tcase_add_test(t, status_text);
	tcase_add_test(t, own_children_pass);
	tcase_add_test(t, a_peer_in_our_sandbox);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
