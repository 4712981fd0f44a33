/* Write roots: what a command can change in them, and what is protected or hidden. */

#include "tests/unit/supervisor/spawner/private_root.h"

START_TEST(files_in_a_write_root_belong_to_the_peer)
{
	struct stat st;
	succeeds("echo more >>file && echo new >made && mkdir folder && echo x >folder/y && mv folder moved && rm "
		 "moved/y && cat file");
	ck_assert_str_eq(out, "text\nmore\n");
	ck_assert(there(work, "made", &st));
	ck_assert_uint_eq(st.st_uid, geteuid());
	ck_assert_uint_eq(st.st_gid, getegid());
	ck_assert(there(work, "moved", &st));
	ck_assert_uint_eq(st.st_uid, geteuid());
	succeeds("test \"$(stat -c %u made)\" = \"$(id -u)\" && test \"$(stat -c %u .)\" = \"$(id -u)\"");
	fails("mknod dev c 1 3");
	fails("ln /etc/passwd passwd");
	fails("ln -s /etc/hosts x; echo y >x");
	if (geteuid() == 0) { /* it would belong to root */
		fails("cp /bin/true s && chmod 4755 s && test -u s");
		fails("chmod 2755 . && test -g .");
		ck_assert(there(work, "s", &st) && !(st.st_mode & (S_ISUID | S_ISGID)));
	}
}
END_TEST

START_TEST(protected_paths_cannot_be_changed)
{
	fails("echo x >.git/hooks/pre-commit");
	fails("echo x >file2; mv file2 .git/hooks/pre-commit");
	fails("echo x >>.git/config");
	fails("rm .git/config");
	fails("mv .git/config .git/other");
	fails("mv .git/hooks .git/other");
	fails("rmdir .git/hooks");
	fails("mv .git git");
	fails("chmod 777 .git/hooks");
	fails("echo x >file3; mv file3 .git/config");
	fails("mkdir d; mv -T d .git");
	succeeds("cat .git/config && echo x >.git/HEAD && mkdir .git/objects");
	ck_assert(there(work, ".git/HEAD", NULL));
}
END_TEST

START_TEST(hidden_files_and_directories_are_not_visible)
{
	put(work, ".env", "token\n");
	folder(work, "private");
	put(work, "private/key", "key\n");
	mem_auto char *env = mem_printf("%s/.env", work), *private = mem_printf("%s/private", work);
	const struct plan_mount_spec mounts[] = {
		SYSTEM_MOUNT,
		{ .kind = PLAN_MOUNT_WRITE, .path = work },
		{ .kind = PLAN_MOUNT_HIDE, .path = env },
		{ .kind = PLAN_MOUNT_HIDE, .path = private },
		{ .kind = PLAN_MOUNT_HIDE, .path = "/var/run/nothing" },
		{ .kind = PLAN_MOUNT_HIDE, .path = "/etc/hosts" },
	};
	struct status_msg m = run_in("cat .env; ls -A private; echo x >.env; echo x >private/new; mv private p; mv "
				     ".env e; rm -rf .env private; cat /etc/hosts",
				     mounts, countof(mounts), work);
	ck_assert_int_ne(m.wait_status, 0);
	ck_assert_ptr_null(strstr(out, "token"));
	ck_assert_ptr_null(strstr(out, "key"));
	ck_assert_ptr_null(strstr(out, "localhost"));
	ck_assert(there(work, ".env", NULL) && there(work, "private/key", NULL) && !there(work, "private/new", NULL));
	fd_auto int fd = open(env, O_RDONLY | O_CLOEXEC);
	char text[16] = "";
	ck_assert_int_eq(read(fd, text, sizeof text - 1), 6);
}
END_TEST

static const char missing_script[] = "echo x >.env; mkdir .env; ln -s x .env; mv file .env; echo x >sub/a/b; mkdir -p "
				     "sub/a; mkdir sub; mv sub s; mv -T .git sub; "
				     "rm -rf .env sub; rmdir sub; test -f file && ! test -s .env && ! test -e sub/a && "
				     "! mv .git/alone .git/a && ! rmdir .git/alone && ! echo x >.git/alone/x && mkdir "
				     "no no/x && echo x >no/x/y && rm -r no";

