/*
 * Plans with a private root, run for real and looked at from the inside. As root the peer is root, so that commands run
 * as an id of their own with mapped write roots; as a plain user everything happens in a user namespace.
 *
 * All of it is done twice: in sandboxes that are made for the command, and in such as were built ahead. Nothing may differ.
 */

#include "tests/unit/supervisor/rig.h"

#include <ftw.h>
#include <grp.h>
#include <sys/stat.h>
#include <sys/mount.h>

static struct rig rig;
static bool ahead; /* commands get sandboxes that were built ahead */
static char place[64], work[80], other[80], out[16384];

/* A tree of the peer's that is not below /tmp, where the private /tmp would hide it anyway. */
static const char *base_folder(void)
{
	return geteuid() == 0 ? "/var/lib" : "/var/tmp";
}

static void put(const char *folder, const char *name, const char *text)
{
	char path[200];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	fd_auto int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	ck_assert_msg(fd >= 0, "%s", path);
	ck_assert_int_eq(fd_write_all(fd, text, strlen(text)), 0);
}

static void folder(const char *at, const char *name)
{
	char path[200];
	snprintf(path, sizeof path, "%s/%s", at, name);
	ck_assert_int_eq(mkdir(path, 0755), 0);
}

static bool there(const char *at, const char *name, struct stat *st)
{
	char path[200];
	struct stat unused;
	snprintf(path, sizeof path, "%s/%s", at, name);
	return lstat(path, st ? st : &unused) == 0;
}

static void setup(void)
{
	snprintf(place, sizeof place, "%s/rig-root-XXXXXX", base_folder());
	ck_assert_ptr_nonnull(mkdtemp(place));
	snprintf(work, sizeof work, "%s/work", place);
	snprintf(other, sizeof other, "%s/other", place);
	folder(place, "work");
	folder(place, "other");
	put(other, "secret", "secret\n");
	folder(work, ".git");
	folder(work, ".git/hooks");
	put(work, ".git/config", "config\n");
	put(work, "file", "text\n");
	rig_start(&rig);
}

static struct status_msg run_in(const char *script, const struct plan_mount_spec *mounts, size_t n, const char *cwd);

#define SYSTEM_MOUNT { .kind = PLAN_MOUNT_SYSTEM, .path = "/" }

static void setup_ahead(void)
{
	const struct plan_mount_spec mounts[] = { SYSTEM_MOUNT };
	setenv("RIG_ZYGOTES", "1", 1);
	setup();
	run_in("true", mounts, 1, "/");
	ahead = true;
}

static int unlink_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
	return remove(path);
}

static void teardown(void)
{
	rig_stop(&rig);
	nftw(place, unlink_one, 16, FTW_DEPTH | FTW_PHYS);
	unsetenv("RIG_ZYGOTES");
	ahead = false;
}

/* Both are there, so the next command gets one of them. */
static void await_zygotes(void)
{
	if (ahead)
		rig_await_zygotes(&rig, 2);
}

/* Runs to the end with the system, the given mounts and everything needed to look around; stdout and stderr in `out`. */
static struct status_msg run_in(const char *script, const struct plan_mount_spec *mounts, size_t n, const char *cwd)
{
	struct run run;
	struct run_spec s = { .argv = SH(script), .cwd = cwd, .flags = PLAN_PRIVATE_ROOT | PLAN_STDERR_MERGE, .mounts = mounts,
			      .nmounts = n, .network = PLAN_NET_NONE };
	await_zygotes();
	run_start(&rig, &run, &s);
	run_read(&run, GUARD_SLOT_STDOUT, out, sizeof out);
	struct status_msg m = run_status(&run);
	ck_assert_uint_eq(m.kind, STATUS_EXITED);
	run_release(&rig, &run);
	run_close(&run);
	return m;
}

static int code(const char *script)
{
	const struct plan_mount_spec mounts[] = {
		SYSTEM_MOUNT,
		{ .kind = PLAN_MOUNT_HIDE, .path = place },
		{ .kind = PLAN_MOUNT_WRITE, .path = work, .flags = PLAN_MOUNT_OWNED },
		{ .kind = PLAN_MOUNT_PROTECT, .path = mem_printf("%s/.git/hooks", work) },
		{ .kind = PLAN_MOUNT_PROTECT, .path = mem_printf("%s/.git/config", work) },
	};
	struct status_msg m = run_in(script, mounts, countof(mounts), work);
	free((char *)mounts[3].path);
	free((char *)mounts[4].path);
	return WIFEXITED(m.wait_status) ? WEXITSTATUS(m.wait_status) : -1;
}

