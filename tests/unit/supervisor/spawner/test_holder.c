/* Members of a holder share its sandbox; each of them ends completely and without affecting others. */

#include "tests/unit/supervisor/spawner/private_root.h"

#include "sandbox/autorun.h"
#include "supervisor/spawner/member_msg.h"

#include <sys/wait.h>

static struct run holder;
static bool long_plans;  /* as if plans did not fit in the message */
static bool full_status; /* READY waits until the status socket is read */

static struct run_spec spec_of(const char *script, uint32_t flags)
{
	static struct plan_mount_spec mounts[2];
	mounts[0] = (struct plan_mount_spec)SYSTEM_MOUNT;
	mounts[1] = (struct plan_mount_spec){ .kind = PLAN_MOUNT_WRITE, .path = work, .flags = PLAN_MOUNT_OWNED };
	static const char *argv[4] = { "sh", "-c" };
	argv[2] = script;
	return (struct run_spec){ .argv = argv,
				  .flags = PLAN_PRIVATE_ROOT | flags,
				  .mounts = mounts,
				  .nmounts = countof(mounts),
				  .network = PLAN_NET_NONE };
}

static void start_holder(void)
{
	const struct run_spec s = spec_of("", PLAN_HOLDER | PLAN_STDIN_PIPE | PLAN_STDERR_MERGE);
	run_start(&rig, &holder, &s);
}

static void end_holder(void)
{
	run_send_status(&holder, STATUS_KILL_TREE, 0);
	ck_assert_uint_eq(run_status(&holder).kind, STATUS_EXITED);
	run_release(&rig, &holder);
	run_close(&holder);
}

/* Sends a start; stdout and stderr are one pipe. */
static void member_send(struct run *run, const struct run_spec *s)
{
	int out_pipe[2], gate[2], status[2];
	*run = (struct run){ .key.attempt = 1 };
	for (int i = 0; i < GUARD_SLOT_COUNT; i++)
		run->fd[i] = -1;
	snprintf(run->key.id, sizeof run->key.id, "proc_%d_%u", getpid(), rig.started++);
	ck_assert(pipe2(out_pipe, O_CLOEXEC) == 0 && pipe2(gate, O_CLOEXEC) == 0);
	ck_assert_int_eq(fchmod(out_pipe[1], 0222), 0);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, status), 0);
	static const char filler[1000];
	ck_assert_int_eq(full_status ? setsockopt(status[1], SOL_SOCKET, SO_SNDBUF, &(int){ 1 }, sizeof(int)) : 0, 0);
	while (full_status && send(status[1], filler, sizeof filler, MSG_DONTWAIT) > 0)
		continue;
	run->fd[GUARD_SLOT_STDOUT] = out_pipe[0];
	run->fd[GUARD_SLOT_STATUS] = status[0];
	run->fd[GUARD_SLOT_GATE] = gate[1];
	int plan = run_plan(s);
	char text[SPAWN_INLINE_MAX];
	ssize_t len = pread(plan, text, sizeof text, 0);
	ck_assert(len > 0 && len < (ssize_t)sizeof text);
	const int fds[MEMBER_FDS] = { [MEMBER_FD_PLAN] = long_plans ? plan : -1,
				      [MEMBER_FD_STATUS] = status[1],
				      [MEMBER_FD_GATE] = gate[0],
				      [MEMBER_FD_OUT] = out_pipe[1],
				      [MEMBER_FD_ERR] = -1,
				      [MEMBER_FD_IN] = -1,
				      [MEMBER_FD_LIMITS] = -1 };
	ck_assert_int_eq(member_msg_send_start(holder.fd[GUARD_SLOT_STDIN], &run->key, long_plans ? NULL : text,
					       (size_t)len, fds),
			 0);
	close(plan);
	close(status[1]);
	close(gate[0]);
	close(out_pipe[1]);
}

static void member_start(struct run *run, const char *script, uint32_t flags)
{
	const struct run_spec s = spec_of(script, PLAN_MEMBER | PLAN_STDERR_MERGE | flags);
	member_send(run, &s);
	struct status_msg m = run_status(run);
	ck_assert_msg(m.kind == STATUS_READY, "%s: %s", m.path, strerror(m.error));
	fd_close(&run->fd[GUARD_SLOT_PTY]); /* the pidfd of its leader */
	run_open_gate(run);
	m = run_status(run);
	ck_assert_msg(m.kind == STATUS_EXECED, "not executed: %s: %s", m.path, strerror(m.error));
}

