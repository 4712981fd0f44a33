/*
 * Dedicated prebuilt sandboxes: each is used once for a command with the same plan, and none is used after anything on
 * the host that it was built from has changed.
 */

#include "sandbox/kernel.h"
#include "tests/unit/supervisor/spawner/private_root.h"

#include <sched.h>
#include <sys/mount.h>

#define HINT 7 /* of all commands here */

static uint64_t request; /* the request of the next start */
static char hooks[120], config[120], secret[120], tools[120];

static void setup_dedicated(void)
{
	if (geteuid() == 0) {
		ck_assert_int_eq(unshare(CLONE_NEWNS), 0);
		ck_assert_int_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	}
	setenv("RIG_PREBUILT", "1", 1);
	setup();
	snprintf(hooks, sizeof hooks, "%s/.git/hooks", work);
	snprintf(config, sizeof config, "%s/.git/config", work);
	snprintf(secret, sizeof secret, "%s/.env", work);
	snprintf(tools, sizeof tools, "%s/tools", other);
}

static void remove_tree(const char *path) { ck_assert_int_eq(nftw(path, unlink_one, 16, FTW_DEPTH | FTW_PHYS), 0); }

/* The dedicated ones of the waiting sandboxes: they have set no_new_privs, and sleep. */
static size_t list_dedicated(pid_t *ret, size_t room)
{
	pid_t all[16];
	size_t found = 0, n = rig_prebuilt(&rig, all, countof(all));
	for (size_t i = 0; i < n && i < countof(all); i++) {
		char name[64], text[4096];
		snprintf(name, sizeof name, "/proc/%d/status", all[i]);
		fd_auto int fd = open(name, O_RDONLY | O_CLOEXEC);
		ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
		text[len > 0 ? len : 0] = 0;
		if (strstr(text, "NoNewPrivs:\t1") && strstr(text, "State:\tS") && found < room)
			ret[found++] = all[i];
	}
	return found;
}

static size_t await_dedicated(pid_t ret[2])
{
	size_t n;
	for (int ms = 0; (n = list_dedicated(ret, 2)) < 2; ms++) {
		ck_assert_int_lt(ms, RIG_TIMEOUT_MS);
		poll(NULL, 0, 1);
	}
	return n;
}

/* Runs a script, which must succeed; returns the pid of the init. */
static pid_t run_with(const char *script, const struct plan_mount_spec *mounts, size_t n)
{
	struct run run;
	struct run_spec s = { .argv = SH(script),
			      .cwd = work,
			      .flags = PLAN_PRIVATE_ROOT | PLAN_STDERR_MERGE,
			      .mounts = mounts,
			      .nmounts = n,
			      .network = PLAN_NET_NONE,
			      .hint = HINT,
			      .token = request };
	run_start(&rig, &run, &s);
	run_read(&run, GUARD_SLOT_STDOUT, out, sizeof out);
	struct status_msg m = run_status(&run);
	ck_assert_uint_eq(m.kind, STATUS_EXITED);
	ck_assert_msg(m.wait_status == 0, "%s: %s", script, out);
	run_release(&rig, &run);
	run_close(&run);
	return run.pid;
}

static pid_t run_script(const char *script)
{
	const struct plan_mount_spec mounts[] = {
		SYSTEM_MOUNT,
		{ .kind = PLAN_MOUNT_HIDE, .path = place },
		{ .kind = PLAN_MOUNT_READ, .path = tools, .flags = PLAN_MOUNT_OPTIONAL | PLAN_MOUNT_OWNED },
		{ .kind = PLAN_MOUNT_WRITE, .path = work, .flags = PLAN_MOUNT_OWNED },
		{ .kind = PLAN_MOUNT_HIDE, .path = secret, .flags = PLAN_MOUNT_OPTIONAL },
		{ .kind = PLAN_MOUNT_PROTECT, .path = config, .flags = PLAN_MOUNT_IN_PARENT },
		{ .kind = PLAN_MOUNT_PROTECT, .path = hooks, .flags = PLAN_MOUNT_IN_PARENT },
	};
	return run_with(script, mounts, countof(mounts));
}

static bool among(pid_t pid, const pid_t list[2]) { return pid == list[0] || pid == list[1]; }

/* Waits for two that are built from the current state of the host. */
static void build_two(pid_t ret[2])
{
	run_script("true");
	run_script("true");
	await_dedicated(ret);
}