START_TEST(missing_hidden_paths_leave_no_placeholder)
{
	mem_auto char *env = mem_printf("%s/.env", work), *deep = mem_printf("%s/sub/a/b", work),
		      *deep2 = mem_printf("%s/sub/c", work);
	mem_auto char *maybe = mem_printf("%s/maybe", work), *alone = mem_printf("%s/.git/alone", work),
		      *parent = mem_printf("%s/no/x", work);
	const struct plan_mount_spec mounts[] = {
		SYSTEM_MOUNT,
		{ .kind = PLAN_MOUNT_WRITE, .path = work },
		{ .kind = PLAN_MOUNT_HIDE, .path = env },
		{ .kind = PLAN_MOUNT_HIDE, .path = deep },
		{ .kind = PLAN_MOUNT_PROTECT, .path = deep2 },
		{ .kind = PLAN_MOUNT_PROTECT, .path = maybe, .flags = PLAN_MOUNT_OPTIONAL },
		{ .kind = PLAN_MOUNT_PROTECT, .path = alone, .flags = PLAN_MOUNT_IN_PARENT },
		{ .kind = PLAN_MOUNT_PROTECT, .path = parent, .flags = PLAN_MOUNT_IN_PARENT },
	};
	struct status_msg m = run_in(missing_script, mounts, countof(mounts), work);
	ck_assert_msg(m.wait_status == 0, "%s", out);
	/* Removed before the end is reported. */
	ck_assert(!there(work, ".env", NULL) && !there(work, "sub", NULL) && !there(work, "maybe", NULL) &&
		  !there(work, ".git/alone", NULL));

	/* And shortly after a kill. */
	struct run run;
	run_start(&rig, &run,
		  &(struct run_spec){ .argv = SH("echo up; sleep 1000"),
				      .cwd = work,
				      .flags = PLAN_PRIVATE_ROOT,
				      .mounts = mounts,
				      .nmounts = countof(mounts),
				      .network = PLAN_NET_NONE });
	char up[3];
	rig_readable(run.fd[GUARD_SLOT_STDOUT], "up");
	ck_assert_int_eq(read(run.fd[GUARD_SLOT_STDOUT], up, 3), 3);
	ck_assert(there(work, ".env", NULL) && there(work, "sub", NULL));
	kill(rig_spawner_pid(&rig), SIGKILL);
	rig_take_new_peer(&rig);
	fd_pidfd_signal(run.fd[GUARD_SLOT_PIDFD], SIGKILL);
	for (int i = 0; i < RIG_TIMEOUT_MS && (there(work, ".env", NULL) || there(work, "sub", NULL)); i++)
		poll(NULL, 0, 1);
	ck_assert(!there(work, ".env", NULL) && !there(work, "sub", NULL));
	run_release(&rig, &run);
	run_close(&run);
}
END_TEST

/* A file that another program created there meanwhile is not removed. */
START_TEST(files_that_replaced_placeholders_are_kept)
{
	mem_auto char *env = mem_printf("%s/.env", work), *aside = mem_printf("%s/aside", other);
	const struct plan_mount_spec mounts[] = {
		SYSTEM_MOUNT,
		{ .kind = PLAN_MOUNT_WRITE, .path = work },
		{ .kind = PLAN_MOUNT_HIDE, .path = env },
	};
	struct run run;
	run_start(&rig, &run,
		  &(struct run_spec){ .argv = SH("echo up; sleep 1000"),
				      .cwd = work,
				      .flags = PLAN_PRIVATE_ROOT,
				      .mounts = mounts,
				      .nmounts = countof(mounts),
				      .network = PLAN_NET_NONE });
	char up[3];
	rig_readable(run.fd[GUARD_SLOT_STDOUT], "up");
	ck_assert_int_eq(read(run.fd[GUARD_SLOT_STDOUT], up, 3), 3);
	ck_assert_int_eq(rename(env, aside), 0);
	put(work, ".env", "mine\n");
	run_send_status(&run, STATUS_KILL_TREE, 0);
	ck_assert_uint_eq(run_status(&run).kind, STATUS_EXITED);
	ck_assert(there(work, ".env", NULL));
	run_release(&rig, &run);
	run_close(&run);
}
END_TEST

