/* The file tree of a command, and its private parts: /tmp, /proc, /dev, the network. */

#include "tests/unit/supervisor/spawner/private_root.h"

START_TEST(the_system_is_read_only)
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
	succeeds("ls /usr/bin/env /etc/passwd /bin/sh && echo x >/dev/null && head -c 4 /dev/zero >/dev/null && head "
		 "-c 1 /dev/urandom >/dev/null");
	succeeds("test -z \"$(ls -A /run)\" && test -z \"$(ls -A /home 2>/dev/null)\" && ! test -e /boot && ! test -e "
		 "/mnt && ! test -e /media");
}
END_TEST

START_TEST(files_next_to_the_workspace_are_hidden)
{
	char script[300];
	snprintf(script, sizeof script, "ls -A %s; cat %s/secret", place, other);
	fails(script);
	ck_assert_msg(strncmp(out, "work\n", 5) == 0, "%s", out);
	ck_assert_ptr_null(strstr(out, "secret\n"));
	if (geteuid() == 0) { /* the tree of a plain user is below the private /var/tmp */
		snprintf(script, sizeof script, "touch %s/x", place);
		fails(script);
		snprintf(script, sizeof script, "mkdir %s", other);
		fails(script);
	}
	succeeds("test -z \"$(ls -A /root 2>/dev/null)\"");
}
END_TEST

START_TEST(tmp_directories_are_private)
{
	put("/tmp", "rig-private-tmp", "outside\n");
	succeeds("test -z \"$(ls -A /tmp /var/tmp /dev/shm | grep -v -e : -e ^rig-root- | grep .)\" && echo x "
		 ">/tmp/rig-inside "
		 "&& echo x >/var/tmp/b && echo x >/dev/shm/c"
		 " && test -z \"$(ls -A /tmp | grep -v '^rig-inside$')\"");
	unlink("/tmp/rig-private-tmp");
	ck_assert(access("/tmp/rig-inside", F_OK) < 0);
	succeeds("test -z \"$(ls -A /tmp)\"");

	char below[] = "/tmp/rig-below-XXXXXX";
	ck_assert_ptr_nonnull(mkdtemp(below));
	const struct plan_mount_spec mounts[] = { SYSTEM_MOUNT, { .kind = PLAN_MOUNT_WRITE, .path = below } };
	struct status_msg m = run_in("echo hi >here && ls /tmp | wc -l && echo x >/tmp/x && ! rmdir . 2>/dev/null",
				     mounts, countof(mounts), below);
	ck_assert_msg(m.wait_status == 0, "%s", out);
	ck_assert_str_eq(out, "1\n");
	ck_assert(there(below, "here", NULL));
	nftw(below, unlink_one, 4, FTW_DEPTH | FTW_PHYS);
}
END_TEST

START_TEST(the_size_of_tmp_is_limited)
{
	const struct plan_mount_spec mounts[] = { SYSTEM_MOUNT };
	struct run run;
	run_start(&rig, &run,
		  &(struct run_spec){ .argv = SH("head -c 3000000 /dev/zero >/tmp/a || echo full; rm /tmp/a; "
						 "i=0; while echo >/tmp/$i 2>/dev/null && test $i -lt 3000; do "
						 "i=$((i+1)); done; echo $i"),
				      .flags = PLAN_PRIVATE_ROOT,
				      .mounts = mounts,
				      .nmounts = 1,
				      .network = PLAN_NET_NONE,
				      .tmp_bytes = 1 << 20 });
	run_read(&run, GUARD_SLOT_STDOUT, out, sizeof out);
	ck_assert(strncmp(out, "full\n", 5) == 0);
	ck_assert_int_lt(strtol(out + 5, NULL, 10), 1024);
	run_status(&run);
	run_release(&rig, &run);
	run_close(&run);
}
END_TEST

START_TEST(only_own_processes_are_visible_and_proc_is_masked)
{
	SKIP_IF(!has_proc(), "sandboxes have no /proc here");
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
	succeeds("cat /proc/cpuinfo /proc/meminfo /proc/self/status /proc/mounts >/dev/null && echo x >/proc/self/comm "
		 "&& nproc");
	succeeds("test \"$(cat /proc/sys/kernel/hostname)\" = bailiff");
	succeeds("ls /proc/self/fd | tr '\\n' ' '");
	ck_assert_str_eq(out, "0 1 2 3 ");
	succeeds("test $(grep -vc -e ' / rw' /proc/self/mountinfo) -gt 5; ! grep -q ' / / rw' /proc/self/mountinfo");
}
END_TEST

START_TEST(nothing_can_be_mounted)
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

