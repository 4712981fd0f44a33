/* Processes on terminals: typed input, which part of it is recorded, and how soon output is reported. */

#include "tests/unit/runtime/engine/fake_host.h"
#include "tests/unit/suite.h"

#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "runtime/base/mem.h"
#include "runtime/view/view.h"

#include <check.h>
#include <signal.h>

static struct fake_host w;
static struct fake_reply reply, second;
static struct fake_process *shell;

static void set_up(void)
{
	fake_open(&w);
	reply = second = (struct fake_reply){ 0 };
	struct start_request r = fake_request(&w, "sh");
	r.tty_rows = 24;
	r.tty_cols = 80;
	shell = fake_run(&w, &r, &reply);
}

static void tear_down(void)
{
	fake_close(&w);
	buf_done(&reply.json);
	buf_done(&second.json);
}

/* A member of the last event of that type, as text. */
static char *member(const char *type, const char *path)
{
	mem_auto char *json = fake_event(&w, type);
	struct jval v = json ? jval_path(jval_of(json, strlen(json)), path) : (struct jval){ 0 };

	return v.type == JT_NONE ? mem_strdup("") : mem_strndup(v.text, v.len);
}

#define ck_member(type, path, text)                        \
	do {                                               \
		mem_auto char *found = member(type, path); \
		ck_assert_str_eq(found, text);             \
	} while (0)

static void type(const char *text)
{
	engine_write_stdin(w.engine, shell->id, text, strlen(text), &fake_caller, fake_reply_fn, &second);
	fake_settle(&w);
}

static void end_input(void)
{
	engine_close_stdin(w.engine, shell->id, &fake_caller, fake_reply_fn, &second);
	fake_settle(&w);
}

static uint64_t view_number(const char *path)
{
	buf_auto struct buf doc = BUF_INIT;
	struct err e = ERR_INIT;

	ck_assert_int_eq(view_process(w.store, fake_caller.uid, shell->id, &doc, &e), 0);
	return jval_uint(jval_path(jval_of(doc.data, doc.len), path), 0);
}

START_TEST(a_terminal_has_one_stream_and_a_recorded_size)
{
	ck_assert_uint_eq(shell->plan_flags & (PLAN_TTY | PLAN_STDIN_PIPE | PLAN_STDERR_MERGE), PLAN_TTY);
	ck_assert_str_eq(shell->streams.ref[STREAM_STDOUT], "");
	ck_assert_str_eq(shell->streams.ref[STREAM_STDERR], "");
	ck_assert_str_ne(shell->streams.ref[STREAM_PTY], "");
	ck_member("process.started", "payload.tty", "{\"rows\":24,\"cols\":80}");
	ck_member("process.started", "payload.stdin", "\"tty\"");
	fake_print(&w, shell, STREAM_PTY, "$ ", 2);
	fake_advance(&w, 60);
	ck_member("process.output", "payload.stream", "\"pty\"");
	fake_exit(&w, shell, 0, 0);
	ck_member("process.completed", "payload.outputs.pty.bytes", "2");
	ck_assert(fake_verified(&w));
}
END_TEST

START_TEST(input_is_recorded_unless_echo_is_off)
{
	type("ls\r");
	ck_member("process.input", "payload.preview", "\"ls\\r\"");
	ck_member("process.input", "payload.redacted", "false");
	shell->line.echo = false;
	type("hunter2\r");
	ck_member("process.input", "payload.preview", "");
	ck_member("process.input", "payload.bytes", "8");
	ck_member("process.input", "payload.redacted", "true");
	shell->line.canonical = false; /* an editor: no echo, but not a secret */
	type("x");
	ck_member("process.input", "payload.preview", "\"x\"");
	ck_member("process.input", "payload.redacted", "false");
	ck_assert_str_eq(buf_cstr(&shell->input), "ls\rhunter2\rx");
}
END_TEST

/* Echo is turned off while part of the input waits: all of it is a secret. */
START_TEST(a_secret_that_waited_is_redacted)
{
	shell->stdin_room = 3;
	type("secret");
	ck_assert_uint_eq(second.count, 0);
	shell->line.echo = false;
	shell->stdin_room = SIZE_MAX;
	engine_on_stdin_room(w.engine, shell->id);
	fake_settle(&w);
	ck_assert_uint_eq(second.count, 1);
	ck_member("process.input", "payload.redacted", "true");
	ck_member("process.input", "payload.preview", "");
}
END_TEST