/* Checks that earlier ones are not used, that the command sees the current state, and that later ones are used again.
 */
#define check_not_used(pids, script)                                           \
	do {                                                                   \
		ck_assert_msg(!among(run_script(script), pids), "%s", script); \
		pid_t later[2];                                                \
		await_dedicated(later);                                        \
		ck_assert_msg(among(run_script(script), later), "%s", script); \
	} while (0)

START_TEST(each_dedicated_sandbox_is_used_once)
{
	pid_t waiting[2], used[4];
	run_script("true");
	rig_sync(&rig);
	poll(NULL, 0, 50);
	ck_assert_uint_eq(list_dedicated(waiting, 2), 0); /* none is built after a single use */
	run_script("true");
	for (size_t i = 0; i < countof(used); i++) {
		await_dedicated(waiting);
		used[i] = run_script("test -z \"$(ls -A /tmp)\" && echo left >/tmp/left && echo x >/dev/shm/x && test "
				     "\"$RIG\" = 1 && "
				     "test \"$PWD\" = \"$(pwd -P)\" && ! echo x 2>/dev/null >.git/hooks/x && ! echo x "
				     "2>/dev/null >>.git/config && "
				     "echo more >>file && test $(ls /proc/self/fd | wc -l) -le 4");
		ck_assert(among(used[i], waiting));
		for (size_t j = 0; j < i; j++)
			ck_assert_int_ne(used[i], used[j]);
	}
}
END_TEST

/* A check that was made when a request was announced is valid for a moment, and only for this request. */
START_TEST(an_early_check_is_valid_for_one_request)
{
	char env[120];
	pid_t two[2];
	snprintf(env, sizeof env, "%s/.env", work);
	build_two(two);
	rig_expect(&rig, HINT, request = 1);
	ck_assert(among(run_script("true"), two));
	await_dedicated(two);
	rig_expect(&rig, HINT, 2);
	rig_sync(&rig);
	put(work, ".env", "secret\n");
	request = 3;
	check_not_used(two, "! grep secret .env");
	await_dedicated(two);
	rig_expect(&rig, HINT, request = 4);
	rig_sync(&rig);
	poll(NULL, 0, 20); /* longer than it is valid */
	ck_assert_int_eq(unlink(env), 0);
	check_not_used(two, "test ! -e .env");
	await_dedicated(two);
	rig_expect(&rig, HINT + 1, request = 5); /* announced with another hint */
	rig_sync(&rig);
	put(work, ".env", "secret\n");
	check_not_used(two, "! grep secret .env");
}
END_TEST

START_TEST(a_dead_dedicated_sandbox_is_skipped)
{
	pid_t two[2];
	build_two(two);
	kill(two[0], SIGKILL);
	kill(two[1], SIGKILL);
	for (int ms = 0; kill(two[0], 0) == 0 || kill(two[1], 0) == 0; ms++) {
		ck_assert_int_lt(ms, RIG_TIMEOUT_MS);
		poll(NULL, 0, 1);
	}
	ck_assert(!among(run_script("true"), two));
}
END_TEST

/* Another directory replaces the workspace. */
START_TEST(a_replaced_workspace_is_detected)
{
	char away[96];
	pid_t two[2];
	build_two(two);
	snprintf(away, sizeof away, "%s/away", place);
	ck_assert_int_eq(rename(work, away), 0);
	folder(place, "work");
	put(work, "new", "new\n");
	check_not_used(two, "cat new && test ! -e file && echo x >made");
	ck_assert(there(work, "made", NULL) && !there(away, "made", NULL));
	await_dedicated(two);
	remove_tree(work);
	folder(place, "work");
	put(work, "newer", "");
	check_not_used(two, "test -e newer && test ! -e new");
}
END_TEST

START_TEST(a_new_repository_is_detected)
{
	pid_t two[2];
	char git[96];
	snprintf(git, sizeof git, "%s/.git", work);
	remove_tree(git);
	build_two(two);
	folder(work, ".git");
	folder(work, ".git/hooks");
	put(work, ".git/config", "config\n");
	check_not_used(two, "! echo x 2>/dev/null >.git/hooks/pre-commit && ! mv .git git 2>/dev/null && ! echo x "
			    "2>/dev/null >>.git/config");
	await_dedicated(two);
	remove_tree(git);
	ck_assert(!among(run_script("mkdir .git && mkdir .git/hooks && rm -r .git"), two));
}
END_TEST