/* Reads the last message of a member, and checks the end of its status socket. */
static struct status_msg member_end(struct run *run)
{
	run_read(run, GUARD_SLOT_STDOUT, out, sizeof out);
	struct status_msg m = run_status(run);
	ck_assert_uint_eq(m.kind, STATUS_EXITED);
	ck_assert_uint_eq(run_status(run).kind, 0);
	run_close(run);
	return m;
}

static struct status_msg member_run(const char *script)
{
	struct run run;
	member_start(&run, script, 0);
	return member_end(&run);
}

START_TEST(members_share_the_sandbox)
{
	start_holder();
	ck_assert_int_eq(member_run("echo one >/tmp/x; echo two >/dev/shm/y; exit 3").wait_status, 3 << 8);
	ck_assert_int_eq(member_run("cat /tmp/x /dev/shm/y").wait_status, 0);
	ck_assert_str_eq(out, "one\ntwo\n");
	struct run server;
	member_start(&server, "echo $$ >/tmp/pid; exec sleep 1000", 0);
	ck_assert_int_eq(member_run("while ! test -s /tmp/pid; do sleep 0.01; done; ls /proc/$(cat /tmp/pid)/comm && "
				    "kill -TERM $(cat /tmp/pid)")
				 .wait_status,
			 0);
	ck_assert_int_eq(member_end(&server).wait_status, SIGTERM);
	ck_assert_int_eq(member_run("echo a >/dev/stderr; echo b >/dev/stdout").wait_status, 0);
	ck_assert_str_eq(out, "a\nb\n");
	end_holder();
}
END_TEST

/* A member has its own usage figures, descriptors and tree, even after another member of the same leader. */
START_TEST(a_leader_is_used_for_several_members)
{
	char first[32];
	struct run server;
	start_holder();
	struct status_msg m = member_run("echo $PPID; echo x >/tmp/x; umask 077; ulimit -n 99; cd /; exec 7</tmp/x");
	ck_assert_int_eq(m.wait_status, 0);
	bool cheap = m.user_us + m.system_us < 10000; /* otherwise its leader exits */
	snprintf(first, sizeof first, "%.31s", out);
	m = member_run("head -c 24000000 /dev/zero | tail -c 24000000 | head -c 0; echo $PPID");
	ck_assert_int_eq(strcmp(out, first) == 0, cheap);
	uint64_t much = m.max_rss_bytes;
	m = member_run("echo $PPID $(umask) $(test $(ulimit -n) = 99 && echo low) $(test -e /dev/fd/7 && echo open)");
	ck_assert_int_eq(strtol(out, NULL, 10) > 0, 1);
	ck_assert_str_eq(strchr(out, ' '), " 0022\n");
	ck_assert_uint_lt(m.max_rss_bytes, much);
	/* Concurrent members, and members after one that left processes, have their own leaders. */
	member_start(&server, "echo $PPID; sleep 1014", 0);
	ck_assert_int_eq(member_run("echo $PPID; setsid sleep 1015 &").wait_status, 0);
	char second[32];
	snprintf(second, sizeof second, "%.31s", out);
	ck_assert_int_eq(member_msg_send_kill(holder.fd[GUARD_SLOT_STDIN], &server.key), 0);
	ck_assert_int_eq(member_end(&server).wait_status, SIGKILL);
	ck_assert_str_ne(out, second);
	/* A plan in a file needs a new leader. */
	long_plans = true;
	ck_assert_int_eq(member_run("echo $PPID").wait_status, 0);
	long_plans = false;
	ck_assert_str_ne(out, second);
	end_holder();
}
END_TEST

