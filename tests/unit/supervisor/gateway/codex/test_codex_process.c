/* The daemon's replies and events arrive over one connection in no fixed order; the messages to the client do not
 * depend on it. */

#include "runtime/base/buf.h"
#include "runtime/base/mem.h"
#include "supervisor/gateway/codex/codex_server.h"
#include "supervisor/gateway/common/rpc_message.h"
#include "tests/unit/suite.h"
#define FAKE_SESSION_NO_ANSWERS 1
#include "tests/fuzz/fake_session.h"

#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

struct client {
	struct event_base *base;
	struct codex_server *server;
	json_t *heard; /* messages, in order */
};

static struct client it;

static void on_send(void *ctx, json_t *message) { json_array_append_new(it.heard, message); }

static bool on_flushed(void *ctx) { return true; }

static void feed(const char *line) { codex_server_feed(it.server, line, strlen(line)); }

/* Answers the oldest request, which must be this one, with JSON texts of which one is NULL. */
static void answer(const char *method, const char *result, const char *error)
{
	struct request *q = fake_session_take();
	json_auto_t *r = result ? json_loads(result, 0, NULL) : NULL, *e = error ? json_loads(error, 0, NULL) : NULL;

	ck_assert_ptr_nonnull(q);
	ck_assert_str_eq(q->method, method);
	if (q->fn)
		q->fn(q->ctx, r, e);
	free(q);
}

static void event(const char *text) { up->ops.event(up->ctx, jval_of(text, strlen(text))); }

/* Checks the messages since the last call: methods of notifications, "error" or "result" of replies, separated by
 * blanks. */
static void expect_messages(const char *expected)
{
	buf_auto struct buf words = BUF_INIT;
	json_t *m;
	size_t i;

	json_array_foreach (it.heard, i, m) {
		const char *method = json_string_value(json_object_get(m, "method"));

		buf_printf(&words, "%s%s", i ? " " : "",
			   method                        ? method
			   : json_object_get(m, "error") ? "error"
							 : "result");
	}
	ck_assert_str_eq(buf_cstr(&words), expected);
	json_array_clear(it.heard);
}

static void set_up(void)
{
	static const struct codex_server_ops ops = { .send = on_send, .flushed = on_flushed };
	const struct codex_options o = { .approval_ms = 60000, .reaper_fd = -1 };

	it.base = event_base_new();
	it.heard = json_array();
	it.server = codex_server_new(it.base, &o, &ops, NULL);
	feed("{\"id\":1,\"method\":\"initialize\",\"params\":{\"clientName\":\"test\"}}");
	up->ready = true;
	up->ops.ready(up->ctx, NULL);
	answer("get_health", "{}", NULL);
	feed("{\"method\":\"initialized\"}");
	expect_messages("result");
}

static void tear_down(void)
{
	codex_server_free(it.server);
	json_decref(it.heard);
	event_base_free(it.base);
}

static void request_start_with(const char *more)
{
	mem_auto char *line = mem_printf(
		"{\"id\":2,\"method\":\"process/"
		"start\",\"params\":{\"processId\":\"p\",\"argv\":[\"true\"],\"cwd\":\"file:///"
		"\",\"env\":{},%s}}",
		more);

	feed(line);
	answer("get_sandbox",
	       "{\"confined\":true,\"sandboxProfile\":{\"writeRoots\":[],\"readRoots\":[\"/"
	       "\"],\"hidden\":[],\"private\":[],\"network\":\"none\"}}",
	       NULL);
}

static void request_start(void) { request_start_with("\"tty\":false"); }

static void send_evaluated(const char *id)
{
	mem_auto char *text = mem_printf("{\"type\":\"permission.evaluated\",\"processId\":\"%s\",\"threadId\":\"thr_"
					 "1\",\"payload\":{\"justification\":"
					 "\"Codex call - in thread -, process p\"}}",
					 id);

	event(text);
}

static void send_failed(const char *id)
{
	mem_auto char *text = mem_printf(
		"{\"type\":\"process.failed\",\"processId\":\"%s\",\"payload\":{\"message\":\"no such program\"}}", id);

	event(text);
}

