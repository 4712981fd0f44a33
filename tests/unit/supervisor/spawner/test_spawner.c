#include "tests/unit/supervisor/rig.h"

#include <sys/mman.h>
#include <sys/stat.h>

static struct rig rig;

static void setup(void) { rig_start(&rig); }

static void teardown(void) { rig_stop(&rig); }

/* Reads the whole stdout of a command and its last status, and releases it. */
static struct status_msg finish(struct run *run, char *out, size_t cap)
{
	run_read(run, GUARD_SLOT_STDOUT, out, cap);
	struct status_msg m = run_status(run);
	ck_assert_uint_eq(m.kind, STATUS_EXITED);
	run_release(&rig, run); /* the init may not have exited yet */
	run_close(run);
	return m;
}

static struct status_msg run_sh(const char *script, uint32_t flags, char *out, size_t cap)
{
	struct run run;
	run_start(&rig, &run, &(struct run_spec){ .argv = SH(script), .flags = flags });
	return finish(&run, out, cap);
}

/* Starts a command that fails, and returns the failure. */
static struct status_msg run_failing(const struct run_spec *s)
{
	struct run run;
	run_send(&rig, &run, s);
	run_answer(&rig, &run);
	ck_assert_uint_eq(run.answer.kind, SPAWN_STARTED);
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

START_TEST(the_output_of_a_command_is_read)
{
	static const char *const argv[] = { "echo", "hello", "world", NULL };
	char out[64];
	struct run run;
	run_start(&rig, &run, &(struct run_spec){ .argv = argv });
	ck_assert(run.answer.layers & PLAN_LAYER_NAMESPACES);
	struct status_msg m = finish(&run, out, sizeof out);
	ck_assert_str_eq(out, "hello world\n");
	ck_assert_int_eq(m.wait_status, 0);
	ck_assert_uint_eq(m.cause, STATUS_CAUSE_NONE);
	ck_assert_uint_gt(m.max_rss_bytes, 0);
}
END_TEST

/* The master is sent with READY, before the gate; its output ends with the sandbox. */
START_TEST(a_terminal_is_sent_with_ready)
{
	char out[256];
	struct run run;
	size_t have = 0;
	ssize_t n;
	run_start(&rig, &run,
		  &(struct run_spec){
			  .argv = SH("stty size; test -t 2 && exec <&- >&- 2>&-; sleep 0.1; echo x >/dev/tty"),
			  .flags = PLAN_TTY });
	ck_assert_int_ge(run.fd[GUARD_SLOT_PTY], 0);
	do {
		struct pollfd p = { .fd = run.fd[GUARD_SLOT_PTY], .events = POLLIN };
		ck_assert_int_eq(poll(&p, 1, 60000), 1);
		n = read(run.fd[GUARD_SLOT_PTY], out + have, sizeof out - 1 - have);
		have += n > 0 ? (size_t)n : 0;
	} while (n > 0 || errno == EAGAIN);
	ck_assert_int_eq(errno, EIO);
	out[have] = 0;
	ck_assert_str_eq(out, "24 80\r\nx\r\n");
	ck_assert_int_eq(run_status(&run).wait_status, 0);
	run_release(&rig, &run);
	run_close(&run);
}
END_TEST

START_TEST(the_wait_status_is_reported_unchanged)
{
	char out[64];
	ck_assert_int_eq(WEXITSTATUS(run_sh("exit 37", 0, out, sizeof out).wait_status), 37);
	struct status_msg m = run_sh("kill -SEGV $$", 0, out, sizeof out);
	ck_assert(WIFSIGNALED(m.wait_status));
	ck_assert_int_eq(WTERMSIG(m.wait_status), SIGSEGV);
}
END_TEST

START_TEST(failures_name_their_step)
{
	static const char *const absent[] = { "no-such-command", NULL }, *const folder[] = { "/etc", NULL };
	struct status_msg m = run_failing(&(struct run_spec){ .argv = absent });
	ck_assert_uint_eq(m.step, STEP_EXEC);
	ck_assert_int_eq(m.error, ENOENT);
	ck_assert_str_eq(m.path, "no-such-command");
	m = run_failing(&(struct run_spec){ .argv = folder });
	ck_assert_uint_eq(m.step, STEP_EXEC);
	ck_assert_int_eq(m.error, EACCES);
	m = run_failing(&(struct run_spec){ .argv = SH("true"), .cwd = "/no/such/folder" });
	ck_assert_uint_eq(m.step, STEP_CWD);
	ck_assert_int_eq(m.error, ENOENT);
	ck_assert_str_eq(m.path, "/no/such/folder");
}
END_TEST

/* Commands that stay root keep their capabilities; other users can rarely create cgroups. */
START_TEST(missing_required_layers_fail_the_start)
{
	uint32_t layer = geteuid() == 0 ? PLAN_LAYER_CAPABILITIES : PLAN_LAYER_CGROUP;
	struct run run;
	char out[64];
	run_start(&rig, &run, &(struct run_spec){ .argv = SH("true") });
	uint32_t there = run.answer.layers;
	finish(&run, out, sizeof out);
	SKIP_IF(there & layer, "no layer is missing here");
	struct status_msg m = run_failing(&(struct run_spec){ .argv = SH("true"), .require = layer });
	ck_assert_uint_eq(m.step, layer == PLAN_LAYER_CAPABILITIES ? STEP_IDS : STEP_CLONE);
	ck_assert_int_eq(m.error, EOPNOTSUPP);
}
END_TEST

static void start_quietly(struct run *run, const struct run_spec *s)
{
	const char byte = GATE_OPEN_QUIETLY;
	run_send(&rig, run, s);
	run_answer(&rig, run);
	ck_assert_uint_eq(run->answer.kind, SPAWN_STARTED);
	ck_assert_uint_eq(run_status(run).kind, STATUS_READY);
	ck_assert_int_eq(write(run->fd[GUARD_SLOT_GATE], &byte, 1), 1);
	fd_close(&run->fd[GUARD_SLOT_GATE]);
}

/* On a busy machine even a short command may take longer than the delay. */
START_TEST(a_quiet_gate_omits_the_exec_report_of_short_commands)
{
	struct run run;
	char out[256];
	bool left_out = false;
	for (int i = 0; i < 100 && !left_out; i++) {
		start_quietly(&run, &(struct run_spec){ .argv = SH("") });
		struct status_msg m = run_status(&run);
		left_out = m.kind == STATUS_EXITED;
		if (!left_out) {
			ck_assert_uint_eq(m.kind, STATUS_EXECED);
			m = run_status(&run);
		}
		ck_assert_uint_eq(m.kind, STATUS_EXITED);
		ck_assert_int_eq(m.wait_status, 0);
		run_release(&rig, &run);
		run_close(&run);
	}
	ck_assert(left_out);
	start_quietly(&run, &(struct run_spec){ .argv = SH("sleep 0.3; echo x") });
	ck_assert_uint_eq(run_status(&run).kind, STATUS_EXECED);
	ck_assert_int_eq(finish(&run, out, sizeof out).wait_status, 0);
	ck_assert_str_eq(out, "x\n");
}
END_TEST

/* Under the filter and in the domain the init can reap, signal, kill, read /proc and report. */
START_TEST(the_init_works_confined)
{
	const uint32_t layers = PLAN_LAYER_LANDLOCK | PLAN_LAYER_SECCOMP;
	struct run run;
	char out[256];
	run_send(&rig, &run, &(struct run_spec){ .argv = SH("true"), .require = layers });
	run_answer(&rig, &run);
	ck_assert_uint_eq(run.answer.kind, SPAWN_STARTED);
	struct status_msg m = run_status(&run);
	ck_assert_msg(m.kind == STATUS_READY, "%s: %s: %s", sandbox_step_name(m.step), m.path, strerror(m.error));
	ck_assert_uint_eq(m.layers & layers, layers);
	run_open_gate(&run);
	ck_assert_uint_eq(run_status(&run).kind, STATUS_EXECED);
	ck_assert_int_eq(finish(&run, out, sizeof out).wait_status, 0);

	run_start(&rig, &run,
		  &(struct run_spec){ .argv = SH("grep Seccomp_filters: /proc/self/status; (sleep 1000 &) ; :"),
				      .require = layers });
	m = finish(&run, out, sizeof out);
	ck_assert_int_eq(m.wait_status, 0);
	ck_assert_uint_eq(m.left_behind, 1);
	ck_assert_ptr_nonnull(strchr(out, '\t'));
	ck_assert_int_ge(strtol(strchr(out, '\t'), NULL, 10), 1);

	run_start(
		&rig, &run,
		&(struct run_spec){ .argv = SH("trap 'echo caught; exit 5' USR1; echo r; while :; do sleep 0.01; done"),
				    .require = layers });
	rig_readable(run.fd[GUARD_SLOT_STDOUT], "ready");
	ck_assert_int_eq(read(run.fd[GUARD_SLOT_STDOUT], out, 2), 2);
	run_send_status(&run, STATUS_SIGNAL, SIGUSR1);
	m = finish(&run, out, sizeof out);
	ck_assert_str_eq(out, "caught\n");
	ck_assert_int_eq(WEXITSTATUS(m.wait_status), 5);

	run_start(&rig, &run,
		  &(struct run_spec){ .argv = SH("while :; do :; done"), .require = layers, .cpu_ms = 200 });
	m = finish(&run, out, sizeof out);
	ck_assert_uint_eq(m.cause, STATUS_CAUSE_CPU);

	run_start(&rig, &run,
		  &(struct run_spec){ .argv = SH("trap '' TERM; sleep 1000 & sleep 1000"), .require = layers });
	run_send_status(&run, STATUS_KILL_TREE, 0);
	m = finish(&run, out, sizeof out);
	ck_assert_uint_eq(m.cause, STATUS_CAUSE_KILLED);

	m = run_failing(
		&(struct run_spec){ .argv = (const char *const[]){ "no-such-command", NULL }, .require = layers });
	ck_assert_uint_eq(m.step, STEP_EXEC);
	ck_assert_int_eq(m.error, ENOENT);
}
END_TEST

START_TEST(a_closed_gate_cancels_the_command)
{
	struct run run;
	run_send(&rig, &run, &(struct run_spec){ .argv = SH("echo ran") });
	run_answer(&rig, &run);
	ck_assert_uint_eq(run_status(&run).kind, STATUS_READY);
	/* The guard holds a copy of the gate, too: after the release it is closed. */
	fd_close(&run.fd[GUARD_SLOT_GATE]);
	ck_assert_uint_eq(run_release(&rig, &run), 1);
	char out[64];
	ck_assert_uint_eq(run_read(&run, GUARD_SLOT_STDOUT, out, sizeof out), 0);
	run_close(&run);
}
END_TEST

START_TEST(a_command_can_be_killed_at_the_gate)
{
	struct run run;
	run_send(&rig, &run, &(struct run_spec){ .argv = SH("echo ran") });
	run_answer(&rig, &run);
	ck_assert_uint_eq(run_status(&run).kind, STATUS_READY);
	run_send_status(&run, STATUS_KILL_TREE, 0);
	struct status_msg m = run_status(&run);
	ck_assert_uint_eq(m.kind, STATUS_FAILED);
	ck_assert_uint_eq(m.step, STEP_GATE);
	ck_assert_int_eq(m.error, ECANCELED);
	run_release(&rig, &run);
	run_close(&run);
}
END_TEST

START_TEST(signals_reach_the_command)
{
	struct run run;
	char out[64];
	run_start(&rig, &run,
		  &(struct run_spec){
			  .argv = SH("trap 'echo caught; exit 5' USR1; echo ready; while :; do sleep 0.01; done") });
	char byte[6];
	rig_readable(run.fd[GUARD_SLOT_STDOUT], "ready");
	ck_assert_int_eq(read(run.fd[GUARD_SLOT_STDOUT], byte, 6), 6);
	run_send_status(&run, STATUS_SIGNAL, SIGUSR1);
	struct status_msg m = finish(&run, out, sizeof out);
	ck_assert_str_eq(out, "caught\n");
	ck_assert_int_eq(WEXITSTATUS(m.wait_status), 5);
}
END_TEST

START_TEST(no_tree_survives_a_kill)
{
	struct run run;
	char out[64];
	run_start(
		&rig, &run,
		&(struct run_spec){ .argv = SH("trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 1000 & sleep 1000' & "
					       "(setsid sleep 1000 &); echo up; kill -STOP $$") });
	char up[3];
	rig_readable(run.fd[GUARD_SLOT_STDOUT], "up");
	ck_assert_int_eq(read(run.fd[GUARD_SLOT_STDOUT], up, 3), 3);
	run_send_status(&run, STATUS_KILL_TREE, 0);
	/* End of file on stdout: no process is left that could write. */
	struct status_msg m = finish(&run, out, sizeof out);
	ck_assert_uint_eq(m.cause, STATUS_CAUSE_KILLED);
	ck_assert(WIFSIGNALED(m.wait_status));
	ck_assert_int_eq(WTERMSIG(m.wait_status), SIGKILL);
}
END_TEST

START_TEST(processes_left_behind_are_killed)
{
	char out[64];
	struct status_msg m = run_sh("sleep 1000 & sleep 1000 & echo done; exit 3", 0, out, sizeof out);
	ck_assert_str_eq(out, "done\n");
	ck_assert_int_eq(WEXITSTATUS(m.wait_status), 3);
	ck_assert_uint_eq(m.left_behind, 2);
}
END_TEST

START_TEST(processes_left_behind_are_kept_on_request)
{
	char out[64];
	struct run run;
	run_start(&rig, &run,
		  &(struct run_spec){ .argv = SH("(sleep 0.2; echo late) & exit 4"), .flags = PLAN_KEEP_TREE });
	struct status_msg first = run_status(&run);
	ck_assert_uint_eq(first.kind, STATUS_COMMAND_EXITED);
	ck_assert_int_eq(WEXITSTATUS(first.wait_status), 4);
	struct status_msg m = finish(&run, out, sizeof out);
	ck_assert_str_eq(out, "late\n");
	ck_assert_int_eq(WEXITSTATUS(m.wait_status), 4);
	ck_assert_uint_eq(m.left_behind, 0);
}
END_TEST

START_TEST(a_command_has_only_declared_descriptors_and_variables)
{
	char out[4096];
	run_sh("ls /proc/self/fd | tr '\\n' ' '; env | sort | grep -v -e ^_= -e ^PWD= -e ^SHLVL= -e ^OLDPWD=", 0, out,
	       sizeof out);
	ck_assert_str_eq(out, "0 1 2 3 PATH=/usr/bin:/bin\nRIG=1\n"); /* 3 belongs to ls */
}
END_TEST

/* Commands are likelier victims of the OOM killer than the daemon. */
static int oom_score_expected(void)
{
	char text[16] = "";
	FILE *f = fopen("/proc/self/oom_score_adj", "re");
	const int own = f && fgets(text, sizeof text, f) ? atoi(text) : 0;

	if (f)
		fclose(f);
	return own < 0 ? 0 : own < 800 ? 800 : own;
}

START_TEST(a_command_has_clean_process_attributes)
{
	char out[4096], expected[64];
	run_sh("echo $(id -u) $$; umask; ulimit -n; grep -c . /proc/self/cgroup >/dev/null; sed -n "
	       "'s/^NoNewPrivs:\\t//p' /proc/self/status;"
	       "cat /proc/1/cmdline | tr '\\0' ' ' | cut -c 1-14; cat /proc/self/oom_score_adj",
	       0, out, sizeof out);
	snprintf(expected, sizeof expected, "%u 2\n0022\n1024\n1\nbailiffd: init\n%d\n", geteuid(),
		 oom_score_expected());
	ck_assert_str_eq(out, expected);
}
END_TEST

START_TEST(outputs_can_be_opened_again)
{
	struct run run;
	char out[64], err[64];
	run_start(&rig, &run, &(struct run_spec){ .argv = SH("echo a >/dev/stderr; echo b >/dev/stdout") });
	run_read(&run, GUARD_SLOT_STDERR, err, sizeof err);
	finish(&run, out, sizeof out);
	ck_assert_str_eq(err, "a\n");
	ck_assert_str_eq(out, "b\n");
}
END_TEST

START_TEST(stderr_can_be_merged_into_stdout)
{
	char out[64];
	run_sh("echo a; echo b >&2; echo c", PLAN_STDERR_MERGE, out, sizeof out);
	ck_assert_str_eq(out, "a\nb\nc\n");
}
END_TEST

START_TEST(stdin_ends_when_all_copies_are_closed)
{
	static const char *const argv[] = { "cat", NULL };
	struct run run;
	char out[64];
	run_start(&rig, &run, &(struct run_spec){ .argv = argv, .flags = PLAN_STDIN_PIPE });
	ck_assert_int_eq(write(run.fd[GUARD_SLOT_STDIN], "to you", 6), 6);
	fd_close(&run.fd[GUARD_SLOT_STDIN]);
	struct guard_msg m = { .kind = GUARD_WITHDRAW, .slots = 1u << GUARD_SLOT_STDIN, .key = run.key };
	ck_assert_int_eq(fd_send(rig.link, &m, sizeof m, NULL, 0, 0), 0);
	finish(&run, out, sizeof out);
	ck_assert_str_eq(out, "to you");
}
END_TEST

START_TEST(the_cpu_limit_applies_to_the_tree)
{
	struct run run;
	char out[64];
	run_start(&rig, &run,
		  &(struct run_spec){ .argv = SH("(while :; do :; done) & while :; do :; done"), .cpu_ms = 200 });
	struct status_msg m = finish(&run, out, sizeof out);
	ck_assert_uint_eq(m.cause, STATUS_CAUSE_CPU);
	ck_assert_uint_ge(m.user_us + m.system_us, 150000);
}
END_TEST

START_TEST(resource_limits_are_set)
{
	struct run run;
	char out[64];
	run_start(&rig, &run, &(struct run_spec){ .argv = SH("ulimit -n"), .open_files = 77 });
	finish(&run, out, sizeof out);
	ck_assert_str_eq(out, "77\n");
}
END_TEST

START_TEST(a_script_without_interpreter_line_runs_in_sh)
{
	char path[] = "/tmp/rig-script-XXXXXX", out[64];
	int fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fd_write_all(fd, "echo $0 $1\n", 11), 0);
	fchmod(fd, 0755);
	close(fd);
	struct run run;
	const char *const argv[] = { path, "one", NULL };
	run_start(&rig, &run, &(struct run_spec){ .argv = argv });
	finish(&run, out, sizeof out);
	unlink(path);
	char expected[64];
	snprintf(expected, sizeof expected, "%s one\n", path);
	ck_assert_str_eq(out, expected);
}
END_TEST