#define succeeds(script) ck_assert_msg(code(script) == 0, "%s: %s", script, out)
#define fails(script) ck_assert_msg(code(script) > 0, "%s: %s", script, out)

static struct status_msg failing(const struct run_spec *s)
{
	struct run run;
	await_zygotes();
	run_send(&rig, &run, s);
	run_answer(&rig, &run);
	ck_assert_msg(run.answer.kind == SPAWN_STARTED, "%s", run.answer.path);
	struct status_msg m = run_status(&run);
	if (m.kind == STATUS_READY) {
		run_open_gate(&run);
		m = run_status(&run);
	}
	ck_assert_uint_eq(m.kind, STATUS_FAILED);
	run_release(&rig, &run);
	run_close(&run);
	return m;
}

/* A container that masks its /proc does not let its users mount one: the layer is then reported as missing. */
static bool has_proc(void)
{
	return code("test -d /proc/self") == 0;
}

START_TEST(never_root_and_known_by_name)
{
	if (!has_proc())
		return;
	succeeds("id; id -u; grep -E '^(Cap|NoNewPrivs|Groups)' /proc/self/status");
	ck_assert_ptr_null(strstr(out, "uid=0"));
	ck_assert_ptr_nonnull(strstr(out, "CapBnd:\t0000000000000000"));
	ck_assert_ptr_nonnull(strstr(out, "CapEff:\t0000000000000000"));
	ck_assert_ptr_nonnull(strstr(out, "CapPrm:\t0000000000000000"));
	if (geteuid() == 0) {
		ck_assert_ptr_nonnull(strstr(out, "bailiff-sandbox"));
		succeeds("test $(whoami) = bailiff-sandbox && test $(id -gn) = bailiff-sandbox && ls -ld . | grep -q bailiff-sandbox");
	}
}
END_TEST

START_TEST(system_is_read_only)
{
	fails("echo x >/etc/hosts");
	fails("echo x >/etc/new");
	fails("touch /usr/bin/new");
	fails("chmod 777 /usr/bin/env");
	fails("mkdir /new");
	fails("touch /etc");
	fails("echo x >/run/new");
	fails("cat /etc/shadow");
	fails("echo x >/dev/new");
	fails("rm /dev/null");
	fails("chmod 777 /dev");
	succeeds("ls /usr/bin/env /etc/passwd /bin/sh && echo x >/dev/null && head -c 4 /dev/zero >/dev/null && head -c 1 /dev/urandom >/dev/null");
	succeeds("test -z \"$(ls -A /run)\" && test -z \"$(ls -A /home 2>/dev/null)\" && ! test -e /boot && ! test -e /mnt && ! test -e /media");
}
END_TEST

START_TEST(write_root_belongs_to_the_peer)
{
	struct stat st;
	succeeds("echo more >>file && echo new >made && mkdir folder && echo x >folder/y && mv folder moved && rm moved/y && cat file");
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
	if (geteuid() == 0) { /* it would be root's */
		fails("cp /bin/true s && chmod 4755 s && test -u s");
		fails("chmod 2755 . && test -g .");
		ck_assert(there(work, "s", &st) && !(st.st_mode & (S_ISUID | S_ISGID)));
	}
}
END_TEST

START_TEST(nothing_beside_it)
{
	char script[300];
	snprintf(script, sizeof script, "ls -A %s; cat %s/secret", place, other);
	fails(script);
	ck_assert_msg(strncmp(out, "work\n", 5) == 0, "%s", out);
	ck_assert_ptr_null(strstr(out, "secret\n"));
	if (geteuid() == 0) { /* a plain user's tree is below the private /var/tmp here */
		snprintf(script, sizeof script, "touch %s/x", place);
		fails(script);
		snprintf(script, sizeof script, "mkdir %s", other);
		fails(script);
	}
	succeeds("test -z \"$(ls -A /root 2>/dev/null)\"");
}
END_TEST

START_TEST(protected_paths_hold)
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

