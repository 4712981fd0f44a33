/* Generic prebuilt sandboxes: when they are built and removed, and that each is used once. */

#include "tests/unit/supervisor/rig.h"

#include "sandbox/cgroup.h"

#include <dirent.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

static struct rig rig;
static char out[4096];

static const struct plan_mount_spec system_mount[] = { { .kind = PLAN_MOUNT_SYSTEM, .path = "/" } };

static struct run_spec spec(const char *const *argv)
{
	return (struct run_spec){ .argv = argv,
				  .flags = PLAN_PRIVATE_ROOT | PLAN_STDERR_MERGE,
				  .mounts = system_mount,
				  .nmounts = 1,
				  .network = PLAN_NET_NONE };
}

/* Runs a script to its end; returns the init's pid. */
static pid_t run_script(const char *script)
{
	struct run run;
	struct run_spec s = spec(SH(script));
	run_start(&rig, &run, &s);
	run_read(&run, GUARD_SLOT_STDOUT, out, sizeof out);
	struct status_msg m = run_status(&run);
	ck_assert_uint_eq(m.kind, STATUS_EXITED);
	ck_assert_msg(m.wait_status == 0, "%s: %s", script, out);
	pid_t pid = run.pid;
	run_release(&rig, &run);
	run_close(&run);
	return pid;
}

static void setup(void)
{
	/* Mounts of this test must not affect other processes, but the spawner has to see them. */
	if (geteuid() == 0) {
		ck_assert_int_eq(unshare(CLONE_NEWNS), 0);
		ck_assert_int_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	}
	setenv("RIG_PREBUILT", "1", 1);
	rig_start(&rig);
}

static void teardown(void)
{
	rig_stop(&rig);
	unsetenv("RIG_PREBUILT");
}

static bool is_among(pid_t pid, const pid_t *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (list[i] == pid)
			return true;
	}
	return false;
}

static void await_exited(const pid_t *pids, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		for (int ms = 0; kill(pids[i], 0) == 0; ms++) {
			ck_assert_int_lt(ms, RIG_TIMEOUT_MS);
			poll(NULL, 0, 1);
		}
	}
}

START_TEST(nothing_is_prebuilt_before_the_first_command)
{
	rig_sync(&rig);
	poll(NULL, 0, 50);
	ck_assert_uint_eq(rig_prebuilt(&rig, NULL, 0), 0);
}
END_TEST

START_TEST(each_prebuilt_sandbox_is_used_once)
{
	pid_t waiting[8], used[4];
	run_script("true");
	for (int i = 0; i < 4; i++) {
		/* From the second time on there are dedicated ones for this plan, too. */
		rig_await_prebuilt(&rig, i == 0 ? 2 : 4);
		size_t n = rig_prebuilt(&rig, waiting, countof(waiting));
		used[i] = run_script(
			"test -z \"$(ls -A /tmp)\" && echo left >/tmp/left && echo left >/dev/shm/left && hostname");
		ck_assert_msg(is_among(used[i], waiting, n), "%d was not prebuilt", used[i]);
		ck_assert(!is_among(used[i], used, (size_t)i));
	}
}
END_TEST

/* In prebuilt sandboxes and in others. Only a privileged spawner can check that a namespace was not used.
 */
START_TEST(unused_network_namespaces_are_reused)
{
	char seen[16][64];
	size_t again = 0;
	for (size_t i = 0; i < countof(seen); i++) {
		run_script("readlink /proc/self/ns/net");
		snprintf(seen[i], sizeof seen[i], "%.63s", out);
		bool known = false;
		for (size_t k = 0; k < i && !known; k++)
			known = strcmp(seen[k], seen[i]) == 0;
		again += known;
		poll(NULL, 0, i % 2 ? 20 : 0);
	}
	ck_assert(geteuid() != 0 || again >= countof(seen) / 2);
}
END_TEST

START_TEST(one_prebuilt_sandbox_stays_when_idle)
{
	teardown();
	setenv("RIG_IDLE", "1",
	       1); /* the default time; the other tests need two sandboxes, however slow the machine is */
	setup();
	unsetenv("RIG_IDLE");
	run_script("true");
	rig_await_prebuilt(&rig, 2);
	for (int ms = 0; rig_prebuilt(&rig, NULL, 0) != 1; ms += 50) {
		ck_assert_int_lt(ms, RIG_TIMEOUT_MS);
		poll(NULL, 0, 50);
	}
	poll(NULL, 0, 100);
	ck_assert_uint_eq(rig_prebuilt(&rig, NULL, 0), 1);
}
END_TEST

/* A command does not get a sandbox that was built for another shape. */
START_TEST(a_prebuilt_sandbox_is_used_only_for_its_shape)
{
	pid_t waiting[8];
	run_script("true");
	rig_await_prebuilt(&rig, 2);
	size_t n = rig_prebuilt(&rig, waiting, countof(waiting));
	struct run run;
	struct run_spec s = spec(SH("df -B1 --output=size /tmp | tail -n 1"));
	s.tmp_bytes = 1 << 20;
	run_start(&rig, &run, &s);
	run_read(&run, GUARD_SLOT_STDOUT, out, sizeof out);
	ck_assert_msg(strtoul(out, NULL, 10) == 1 << 20, "%s", out);
	ck_assert(!is_among(run.pid, waiting, n));
	ck_assert_uint_eq(run_status(&run).kind, STATUS_EXITED);
	run_release(&rig, &run);
	run_close(&run);
	rig_await_prebuilt(&rig, 4);
}
END_TEST