/* The spawner exits on any invalid message of the runtime, and a new one is started. */
START_TEST(invalid_messages_end_the_spawner)
{
	struct spawn_msg bad[] = {
		{ .kind = 99 },
		{ .kind = SPAWN_STARTED },
		{ .kind = SPAWN_START, .key = { .id = "proc_x" } },
		{ .kind = SPAWN_CLEAN, .key = { .id = "../x" } },
		{ .kind = SPAWN_CLEAN },
	};
	for (size_t i = 0; i < countof(bad); i++) {
		ck_assert_int_eq(fd_send(rig.peer, &bad[i], sizeof bad[i], NULL, 0, 0), 0);
		rig_take_new_peer(&rig);
		rig_sync(&rig);
	}
	ck_assert_int_eq(fd_send(rig.peer, "short", 5, NULL, 0, 0), 0);
	rig_take_new_peer(&rig);
	char out[64];
	run_sh("echo fine", 0, out, sizeof out);
	ck_assert_str_eq(out, "fine\n");
}
END_TEST

/* A connection to another service: its peer may be any user. */
static int foreign_client(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "bailiff-test-%d", getpid()); /* abstract */
	int l = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), c = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(l, (struct sockaddr *)&a, sizeof a), 0);
	ck_assert_int_eq(listen(l, 1), 0);
	ck_assert_int_eq(connect(c, (struct sockaddr *)&a, sizeof a), 0);
	int s = accept4(l, NULL, NULL, SOCK_CLOEXEC);
	ck_assert_int_ge(s, 0);
	close(l);
	return s; /* c stays open, so that there is a peer */
}