/* Starts a command that prints "up", and waits for that. */
static void start_up(struct run *run, const char *script, const struct plan_mount_spec *mounts, size_t n)
{
	char up[3];
	run_start(&rig, run,
		  &(struct run_spec){ .argv = SH(script),
				      .cwd = work,
				      .flags = PLAN_PRIVATE_ROOT | PLAN_STDIN_PIPE,
				      .mounts = mounts,
				      .nmounts = n,
				      .network = PLAN_NET_NONE });
	rig_readable(run->fd[GUARD_SLOT_STDOUT], "up");
	ck_assert_int_eq(read(run->fd[GUARD_SLOT_STDOUT], up, 3), 3);
}

/* A command that ends does not remove placeholders that another one needs; those left by a crash are removed, too. */
START_TEST(placeholders_are_shared)
{
	mem_auto char *env = mem_printf("%s/.env", work), *deep = mem_printf("%s/sub/a", work),
		      *left = mem_printf("%s/left", work);
	const struct plan_mount_spec mounts[] = {
		SYSTEM_MOUNT,
		{ .kind = PLAN_MOUNT_WRITE, .path = work },
		{ .kind = PLAN_MOUNT_HIDE, .path = env },
		{ .kind = PLAN_MOUNT_PROTECT, .path = deep },
		{ .kind = PLAN_MOUNT_HIDE, .path = left },
	};
	put(work, "left", "");
	ck_assert_int_eq(chmod(left, 01400), 0);
	struct run a, b;
	start_up(&a, "echo up; sleep 1000", mounts, countof(mounts));
	start_up(&b,
		 "echo up; read x; (echo x >.env; mkdir .env; mkdir sub/a; mv sub s; rm -rf .env sub left) "
		 "2>/dev/null; ls -A",
		 mounts, countof(mounts));
	run_send_status(&a, STATUS_KILL_TREE, 0);
	ck_assert_uint_eq(run_status(&a).kind, STATUS_EXITED);
	ck_assert(there(work, ".env", NULL) && there(work, "sub", NULL) && there(work, "left", NULL));
	ck_assert_int_eq(write(b.fd[GUARD_SLOT_STDIN], "\n", 1), 1);
	run_read(&b, GUARD_SLOT_STDOUT, out, sizeof out);
	ck_assert_str_eq(out, ".env\n.git\nfile\nleft\nsub\n");
	ck_assert_uint_eq(run_status(&b).kind, STATUS_EXITED);
	ck_assert(!there(work, ".env", NULL) && !there(work, "sub", NULL) && !there(work, "left", NULL) &&
		  !there(work, "s", NULL));
	run_release(&rig, &a);
	run_release(&rig, &b);
	run_close(&a);
	run_close(&b);
}
END_TEST

/* A mount in a write root cannot be replaced by moving its parents away. */
START_TEST(mounts_in_a_write_root_stay_in_place)
{
	folder(work, "a");
	folder(work, "a/b");
	folder(work, "a/b/read");
	folder(work, "a/b/write");
	mem_auto char *readable = mem_printf("%s/a/b/read", work), *writable = mem_printf("%s/a/b/write", work);
	const struct plan_mount_spec mounts[] = {
		SYSTEM_MOUNT,
		{ .kind = PLAN_MOUNT_WRITE, .path = work },
		{ .kind = PLAN_MOUNT_READ, .path = readable },
		{ .kind = PLAN_MOUNT_WRITE, .path = writable },
	};
	struct status_msg m = run_in("! mv a x && ! mv a/b a/x && ! mv a/b/read x && ! mv a/b/write x && ! touch "
				     "a/b/read/x && touch a/b/write/x a/b/x a/x",
				     mounts, countof(mounts), work);
	ck_assert_msg(m.wait_status == 0, "%s", out);
	ck_assert(there(work, "a/b/write/x", NULL) && there(work, "a/b/x", NULL));
}
END_TEST

