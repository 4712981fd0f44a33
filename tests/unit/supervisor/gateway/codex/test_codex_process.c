/* The daemon's answers and its events come over one connection, but in no fixed order: what a client is told does not
 * depend on it. */

#include "runtime/base/buf.h"
#include "runtime/base/mem.h"
#include "supervisor/gateway/codex/codex_server.h"
#include "supervisor/gateway/common/rpc_message.h"
#include "tests/unit/suite.h"
#define FAKE_SESSION_ASKS_NOBODY 1
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

/* Answers the oldest request, which is this one. Texts of JSON; one of them NULL. */
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

/* The methods of what was heard since the last look, and "error" or "result" of answers, with blanks between. */
static void hears(const char *expected)
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
	hears("result");
}

static void tear_down(void)
{
	codex_server_free(it.server);
	json_decref(it.heard);
	event_base_free(it.base);
}

static void ask_to_start(void)
{
	feed("{\"id\":2,\"method\":\"process/"
	     "start\",\"params\":{\"processId\":\"p\",\"argv\":[\"true\"],\"cwd\":\"file:///"
	     "\",\"env\":{},\"tty\":false}}");
	answer("get_sandbox",
	       "{\"confined\":true,\"sandboxProfile\":{\"writeRoots\":[],\"readRoots\":[\"/"
	       "\"],\"hidden\":[],\"private\":[],\"network\":\"none\"}}",
	       NULL);
}

static void evaluated(const char *id)
{
	mem_auto char *text = mem_printf("{\"type\":\"permission.evaluated\",\"processId\":\"%s\",\"threadId\":\"thr_"
					 "1\",\"payload\":{\"justification\":"
					 "\"Codex call - in thread -, process p\"}}",
					 id);

	event(text);
}

static void failed(const char *id)
{
	mem_auto char *text = mem_printf(
		"{\"type\":\"process.failed\",\"processId\":\"%s\",\"payload\":{\"message\":\"no such program\"}}", id);

	event(text);
}

static void ran(const char *id)
{
	static const char *const rest[] = {
		"\"type\":\"process.started\",\"payload\":{\"stdin\":\"none\"}",
		("\"type\":\"process.output\",\"payload\":{\"stream\":\"stdout\",\"offset\":0,\"length\":3,"
		 "\"previewBytes\":3,\"preview\":\"hi\\n\"}"),
		"\"type\":\"process.completed\",\"payload\":{\"exitCode\":0}",
	};

	evaluated(id);
	for (size_t i = 0; i < countof(rest); i++) {
		mem_auto char *text = mem_printf("{\"processId\":\"%s\",%s}", id, rest[i]);

		event(text);
	}
}

#define NOT_STARTED                                                                                                \
	"{\"code\":-32014,\"message\":\"no\",\"data\":{\"category\":\"sandbox_failed\",\"errno\":2,\"processId\":" \
	"\"proc_1\"}}"

/* Its name is free, and stays free despite late events. */
static void check_name_is_free(void)
{
	hears("error");
	ask_to_start();
	hears("");
	answer("start_process", "{\"processId\":\"proc_2\",\"status\":\"running\"}", NULL);
	ran("proc_2");
	hears("result process/output process/exited process/closed");
}

START_TEST(test_events_of_a_failed_start_come_late)
{
	ask_to_start();
	answer("start_process", NULL, NOT_STARTED);
	evaluated("proc_1");
	failed("proc_1");
	check_name_is_free();
}
END_TEST

START_TEST(test_events_of_a_failed_start_come_early)
{
	ask_to_start();
	evaluated("proc_1");
	failed("proc_1");
	answer("start_process", NULL, NOT_STARTED);
	check_name_is_free();
}
END_TEST

START_TEST(test_events_of_a_failed_start_come_when_the_name_is_anothers)
{
	ask_to_start();
	answer("start_process", NULL, NOT_STARTED);
	hears("error");
	ask_to_start();
	evaluated("proc_1");
	failed("proc_1");
	answer("start_process", "{\"processId\":\"proc_2\",\"status\":\"running\"}", NULL);
	hears("result");
	ran("proc_2");
	hears("process/output process/exited process/closed");
}
END_TEST

START_TEST(test_what_ended_before_its_start_was_answered_is_told_after_it)
{
	ask_to_start();
	ran("proc_1");
	hears("");
	answer("start_process", "{\"processId\":\"proc_1\",\"status\":\"running\"}", NULL);
	hears("result process/output process/exited process/closed");
}
END_TEST

int main(void)
{
	const struct suite_case cases[] = {
		{ "codex_process", set_up, tear_down, 120,
		  SUITE_TESTS(test_events_of_a_failed_start_come_late, test_events_of_a_failed_start_come_early,
			      test_events_of_a_failed_start_come_when_the_name_is_anothers,
			      test_what_ended_before_its_start_was_answered_is_told_after_it) },
	};

	return suite_run_cases("codex_process", cases, countof(cases));
}