/* Above all they are never passed on. */
START_TEST(descriptors_of_the_wrong_kind_are_rejected)
{
	char path[] = "/tmp/rig-file-XXXXXX";
	int file = mkstemp(path), gate[2], status[2], null = open("/dev/null", O_RDWR | O_CLOEXEC);
	ck_assert_int_ge(file, 0);
	ck_assert_int_eq(pipe2(gate, O_CLOEXEC), 0);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, status), 0);
	int plan = run_plan(&(struct run_spec){ .argv = SH("true"), .flags = PLAN_STDERR_MERGE });
	int unsealed = memfd_create("x", MFD_CLOEXEC);
	int sets[][5] = {
		{ plan, rig.client[0], status[1], gate[0], file },
		{ plan, null, status[1], gate[0], gate[1] },
		{ plan, status[0], status[1], gate[0], gate[1] },
		{ plan, rig.client[0], rig.client[0], gate[0], gate[1] },
		{ plan, rig.client[0], status[1], null, gate[1] },
		{ unsealed, rig.client[0], status[1], gate[0], gate[1] },
		{ null, rig.client[0], status[1], gate[0], gate[1] },
		{ plan, foreign_client(), status[1], gate[0], gate[1] },
	};
	for (size_t i = 0; i < countof(sets); i++) {
		struct spawn_msg m = { .kind = SPAWN_START, .flags = PLAN_STDERR_MERGE, .key = { .id = "proc_bad" } };
		ck_assert_int_eq(fd_send(rig.peer, &m, sizeof m, sets[i], 5, 0), 0);
		rig_readable(rig.peer, "an answer");
		ck_assert_int_eq(fd_recv(rig.peer, &m, sizeof m, NULL, NULL, 0), sizeof m);
		ck_assert_uint_eq(m.kind, SPAWN_FAILED);
	}
	unlink(path);
}
END_TEST

