/* What a compromised runtime must not get, one request per claim. Random ones: test_compromised_random.c. */

#include "tests/unit/supervisor/spawner/compromised.h"

#include "sandbox/change_list.h"
#include "sandbox/landlock.h"
#include "supervisor/spawner/peer_files.h"

#include <grp.h>
#include <sys/mman.h>
#include <sys/un.h>

static void list_for_root(const char *text, mode_t mode)
{
	char path[128];
	snprintf(path, sizeof path, "%s/root-write-roots", config);
	fd_auto int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ck_assert_int_eq(fd_write_all(fd, text, strlen(text)), 0);
	ck_assert_int_eq(fchmod(fd, mode), 0);
}

static bool reads(const char *path) { return started(PLAN_MOUNT_READ, PLAN_MOUNT_OWNED, path); }

static void disconnect_client(void) { fd_close(&rig.client[1]); }

static void reconnect_client(void)
{
	fd_close(&rig.client[0]);
	fd_close(&rig.client[1]);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, rig.client), 0);
}

/* A plan cannot omit the filter, Landlock or the loss of privileges, for any peer. */
START_TEST(no_layer_can_be_omitted)
{
	const struct plan_mount_spec mounts[] = {
		SYSTEM_MOUNT, { .kind = PLAN_MOUNT_WRITE, .path = work, .flags = PLAN_MOUNT_OWNED }
	};
	const uint32_t wanted = PLAN_LAYER_SECCOMP | PLAN_LAYER_CAPABILITIES |
				(landlock_abi() ? PLAN_LAYER_LANDLOCK : 0);
	struct run run;
	run_send(&rig, &run,
		 &(struct run_spec){ .argv = SH("test -e /proc/self || exit 0; s=$(cat /proc/self/status); for w in "
						"'Seccomp:.2' 'NoNewPrivs:.1' 'CapEff:.0*$' 'CapPrm:.0*$' "
						"'CapBnd:.0*$' 'CapAmb:.0*$'; do echo \"$s\" | grep -q \"$w\" || echo "
						"no $w; done; test $(id -u) != 0 || echo root; "
						"chmod u+s /bin/sh 2>/dev/null && echo chmod; touch x; chmod 4755 x "
						"2>/dev/null && echo setuid; true"),
				     .cwd = work,
				     .flags = PLAN_PRIVATE_ROOT | PLAN_STDERR_MERGE,
				     .mounts = mounts,
				     .nmounts = countof(mounts),
				     .less_layers = ~0u });
	run_answer(&rig, &run);
	ck_assert_msg(run.answer.kind == SPAWN_STARTED, "%s", run.answer.path);
	struct status_msg m = run_status(&run);
	ck_assert_uint_eq(m.kind, STATUS_READY);
	ck_assert_uint_eq(m.layers & wanted, wanted);
	run_open_gate(&run);
	run_read(&run, GUARD_SLOT_STDOUT, out, sizeof out);
	ck_assert_str_eq(out, "");
	run_release(&rig, &run);
	run_close(&run);
}
END_TEST

START_TEST(root_cannot_write_system_directories_and_homes)
{
	static const char *const shut[] = { "/etc",           "/etc/cron.d",   "/usr",     "/usr/bin",
					    "/usr/local/bin", "/var",          "/var/lib", "/var/spool/cron",
					    "/opt",           "/boot",         "/run",     "/root",
					    "/root/.ssh",     "/root/project", "/home",    "/home/another",
					    "/etc/passwd",    "/lib",          "/" };
	SKIP_IF(geteuid() != 0, "requires root");
	ck_assert(writes(work));
	for (size_t i = 0; i < countof(shut); i++)
		ck_assert_msg(!writes(shut[i]), "%s", shut[i]);
	struct spawn_msg m = ask(PLAN_MOUNT_WRITE, 0, "/root/project", "true");
	ck_assert_int_eq(m.error, EPERM);
	ck_assert_msg(strstr(m.path, "/root/project") && strstr(m.path, "root-write-roots"), "%s", m.path);
	/* Nor can they be read with mapped ownership, which would amount to reading them as root. */
	ck_assert(!reads("/etc/shadow") && !reads("/etc") && !reads("/run") && !reads("/var/lib"));
	ck_assert(started(PLAN_MOUNT_READ, 0, "/etc"));
}
END_TEST