/* A write root that is a file can be written, even if paths below it are listed as protected. */
START_TEST(a_file_can_be_a_write_root)
{
	mem_auto char *file = mem_printf("%s/secret", other), *in_it = mem_printf("%s/secret/.git/hooks", other);
	const struct plan_mount_spec mounts[] = {
		SYSTEM_MOUNT,
		{ .kind = PLAN_MOUNT_WRITE, .path = file, .flags = PLAN_MOUNT_OWNED },
		{ .kind = PLAN_MOUNT_PROTECT, .path = in_it, .flags = PLAN_MOUNT_IN_PARENT },
	};
	for (int i = 0; i < 4; i++) {
		struct status_msg m = run_in("echo more >>secret && ! echo x 2>/dev/null >new", mounts, countof(mounts),
					     other);
		ck_assert_msg(m.wait_status == 0, "%s", out);
	}
}
END_TEST

/* Links inside a bound tree are never followed to a mount target. */
START_TEST(links_in_a_write_root_are_not_followed)
{
	mem_auto char *link = mem_printf("%s/link", work), *in_link = mem_printf("%s/link/x", work);
	ck_assert_int_eq(symlink("/etc", link), 0);
	const struct {
		enum plan_mount_kind kind;
		const char *path;
	} refused[] = { { PLAN_MOUNT_HIDE, link },
			{ PLAN_MOUNT_HIDE, in_link },
			{ PLAN_MOUNT_PROTECT, in_link },
			{ PLAN_MOUNT_EMPTY, link },
			{ PLAN_MOUNT_EMPTY, in_link } };
	for (size_t i = 0; i < countof(refused); i++) {
		const struct plan_mount_spec mounts[] = {
			SYSTEM_MOUNT,
			{ .kind = PLAN_MOUNT_WRITE, .path = work },
			{ .kind = refused[i].kind, .path = refused[i].path },
		};
		struct status_msg m = failing(&(struct run_spec){ .argv = SH("true"),
								  .flags = PLAN_PRIVATE_ROOT,
								  .mounts = mounts,
								  .nmounts = 3,
								  .network = PLAN_NET_NONE });
		ck_assert_uint_eq(m.step, STEP_TREES);
		ck_assert_msg(m.error == ELOOP, "%zu: %s", i, strerror(m.error));
	}
	ck_assert(access("/etc/x", F_OK) < 0);
	/* A link that is itself protected is kept. */
	const struct plan_mount_spec mounts[] = {
		SYSTEM_MOUNT,
		{ .kind = PLAN_MOUNT_WRITE, .path = work },
		{ .kind = PLAN_MOUNT_PROTECT, .path = link },
	};
	struct status_msg m = run_in("test -L link && ! rm link 2>/dev/null && ! ln -sfn /usr link 2>/dev/null && ! mv "
				     "link x 2>/dev/null && "
				     "test \"$(readlink link)\" = /etc",
				     mounts, countof(mounts), work);
	ck_assert_msg(m.wait_status == 0, "%s", out);
}
END_TEST

int main(int argc, char **argv)
{
	return PRIVATE_ROOT_SUITE(argc, argv, "write_root", files_in_a_write_root_belong_to_the_peer,
				  protected_paths_cannot_be_changed, hidden_files_and_directories_are_not_visible,
				  missing_hidden_paths_leave_no_placeholder, files_that_replaced_placeholders_are_kept,
				  placeholders_are_shared, mounts_in_a_write_root_stay_in_place,
				  a_file_can_be_a_write_root, links_in_a_write_root_are_not_followed);
}