START_TEST(hidden_files_and_folders)
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
	struct status_msg m = run_in("cat .env; ls -A private; echo x >.env; echo x >private/new; mv private p; mv .env e; rm -rf .env private; cat /etc/hosts",
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

static const char missing_script[] =
	"echo x >.env; mkdir .env; ln -s x .env; mv file .env; echo x >sub/a/b; mkdir -p sub/a; mkdir sub; mv sub s; mv -T .git sub; "
	"rm -rf .env sub; rmdir sub; test -f file && ! test -s .env && ! test -e sub/a && "
	"! mv .git/alone .git/a && ! rmdir .git/alone && ! echo x >.git/alone/x && mkdir no no/x && echo x >no/x/y && rm -r no";

START_TEST(missing_hidden_paths_leave_nothing)
{
	mem_auto char *env = mem_printf("%s/.env", work), *deep = mem_printf("%s/sub/a/b", work), *deep2 = mem_printf("%s/sub/c", work);
	mem_auto char *maybe = mem_printf("%s/maybe", work), *alone = mem_printf("%s/.git/alone", work), *parent = mem_printf("%s/no/x", work);
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
	/* Gone before the end is reported. */
	ck_assert(!there(work, ".env", NULL) && !there(work, "sub", NULL) && !there(work, "maybe", NULL) && !there(work, ".git/alone", NULL));

	/* And soon after a kill. */
	struct run run;
	run_start(&rig, &run, &(struct run_spec){ .argv = SH("echo up; sleep 1000"), .cwd = work, .flags = PLAN_PRIVATE_ROOT,
						   .mounts = mounts, .nmounts = countof(mounts), .network = PLAN_NET_NONE });
	char up[3];
	rig_readable(run.fd[GUARD_SLOT_STDOUT], "up");
	ck_assert_int_eq(read(run.fd[GUARD_SLOT_STDOUT], up, 3), 3);
	ck_assert(there(work, ".env", NULL) && there(work, "sub", NULL));
	kill(rig_spawner_pid(&rig), SIGKILL);
	rig_take_new_peer(&rig);
	fd_pidfd_signal(run.fd[GUARD_SLOT_PIDFD], SIGKILL);
	for (int i = 0; i < RIG_PATIENCE_MS && (there(work, ".env", NULL) || there(work, "sub", NULL)); i++)
		poll(NULL, 0, 1);
	ck_assert(!there(work, ".env", NULL) && !there(work, "sub", NULL));
	run_release(&rig, &run);
	run_close(&run);
}
END_TEST

/* What somebody else put there meanwhile is not ours to remove. */
START_TEST(placeholders_that_were_replaced_stay)
{
	mem_auto char *env = mem_printf("%s/.env", work), *aside = mem_printf("%s/aside", other);
	const struct plan_mount_spec mounts[] = {
		SYSTEM_MOUNT, { .kind = PLAN_MOUNT_WRITE, .path = work }, { .kind = PLAN_MOUNT_HIDE, .path = env },
	};
	struct run run;
	run_start(&rig, &run, &(struct run_spec){ .argv = SH("echo up; sleep 1000"), .cwd = work, .flags = PLAN_PRIVATE_ROOT,
						   .mounts = mounts, .nmounts = countof(mounts), .network = PLAN_NET_NONE });
	char up[3];
	rig_readable(run.fd[GUARD_SLOT_STDOUT], "up");
	ck_assert_int_eq(read(run.fd[GUARD_SLOT_STDOUT], up, 3), 3);
	ck_assert_int_eq(rename(env, aside), 0);
	put(work, ".env", "mine\n");
	run_tell(&run, STATUS_KILL_TREE, 0);
	ck_assert_uint_eq(run_status(&run).kind, STATUS_EXITED);
	ck_assert(there(work, ".env", NULL));
	run_release(&rig, &run);
	run_close(&run);
}
END_TEST

/* Starts a command that says "up", and waits for that. */
static void start_up(struct run *run, const char *script, const struct plan_mount_spec *mounts, size_t n)
{
	char up[3];
	run_start(&rig, run, &(struct run_spec){ .argv = SH(script), .cwd = work, .flags = PLAN_PRIVATE_ROOT | PLAN_STDIN_PIPE,
						  .mounts = mounts, .nmounts = n, .network = PLAN_NET_NONE });
	rig_readable(run->fd[GUARD_SLOT_STDOUT], "up");
	ck_assert_int_eq(read(run->fd[GUARD_SLOT_STDOUT], up, 3), 3);
}

/* The first to leave does not take away what the other needs; what was left over by a crash goes too. */
START_TEST(placeholders_are_shared)
{
	mem_auto char *env = mem_printf("%s/.env", work), *deep = mem_printf("%s/sub/a", work), *left = mem_printf("%s/left", work);
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
	start_up(&b, "echo up; read x; (echo x >.env; mkdir .env; mkdir sub/a; mv sub s; rm -rf .env sub left) 2>/dev/null; ls -A", mounts,
		 countof(mounts));
	run_tell(&a, STATUS_KILL_TREE, 0);
	ck_assert_uint_eq(run_status(&a).kind, STATUS_EXITED);
	ck_assert(there(work, ".env", NULL) && there(work, "sub", NULL) && there(work, "left", NULL));
	ck_assert_int_eq(write(b.fd[GUARD_SLOT_STDIN], "\n", 1), 1);
	run_read(&b, GUARD_SLOT_STDOUT, out, sizeof out);
	ck_assert_str_eq(out, ".env\n.git\nfile\nleft\nsub\n");
	ck_assert_uint_eq(run_status(&b).kind, STATUS_EXITED);
	ck_assert(!there(work, ".env", NULL) && !there(work, "sub", NULL) && !there(work, "left", NULL) && !there(work, "s", NULL));
	run_release(&rig, &a);
	run_release(&rig, &b);
	run_close(&a);
	run_close(&b);
}
END_TEST

/* A socket whose peer is somebody else. */
static int socket_of(uid_t uid)
{
	int meet[2], fd = -1;
	size_t n = 1;
	char byte;
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, meet), 0);
	pid_t pid = fork();
	if (pid == 0) {
		int pair[2];
		if (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0 ||
		    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
			_exit(1);
		_exit(fd_send(meet[1], "", 1, pair, 1, 0) < 0);
	}
	ck_assert_int_eq(fd_recv(meet[0], &byte, 1, &fd, &n, 0), 1);
	waitpid(pid, NULL, 0);
	close(meet[0]);
	close(meet[1]);
	return fd;
}