START_TEST(the_end_of_input_is_sent_as_a_character)
{
	type("line\n");
	end_input();
	ck_assert(jval_is_str(fake_answer(&second, "sent"), "eof") &&
		  jval_bool(fake_answer(&second, "canonical"), false));
	ck_assert_str_eq(buf_cstr(&shell->input), "line\n\x04");
	ck_member("process.input", "payload.kind", "\"eof\"");
	buf_reset(&shell->input);
	type("half");
	end_input(); /* the first one only passes on the incomplete line */
	ck_assert_str_eq(buf_cstr(&shell->input), "half\x04\x04");
	buf_reset(&shell->input);
	shell->line = (struct port_line){ .eof = 5 };
	type("half");
	end_input();
	ck_assert_str_eq(buf_cstr(&shell->input), "half\x05");
	ck_assert(!jval_bool(fake_answer(&second, "canonical"), true));
	shell->line.eof = 0;
	end_input();
	ck_assert_int_eq(second.code, ERR_STATE);
	type("it continues");
	ck_assert_int_eq(second.code, 0);
	ck_assert(!shell->stdin_closed);
	ck_assert_uint_eq(view_number("tty.rows"), 24);
}
END_TEST

START_TEST(a_resize_is_recorded_and_survives_a_restart)
{
	char id[PLAN_KEY_MAX];

	engine_resize_process(w.engine, shell->id, 50, 132, &fake_caller, fake_reply_fn, &second);
	fake_settle(&w);
	ck_assert_int_eq(second.code, 0);
	ck_assert_uint_eq(jval_uint(fake_answer(&second, "rows"), 0), 50);
	ck_assert_uint_eq(shell->rows, 50);
	ck_member("process.input", "payload.kind", "\"resize\"");
	ck_member("process.input", "payload.cols", "132");
	ck_assert_uint_eq(view_number("tty.cols"), 132);
	memcpy(id, shell->id, sizeof id);
	fake_print(&w, shell, STREAM_PTY, "before ", 7);
	fake_crash(&w);
	const struct port_held held = { .id = id, .attempt = 1, .started = true };
	fake_reopen(&w, &held, 1);
	ck_assert_str_ne(shell->streams.ref[STREAM_PTY], "");
	fake_print(&w, shell, STREAM_PTY, "after", 5);
	type("still typed");
	ck_assert_int_eq(second.code, 0);
	fake_exit(&w, shell, 0, 0);
	ck_member("process.completed", "payload.outputs.pty.bytes", "12");
	ck_assert_uint_eq(view_number("tty.rows"), 50);
	ck_assert(fake_verified(&w));
}
END_TEST

START_TEST(pipes_have_no_size)
{
	struct start_request r = fake_request(&w, "x");
	struct fake_process *p = fake_run(&w, &r, &reply);

	engine_resize_process(w.engine, p->id, 50, 132, &fake_caller, fake_reply_fn, &second);
	ck_assert_int_eq(second.code, ERR_STATE);
	ck_member("process.started", "payload.tty", "false");
}
END_TEST

/* Output is reported every 50 ms; the echo of a key is reported immediately. */
START_TEST(an_echo_is_reported_immediately)
{
	fake_advance(&w, 1000);
	fake_print(&w, shell, STREAM_PTY, "a", 1);
	fake_advance(&w, 0);
	ck_assert_uint_eq(fake_count(&w, "process.output"), 1);
	fake_print(&w, shell, STREAM_PTY, "b", 1);
	fake_advance(&w, 10);
	ck_assert_uint_eq(fake_count(&w, "process.output"), 1);
	type("k");
	fake_print(&w, shell, STREAM_PTY, "k", 1);
	fake_advance(&w, 0);
	ck_assert_uint_eq(fake_count(&w, "process.output"), 2);
	ck_member("process.output", "payload.length", "2");
	fake_print(&w, shell, STREAM_PTY, "c", 1);
	fake_advance(&w, 5);
	ck_assert_uint_eq(fake_count(&w, "process.output"), 3);
	fake_advance(&w, 300);
	fake_print(&w, shell, STREAM_PTY, "d", 1);
	fake_advance(&w, 0);
	fake_print(&w, shell, STREAM_PTY, "e", 1);
	fake_advance(&w, 20);
	ck_assert_uint_eq(fake_count(&w, "process.output"), 4);
	fake_advance(&w, 30);
	ck_assert_uint_eq(fake_count(&w, "process.output"), 5);
}
END_TEST

START_TEST(a_terminal_process_is_terminated_by_a_hangup)
{
	engine_terminate_process(w.engine, shell->id, "user", 0, 1000, &fake_caller, fake_reply_fn, &second);
	ck_assert_uint_eq(shell->signals, 1ull << (SIGHUP - 1) | 1ull << (SIGCONT - 1));
	fake_exit(&w, shell, SIGHUP, 0);
	ck_member("process.terminated", "payload.signal", "\"HUP\"");
}
END_TEST

int main(void)
{
	const struct suite_case cases[] = {
		{ "terminal", set_up, tear_down, 60,
		  SUITE_TESTS(a_terminal_has_one_stream_and_a_recorded_size, input_is_recorded_unless_echo_is_off,
			      a_secret_that_waited_is_redacted, the_end_of_input_is_sent_as_a_character,
			      a_resize_is_recorded_and_survives_a_restart, pipes_have_no_size,
			      an_echo_is_reported_immediately, a_terminal_process_is_terminated_by_a_hangup) },
	};

	return suite_run_cases("terminal", cases, 1);
}
