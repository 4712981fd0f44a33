/* A gateway's session with a fake daemon, which is a socket in a temporary home. */

#include "supervisor/gateway/common/gateway_session.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "tests/unit/suite.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct {
	struct event_base *base;
	struct gateway_session *session;
	char home[64], path[96];
	int listener, fd;
	struct buf in;
	unsigned ready;
	struct buf events; /* their sequence numbers, each followed by a blank */
} it;

static void on_ready(void *ctx, const struct err *failed)
{
	ck_assert_ptr_null(failed);
	it.ready++;
}

static void on_event(void *ctx, struct jval event)
{
	buf_printf(&it.events, "%llu ", (unsigned long long)jval_uint(jval_get(event, "sequence"), 0));
}

static void run_loop(void)
{
	event_base_loop(it.base, EVLOOP_NONBLOCK);
	usleep(1000);
}

static void accept_client(void)
{
	while ((it.fd = accept4(it.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) < 0)
		run_loop();
}

static void drop_client(void)
{
	close(it.fd);
	buf_reset(&it.in);
}

/* The next request, which must have this method; release it with json_decref(). */
static json_t *take_request(const char *method)
{
	char *end;

	while (!(end = it.in.len ? memchr(it.in.data, '\n', it.in.len) : NULL)) {
		char bytes[4096];
		ssize_t n = recv(it.fd, bytes, sizeof(bytes), 0);

		ck_assert_int_ne(n, 0);
		if (n > 0)
			buf_append(&it.in, bytes, (size_t)n);
		run_loop();
	}
	json_t *request = json_loadb(it.in.data, (size_t)(end - it.in.data), 0, NULL);
	buf_consume(&it.in, (size_t)(end - it.in.data) + 1);
	ck_assert_str_eq(json_string_value(json_object_get(request, "method")), method);
	return request;
}

static void send_text(const char *text)
{
	ck_assert_int_eq(send(it.fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* Answers the next request, which must have this method; `what`: "result":… or "error":…. Returns its parameters, for
 * json_decref(). */
static json_t *answer(const char *method, const char *what)
{
	json_auto_t *request = take_request(method);
	mem_auto char *line = mem_printf("{\"jsonrpc\":\"2.0\",\"id\":%lld,%s}\n",
					 (long long)json_integer_value(json_object_get(request, "id")), what);

	send_text(line);
	return json_incref(json_object_get(request, "params"));
}

static json_int_t answer_and_get(const char *method, const char *what, const char *member)
{
	json_auto_t *params = answer(method, what);

	return json_integer_value(json_object_get(params, member));
}

static void send_event(unsigned sequence)
{
	mem_auto char *line = mem_printf("{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{\"event\":{"
					 "\"sequence\":%u,\"type\":\"process.output\"}}}\n",
					 sequence);

	send_text(line);
}

static void expect_events(const char *events)
{
	while (it.events.len < strlen(events))
		run_loop();
	ck_assert_str_eq(buf_cstr(&it.events), events);
}

static void open_session(void)
{
	static const struct gateway_session_ops ops = { .ready = on_ready, .event = on_event };
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	struct err e = ERR_INIT;

	snprintf(it.home, sizeof(it.home), "/tmp/bl-session-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(it.home));
	snprintf(it.path, sizeof(it.path), "%s/control.sock", it.home);
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", it.path);
	setenv("BAILIFF_HOME", it.home, 1);
	it.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(it.listener, (struct sockaddr *)&sa, sizeof(sa)), 0);
	ck_assert_int_eq(listen(it.listener, 5), 0);
	it.base = event_base_new();
	const struct gateway_session_options o = { .base = it.base, .native_protocol = "test", .transport = "stdio" };
	ck_assert_int_eq(gateway_session_open(&o, &ops, NULL, &it.session, &e), 0);
	accept_client();
	json_decref(answer("initialize", "\"result\":{}"));
}

static void connect_session(const char *channel, unsigned sequence)
{
	mem_auto char *result = mem_printf(
		"\"result\":{\"channelId\":\"%s\",\"sessionId\":\"sess_1\",\"resumeToken\":\"t1\",\"sequence\":%u}",
		channel, sequence);

	json_decref(answer("connect_channel", result));
}

static void set_up(void)
{
	open_session();
	connect_session("chan_1", 5);
	ck_assert_int_eq(answer_and_get("subscribe_events", "\"result\":{}", "afterSequence"), 5);
	while (!it.ready)
		run_loop();
	send_event(6);
	expect_events("6 ");
}

static void tear_down(void)
{
	gateway_session_free(it.session);
	json_decref(answer("disconnect_channel", "\"result\":{}"));
	event_base_dispatch(it.base);
	drop_client();
	close(it.listener);
	unlink(it.path);
	rmdir(it.home);
	buf_done(&it.in);
	buf_done(&it.events);
	event_base_free(it.base);
	memset(&it, 0, sizeof it);
}

START_TEST(test_a_channel_is_resumed)
{
	drop_client();
	accept_client();
	json_decref(answer("initialize", "\"result\":{}"));
	ck_assert_int_eq(
		answer_and_get("reconnect_channel", "\"result\":{\"resumeToken\":\"t2\"}", "lastAckedSequence"), 6);
	send_event(6);
	send_event(7);
	expect_events("6 7 ");
}
END_TEST

/* The daemon issued a new token and died before it replied: the session opens another channel and misses no event. */
START_TEST(test_a_channel_that_cannot_be_resumed_is_replaced)
{
	drop_client();
	accept_client();
	json_decref(answer("initialize", "\"result\":{}"));
	json_decref(take_request("reconnect_channel"));
	drop_client();
	accept_client();
	json_decref(answer("initialize", "\"result\":{}"));
	json_decref(answer("reconnect_channel", "\"error\":{\"code\":-32003,\"message\":\"the resume token is not the "
						"last one that this channel was given\"}"));
	connect_session("chan_2", 9);
	ck_assert_int_eq(answer_and_get("subscribe_events", "\"result\":{}", "afterSequence"), 6);
	send_event(7);
	send_event(8);
	expect_events("6 7 8 ");
	ck_assert_str_eq(gateway_session_channel_id(it.session), "chan_2");
}
END_TEST

/* The channel of a broken connection is lost. */
START_TEST(test_a_session_whose_connection_breaks_early_gets_one_new_channel)
{
	json_decref(take_request("connect_channel"));
	drop_client();
	accept_client();
	json_decref(answer("initialize", "\"result\":{}"));
	connect_session("chan_2", 5);
	json_decref(take_request("subscribe_events"));
	drop_client();
	accept_client();
	json_decref(answer("initialize", "\"result\":{}"));
	connect_session("chan_3", 7);
	ck_assert_int_eq(answer_and_get("subscribe_events", "\"result\":{}", "afterSequence"), 7);
	while (!it.ready)
		run_loop();
	ck_assert_str_eq(gateway_session_channel_id(it.session), "chan_3");
	gateway_session_query(it.session, "get_health", NULL, NULL, NULL);
	json_decref(answer("get_health", "\"result\":{}"));
	ck_assert_uint_eq(it.ready, 1);
}
END_TEST

int main(void)
{
	const struct suite_case cases[] = {
		{ "resuming", set_up, tear_down, 120,
		  SUITE_TESTS(test_a_channel_is_resumed, test_a_channel_that_cannot_be_resumed_is_replaced) },
		{ "opening", open_session, tear_down, 120,
		  SUITE_TESTS(test_a_session_whose_connection_breaks_early_gets_one_new_channel) },
	};

	return suite_run_cases("gateway_session", cases, countof(cases));
}