/* Without hooks or config placeholders are needed, which are never prebuilt. */
START_TEST(a_new_empty_repository_is_detected)
{
	pid_t two[2];
	char git[96];
	snprintf(git, sizeof git, "%s/.git", work);
	remove_tree(git);
	build_two(two);
	static const char script[] = "! mkdir .git/hooks 2>/dev/null && ! echo x 2>/dev/null >.git/hooks/pre-commit && "
				     "! echo x 2>/dev/null >.git/config";
	folder(work, ".git");
	for (int i = 0; i < 4; i++)
		ck_assert(!among(run_script(script), two));
	/* A sandbox that was being built then may be complete now: it is never used, and the next start ends it. */
	for (int i = 0; list_dedicated(two, 2) > 0; i++) {
		ck_assert_int_lt(i, 100);
		ck_assert(!among(run_script(script), two));
	}
	ck_assert(!there(work, ".git/hooks", NULL) && !there(work, ".git/config", NULL));
}
END_TEST

/* Mounts disappear with their directory: a new one of the same name, perhaps with the same inode, has no mount. */
START_TEST(recreated_protected_directories_are_detected)
{
	pid_t two[2];
	build_two(two);
	ck_assert_int_eq(rmdir(hooks), 0);
	ck_assert_int_eq(mkdir(hooks, 0755), 0);
	check_not_used(two, "! echo x 2>/dev/null >.git/hooks/pre-commit");
}
END_TEST

/* The parent directory holds the protected ones in place. */
START_TEST(a_recreated_parent_directory_is_detected)
{
	char git[96], kept[96], from[120];
	pid_t two[2];
	build_two(two);
	snprintf(git, sizeof git, "%s/.git", work);
	snprintf(kept, sizeof kept, "%s/kept", work);
	ck_assert_int_eq(rename(git, kept), 0);
	folder(work, ".git");
	snprintf(from, sizeof from, "%s/hooks", kept);
	ck_assert_int_eq(rename(from, hooks), 0);
	snprintf(from, sizeof from, "%s/config", kept);
	ck_assert_int_eq(rename(from, config), 0);
	ck_assert_int_eq(rmdir(kept), 0);
	check_not_used(two, "! mv .git git 2>/dev/null && ! echo x 2>/dev/null >.git/hooks/pre-commit");
}
END_TEST

/* A file under a second name is the same file, but nothing is mounted on that name. */
START_TEST(replacing_a_protected_file_with_its_hard_link_is_detected)
{
	char link_path[96];
	pid_t two[2];
	build_two(two);
	snprintf(link_path, sizeof link_path, "%s/link", work);
	ck_assert_int_eq(link(config, link_path), 0);
	ck_assert_int_eq(unlink(config), 0);
	ck_assert_int_eq(rename(link_path, config), 0);
	check_not_used(two, "! echo x 2>/dev/null >>.git/config");
}
END_TEST

START_TEST(created_and_removed_secrets_are_detected)
{
	pid_t two[2];
	build_two(two);
	put(work, ".env", "token\n");
	check_not_used(two, "! grep -q token .env 2>/dev/null");
	await_dedicated(two);
	ck_assert_int_eq(unlink(secret), 0);
	check_not_used(two, "test ! -e .env");
	await_dedicated(two);
	ck_assert_int_eq(mkdir(secret, 0755), 0);
	put(secret, "key", "token\n");
	check_not_used(two, "! test -e .env/key");
}
END_TEST

START_TEST(created_and_removed_tools_are_detected)
{
	pid_t two[2];
	build_two(two);
	folder(other, "tools");
	put(tools, "tool", "tool\n");
	mem_auto char *sees = mem_printf("test -e %s/tool", tools), *misses = mem_printf("test ! -e %s", tools);
	check_not_used(two, sees);
	await_dedicated(two);
	remove_tree(tools);
	check_not_used(two, misses);
}
END_TEST

/* Root can traverse every directory; the id that commands of root have cannot, and inaccessible directories are
 * covered. */