/* Under a root daemon a user's command is the user's in every way. */
START_TEST(other_users_are_themselves)
{
	enum { UID = 65533 };
	if (geteuid() != 0)
		return;
	fd_close(&rig.client[0]);
	rig.client[0] = socket_of(UID);
	struct stat st;
	ck_assert_int_eq(chmod(place, 0755), 0);
	ck_assert_int_eq(chown(work, UID, UID), 0);
	mem_auto char *env = mem_printf("%s/.env", work), *private = mem_printf("%s/private", other);
	folder(other, "private");
	ck_assert_int_eq(chmod(private, 0700), 0);
	mem_auto char *inner = mem_printf("%s/inner", private);
	folder(private, "inner");
	const struct plan_mount_spec mounts[] = {
		SYSTEM_MOUNT, { .kind = PLAN_MOUNT_WRITE, .path = work, .flags = PLAN_MOUNT_OWNED }, { .kind = PLAN_MOUNT_HIDE, .path = env },
	};
	struct status_msg m = run_in("id -u; grep Groups: /proc/self/status; echo x >made; ! echo x >>file; ! echo x >.env", mounts, countof(mounts), work);
	ck_assert_msg(m.wait_status == 0 && strncmp(out, "65533\nGroups:\t \n", 16) == 0, "%s", out);
	ck_assert(there(work, "made", &st) && st.st_uid == UID && st.st_gid == UID);
	ck_assert(!there(work, ".env", NULL));
	/* What the user could not make either needs no placeholder. */
	mem_auto char *within = mem_printf("%s/.git/missing", work);
	const struct plan_mount_spec locked[] = { SYSTEM_MOUNT, { .kind = PLAN_MOUNT_WRITE, .path = work }, { .kind = PLAN_MOUNT_HIDE, .path = within } };
	m = run_in("! mkdir .git/missing", locked, countof(locked), work);
	ck_assert_msg(m.wait_status == 0, "%s", out);
	for (unsigned kind = PLAN_MOUNT_READ; kind <= PLAN_MOUNT_WRITE; kind++) {
		const struct plan_mount_spec more[] = { SYSTEM_MOUNT, { .kind = kind, .path = inner, .flags = PLAN_MOUNT_OWNED } };
		m = failing(&(struct run_spec){ .argv = SH("true"), .flags = PLAN_PRIVATE_ROOT, .mounts = more, .nmounts = 2 });
		ck_assert_uint_eq(m.step, STEP_TREES);
		ck_assert_int_eq(m.error, EACCES);
	}
}
END_TEST