/* Each command gets its own output and status. */
START_TEST(many_commands_run_in_parallel)
{
	enum { N = 100 };
	static struct run runs[N];
	char out[64], expected[64];
	for (int i = 0; i < N; i++) {
		char number[16];
		snprintf(number, sizeof number, "%d", i);
		const char *const argv[] = { "sh", "-c", "echo $0; exit $0", number, NULL };
		run_send(&rig, &runs[i], &(struct run_spec){ .argv = argv });
		run_answer(&rig, &runs[i]);
		ck_assert_uint_eq(runs[i].answer.kind, SPAWN_STARTED);
		run_open_gate(&runs[i]);
	}
	for (int i = 0; i < N; i++) {
		ck_assert_uint_eq(run_status(&runs[i]).kind, STATUS_READY);
		ck_assert_uint_eq(run_status(&runs[i]).kind, STATUS_EXECED);
		struct status_msg m = finish(&runs[i], out, sizeof out);
		snprintf(expected, sizeof expected, "%d\n", i);
		ck_assert_str_eq(out, expected);
		ck_assert_int_eq(WEXITSTATUS(m.wait_status), i);
	}
}
END_TEST

int main(int argc, char **argv)
{
	return RIG_SUITE(
		argc, argv, "spawner", "runs", setup, teardown, 300, the_output_of_a_command_is_read,
		a_terminal_is_sent_with_ready, the_wait_status_is_reported_unchanged, failures_name_their_step,
		missing_required_layers_fail_the_start, a_quiet_gate_omits_the_exec_report_of_short_commands,
		the_init_works_confined, a_closed_gate_cancels_the_command, a_command_can_be_killed_at_the_gate,
		signals_reach_the_command, no_tree_survives_a_kill, processes_left_behind_are_killed,
		processes_left_behind_are_kept_on_request, a_command_has_only_declared_descriptors_and_variables,
		a_command_has_clean_process_attributes, outputs_can_be_opened_again, stderr_can_be_merged_into_stdout,
		stdin_ends_when_all_copies_are_closed, the_cpu_limit_applies_to_the_tree, resource_limits_are_set,
		a_script_without_interpreter_line_runs_in_sh, invalid_messages_end_the_spawner,
		descriptors_of_the_wrong_kind_are_rejected, many_commands_run_in_parallel);
}