START_TEST(the_network_is_private)
{
	SKIP_IF(!has_proc(), "sandboxes have no /proc here");
	succeeds("cat /proc/net/dev | tail -n +3 | wc -l; grep -c . /proc/net/tcp");
	ck_assert_msg(strncmp(out, "1\n", 2) == 0, "%s", out);
	succeeds("test \"$(cat /sys/class/net/lo/operstate 2>/dev/null || echo unknown)\" = unknown");
	succeeds("python3 -c 'import socket; s = socket.create_server((\"127.0.0.1\", 0)); "
		 "socket.create_connection(s.getsockname()).close()' || ! test -x /usr/bin/python3");
}
END_TEST

/* The socket listens inside the sandbox and is served from outside. */
START_TEST(the_proxy_socket_is_handed_over)
{
	static const char script[] =
		"exec 3<>/dev/tcp/127.0.0.1/61080 && echo hello >&3 && read -r answer <&3 && echo \"$answer\" && "
		"! (: >/dev/tcp/192.0.2.1/80) 2>/dev/null";
	const char *const argv[] = { "/bin/bash", "-c", script, NULL };
	const struct plan_mount_spec mounts[] = { SYSTEM_MOUNT };
	const struct run_spec s = { .argv = argv,
				    .flags = PLAN_PRIVATE_ROOT | PLAN_STDERR_MERGE,
				    .mounts = mounts,
				    .nmounts = 1,
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

START_TEST(trees_can_be_mounted_in_empty_directories)
{
	folder(other, "bin");
	put(other, "bin/tool", "tool\n");
	mem_auto char *bin = mem_printf("%s/bin", other), *file = mem_printf("%s/file", work),
		      *gone = mem_printf("%s/gone", other);
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
		 "cd %s && ls -A && cat bin/tool && echo x >new && test -O new && ! echo x >bin/y && ! echo x "
		 ">>bin/tool && cat %s && ! echo x >>%s && ls %s",
		 other, file, file, place);
	struct status_msg m = run_in(script, mounts, countof(mounts), other);
	ck_assert_msg(m.wait_status == 0, "%s", out);
	ck_assert_ptr_null(strstr(out, "secret"));
	ck_assert(!there(other, "new", NULL));
}
END_TEST

START_TEST(invalid_plans_are_rejected)
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
	/* The first one is not tried as root: it would contain the daemon's own directory. */
	for (size_t i = geteuid() == 0; i < countof(bad); i++) {
		struct status_msg m = failing(&(struct run_spec){ .argv = SH("true"),
								  .flags = PLAN_PRIVATE_ROOT,
								  .mounts = bad[i],
								  .nmounts = 2,
								  .network = PLAN_NET_NONE });
		ck_assert_int_eq(m.error, i + 1 < countof(bad) ? EINVAL : ENOENT);
		ck_assert_str_eq(m.path, bad[i][1].path);
		ck_assert_uint_eq(m.step, STEP_TREES);
	}
	const struct plan_mount_spec mounts[] = { SYSTEM_MOUNT, { .kind = PLAN_MOUNT_HIDE, .path = place } };
	struct status_msg m = failing(&(struct run_spec){ .argv = SH("true"),
							  .cwd = work,
							  .flags = PLAN_PRIVATE_ROOT,
							  .mounts = mounts,
							  .nmounts = 2,
							  .network = PLAN_NET_NONE });
	ck_assert_uint_eq(m.step, STEP_CWD);
	ck_assert_int_eq(m.error, ENOENT);
}
END_TEST

START_TEST(terminals_and_devices_are_private)
{
	SKIP_IF(!has_proc(), "sandboxes have no /proc here");
	succeeds("ls /dev | tr '\\n' ' '; test -c /dev/tty && ls /dev/pts");
	ck_assert_msg(
		strncmp(out, "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero ptmx\n", 74) == 0,
		"%s", out);
	succeeds("script -qec 'tty; stty size' /dev/null </dev/null || ! command -v script");
	ck_assert_msg(strstr(out, "/dev/pts/0") || !*out, "%s", out);
	succeeds(
		"test \"$(hostname 2>/dev/null || echo bailiff)\" = bailiff; echo a >/dev/stderr; echo b >/dev/stdout");
	ck_assert_str_eq(out, "a\nb\n");
}
END_TEST

int main(int argc, char **argv)
{
	return PRIVATE_ROOT_SUITE(argc, argv, "private_root", the_system_is_read_only,
				  files_next_to_the_workspace_are_hidden, tmp_directories_are_private,
				  the_size_of_tmp_is_limited, only_own_processes_are_visible_and_proc_is_masked,
				  nothing_can_be_mounted, the_network_is_private, the_proxy_socket_is_handed_over,
				  trees_can_be_mounted_in_empty_directories, invalid_plans_are_rejected,
				  terminals_and_devices_are_private);
}