/* A runtime that was taken over can ask for anything, but not for more than the peer has: no layer, and the system writable. */
START_TEST(hostile_plans_give_no_more_than_the_peer_has)
{
	enum { UID = 65533 };
	if (geteuid() != 0)
		return;
	fd_close(&rig.client[0]);
	rig.client[0] = socket_of(UID);
	const struct plan_mount_spec mounts[] = {
		SYSTEM_MOUNT, { .kind = PLAN_MOUNT_WRITE, .path = "/etc" }, { .kind = PLAN_MOUNT_WRITE, .path = "/usr" },
	};
	struct run run;
	struct run_spec s = { .argv = SH("test $(id -u) = 65533 && ! echo x 2>/dev/null >>/etc/passwd && ! cat /etc/shadow 2>/dev/null"
					 " && ! touch /usr/x 2>/dev/null && ! chmod u+s /usr/bin/env 2>/dev/null"
					 " && grep -q 'CapEff:.0000000000000000' /proc/self/status && grep -q 'CapBnd:.0000000000000000' /proc/self/status"
					 " && grep -q 'NoNewPrivs:.1' /proc/self/status"),
			      .flags = PLAN_PRIVATE_ROOT | PLAN_STDERR_MERGE, .mounts = mounts, .nmounts = countof(mounts),
			      .network = PLAN_NET_NONE, .less_layers = ~0u };
	await_zygotes();
	run_start(&rig, &run, &s);
	run_read(&run, GUARD_SLOT_STDOUT, out, sizeof out);
	struct status_msg m = run_status(&run);
	ck_assert_msg(m.kind == STATUS_EXITED && m.wait_status == 0, "%s", out);
	run_release(&rig, &run);
	run_close(&run);
	ck_assert_int_lt(access("/usr/x", F_OK), 0);
}
END_TEST

START_TEST(private_tmp)
{
	put("/tmp", "rig-private-tmp", "outside\n");
	succeeds("test -z \"$(ls -A /tmp /var/tmp /dev/shm | grep -v -e : -e ^rig-root- | grep .)\" && echo x >/tmp/a && echo x >/var/tmp/b && echo x >/dev/shm/c"
		 " && test -z \"$(ls -A /tmp | grep -v '^a$')\"");
	unlink("/tmp/rig-private-tmp");
	ck_assert(access("/tmp/a", F_OK) < 0);
	succeeds("test -z \"$(ls -A /tmp)\"");

	char below[] = "/tmp/rig-below-XXXXXX";
	ck_assert_ptr_nonnull(mkdtemp(below));
	const struct plan_mount_spec mounts[] = { SYSTEM_MOUNT, { .kind = PLAN_MOUNT_WRITE, .path = below } };
	struct status_msg m = run_in("echo hi >here && ls /tmp | wc -l && echo x >/tmp/x && ! rmdir . 2>/dev/null", mounts, countof(mounts), below);
	ck_assert_msg(m.wait_status == 0, "%s", out);
	ck_assert_str_eq(out, "1\n");
	ck_assert(there(below, "here", NULL));
	nftw(below, unlink_one, 4, FTW_DEPTH | FTW_PHYS);
}
END_TEST

START_TEST(tmp_is_limited)
{
	const struct plan_mount_spec mounts[] = { SYSTEM_MOUNT };
	struct run run;
	run_start(&rig, &run, &(struct run_spec){ .argv = SH("head -c 3000000 /dev/zero >/tmp/a || echo full; rm /tmp/a; "
							      "i=0; while echo >/tmp/$i 2>/dev/null && test $i -lt 3000; do i=$((i+1)); done; echo $i"),
						   .flags = PLAN_PRIVATE_ROOT, .mounts = mounts, .nmounts = 1, .network = PLAN_NET_NONE,
						   .tmp_bytes = 1 << 20 });
	run_read(&run, GUARD_SLOT_STDOUT, out, sizeof out);
	ck_assert(strncmp(out, "full\n", 5) == 0);
	ck_assert_int_lt(strtol(out + 5, NULL, 10), 1024);
	run_status(&run);
	run_release(&rig, &run);
	run_close(&run);
}
END_TEST