/* The next spawner builds and uses its own. */
START_TEST(prebuilt_sandboxes_end_with_the_spawner)
{
	pid_t waiting[2];
	run_script("true");
	rig_await_prebuilt(&rig, 2);
	rig_prebuilt(&rig, waiting, 2);
	kill(rig_spawner_pid(&rig), SIGKILL);
	rig_take_new_peer(&rig);
	await_exited(waiting, 2);
	run_script("true");
	rig_await_prebuilt(&rig, 2);
	run_script("true");
}
END_TEST

START_TEST(prebuilt_sandboxes_end_with_the_guard)
{
	pid_t waiting[2];
	run_script("true");
	rig_await_prebuilt(&rig, 2);
	rig_prebuilt(&rig, waiting, 2);
	rig_kill_guard(&rig);
	await_exited(waiting, 2);
}
END_TEST

/* A prebuilt sandbox that is dead when it is needed is replaced. */
START_TEST(a_dead_prebuilt_sandbox_is_skipped)
{
	pid_t waiting[2];
	run_script("true");
	rig_await_prebuilt(&rig, 2);
	rig_prebuilt(&rig, waiting, 2);
	kill(waiting[0], SIGKILL);
	kill(waiting[1], SIGKILL);
	await_exited(waiting, 2);
	run_script("true");
}
END_TEST

/* The next command sees what the host mounted after they were built, and they do not keep what it unmounted. */
START_TEST(prebuilt_sandboxes_follow_the_mounts_of_the_host)
{
	char place[] = "/var/lib/rig-mounts-XXXXXX", file[64];
	pid_t waiting[2];
	SKIP_IF(geteuid() != 0, "requires root");
	ck_assert_ptr_nonnull(mkdtemp(place));
	run_script("true");
	rig_await_prebuilt(&rig, 2);
	rig_prebuilt(&rig, waiting, 2);
	ck_assert_int_eq(mount("rig", place, "tmpfs", 0, NULL), 0);
	snprintf(file, sizeof file, "%s/file", place);
	fd_auto int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	ck_assert_int_ge(fd, 0);
	mem_auto char *script = mem_printf("test -e %s", file);
	ck_assert(!is_among(run_script(script), waiting, 2));
	await_exited(waiting, 2);
	ck_assert_int_eq(umount2(place, MNT_DETACH), 0);
	mem_auto char *gone = mem_printf("test ! -e %s", file);
	run_script(gone);
	rmdir(place);
}
END_TEST

static size_t count_leaves(void)
{
	char own[PATH_MAX];
	size_t n = 0;
	if (cgroup_own_folder(own, NULL) < 0)
		return 0;
	mem_auto char *path = mem_printf("%s/%s", own, rig_tag);
	DIR *d = opendir(path);
	for (struct dirent *entry; d && (entry = readdir(d));)
		n += entry->d_type == DT_DIR && entry->d_name[0] != '.';
	if (d)
		closedir(d);
	return n;
}

static void await_leaves(size_t most)
{
	for (int ms = 0; count_leaves() > most; ms++) {
		ck_assert_int_lt(ms, RIG_TIMEOUT_MS);
		poll(NULL, 0, 1);
	}
}

/* Also if the spawner that started a command died before its end. */
START_TEST(cgroups_of_ended_commands_are_removed)
{
	struct run run;
	struct run_spec s = spec(SH("sleep 1000"));
	for (int i = 0; i < 3; i++) {
		run_script("true");
		rig_await_prebuilt(&rig, 2);
	}
	await_leaves(4);
	run_start(&rig, &run, &s);
	kill(rig_spawner_pid(&rig), SIGKILL);
	rig_take_new_peer(&rig);
	fd_pidfd_signal(run.fd[GUARD_SLOT_PIDFD], SIGKILL);
	run_release(&rig, &run);
	run_close(&run);
	rig_sync(&rig);
	await_leaves(0);
}
END_TEST

/* No other process may ever end here, so the new spawner must not wait for one. */
START_TEST(cgroups_of_unused_sandboxes_are_removed)
{
	run_script("true");
	rig_await_prebuilt(&rig, 2);
	kill(rig_spawner_pid(&rig), SIGKILL);
	rig_take_new_peer(&rig);
	await_leaves(0);
}
END_TEST

int main(int argc, char **argv)
{
	return RIG_SUITE(argc, argv, "prebuilt", "pool", setup, teardown, 300,
			 nothing_is_prebuilt_before_the_first_command, each_prebuilt_sandbox_is_used_once,
			 unused_network_namespaces_are_reused, one_prebuilt_sandbox_stays_when_idle,
			 a_prebuilt_sandbox_is_used_only_for_its_shape, prebuilt_sandboxes_end_with_the_spawner,
			 prebuilt_sandboxes_end_with_the_guard, a_dead_prebuilt_sandbox_is_skipped,
			 prebuilt_sandboxes_follow_the_mounts_of_the_host, cgroups_of_ended_commands_are_removed,
			 cgroups_of_unused_sandboxes_are_removed);
}