START_TEST(changed_modes_of_parent_directories_are_detected)
{
	pid_t two[2];
	SKIP_IF(geteuid() != 0, "requires root");
	const struct plan_mount_spec mounts[] = {
		SYSTEM_MOUNT, { .kind = PLAN_MOUNT_WRITE, .path = work, .flags = PLAN_MOUNT_OWNED }
	};
	ck_assert_int_eq(chmod(place, 0755), 0);
	run_with("ls ../other", mounts, countof(mounts));
	run_with("ls ../other", mounts, countof(mounts));
	await_dedicated(two);
	ck_assert(among(run_with("ls ../other", mounts, countof(mounts)), two));
	await_dedicated(two);
	ck_assert_int_eq(chmod(place, 0700), 0);
	ck_assert(!among(run_with("cat file && test ! -e ../other", mounts, countof(mounts)), two));
}
END_TEST

/* The account of the commands' id is a line in a copy of the host's file. */
START_TEST(changed_accounts_are_detected)
{
	char copy[96];
	pid_t two[2];
	SKIP_IF(geteuid() != 0, "requires root");
	snprintf(copy, sizeof copy, "%s/passwd", place);
	put(place, "passwd", "root:x:0:0:root:/root:/bin/sh\n");
	ck_assert_int_eq(mount(copy, "/etc/passwd", NULL, MS_BIND, NULL), 0);
	build_two(two);
	put(place, "passwd", "root:x:0:0:root:/root:/bin/sh\nrig-user:x:54321:54321::/:/bin/sh\n");
	check_not_used(two, "grep -q rig-user /etc/passwd");
	ck_assert_int_eq(umount2("/etc/passwd", MNT_DETACH), 0);
}
END_TEST

/* A plan that allows less does not get a sandbox that allows more. */
START_TEST(a_dedicated_sandbox_is_used_only_for_its_plan)
{
	pid_t two[2];
	build_two(two);
	const struct plan_mount_spec mounts[] = {
		SYSTEM_MOUNT,
		{ .kind = PLAN_MOUNT_HIDE, .path = place },
		{ .kind = PLAN_MOUNT_READ, .path = work, .flags = PLAN_MOUNT_OWNED },
	};
	ck_assert(!among(run_with("! echo x 2>/dev/null >made", mounts, countof(mounts)), two));
}
END_TEST

/* Without it (before Linux 6.3) a workspace on tmpfs gets no dedicated sandboxes from root. */
static bool tmpfs_maps_ids(void)
{
	struct kernel_feature f[KERNEL_FEATURES_MAX];
	for (size_t i = 0, n = kernel_probe(f); i < n; i++) {
		if (strcmp(f[i].name, "idmapped_tmpfs") == 0)
			return f[i].state == KERNEL_AVAILABLE;
	}
	ck_abort_msg("no feature is named idmapped_tmpfs");
}

/* Waiting sandboxes do not block the host from renaming and removing the directories that they were built from. */
START_TEST(waiting_sandboxes_do_not_block_the_host)
{
	pid_t two[2];
	char away[96];
	build_two(two);
	snprintf(away, sizeof away, "%s/away", place);
	ck_assert_int_eq(rename(work, away), 0);
	remove_tree(away);
	folder(place, "work");
}
END_TEST

START_TEST(a_mount_below_a_waiting_sandbox_can_be_removed)
{
	pid_t two[2];

	SKIP_IF(geteuid() != 0, "requires root");
	SKIP_IF(!tmpfs_maps_ids(), "requires tmpfs with idmapped mounts");
	ck_assert_int_eq(mount("rig", work, "tmpfs", 0, NULL), 0);
	build_two(two);
	ck_assert_int_eq(umount(work), 0);
}
END_TEST

int main(int argc, char **argv)
{
	return RIG_SUITE(argc, argv, "prebuilt_dedicated", "pool", setup_dedicated, teardown, 300,
			 each_dedicated_sandbox_is_used_once, an_early_check_is_valid_for_one_request,
			 a_dead_dedicated_sandbox_is_skipped, a_replaced_workspace_is_detected,
			 a_new_repository_is_detected, a_new_empty_repository_is_detected,
			 recreated_protected_directories_are_detected, a_recreated_parent_directory_is_detected,
			 replacing_a_protected_file_with_its_hard_link_is_detected,
			 created_and_removed_secrets_are_detected, created_and_removed_tools_are_detected,
			 changed_modes_of_parent_directories_are_detected, changed_accounts_are_detected,
			 a_dedicated_sandbox_is_used_only_for_its_plan, waiting_sandboxes_do_not_block_the_host,
			 a_mount_below_a_waiting_sandbox_can_be_removed);
}