START_TEST(own_processes_and_masked_proc)
{
	if (!has_proc())
		return;
	succeeds("ls /proc | grep -c '^[0-9]*$'");
	ck_assert_int_le(strtol(out, NULL, 10), 4);
	fails("cat /proc/1/environ");
	fails("ls /proc/1/root/");
	fails("ls -l /proc/1/exe | grep '>'");
	fails("echo x >/proc/sys/kernel/core_pattern");
	fails("echo h >/proc/sysrq-trigger");
	fails("cat /proc/kcore | head -c 1 | grep .");
	fails("cat /proc/keys");
	fails("echo 1 >/proc/sys/net/ipv4/ip_forward");
	fails("chmod 777 /proc/sys/kernel");
	succeeds("cat /proc/cpuinfo /proc/meminfo /proc/self/status /proc/mounts >/dev/null && echo x >/proc/self/comm && nproc");
	succeeds("test \"$(cat /proc/sys/kernel/hostname)\" = bailiff");
	succeeds("ls /proc/self/fd | tr '\\n' ' '");
	ck_assert_str_eq(out, "0 1 2 3 ");
	succeeds("test $(grep -vc -e ' / rw' /proc/self/mountinfo) -gt 5; ! grep -q ' / / rw' /proc/self/mountinfo");
}
END_TEST

START_TEST(no_mounting)
{
	fails("mount -t tmpfs x /tmp");
	fails("umount /tmp");
	fails("umount -l .git/hooks");
	fails("mount -o remount,rw /");
	fails("mount --bind /tmp /etc");
	fails("unshare -m true");
	fails("chroot / true");
}
END_TEST

START_TEST(network_is_its_own)
{
	if (!has_proc())
		return;
	succeeds("cat /proc/net/dev | tail -n +3 | wc -l; grep -c . /proc/net/tcp");
	ck_assert_msg(strncmp(out, "1\n", 2) == 0, "%s", out);
	succeeds("test \"$(cat /sys/class/net/lo/operstate 2>/dev/null || echo unknown)\" = unknown");
	succeeds("python3 -c 'import socket; s = socket.create_server((\"127.0.0.1\", 0)); socket.create_connection(s.getsockname()).close()' || ! test -x /usr/bin/python3");
}
END_TEST

/* The socket listens inside, and is served from where we are. */
START_TEST(the_way_out_is_handed_over)
{
	static const char script[] = "exec 3<>/dev/tcp/127.0.0.1/61080 && echo hello >&3 && read -r answer <&3 && echo \"$answer\" && "
				     "! (: >/dev/tcp/192.0.2.1/80) 2>/dev/null";
	const char *const argv[] = { "/bin/bash", "-c", script, NULL };
	const struct plan_mount_spec mounts[] = { SYSTEM_MOUNT };
	const struct run_spec s = { .argv = argv, .flags = PLAN_PRIVATE_ROOT | PLAN_STDERR_MERGE, .mounts = mounts, .nmounts = 1,
				    .network = PLAN_NET_ALLOW };
	char text[16] = "";
	struct run run;
	run_start(&rig, &run, &s);
	ck_assert_int_ge(run.fd[GUARD_SLOT_NET], 0);
	rig_readable(run.fd[GUARD_SLOT_NET], "a connection from inside");
	fd_auto int client = accept(run.fd[GUARD_SLOT_NET], NULL, NULL);
	ck_assert_int_ge(client, 0);
	ck_assert_int_eq(read(client, text, sizeof text), 6);
	ck_assert_str_eq(text, "hello\n");
	ck_assert_int_eq(write(client, "answer\n", 7), 7);
	run_read(&run, GUARD_SLOT_STDOUT, out, sizeof out);
	ck_assert_str_eq(out, "answer\n");
	ck_assert_int_eq(run_status(&run).wait_status, 0);
	run_release(&rig, &run);
	run_close(&run);
}
END_TEST

START_TEST(empty_folders_and_trees_in_them)
{
	folder(other, "bin");
	put(other, "bin/tool", "tool\n");
	mem_auto char *bin = mem_printf("%s/bin", other), *file = mem_printf("%s/file", work), *gone = mem_printf("%s/gone", other);
	const struct plan_mount_spec mounts[] = {
		SYSTEM_MOUNT,
		{ .kind = PLAN_MOUNT_HIDE, .path = place },
		{ .kind = PLAN_MOUNT_EMPTY, .path = other },
		{ .kind = PLAN_MOUNT_READ, .path = bin, .flags = PLAN_MOUNT_OWNED },
		{ .kind = PLAN_MOUNT_READ, .path = gone, .flags = PLAN_MOUNT_OPTIONAL },
		{ .kind = PLAN_MOUNT_READ, .path = file },
	};
	char script[1200];
	snprintf(script, sizeof script,
		 "cd %s && ls -A && cat bin/tool && echo x >new && test -O new && ! echo x >bin/y && ! echo x >>bin/tool && cat %s && ! echo x >>%s && ls %s",
		 other, file, file, place);
	struct status_msg m = run_in(script, mounts, countof(mounts), other);
	ck_assert_msg(m.wait_status == 0, "%s", out);
	ck_assert_ptr_null(strstr(out, "secret"));
	ck_assert(!there(other, "new", NULL));
}
END_TEST

