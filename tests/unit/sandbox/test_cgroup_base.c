/* Enabling controllers in the machine's v2 tree, with whatever controller it has. Requires root and the real root of
 * the hierarchy. */

#include "sandbox/cgroup_base.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "sandbox/cgroup.h"
#include "tests/unit/suite.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
	struct cgroup_location at;
	char controller[32];
	char folder[PATH_MAX];
	bool was_enabled;
} tree;

static void read_text(const char *folder, const char *name, char *ret, size_t cap)
{
	mem_auto char *path = mem_printf("%s/%s", folder, name);
	fd_auto int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : fd_read_all(fd, ret, cap - 1);
	ret[n > 0 ? n : 0] = 0;
	ret[strcspn(ret, "\n")] = 0;
}

static bool write_text(const char *folder, const char *name, const char *text)
{
	mem_auto char *path = mem_printf("%s/%s", folder, name);
	fd_auto int fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

/* Creates an empty cgroup that has a controller; false where that is not possible. */
static bool setup(void)
{
	char text[512], why[CGROUP_BASE_TEXT_MAX];
	if (geteuid() != 0 || cgroup_location_find(&tree.at, NULL) < 0)
		return false;
	mem_auto char *type = mem_printf("%s/cgroup.type", tree.at.top);
	if (access(type, F_OK) == 0)
		return false; /* the root of a container */
	read_text(tree.at.top, "cgroup.controllers", text, sizeof text);
	const char *pids = strstr(text,
				  "pids"); /* the critical one: the kernel also enables it in a cgroup with processes */
	if (sscanf(pids ? pids : text, "%31s", tree.controller) != 1)
		return false;
	read_text(tree.at.top, "cgroup.subtree_control", text, sizeof text);
	tree.was_enabled = strstr(text, tree.controller) != NULL;
	if (cgroup_base_enable(tree.at.top, tree.controller, why, sizeof why) < 0)
		return false; /* read-only */
	snprintf(tree.folder, sizeof tree.folder, "%.*s/bailiff-unit-%d", PATH_MAX - 64, tree.at.top, getpid());
	ck_assert_int_eq(mkdir(tree.folder, 0755), 0);
	return true;
}

static void teardown(void)
{
	ck_assert_int_eq(rmdir(tree.folder), 0);
	if (!tree.was_enabled) {
		mem_auto char *off = mem_printf("-%s", tree.controller);
		write_text(tree.at.top, "cgroup.subtree_control", off); /* fails if it is in use meanwhile */
	}
}

START_TEST(a_controller_is_enabled_only_without_processes)
{
	char text[512], why[CGROUP_BASE_TEXT_MAX] = "";
	SKIP_IF(!setup(), "requires root and cgroups of version 2 that can be written");
	pid_t pid = fork();
	if (pid == 0) {
		if (!write_text(tree.folder, "cgroup.procs", "0"))
			_exit(1);
		raise(SIGSTOP);
		_exit(0);
	}
	int status;
	ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
	ck_assert(WIFSTOPPED(status));

	ck_assert_int_eq(cgroup_base_enable(tree.folder, tree.controller, why, sizeof why), -1);
	ck_assert_msg(strstr(why, "processes are in the cgroup"), "%s", why);
	read_text(tree.folder, "cgroup.subtree_control", text, sizeof text);
	ck_assert_str_eq(text, "");
	read_text(tree.folder, "cgroup.type", text, sizeof text);
	ck_assert_str_eq(text, "domain");

	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(cgroup_base_enable(tree.folder, tree.controller, why, sizeof why) == 0, "%s", why);
	read_text(tree.folder, "cgroup.subtree_control", text, sizeof text);
	ck_assert_str_eq(text, tree.controller);
	ck_assert_int_eq(cgroup_base_enable(tree.folder, tree.controller, why, sizeof why), 0); /* is enabled already */
	teardown();
}
END_TEST

START_TEST(a_missing_controller_is_named)
{
	char why[CGROUP_BASE_TEXT_MAX] = "";
	ck_assert_int_eq(cgroup_base_enable("/nonexistent", "memory", why, sizeof why), -1);
	ck_assert_str_eq(why, "the cgroup /nonexistent has no memory controller");
}
END_TEST

int main(void)
{
	return SUITE("cgroup_base", a_controller_is_enabled_only_without_processes, a_missing_controller_is_named);
}
