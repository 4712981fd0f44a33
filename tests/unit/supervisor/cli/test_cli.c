/* The whole command line against a fake daemon. */

#include "supervisor/cli/cli_main.h"

#include "tests/unit/suite.h"
#include "tests/unit/supervisor/cli/fake_daemon.h"

#include <fcntl.h>

struct result {
	int status;
	struct buf out, err;
};

static void result_done(struct result *r)
{
	buf_done(&r->out);
	buf_done(&r->err);
}
#define result_auto __attribute__((cleanup(result_done)))

/* The leak check of a sanitizer takes seconds at exit, so only one test of each kind does it. */
static bool check_leaks;

static pid_t spawn(const char *const *argv, int in, int out, int err)
{
	pid_t pid = fork();
	int argc = 0;

	ck_assert_int_ge(pid, 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(in, 0);
	dup2(out, 1);
	dup2(err, 2);
	fd_close_range(3, ~0u); /* otherwise it would hold the other end of its own stdin */
	while (argv[argc])
		argc++;
	int status = cli_main(argc, (char **)argv);
	if (check_leaks)
		exit(status);
	_exit(status);
}

static int status_of(pid_t pid)
{
	int status;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void read_from(int fd, struct buf *b)
{
	ssize_t n = read(fd, buf_reserve(b, 1 << 16), 1 << 16);

	if (n > 0)
		b->len += (size_t)n;
}

/* Runs the command line; `input` is its stdin, as a pipe, or NULL for /dev/null. */
static struct result run(const char *input, size_t ninput, const char *const *argv)
{
	struct result r = { 0 };
	int in[2], out[2], err[2];
	struct pollfd p[3];
	size_t given = 0;
	pid_t pid;

	ck_assert_int_eq(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC) | pipe2(err, O_CLOEXEC), 0);
	fd_auto int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	pid = spawn(argv, input ? in[0] : null, out[1], err[1]);
	close(in[0]), close(out[1]), close(err[1]);
	fd_nonblock(in[1], true);
	signal(SIGPIPE, SIG_IGN);
	p[0] = (struct pollfd){ .fd = out[0], .events = POLLIN };
	p[1] = (struct pollfd){ .fd = err[0], .events = POLLIN };
	p[2] = (struct pollfd){ .fd = in[1], .events = POLLOUT };
	while (p[0].fd >= 0 || p[1].fd >= 0) {
		size_t before;

		if (p[2].fd >= 0 && given == ninput)
			fd_close(&p[2].fd);
		ck_assert_int_gt(poll(p, 3, -1), 0);
		if (p[2].fd >= 0 && p[2].revents) {
			ssize_t n = write(p[2].fd, input + given, ninput - given);
			given = n > 0 ? given + (size_t)n : ninput;
		}
		for (int i = 0; i < 2; i++) {
			struct buf *b = i ? &r.err : &r.out;
			if (p[i].fd < 0 || !p[i].revents)
				continue;
			before = b->len;
			read_from(p[i].fd, b);
			if (b->len == before)
				fd_close(&p[i].fd);
		}
	}
	fd_close(&p[2].fd);
	buf_byte(&r.out, 0), r.out.len--;
	buf_byte(&r.err, 0), r.err.len--;
	r.status = status_of(pid);
	return r;
}

#define ARGS(...) ((const char *const[]){ "bailiff", __VA_ARGS__, NULL })
#define RUN(...) run(NULL, 0, ARGS(__VA_ARGS__))

static void check_big(const struct buf *out, uint64_t n, uint64_t hole_from, uint64_t hole_to)
{
	uint64_t at = 0;

	ck_assert_uint_eq(out->len, n - (hole_to - hole_from));
	for (uint64_t i = 0; i < n; i++) {
		if (i == hole_from)
			i = hole_to;
		if (i < n && out->data[at++] != fake_byte(i))
			ck_abort_msg("byte %llu differs", (unsigned long long)i);
	}
}

START_TEST(test_run_passes_on_output_and_exit_status)
{
	check_leaks = true;
	struct fake f = { 0 };
	fake_begin(&f);
	result_auto struct result r = RUN("run", "--", "say", "3");

	ck_assert_int_eq(r.status, 3);
	ck_assert_str_eq(r.out.data, "out\n");
	ck_assert_str_eq(r.err.data, "err\n");
	fake_stop(&f);
}
END_TEST

START_TEST(test_run_maps_failures_to_exit_statuses)
{
	static const struct {
		const char *command;
		int status;
	} rows[] = { { "missing", 127 }, { "locked", 126 }, { "limit", 124 }, { "lost", 125 } };

	for (size_t i = 0; i < countof(rows); i++) {
		struct fake f = { 0 };
		fake_begin(&f);
		result_auto struct result r = RUN("run", rows[i].command);

		ck_assert_int_eq(r.status, rows[i].status);
		ck_assert_str_eq(r.out.data, "");
		ck_assert_int_eq(strncmp(r.err.data, "bailiff: ", 9), 0);
		fake_stop(&f);
	}
}
END_TEST

START_TEST(test_run_copies_large_output_exactly)
{
	struct fake f = { .read_most = 300001 };
	fake_begin(&f);
	result_auto struct result r = RUN("run", "--", "big", "6000003");

	ck_assert_int_eq(r.status, 0);
	check_big(&r.out, 6000003, 0, 0);
	fake_stop(&f);
}
END_TEST

START_TEST(test_run_reconnects_without_losing_output)
{
	struct fake f = { .break_reads = 7 };
	fake_begin(&f);
	result_auto struct result r = RUN("run", "--", "big", "6000003");

	ck_assert_msg(r.status == 0, "%s", r.err.data);
	check_big(&r.out, 6000003, 0, 0);
	ck_assert_str_eq(r.err.data, "");
	fake_stop(&f);
}
END_TEST

START_TEST(test_run_reports_omitted_output)
{
	struct fake f = { .hole_from = 1000000, .hole_to = 3000000 };
	fake_begin(&f);
	result_auto struct result r = RUN("run", "--", "big", "5000000");

	ck_assert_int_eq(r.status, 0);
	check_big(&r.out, 5000000, 1000000, 3000000);
	ck_assert_str_eq(r.err.data, "bailiff: 2000000 bytes of stdout were omitted (output limit)\n");
	fake_stop(&f);
}
END_TEST

START_TEST(test_run_json_prints_events)
{
	struct fake f = { 0 };
	fake_begin(&f);
	result_auto struct result r = RUN("run", "--json", "--", "say", "0");
	size_t lines = 0;

	ck_assert_int_eq(r.status, 0);
	for (const char *p = r.out.data, *nl; (nl = strchr(p, '\n')); p = nl + 1, lines++)
		ck_assert_uint_eq(jval_uint(jval_get(jval_of(p, (size_t)(nl - p)), "sequence"), 0), lines + 1);
	ck_assert_uint_eq(lines, 4);
	fake_stop(&f);
}
END_TEST

static void check_cat(struct fake *f)
{
	size_t n = 3000000;
	mem_auto char *input = mem_alloc(n);

	for (size_t i = 0; i < n; i++)
		input[i] = fake_byte(i * 7);
	fake_begin(f);
	result_auto struct result r = run(input, n, ARGS("run", "--", "cat"));
	ck_assert_msg(r.status == 0, "%s", r.err.data);
	ck_assert_uint_eq(r.out.len, n);
	ck_assert_int_eq(memcmp(r.out.data, input, n), 0);
	fake_stop(f);
}

START_TEST(test_run_forwards_stdin) { check_cat(&(struct fake){ 0 }); }
END_TEST

/* Writes whose replies are lost are repeated with their keys and take effect once. */
START_TEST(test_run_never_writes_twice) { check_cat(&(struct fake){ .break_writes = 5 }); }
END_TEST

START_TEST(test_run_fails_if_the_outcome_of_a_write_is_unknown)
{
	struct fake f = { .unknown_write = true };
	fake_begin(&f);
	result_auto struct result r = run("x", 1, ARGS("run", "--", "cat"));

	ck_assert_int_eq(r.status, 125);
	ck_assert_ptr_nonnull(strstr(r.err.data, "stdin"));
	fake_stop(&f);
}
END_TEST

/* The started event of "hang" shows that signals are handled by now.
 */
static int signalled(int sig)
{
	struct fake f = { 0 };
	int out[2], status;
	char c;
	pid_t pid;

	fake_begin(&f);
	ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
	fd_auto int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	pid = spawn(ARGS("run", "--json", "hang"), null, out[1], null);
	close(out[1]);
	ck_assert_int_eq(read(out[0], &c, 1), 1);
	kill(pid, sig);
	status = status_of(pid);
	close(out[0]);
	fake_stop(&f);
	return status;
}

START_TEST(test_run_forwards_signals)
{
	ck_assert_int_eq(signalled(SIGINT), 128 + SIGINT);
	ck_assert_int_eq(signalled(SIGTERM), 128 + SIGTERM);
	ck_assert_int_eq(signalled(SIGHUP), 128 + SIGTERM);
}
END_TEST

START_TEST(test_run_ends_when_its_output_is_closed)
{
	struct fake f = { 0 };
	int out[2];

	fake_begin(&f);
	ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
	close(out[0]);
	fd_auto int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	pid_t pid = spawn(ARGS("run", "big", "9000000"), null, out[1], null);
	close(out[1]);
	/* The status of the command, which ends by itself or by SIGPIPE when its output is closed, whichever comes
	 * first. */
	int status = status_of(pid);
	ck_assert_msg(status == 0 || status == 128 + SIGPIPE, "status %d", status);
	fake_stop(&f);
}
END_TEST

START_TEST(test_logs_are_raw_or_sanitized)
{
	struct fake f = { .read_most = 300001 };
	fake_begin(&f);
	result_auto struct result r = RUN("run", "-d", "--", "big", "4000003");
	ck_assert_str_eq(r.out.data, FAKE_PROCESS "\n");
	result_auto struct result raw = RUN("logs", "--raw", FAKE_PROCESS);
	ck_assert_int_eq(raw.status, 0);
	check_big(&raw.out, 4000003, 0, 0);
	result_auto struct result clean = RUN("logs", "-f", FAKE_PROCESS);
	ck_assert_int_eq(clean.status, 0);
	for (size_t i = 0; i < clean.out.len; i++) {
		unsigned char c = (unsigned char)clean.out.data[i];
		if (c != '\n' && c != '\t' &&
		    (c < 0x20 || c == 0x7f)) /* not an assertion per byte: each one writes a message */
			ck_abort_msg("byte %zu is 0x%02x", i, c);
	}
	fake_stop(&f);
}
END_TEST

START_TEST(test_logs_tail_prints_the_last_lines)
{
	check_leaks = true;
	struct fake f = { 0 };
	fake_begin(&f);
	result_auto struct result r = run("one\ntwo\nthree\n", 14, ARGS("run", "cat"));
	ck_assert_str_eq(r.out.data, "one\ntwo\nthree\n");
	result_auto struct result two = RUN("logs", "--tail", "2", FAKE_PROCESS);
	ck_assert_str_eq(two.out.data, "two\nthree\n");
	result_auto struct result none = RUN("logs", "--tail", "0", FAKE_PROCESS);
	ck_assert_str_eq(none.out.data, "");
	result_auto struct result all = RUN("logs", "--tail=9", FAKE_PROCESS);
	ck_assert_str_eq(all.out.data, "one\ntwo\nthree\n");
	fake_stop(&f);
}
END_TEST

START_TEST(test_ps_and_wait_show_an_ended_process)
{
	struct fake f = { 0 };
	fake_begin(&f);
	result_auto struct result r = RUN("run", "say", "7");
	ck_assert_int_eq(r.status, 7);
	result_auto struct result ps = RUN("ps", "-a");
	ck_assert_ptr_nonnull(strstr(ps.out.data, FAKE_PROCESS));
	ck_assert_ptr_nonnull(strstr(ps.out.data, "1.5s"));
	ck_assert_ptr_null(strchr(ps.out.data, '\033'));
	result_auto struct result json = RUN("ps", "-a", "--json");
	ck_assert_int_eq(jval_of(json.out.data, json.out.len).type, JT_ARRAY);
	result_auto struct result ended = RUN("wait", "01aaa");
	ck_assert_int_eq(ended.status, 7);
	result_auto struct result events = RUN("events", "--json");
	size_t lines = 0;
	for (const char *p = events.out.data; (p = strchr(p, '\n')); p++)
		lines++;
	ck_assert_uint_eq(lines, 4);
	result_auto struct result top = RUN("top");
	ck_assert_int_eq(top.status, 0);
	ck_assert_ptr_nonnull(strstr(top.out.data, FAKE_PROCESS));
	fake_stop(&f);
}
END_TEST

START_TEST(test_input_writes_to_stdin_and_kill_ends_the_process)
{
	struct fake f = { 0 };
	fake_begin(&f);
	result_auto struct result r = RUN("run", "-d", "-i", "cat");
	ck_assert_int_eq(r.status, 0);
	result_auto struct result in = run("hello\n", 6, ARGS("input", FAKE_PROCESS));
	ck_assert_int_eq(in.status, 0);
	result_auto struct result eof = run("", 0, ARGS("input", "--eof", FAKE_PROCESS));
	ck_assert_int_eq(eof.status, 0);
	result_auto struct result logs = RUN("logs", "-f", FAKE_PROCESS);
	ck_assert_str_eq(logs.out.data, "hello\n");
	result_auto struct result dead = RUN("kill", FAKE_PROCESS, FAKE_PROCESS);
	ck_assert_int_eq(dead.status, 0);
	fake_stop(&f);
}
END_TEST

START_TEST(test_call_sends_valid_requests)
{
	check_leaks = true;
	struct fake f = { 0 };
	fake_begin(&f);
	result_auto struct result r = RUN("call", "get_process", "{\"processId\":\n\"x\"}");
	ck_assert_int_eq(r.status, 0);
	ck_assert_int_eq(jval_of(r.out.data, r.out.len).type, JT_OBJECT);
	result_auto struct result stdin_too = run("{}", 2, ARGS("call", "get_process", "-"));
	ck_assert_int_eq(stdin_too.status, 0);
	result_auto struct result bad = RUN("call", "get_process", "[1]");
	ck_assert_int_eq(bad.status, 2);
	result_auto struct result trailing = RUN("call", "get_process", "{},\"method\":\"x\"");
	ck_assert_int_eq(trailing.status, 2);
	result_auto struct result unknown = RUN("call", "no_such_method");
	ck_assert_int_eq(unknown.status, 1);
	ck_assert_ptr_nonnull(strstr(unknown.err.data, "no such method"));
	fake_stop(&f);
}
END_TEST

START_TEST(test_usage_errors_name_the_argument)
{
	static const struct {
		const char *args[5];
		int status;
		const char *says;
	} rows[] = {
		{ { "run" }, 125, "missing command" },
		{ { "run", "--rwx", "/", "ls" }, 125, "--rwx" },
		{ { "run", "--timeout", "soon", "ls" }, 125, "--timeout" },
		{ { "run", "--env", "novalue", "ls" }, 125, "--env" },
		{ { "run", "a\xff" }, 125, "UTF-8" },
		{ { "ps", "--no" }, 2, "--no" },
		{ { "logs" }, 2, "which process" },
		{ { "logs", "--stream", "both", "x" }, 2, "--stream" },
		{ { "logs", "--tail", "-1", "x" }, 2, "--tail" },
		{ { "kill", "-s", "NOPE", "x" }, 2, "NOPE" },
		{ { "events", "--since", "yesterday" }, 2, "--since" },
		{ { "store" }, 2, "usage" },
		{ { "store", "prune" }, 2, "--older-than" },
		{ { "store", "backup" }, 2, "folder" },
		{ { "eventz" }, 2, "bailiff events" },
		{ { "help", "rum" }, 2, "help run" },
		{ { "-x" }, 2, "-x" },
	};

	setenv("BAILIFF_HOME", "/nonexistent/home", 1);
	for (size_t i = 0; i < countof(rows); i++) {
		const char *const *a = rows[i].args;
		result_auto struct result r = RUN(a[0], a[1], a[1] ? a[2] : NULL, a[1] && a[2] ? a[3] : NULL);

		ck_assert_msg(r.status == rows[i].status, "%s: %d", a[0], r.status);
		ck_assert_msg(strstr(r.err.data, rows[i].says), "%s", r.err.data);
		ck_assert_int_eq(strncmp(r.err.data, "bailiff: ", 9), 0);
		ck_assert_str_eq(r.out.data, "");
	}
}
END_TEST

START_TEST(test_commands_report_that_no_daemon_runs)
{
	setenv("BAILIFF_HOME", "/dev/null/home", 1); /* an installed bailiffd must not create it */
	result_auto struct result ps = RUN("ps");
	ck_assert_int_eq(ps.status, 1);
	ck_assert_ptr_nonnull(strstr(ps.err.data, "no daemon is running"));
	result_auto struct result doctor = RUN("doctor");
	ck_assert_int_eq(doctor.status, 1);
	ck_assert_ptr_nonnull(strstr(doctor.err.data, "/dev/null/home/control.sock"));
	result_auto struct result version = RUN("--version");
	ck_assert_int_eq(version.status, 0);
}
END_TEST

/* Output after the screen continues at the byte up to which the screen was drawn. */
START_TEST(test_attach_continues_where_the_screen_ends)
{
	static const struct {
		int64_t at;
		unsigned break_reads;
		const char *shown;
	} rows[] = {
		{ 10, 0, "<screen>abcde" },                                             /* all that is in the log */
		{ 13, 0, "<screen>de" },                                                /* more than that */
		{ 8, 0, "<screen>89abcde" },                                            /* less */
		{ 8, 2, "<screen>89abcde" }, { -1, 0, "\033[H\033[2J0123456789abcde" }, /* without a screen */
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct fake f = { .terminal = true, .screen_at = rows[i].at, .break_reads = rows[i].break_reads };

		fake_begin(&f);
		result_auto struct result r = RUN("attach", FAKE_PROCESS);
		ck_assert_str_eq(r.out.data, rows[i].shown);
		ck_assert_int_eq(r.status, 7);
		ck_assert_int_eq(strstr(r.err.data, "no screen") != NULL, rows[i].at < 0);
		fake_stop(&f);
	}
}
END_TEST

int main(void)
{
	return SUITE("cli", test_run_passes_on_output_and_exit_status, test_run_maps_failures_to_exit_statuses,
		     test_run_copies_large_output_exactly, test_run_reconnects_without_losing_output,
		     test_run_reports_omitted_output, test_run_json_prints_events, test_run_forwards_stdin,
		     test_run_never_writes_twice, test_run_fails_if_the_outcome_of_a_write_is_unknown,
		     test_run_forwards_signals, test_run_ends_when_its_output_is_closed, test_logs_are_raw_or_sanitized,
		     test_logs_tail_prints_the_last_lines, test_ps_and_wait_show_an_ended_process,
		     test_input_writes_to_stdin_and_kill_ends_the_process, test_call_sends_valid_requests,
		     test_usage_errors_name_the_argument, test_commands_report_that_no_daemon_runs,
		     test_attach_continues_where_the_screen_ends);
}