START_TEST(bad_plans_are_refused)
{
	mem_auto char *absent = mem_printf("%s/absent", place), *fdpath = mem_printf("/proc/self/fd/0");
	const struct plan_mount_spec bad[][2] = {
		{ SYSTEM_MOUNT, { .kind = PLAN_MOUNT_WRITE, .path = "/" } },
		{ SYSTEM_MOUNT, { .kind = PLAN_MOUNT_READ, .path = "/" } },
		{ SYSTEM_MOUNT, { .kind = PLAN_MOUNT_SYSTEM, .path = "/usr" } },
		{ SYSTEM_MOUNT, { .kind = PLAN_MOUNT_READ, .path = "/proc" } },
		{ SYSTEM_MOUNT, { .kind = PLAN_MOUNT_WRITE, .path = fdpath } },
		{ SYSTEM_MOUNT, { .kind = PLAN_MOUNT_WRITE, .path = "/dev/shm" } },
		{ SYSTEM_MOUNT, { .kind = PLAN_MOUNT_WRITE, .path = absent } },
	};
	for (size_t i = 0; i < countof(bad); i++) {
		struct status_msg m = failing(&(struct run_spec){ .argv = SH("true"), .flags = PLAN_PRIVATE_ROOT, .mounts = bad[i], .nmounts = 2,
								   .network = PLAN_NET_NONE });
		ck_assert_int_eq(m.error, i + 1 < countof(bad) ? EINVAL : ENOENT);
		ck_assert_str_eq(m.path, bad[i][1].path);
		ck_assert_uint_eq(m.step, STEP_TREES);
	}
	const struct plan_mount_spec mounts[] = { SYSTEM_MOUNT, { .kind = PLAN_MOUNT_HIDE, .path = place } };
	struct status_msg m = failing(&(struct run_spec){ .argv = SH("true"), .cwd = work, .flags = PLAN_PRIVATE_ROOT, .mounts = mounts,
							   .nmounts = 2, .network = PLAN_NET_NONE });
	ck_assert_uint_eq(m.step, STEP_CWD);
	ck_assert_int_eq(m.error, ENOENT);
}
END_TEST

/* What is mounted in a write root cannot be moved away with its parents, to be replaced. */
START_TEST(mounts_in_a_write_root)
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
	struct status_msg m = run_in("! mv a x && ! mv a/b a/x && ! mv a/b/read x && ! mv a/b/write x && ! touch a/b/read/x && touch a/b/write/x a/b/x a/x",
				     mounts, countof(mounts), work);
	ck_assert_msg(m.wait_status == 0, "%s", out);
	ck_assert(there(work, "a/b/write/x", NULL) && there(work, "a/b/x", NULL));
}
END_TEST

/* Links inside a bound tree are never followed to where something is mounted. */
START_TEST(links_in_a_write_root)
{
	mem_auto char *link = mem_printf("%s/link", work), *in_link = mem_printf("%s/link/x", work);
	ck_assert_int_eq(symlink("/etc", link), 0);
	const enum plan_mount_kind kinds[] = { PLAN_MOUNT_HIDE, PLAN_MOUNT_PROTECT, PLAN_MOUNT_EMPTY };
	const char *const paths[] = { link, in_link };
	for (size_t i = 0; i < countof(kinds) * countof(paths); i++) {
		const struct plan_mount_spec mounts[] = {
			SYSTEM_MOUNT, { .kind = PLAN_MOUNT_WRITE, .path = work }, { .kind = kinds[i / 2], .path = paths[i % 2] },
		};
		struct status_msg m = failing(&(struct run_spec){ .argv = SH("true"), .flags = PLAN_PRIVATE_ROOT, .mounts = mounts, .nmounts = 3,
								   .network = PLAN_NET_NONE });
		ck_assert_uint_eq(m.step, STEP_TREES);
		ck_assert_msg(m.error == ELOOP, "%zu: %s", i, strerror(m.error));
	}
	ck_assert(access("/etc/x", F_OK) < 0);
}
END_TEST

