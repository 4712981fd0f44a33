/* The count of sockets in the machine's v2 tree. Requires root and a writable tree. */

#include "sandbox/socket_counter.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "sandbox/cgroup.h"
#include "tests/unit/suite.h"

#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static bool open_tree(struct cgroup_tree *t)
{
	struct cgroup_location at;
	char tag[40];

	if (geteuid() != 0 || cgroup_location_find(&at, NULL) < 0)
		return false;
	snprintf(tag, sizeof tag, "bailiff-unit-sockets-%d", getpid());
	return cgroup_tree_open(t, at.top, tag, NULL) == 0;
}

/* Whether `fn` succeeds in a process that is cloned into a cgroup of the tree. */
static bool inside(struct cgroup_tree *t, bool (*fn)(const volatile uint64_t *count), const volatile uint64_t *count)
{
	static unsigned serial;
	struct plan_key key = { .attempt = ++serial };
	int status;

	snprintf(key.id, sizeof key.id, "proc_sockets");
	fd_auto int leaf = cgroup_tree_make(t, &key);
	struct clone_args a = { .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t)leaf };
	pid_t pid = cgroup_clone(&a);
	if (pid == 0)
		_exit(fn(count) ? 0 : 1);
	ck_assert_int_gt(pid, 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	cgroup_tree_remove(t, &key);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool make_internet_sockets(const volatile uint64_t *count)
{
	const struct {
		int family, type;
	} each[] = {
		{ AF_INET, SOCK_STREAM }, { AF_INET, SOCK_DGRAM }, { AF_INET6, SOCK_STREAM }, { AF_INET6, SOCK_DGRAM }
	};

	for (int i = 0; i < 4; i++) {
		uint64_t before = *count;
		fd_auto int fd = socket(each[i].family, each[i].type, 0);
		if (fd >= 0 && *count == before)
			return false;
	}
	return true;
}

static bool make_unix_sockets(const volatile uint64_t *count)
{
	uint64_t before = *count;
	int pair[2];

	return socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && *count == before;
}

START_TEST(internet_sockets_below_the_cgroup_are_counted)
{
	struct cgroup_tree t;
	struct socket_counter c;

	SKIP_IF(!open_tree(&t), "requires root and a cgroup hierarchy that can be written");
	socket_counter_open(&c, t.fd);
	if (c.count) {
		ck_assert(inside(&t, socket_counter_works, c.count));
		ck_assert(inside(&t, make_internet_sockets, c.count));
		ck_assert(inside(&t, make_unix_sockets, c.count));
		ck_assert_msg(!socket_counter_works(c.count), "this process is in another cgroup");
	}
	socket_counter_close(&c);
	ck_assert_ptr_null((const void *)(uintptr_t)c.count);
	cgroup_tree_close(&t);
}
END_TEST

START_TEST(without_a_cgroup_nothing_is_counted)
{
	struct socket_counter c;

	socket_counter_open(&c, -1);
	ck_assert_int_eq(c.link, -1);
	ck_assert_ptr_null((const void *)(uintptr_t)c.count);
	socket_counter_close(&c);
}
END_TEST

int main(void)
{
	return SUITE("socket_counter", internet_sockets_below_the_cgroup_are_counted,
		     without_a_cgroup_nothing_is_counted);
}