/* Commands can change attributes that the next member of their leader would inherit. It gets another leader. */
START_TEST(a_changed_leader_is_not_used_again)
{
	static const char *const changes[] = {
		"prlimit -p $PPID --nofile=5:5", /* it could not even receive a plan */
		"prlimit -p $PPID --fsize=4096:4096",
		"prlimit -p $PPID --core=0:0",
		"renice 19 -p $PPID",
		"chrt -b -p 0 $PPID",
		"chrt -i -p 0 $PPID",
		"ionice -c 3 -p $PPID",
		"taskset -cp $cpu $PPID",
	};
	static const char state[] =
		"ulimit -a; ulimit -H -a; nice; chrt -p $$ | sed s/.*:/:/; ionice; taskset -p $PPID | sed s/.*:/:/";
	static char before[sizeof out];
	char script[200];
	start_holder();
	ck_assert_int_eq(member_run(state).wait_status, 0);
	memcpy(before, out, sizeof out);
	for (size_t i = 0; i < countof(changes); i++) {
		ck_assert_int_eq(member_run("true").wait_status, 0);
		snprintf(script, sizeof script, "cpu=$(taskset -cp $PPID | sed 's/.*: //; s/[-,].*//'); %s >/dev/null",
			 changes[i]);
		ck_assert_msg(member_run(script).wait_status == 0, "%s: %s", script, out);
		ck_assert_int_eq(member_run(state).wait_status, 0);
		ck_assert_msg(strcmp(out, before) == 0, "%s:\n%s\nbefore:\n%s", changes[i], out, before);
	}
	end_holder();
}
END_TEST