static void send_run(const char *id)
{
	static const char *const rest[] = {
		"\"type\":\"process.started\",\"payload\":{\"stdin\":\"none\"}",
		("\"type\":\"process.output\",\"payload\":{\"stream\":\"stdout\",\"offset\":0,\"length\":3,"
		 "\"previewBytes\":3,\"preview\":\"hi\\n\"}"),
		"\"type\":\"process.completed\",\"payload\":{\"exitCode\":0}",
	};

	send_evaluated(id);
	for (size_t i = 0; i < countof(rest); i++) {
		mem_auto char *text = mem_printf("{\"processId\":\"%s\",%s}", id, rest[i]);

		event(text);
	}
}

#define NOT_STARTED                                                                                                \
	"{\"code\":-32014,\"message\":\"no\",\"data\":{\"category\":\"sandbox_failed\",\"errno\":2,\"processId\":" \
	"\"proc_1\"}}"

/* The name of the process is free, and stays free despite late events. */
static void check_name_is_free(void)
{
	expect_messages("error");
	request_start();
	expect_messages("");
	answer("start_process", "{\"processId\":\"proc_2\",\"status\":\"running\"}", NULL);
	send_run("proc_2");
	expect_messages("result process/output process/exited process/closed");
}

START_TEST(test_a_failed_start_frees_its_name_before_its_events)
{
	request_start();
	answer("start_process", NULL, NOT_STARTED);
	send_evaluated("proc_1");
	send_failed("proc_1");
	check_name_is_free();
}
END_TEST

START_TEST(test_a_failed_start_frees_its_name_after_its_events)
{
	request_start();
	send_evaluated("proc_1");
	send_failed("proc_1");
	answer("start_process", NULL, NOT_STARTED);
	check_name_is_free();
}
END_TEST

START_TEST(test_late_events_of_a_failed_start_do_not_affect_another_process)
{
	request_start();
	answer("start_process", NULL, NOT_STARTED);
	expect_messages("error");
	request_start();
	send_evaluated("proc_1");
	send_failed("proc_1");
	answer("start_process", "{\"processId\":\"proc_2\",\"status\":\"running\"}", NULL);
	expect_messages("result");
	send_run("proc_2");
	expect_messages("process/output process/exited process/closed");
}
END_TEST

START_TEST(test_events_before_the_reply_to_a_start_are_sent_after_it)
{
	request_start();
	send_run("proc_1");
	expect_messages("");
	answer("start_process", "{\"processId\":\"proc_1\",\"status\":\"running\"}", NULL);
	expect_messages("result process/output process/exited process/closed");
}
END_TEST

/* After a restart of the runtime the repeated start is answered before the events are. */
START_TEST(test_stdin_is_open_before_the_event_of_the_start)
{
	static const struct {
		const char *start;
		bool open;
	} rows[] = { { "\"tty\":true", true },
		     { "\"tty\":false,\"pipeStdin\":true", true },
		     { "\"tty\":false,\"pipeStdin\":false", false } };

	for (size_t i = 0; i < countof(rows); i++) {
		if (i) {
			tear_down();
			set_up();
		}
		request_start_with(rows[i].start);
		answer("start_process", "{\"processId\":\"proc_1\",\"status\":\"running\"}", NULL);
		expect_messages("result");
		feed("{\"id\":3,\"method\":\"process/"
		     "write\",\"params\":{\"processId\":\"p\",\"chunk\":\"YQo=\",\"writeId\":\"1\"}}");
		if (rows[i].open)
			answer("write_process_stdin", "{\"bytes\":2}", NULL);
		json_t *reply = json_array_get(it.heard, 0);
		ck_assert_str_eq(json_string_value(json_object_get(json_object_get(reply, "result"), "status")),
				 rows[i].open ? "accepted" : "stdinClosed");
	}
}
END_TEST

int main(void)
{
	const struct suite_case cases[] = {
		{ "codex_process", set_up, tear_down, 120,
		  SUITE_TESTS(test_a_failed_start_frees_its_name_before_its_events,
			      test_a_failed_start_frees_its_name_after_its_events,
			      test_late_events_of_a_failed_start_do_not_affect_another_process,
			      test_events_before_the_reply_to_a_start_are_sent_after_it,
			      test_stdin_is_open_before_the_event_of_the_start) },
	};

	return suite_run_cases("codex_process", cases, countof(cases));
}