START_TEST(terminals_and_ipc)
{
	if (!has_proc())
		return;
	succeeds("ls /dev | tr '\\n' ' '; test -c /dev/tty && ls /dev/pts");
	ck_assert_msg(strncmp(out, "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero ptmx\n", 74) == 0, "%s", out);
	succeeds("script -qec 'tty; stty size' /dev/null </dev/null || ! command -v script");
	ck_assert_msg(strstr(out, "/dev/pts/0") || !*out, "%s", out);
	succeeds("test \"$(hostname 2>/dev/null || echo bailiff)\" = bailiff; echo a >/dev/stderr; echo b >/dev/stdout");
	ck_assert_str_eq(out, "a\nb\n");
}
END_TEST

/* Another root peer's command runs beside it as another id. */
START_TEST(ids_of_their_own)
{
	if (geteuid() != 0)
		return;
	const struct plan_mount_spec mounts[] = { SYSTEM_MOUNT };
	struct run runs[3];
	char id[3][16];
	for (int i = 0; i < 3; i++) {
		run_start(&rig, &runs[i], &(struct run_spec){ .argv = SH("id -u; sleep 1000"), .flags = PLAN_PRIVATE_ROOT, .mounts = mounts,
							       .nmounts = 1, .network = PLAN_NET_NONE });
		rig_readable(runs[i].fd[GUARD_SLOT_STDOUT], "an id");
		ck_assert_int_eq(read(runs[i].fd[GUARD_SLOT_STDOUT], id[i], 6), 6);
		id[i][5] = 0;
	}
	ck_assert_str_ne(id[0], id[1]);
	ck_assert_str_ne(id[0], id[2]);
	ck_assert_str_ne(id[1], id[2]);
	for (int i = 0; i < 3; i++) {
		run_tell(&runs[i], STATUS_KILL_TREE, 0);
		ck_assert_uint_eq(run_status(&runs[i]).kind, STATUS_EXITED);
		run_release(&rig, &runs[i]);
		run_close(&runs[i]);
	}
	rig_sync(&rig);
	const struct plan_mount_spec again[] = { SYSTEM_MOUNT };
	run_in("id -u", again, 1, "/");
	ck_assert_int_eq(strncmp(out, id[0], 5), 0);
}
END_TEST

int main(int argc, char **argv)
{
	int role = rig_role(argc, argv);
	if (role >= 0)
		return role;
	Suite *s = suite_create("private_root");
	for (int i = 0; i < 2; i++) {
		TCase *t = tcase_create(i ? "ahead" : "runs");
		tcase_add_checked_fixture(t, i ? setup_ahead : setup, teardown);
		tcase_set_timeout(t, 300);
		tcase_add_test(t, never_root_and_known_by_name);
		tcase_add_test(t, system_is_read_only);
		tcase_add_test(t, write_root_belongs_to_the_peer);
		tcase_add_test(t, nothing_beside_it);
		tcase_add_test(t, protected_paths_hold);
		tcase_add_test(t, hidden_files_and_folders);
		tcase_add_test(t, missing_hidden_paths_leave_nothing);
		tcase_add_test(t, placeholders_that_were_replaced_stay);
		tcase_add_test(t, placeholders_are_shared);
		tcase_add_test(t, other_users_are_themselves);
		tcase_add_test(t, hostile_plans_give_no_more_than_the_peer_has);
		tcase_add_test(t, private_tmp);
		tcase_add_test(t, tmp_is_limited);
		tcase_add_test(t, own_processes_and_masked_proc);
		tcase_add_test(t, no_mounting);
		tcase_add_test(t, network_is_its_own);
		tcase_add_test(t, the_way_out_is_handed_over);
		tcase_add_test(t, empty_folders_and_trees_in_them);
		tcase_add_test(t, bad_plans_are_refused);
		tcase_add_test(t, mounts_in_a_write_root);
		tcase_add_test(t, links_in_a_write_root);
		tcase_add_test(t, terminals_and_ipc);
		tcase_add_test(t, ids_of_their_own);
		suite_add_tcase(s, t);
	}
	SRunner *runner = srunner_create(s);
	srunner_run_all(runner, CK_ENV);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