/* A list that other users can write, itself or its directory, is not used. */
START_TEST(root_can_list_more_write_roots)
{
	char listed[] = "/var/lib/rig-taken-XXXXXX", text[128];
	SKIP_IF(geteuid() != 0, "requires root");
	ck_assert_ptr_nonnull(mkdtemp(listed));
	snprintf(text, sizeof text, "# for CI\n\n  %s/  # and below\nnot/absolute\n", listed);
	ck_assert(!writes(listed));
	list_for_root(text, 0644);
	ck_assert(writes(listed));
	ck_assert(!writes("/var/lib"));
	list_for_root(text, 0664);
	ck_assert(!writes(listed));
	list_for_root(text, 0600);
	ck_assert(writes(listed));
	ck_assert_int_eq(chmod(config, 0777), 0);
	ck_assert(!writes(listed));
	ck_assert_int_eq(chmod(config, 0755), 0);
	/* The daemon's own directories cannot be listed. */
	list_for_root("/\n", 0600);
	ck_assert(writes(listed));
	ck_assert(!writes(config) && !writes(state) && !writes(top));
	snprintf(text, sizeof text, "%s/root-write-roots", config);
	ck_assert(!writes(text) && !reads(text) && !reads(config));
	rmdir(listed);
}
END_TEST

START_TEST(the_socket_of_a_disconnected_client_has_no_authority)
{
	SKIP_IF(geteuid() != 0, "requires root");
	ck_assert(writes(work));
	disconnect_client();
	struct spawn_msg m = ask(PLAN_MOUNT_WRITE, PLAN_MOUNT_OWNED, other, "true");
	ck_assert_uint_eq(m.kind, SPAWN_FAILED);
	ck_assert_int_eq(m.error, EPERM);
	ck_assert(!reads(other) && !reads("/root") && !reads("/root/.ssh"));
	ck_assert(writes(work)); /* authorised while it was connected */
	reconnect_client();
	ck_assert(writes(other));
}
END_TEST

/* Where commands without a sandbox are permitted. */
START_TEST(a_disconnected_client_cannot_run_commands_without_a_sandbox)
{
	struct run run;
	SKIP_IF(geteuid() != 0, "requires root");
	rig_stop(&rig);
	unsetenv("RIG_NO_HOST");
	rig_start(&rig);
	run_start(&rig, &run, &(struct run_spec){ .argv = SH("true") });
	run_release(&rig, &run);
	run_close(&run);
	disconnect_client();
	run_send(&rig, &run, &(struct run_spec){ .argv = SH("true") });
	run_answer(&rig, &run);
	ck_assert_uint_eq(run.answer.kind, SPAWN_FAILED);
	ck_assert_int_eq(run.answer.error, EPERM);
	run_release(&rig, &run);
	run_close(&run);
}
END_TEST

/* Sends a grant and waits until it is handled. */
static void grant(const char *paths, size_t len)
{
	struct spawn_msg m = { .kind = SPAWN_GRANT };
	int done[2];
	char byte;
	ck_assert_int_eq(pipe2(done, O_CLOEXEC), 0);
	int fds[GRANT_FDS] = { rig.client[0], fd_memfd_sealed("paths", paths, len), done[1] };
	ck_assert_int_eq(fd_send(rig.peer, &m, sizeof m, fds, GRANT_FDS, 0), 0);
	close(done[1]);
	close(fds[GRANT_FD_PATHS]);
	rig_readable(done[0], "the confirmation of the grant");
	ck_assert_int_eq(read(done[0], &byte, 1), 1);
	close(done[0]);
}

START_TEST(roots_grants_survive_the_spawner)
{
	char paths[200];
	SKIP_IF(geteuid() != 0, "requires root");
	int n = snprintf(paths, sizeof paths, "%s%c/etc%c%s/../etc", other, 0, 0, top);
	grant(paths, (size_t)n + 1);
	disconnect_client();
	ck_assert(writes(other) && !writes(work) && !writes("/etc"));
	grant(work, strlen(work) + 1); /* of a client that has disconnected */
	ck_assert(!writes(work));
	kill(rig_spawner_pid(&rig), SIGKILL);
	rig_take_new_peer(&rig);
	rig_sync(&rig);
	ck_assert(writes(other) && !writes(work));
	/* A malformed list authorises nothing. */
	char list[128];
	snprintf(list, sizeof list, "%s/root-authority", state);
	fd_auto int fd = open(list, O_WRONLY | O_TRUNC | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fd_write_all(fd, "99999999999 /\0/\0x /\0", 20), 0);
	kill(rig_spawner_pid(&rig), SIGKILL);
	rig_take_new_peer(&rig);
	rig_sync(&rig);
	ck_assert(!writes(other));
}
END_TEST

/* A socket of a process that was root when it created it and dropped root then, like the daemon's exporter; it lives
 * until the test ends. */
static int socket_of_former_root(void)
{
	int meet[2], fd = -1;
	size_t n = 1;
	char byte;
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, meet), 0);
	pid_t pid = fork();
	if (pid == 0) {
		int pair[2];
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 || setgroups(0, NULL) < 0 ||
		    setresgid(65533, 65533, 65533) < 0 || setresuid(65533, 65533, 65533) < 0 ||
		    fd_send(meet[1], "", 1, pair, 1, 0) < 0)
			_exit(1);
		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		for (;;)
			pause();
	}
	ck_assert_int_eq(fd_recv(meet[0], &byte, 1, &fd, &n, 0), 1);
	close(meet[0]);
	close(meet[1]);
	return fd;
}

