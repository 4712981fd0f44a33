/* Leaf cgroups of sandboxes in the machine's v2 tree. Requires root and a writable tree. */

#include "sandbox/cgroup.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "tests/unit/suite.h"

#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEAVES 200 /* more simultaneous ends than a fixed list would hold */

static struct plan_key key_of(unsigned i)
{
	struct plan_key key = { .attempt = 1 };

	snprintf(key.id, sizeof key.id, "proc_%u", i);
	return key;
}

static pid_t clone_into(struct cgroup_tree *t, unsigned i)
{
	const struct plan_key key = key_of(i);
	fd_auto int leaf = cgroup_tree_make(t, &key);
	struct clone_args a = { .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (uint64_t)leaf };

	ck_assert_int_ge(leaf, 0);
	pid_t pid = cgroup_clone(&a);
	if (pid == 0)
		for (;;)
			pause();
	ck_assert_int_gt(pid, 0);
	return pid;
}

START_TEST(a_busy_leaf_is_removed_when_its_processes_have_exited)
{
	struct cgroup_location at;
	struct cgroup_tree t;
	pid_t pid[LEAVES];
	char tag[32];

	SKIP_IF(geteuid() != 0 || cgroup_location_find(&at, NULL) < 0,
		"requires root and a cgroup hierarchy that can be written");
	snprintf(tag, sizeof tag, "bailiff-unit-%d", getpid());
	SKIP_IF(cgroup_tree_open(&t, at.top, tag, NULL) < 0,
		"requires root and a cgroup hierarchy that can be written");
	mem_auto char *path = mem_printf("%s", t.path);
	for (unsigned i = 0; i < LEAVES; i++)
		pid[i] = clone_into(&t, i);
	for (unsigned i = 0; i < LEAVES; i++) {
		const struct plan_key key = key_of(i);

		ck_assert(cgroup_tree_remove(&t, &key));
	}
	ck_assert_int_gt(cgroup_tree_tick(&t), 0);
	for (unsigned i = 0; i < LEAVES; i++) {
		kill(pid[i], SIGKILL);
		ck_assert_int_eq(waitpid(pid[i], NULL, 0), pid[i]);
	}
	for (int ms; (ms = cgroup_tree_tick(&t)) > 0;)
		poll(NULL, 0, ms);
	cgroup_tree_close(&t);
	ck_assert_msg(access(path, F_OK) < 0, "%s has leaves left", path);
}
END_TEST

int main(void) { return SUITE("cgroup", a_busy_leaf_is_removed_when_its_processes_have_exited); }