/* Members can also signal waiting leaders; such a leader may have exited already. */
START_TEST(a_killed_or_stopped_waiting_leader_does_not_affect_the_next_member)
{
	static const char *const signals[] = { "KILL", "STOP" };
	char script[2 * PATH_MAX], go[PATH_MAX];
	struct run other_one;
	start_holder();
	for (size_t i = 0; i < countof(signals); i++) {
		snprintf(go, sizeof go, "%s/go%zu", work, i);
		snprintf(script, sizeof script,
			 "until test -e %s; do sleep 0.01; done; pid=$(cat /tmp/idle); kill -%s $pid || ! test -d "
			 "/proc/$pid",
			 go, signals[i]);
		member_start(&other_one, script, 0);
		ck_assert_int_eq(member_run("echo $PPID >/tmp/idle").wait_status, 0);
		fd_auto int fd = open(go, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
		ck_assert_int_ge(fd, 0);
		ck_assert_int_eq(member_end(&other_one).wait_status, 0);
		ck_assert_int_eq(member_run("while test -d /proc/$(cat /tmp/idle); do sleep 0.01; done").wait_status,
				 0);
	}
	end_holder();
}
END_TEST

START_TEST(a_member_ends_with_its_whole_tree_and_no_other_member)
{
	struct run other_one, tree;
	start_holder();
	member_start(&other_one, "sleep 1000 & echo $! >/tmp/other; wait; echo survived", 0);
	/* Processes that it leaves are killed with it: children, their children, new sessions. */
	struct status_msg m = member_run(
		"for i in 1 2 3; do setsid sh -c 'sleep 1001 & sleep 1002' & done; sleep 0.1; echo x");
	ck_assert_int_eq(m.wait_status, 0);
	ck_assert_uint_ge(m.left_behind, 3);
	ck_assert_int_ne(member_run("grep -l 'sleep.100[12]' /proc/[0-9]*/cmdline").wait_status, 0);
	/* So is the whole tree of a killed member. */
	member_start(&tree, "setsid sh -c 'sleep 1003 & sleep 1004' & while :; do sleep 1005 & sleep 0.01; done", 0);
	ck_assert_int_eq(member_run("until grep -q 'sleep.1004' /proc/[0-9]*/cmdline; do sleep 0.01; done").wait_status,
			 0);
	run_send_status(&tree, STATUS_KILL_TREE, 0);
	m = member_end(&tree);
	ck_assert_uint_eq(m.cause, STATUS_CAUSE_KILLED);
	ck_assert_int_ne(member_run("grep -l 'sleep.100[345]' /proc/[0-9]*/cmdline").wait_status, 0);
	ck_assert_int_eq(member_run("kill $(cat /tmp/other)").wait_status, 0);
	ck_assert_int_eq(member_end(&other_one).wait_status, 0);
	ck_assert_str_eq(out, "survived\n");
	end_holder();
}
END_TEST

/* Members have the same user, so one can kill the leader of another; its tree still ends. */
START_TEST(the_tree_of_a_killed_leader_ends)
{
	struct run victim;
	start_holder();
	member_start(&victim, "echo $PPID >/tmp/leader; setsid sleep 1006 & sleep 1007", 0);
	ck_assert_int_eq(
		member_run("until test -s /tmp/leader && grep -q 'sleep.1006' /proc/[0-9]*/cmdline; do sleep 0.01; "
			   "done; kill -KILL $(cat /tmp/leader)")
			.wait_status,
		0);
	struct status_msg m = member_end(&victim);
	ck_assert_int_eq(m.wait_status, SIGKILL);
	ck_assert_uint_eq(m.autorun, AUTORUN_FAILED); /* only the leader could compare the files */
	ck_assert_int_ne(member_run("grep -l 'sleep.100[67]' /proc/[0-9]*/cmdline").wait_status, 0);
	/* A stopped leader would not enforce limits. */
	ck_assert_int_eq(member_run("sleep 0.1; kill -STOP $PPID; sleep 1013").wait_status, SIGKILL);
	/* Nor would one that can no longer wait for events. */
	ck_assert_int_eq(member_run("prlimit -p $PPID --nofile=3:3; (sleep 0.05 &); sleep 1016").wait_status, SIGKILL);
	/* The runtime can request the same. */
	member_start(&victim, "setsid sleep 1008 & sleep 1009", 0);
	ck_assert_int_eq(member_msg_send_kill(holder.fd[GUARD_SLOT_STDIN], &victim.key), 0);
	ck_assert_int_eq(member_end(&victim).wait_status, SIGKILL);
	ck_assert_int_ne(member_run("grep -l 'sleep.100[89]' /proc/[0-9]*/cmdline").wait_status, 0);
	ck_assert_int_ne(member_run("sleep 0.2; kill -KILL -1").wait_status, 0);
	ck_assert_int_eq(member_run("true").wait_status, 0);
	end_holder();
}
END_TEST

/*
 * A leader whose limit on descriptors in flight is lowered before it has sent READY, while another member keeps some in
 * flight.
 */
START_TEST(a_leader_that_cannot_send_descriptors_is_reported_as_killed)
{
	struct run run, sender;
	struct status_msg m = { 0 };
	const struct run_spec s = spec_of("true", PLAN_MEMBER | PLAN_STDERR_MERGE);
	start_holder();
	member_start(&sender,
		     "exec python3 -c 'import socket, time\n"
		     "a, b = socket.socketpair()\n"
		     "socket.send_fds(a, [b\"x\"], [0, 1])\n"
		     "open(\"/tmp/sent\", \"w\").close()\n"
		     "time.sleep(1000)'",
		     0);
	ck_assert_int_eq(member_run("until test -e /tmp/sent; do sleep 0.01; done").wait_status, 0);
	full_status = true;
	member_send(&run, &s);
	full_status = false;
	ck_assert_int_eq(member_run("for i in $(cat /proc/1/task/1/children); do test $i = $PPID || "
				    "{ sleep 0.2; prlimit -p $i --nofile=0:0; }; done")
				 .wait_status,
			 0);
	while (m.kind == 0)
		ck_assert_int_gt(recv(run.fd[GUARD_SLOT_STATUS], &m, sizeof m, 0), 0);
	ck_assert_uint_eq(m.kind, STATUS_EXITED);
	ck_assert_int_eq(m.wait_status, SIGKILL);
	ck_assert_uint_eq(m.cause, STATUS_CAUSE_LEADER);
	run_close(&run);
	ck_assert_int_eq(member_run("true").wait_status, 0);
	end_holder();
}
END_TEST

/* The members that wait at the gate: the command's process still has the title of its leader, and is its child. */
#define EACH_START(script)                                                                                \
	"for d in /proc/[0-9]*; do read p name state parent rest <$d/stat; test $parent != 1 && grep -q " \
	"'^bailiffd: leader' $d/cmdline && { " script "; }; done"

static void member_wait_at_gate(struct run *run, const char *script)
{
	const struct run_spec s = spec_of(script, PLAN_MEMBER | PLAN_STDERR_MERGE);
	member_send(run, &s);
	ck_assert_uint_eq(run_status(run).kind, STATUS_READY);
	fd_close(&run->fd[GUARD_SLOT_PTY]);
}

/* The process of a start shares the memory of its leader, which sleeps: neither of them notices anything. */
START_TEST(a_start_that_another_member_stops_continues)
{
	struct run run;
	start_holder();
	for (int again = 0; again < 2; again++) {
		member_wait_at_gate(&run, "echo ran");
		ck_assert_int_eq(
			member_run("until (" EACH_START(
					   "kill -STOP $p && echo $p >/tmp/stopped") "; test -s "
										     "/tmp/stopped); do :; done; exec "
										     "2>&-; rm /tmp/stopped")
				.wait_status,
			0);
		run_open_gate(&run);
		ck_assert_uint_eq(run_status(&run).kind, STATUS_EXECED);
		ck_assert_int_eq(member_end(&run).wait_status, 0);
		ck_assert_str_eq(out, "ran\n");
	}
	/* A command that was executed is not continued. */
	struct run stopped;
	member_start(&stopped, "echo $$ >/tmp/pid; kill -STOP $$; echo continued", 0);
	ck_assert_int_eq(member_run("until grep -q '^State:.T' /proc/$(cat /tmp/pid)/status; do sleep 0.01; done; "
				    "sleep 1.2; grep -q '^State:.T' /proc/$(cat /tmp/pid)/status && "
				    "kill -CONT $(cat /tmp/pid)")
				 .wait_status,
			 0);
	ck_assert_int_eq(member_end(&stopped).wait_status, 0);
	ck_assert_str_eq(out, "continued\n");
	end_holder();
}
END_TEST

START_TEST(a_start_that_is_stopped_again_and_again_fails)
{
	struct run run, other_one;
	start_holder();
	member_wait_at_gate(&run, "echo ran");
	member_start(&other_one, "while :; do " EACH_START("while kill -STOP $p; do :; done; exit") "; done", 0);
	struct status_msg m = run_status(&run);
	ck_assert_uint_eq(m.kind, STATUS_FAILED);
	ck_assert_uint_eq(m.step, STEP_EXEC);
	ck_assert_int_eq(m.error, EINTR);
	ck_assert_ptr_nonnull(strstr(m.path, "stopped"));
	run_close(&run);
	member_end(&other_one);
	ck_assert_int_eq(member_run("true").wait_status, 0);
	end_holder();
}
END_TEST

/* A member ends when neither runtime nor guard holds its descriptors: its gate was never opened, or its status socket
 * is closed.
 */
START_TEST(a_member_without_runtime_and_guard_ends)
{
	struct run run;
	start_holder();
	member_start(&run, "echo $$ >/tmp/pid; exec sleep 1010", 0);
	ck_assert_int_eq(member_run("until test -s /tmp/pid; do sleep 0.01; done").wait_status, 0);
	run_close(&run);
	ck_assert_int_eq(member_run("while test -d /proc/$(cat /tmp/pid); do sleep 0.01; done").wait_status, 0);
	const struct run_spec s = spec_of("echo ran >/tmp/ran", PLAN_MEMBER | PLAN_STDERR_MERGE);
	member_send(&run, &s);
	ck_assert_uint_eq(run_status(&run).kind, STATUS_READY);
	fd_close(&run.fd[GUARD_SLOT_PTY]);
	fd_close(&run.fd[GUARD_SLOT_GATE]);
	ck_assert_uint_eq(run_status(&run).kind, STATUS_FAILED);
	run_close(&run);
	ck_assert_int_ne(member_run("cat /tmp/ran").wait_status, 0);
	end_holder();
}
END_TEST

START_TEST(a_plan_for_another_sandbox_is_rejected)
{
	struct run run;
	struct run_spec s = spec_of("true", PLAN_MEMBER | PLAN_STDERR_MERGE);
	start_holder();
	s.tmp_bytes = 1 << 20;
	member_send(&run, &s);
	struct status_msg m = run_status(&run);
	ck_assert_uint_eq(m.kind, STATUS_FAILED);
	ck_assert_int_eq(m.error, EINVAL);
	ck_assert_uint_eq(run_status(&run).kind, 0);
	run_close(&run);
	s = spec_of("true", PLAN_STDERR_MERGE);
	member_send(&run, &s);
	ck_assert_uint_eq(run_status(&run).kind, STATUS_FAILED);
	run_close(&run);
	ck_assert_int_eq(fd_send(holder.fd[GUARD_SLOT_STDIN], "junk", 4, NULL, 0, 0), 0);
	ck_assert_int_eq(member_run("true").wait_status, 0);
	end_holder();
}
END_TEST

START_TEST(the_end_of_the_holder_ends_its_members)
{
	struct run run;
	start_holder();
	member_start(&run, "sleep 1011", 0);
	run_send_status(&holder, STATUS_SIGNAL, SIGTERM);
	struct status_msg m = run_status(&holder);
	ck_assert_uint_eq(m.kind, STATUS_EXITED);
	ck_assert_uint_eq(m.left_behind, 1);
	ck_assert_int_eq(member_end(&run).wait_status, SIGKILL);
	run_release(&rig, &holder);
	run_close(&holder);
	start_holder();
	member_start(&run, "sleep 1012", 0);
	ck_assert_uint_eq(run_release(&rig, &holder), 1); /* killed by the guard */
	run_read(&run, GUARD_SLOT_STDOUT, out, sizeof out);
	ck_assert_uint_eq(run_status(&run).kind, 0);
	run_close(&run);
	run_close(&holder);
}
END_TEST

/* LIMIT without limits, which needs no cgroup. `sock` is the leader's end of the socket. */
static struct spawn_msg send_limit(int32_t pid, int *sock)
{
	const struct run_spec s = spec_of("", PLAN_MEMBER | PLAN_STDERR_MERGE);
	struct spawn_msg m = { .kind = SPAWN_LIMIT, .flags = s.flags, .pid = pid, .holder = holder.key };
	int pair[2];
	snprintf(m.key.id, sizeof m.key.id, "proc_%d_%u", getpid(), rig.started++);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	const int fds[] = { run_plan(&s), rig.client[0], pair[1] };
	ck_assert_int_eq(fd_send(rig.peer, &m, sizeof m, fds, countof(fds), 0), 0);
	close(fds[0]);
	close(pair[1]);
	*sock = pair[0];
	rig_readable(rig.peer, "an answer");
	ck_assert_int_eq(fd_recv(rig.peer, &m, sizeof m, NULL, NULL, 0), sizeof m);
	return m;
}

/* A compromised runtime cannot have other processes moved. */
START_TEST(only_a_leader_of_the_holder_is_moved_to_cgroups)
{
	int sock, error[4] = { 0 };
	start_holder();
	const pid_t others[] = { 1, getpid(), getppid() };
	for (size_t i = 0; i < countof(others); i++) {
		struct spawn_msg m = send_limit(others[i], &sock);
		ck_assert_uint_eq(m.kind, SPAWN_FAILED);
		ck_assert_int_eq(m.error, EPERM);
		close(sock);
	}
	for (size_t i = 0; i < countof(others) - 1; i++) {
		int pidfd = fd_pidfd_open(others[i]);
		ck_assert_uint_eq(send_limit(holder.answer.pid, &sock).kind, SPAWN_LIMITED);
		ck_assert_int_eq(fd_send(sock, "j", 1, &pidfd, 1, 0), 0);
		rig_readable(sock, "an answer");
		ck_assert_int_eq(fd_recv(sock, error, sizeof error, NULL, NULL, 0), sizeof error);
		ck_assert_int_eq(error[0], EPERM);
		close(pidfd);
		close(sock);
	}
	ck_assert_int_eq(member_run("true").wait_status, 0);
	end_holder();
}
END_TEST

int main(int argc, char **argv)
{
	return PRIVATE_ROOT_SUITE(
		argc, argv, "holder", members_share_the_sandbox, a_leader_is_used_for_several_members,
		a_changed_leader_is_not_used_again, a_killed_or_stopped_waiting_leader_does_not_affect_the_next_member,
		a_member_ends_with_its_whole_tree_and_no_other_member, the_tree_of_a_killed_leader_ends,
		a_leader_that_cannot_send_descriptors_is_reported_as_killed,
		a_start_that_another_member_stops_continues, a_start_that_is_stopped_again_and_again_fails,
		a_member_without_runtime_and_guard_ends, a_plan_for_another_sandbox_is_rejected,
		the_end_of_the_holder_ends_its_members, only_a_leader_of_the_holder_is_moved_to_cgroups);
}