START_TEST(a_peer_that_dropped_root_has_no_authority)
{
	SKIP_IF(geteuid() != 0, "requires root");
	close(rig.client[0]);
	rig.client[0] = socket_of_former_root();
	ck_assert(!writes(work));
	ck_assert(started(PLAN_MOUNT_READ, 0, work)); /* where no authority of root is needed */
}
END_TEST

/* Neither root's policy nor files of the host are written for a root client that has disconnected. */
START_TEST(other_requests_need_a_client_too)
{
	struct peer_files_write w = { 0 };
	int answer[2];
	SKIP_IF(geteuid() != 0, "requires root");
	disconnect_client();
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, answer), 0);
	int look[PEER_FILES_FDS] = { fd_memfd_sealed("request", &w, sizeof w), rig.client[0], answer[1] };
	struct spawn_msg m = { .kind = SPAWN_PEER_FILES, .op = PEER_FILES_WRITE };
	ck_assert_int_eq(fd_send(rig.peer, &m, sizeof m, look, PEER_FILES_FDS, 0), 0);
	close(answer[1]);
	char byte;
	rig_readable(answer[0], "the end of the look");
	ck_assert_int_eq(recv(answer[0], &byte, 1, 0), 0);
	int changes[4] = { look[0], memfd_create("result", MFD_CLOEXEC | MFD_ALLOW_SEALING), rig.client[0], look[0] };
	static const enum change_op ops[] = { CHANGE_OP_APPLY, CHANGE_OP_UNDO, CHANGE_OP_REVERT };
	for (size_t i = 0; i < countof(ops); i++) {
		m = (struct spawn_msg){ .kind = SPAWN_CHANGES, .op = ops[i], .key = { .id = "proc_x" } };
		ck_assert_int_eq(fd_send(rig.peer, &m, sizeof m, changes, 3 + (ops[i] == CHANGE_OP_REVERT), 0), 0);
		rig_readable(rig.peer, "an answer");
		ck_assert_int_eq(fd_recv(rig.peer, &m, sizeof m, NULL, NULL, 0), sizeof m);
		ck_assert_int_eq(m.error, EPERM);
	}
	close(look[0]);
	close(changes[1]);
	close(answer[0]);
}
END_TEST

/* A command created a link in its directory to files that only root can read. */
START_TEST(links_do_not_lead_to_files_of_root)
{
	char link[120];
	SKIP_IF(geteuid() != 0, "requires root");
	snprintf(link, sizeof link, "%s/link", work);
	ck_assert_int_eq(symlink("/etc", link), 0);
	ck_assert(writes(work));
	static const uint32_t flags[] = { PLAN_MOUNT_OWNED, PLAN_MOUNT_OWNED | PLAN_MOUNT_OPTIONAL };
	for (size_t i = 0; i < 2 * countof(flags); i++) {
		char script[200];
		if (i == countof(flags))
			disconnect_client();
		snprintf(script, sizeof script, "test -r %s/shadow && echo readable; true", link);
		out[0] = 0;
		ask(PLAN_MOUNT_READ, flags[i % countof(flags)], link, script);
		ck_assert_str_eq(out, "");
	}
}
END_TEST

/* The runtime connects to a service of root: that is not a client, whatever the name of its socket. */
START_TEST(a_service_of_root_is_not_a_client)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	SKIP_IF(geteuid() != 0, "requires root");
	snprintf(name.sun_path, sizeof name.sun_path, "%s/service", top);
	fd_auto int service = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(service, (struct sockaddr *)&name, sizeof name), 0);
	ck_assert_int_eq(listen(service, 1), 0);
	ck_assert(writes(work));
	close(rig.client[0]);
	rig.client[0] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(connect(rig.client[0], (struct sockaddr *)&name, sizeof name), 0);
	struct spawn_msg m = ask(PLAN_MOUNT_WRITE, PLAN_MOUNT_OWNED, work, "true");
	ck_assert_uint_eq(m.kind, SPAWN_FAILED);
	ck_assert_int_eq(m.error, EPERM);
}
END_TEST

int main(int argc, char **argv)
{
	return RIG_SUITE(argc, argv, "compromised", "runtime", setup, teardown, 3000, no_layer_can_be_omitted,
			 root_cannot_write_system_directories_and_homes, root_can_list_more_write_roots,
			 the_socket_of_a_disconnected_client_has_no_authority,
			 a_disconnected_client_cannot_run_commands_without_a_sandbox, roots_grants_survive_the_spawner,
			 a_peer_that_dropped_root_has_no_authority, other_requests_need_a_client_too,
			 links_do_not_lead_to_files_of_root, a_service_of_root_is_not_a_client);
}
