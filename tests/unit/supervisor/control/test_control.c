#include "tests/unit/suite.h"
#include "tests/unit/supervisor/control/harness.h"

#include <event2/buffer.h>
#include <sys/resource.h>
#include <sys/un.h>

#define HEALTH "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"get_metrics\"}"
#define WAIT "{\"jsonrpc\":\"2.0\",\"id\":\"w\",\"method\":\"wait_process\",\"params\":{\"processId\":\"proc_x\"}}"

static struct harness w;
static void setup(void) { harness_new(&w); }
static void teardown(void) { harness_done(&w); }

/* ---- framing ---- */

START_TEST(requests_are_parsed_for_every_split)
{
	static const char text[] = "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"list_methods\"}\r\n"
				   "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"nope\"}\n";
	struct end c = end_new(&w, NULL);
	for (size_t cut = 1; cut < sizeof text - 1; cut++) {
		end_send_n(&w, &c, text, cut);
		harness_step(&w);
		end_send(&w, &c, text + cut);
		json_auto_t *one = end_line(&w, &c), *two = end_line(&w, &c);
		ck_assert_str_eq(text_at(one, "id"), "a");
		ck_assert_uint_gt(json_array_size(at(one, "result.methods")), 15);
		ck_assert_int_eq(int_at(two, "id"), 2);
		expect_error(two, -32601, "\"nope\"");
	}
	end_done(&c);
}
END_TEST

static const struct {
	const char *line;
	int code;
	const char *part;
} bad[] = {
	{ "{", -32700, "at byte" },
	{ "nonsense", -32700, "at byte" },
	{ "{\"a\":1,\"a\":2}", -32700, "duplicate" },
	{ "\xff\xfe", -32700, "at byte" },
	{ "5", -32600, "request object" },
	{ "null", -32600, "request object" },
	{ "[]", -32600, "empty batch" },
	{ "{}", -32600, "jsonrpc" },
	{ "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"get_health\"}", -32600, "jsonrpc" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1}", -32600, "method" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"get_metrics\"}", -32600, "id" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"get_metrics\"}", -32600, "id" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"get_metric\"}", -32601, "get_metric" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"get_metrics\",\"params\":[1]}", -32602, "params" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"get_metrics\",\"params\":{\"x\":1}}", -32602, "x: unknown" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"start_process\",\"params\":{\"command\":[\"a\"],\"limits\":{"
	  "\"wallMs\":\"x\"}}}",
	  -32602, "limits.wallMs: expected" },
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"start_process\",\"params\":{\"command\":[\"a\\u0000\"]}}", -32602,
	  "command[0]" },
};

START_TEST(invalid_requests_do_not_end_the_connection)
{
	struct end c = end_new(&w, NULL);
	for (size_t i = 0; i < countof(bad); i++) {
		json_auto_t *reply = ask(&w, &c, bad[i].line);
		expect_error(reply, bad[i].code, bad[i].part);
		json_auto_t *fine = ask(&w, &c, HEALTH);
		ck_assert_ptr_nonnull(at(fine, "result.requests"));
	}
	json_auto_t *near = ask(&w, &c, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"get_metric\"}");
	ck_assert_ptr_nonnull(strstr(text_at(near, "error.message"), "get_metrics"));
	json_auto_t *field = ask(&w, &c, bad[15].line);
	ck_assert_str_eq(text_at(field, "error.data.field"), "limits.wallMs");
	ck_assert_uint_eq(fake.calls, 0);
	end_done(&c);
}
END_TEST

START_TEST(deeply_nested_requests_are_rejected)
{
	struct end c = end_new(&w, NULL);
	struct buf line = BUF_INIT;
	buf_str(&line, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"get_metrics\",\"params\":");
	for (int i = 0; i < 100000; i++)
		buf_byte(&line, '[');
	json_auto_t *reply = ask(&w, &c, line.data);
	expect_error(reply, -32700, "at byte");
	buf_done(&line);
	end_done(&c);
}
END_TEST

START_TEST(lines_over_the_limit_are_rejected_and_skipped)
{
	struct client *cl;
	struct end c = end_new(&w, &cl);
	char *much = mem_alloc(1 << 20);
	memset(much, 'x', 1 << 20);
	for (int i = 0; i < 18; i++) {
		end_send_n(&w, &c, much, 1 << 20);
		ck_assert_uint_le(lines_buffered(&cl->in), CLIENT_LINE_MAX + CONTROL_SCRATCH);
	}
	json_auto_t *reply = end_line(&w, &c);
	expect_error(reply, -32600, "line longer than 16 MiB");
	end_send(&w, &c, "\n");
	json_auto_t *fine = ask(&w, &c, HEALTH);
	ck_assert_ptr_nonnull(at(fine, "result"));
	ck_assert_uint_eq(cl->in.buf.cap, 0);
	ck_assert_uint_eq(cl->account->queued, 0);
	free(much);
	end_done(&c);
}
END_TEST

START_TEST(a_long_line_below_the_limit_is_accepted)
{
	struct end c = end_new(&w, NULL);
	struct buf line = BUF_INIT;
	buf_str(&line, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"create_session\",\"params\":{\"title\":\"");
	size_t head = line.len;
	char *room = buf_reserve(&line, 15u << 20);
	memset(room, 'y', 15u << 20);
	line.len = head + (15u << 20);
	line.data[line.len] = '\0';
	buf_str(&line, "\"}}");
	json_auto_t *reply = ask(&w, &c, line.data);
	ck_assert_int_eq(int_at(reply, "id"), 1); /* it reached its method, whether or not that accepts such a title */
	buf_done(&line);
	end_done(&c);
}
END_TEST

START_TEST(unfinished_lines_count_toward_the_quota)
{
	w.config.max_queued_bytes_per_uid = 1 << 20;
	struct end a = end_new(&w, NULL), b = end_new(&w, NULL);
	char *much = mem_alloc(900 << 10);
	memset(much, 'x', 900 << 10);
	end_send_n(&w, &a, much, 900 << 10);
	end_send_n(&w, &b, much, 900 << 10);
	until(&w, end_has_line(&a) || end_has_line(&b));
	struct end *refused = end_has_line(&a) ? &a : &b, *other = refused == &a ? &b : &a;
	json_auto_t *reply = end_line(&w, refused);
	expect_error(reply, -32012, "maxQueuedBytesPerUid");
	end_send(&w, refused, "the rest\n");
	json_auto_t *fine = ask(&w, refused, HEALTH);
	ck_assert_ptr_nonnull(at(fine, "result"));
	end_send(&w, other, "\n");
	json_auto_t *parsed = end_line(&w, other);
	expect_error(parsed, -32700, "at byte");
	free(much);
	end_done(&a);
	end_done(&b);
}
END_TEST

/* ---- batches, notifications, order ---- */

START_TEST(a_batch_gets_one_array_of_replies)
{
	struct end c = end_new(&w, NULL);
	json_auto_t *all = ask(&w, &c,
			       "[" HEALTH ",5,{\"jsonrpc\":\"2.0\",\"method\":\"get_metrics\"},{\"jsonrpc\":\"2.0\","
			       "\"id\":\"n\",\"method\":\"nope\"}]");
	ck_assert_uint_eq(json_array_size(all), 3);
	ck_assert_ptr_nonnull(at(all, "0.result"));
	ck_assert_int_eq(int_at(all, "1.error.code"), -32600);
	ck_assert(json_is_null(at(all, "1.id")));
	ck_assert_int_eq(int_at(all, "2.error.code"), -32601);
	/* Only notifications: no reply at all. */
	end_send(&w, &c,
		 "[{\"jsonrpc\":\"2.0\",\"method\":\"get_metrics\"},{\"jsonrpc\":\"2.0\",\"method\":\"nope\"}]\n{"
		 "\"jsonrpc\":\"2.0\",\"method\":\"nope\"}\n");
	json_auto_t *next = ask(&w, &c, "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"get_metrics\"}");
	ck_assert_ptr_nonnull(at(next, "result"));
	ck_assert(json_is_null(at(next, "id")));
	struct buf big = BUF_INIT;
	for (int i = 0; i < 1001; i++)
		buf_str(&big, i ? ",1" : "[1");
	buf_byte(&big, ']');
	json_auto_t *many = ask(&w, &c, big.data);
	expect_error(many, -32600, "1000");
	buf_done(&big);
	end_done(&c);
}
END_TEST

START_TEST(a_batch_is_answered_when_all_its_calls_are)
{
	struct end c = end_new(&w, NULL);
	fake.hold = true;
	end_send(&w, &c, "[" WAIT "," HEALTH "]\n");
	json_auto_t *alone = ask(&w, &c, "{\"jsonrpc\":\"2.0\",\"id\":\"other\",\"method\":\"get_metrics\"}");
	ck_assert_str_eq(text_at(alone, "id"), "other");
	fake_release();
	json_auto_t *all = end_line(&w, &c);
	ck_assert_uint_eq(json_array_size(all), 2);
	end_done(&c);
}
END_TEST

START_TEST(the_replies_of_a_batch_are_bounded)
{
	struct end c = end_new(&w, NULL);
	struct buf batch = BUF_INIT;
	append(&w, EVENT_RUN_STATUS, (uint32_t)geteuid(), "sess_1", NULL, 400, 16000);
	for (int i = 0; i < 20; i++)
		buf_printf(&batch,
			   "%s{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"list_events\",\"params\":{\"limit\":1000}}",
			   i ? "," : "[", i);
	buf_byte(&batch, ']');
	json_auto_t *all = ask(&w, &c, batch.data);
	ck_assert_uint_eq(json_array_size(all), 20);
	expect_error(json_array_get(all, 19), -32012, "longer than 16 MiB");
	buf_done(&batch);
	end_done(&c);
}
END_TEST

START_TEST(replies_have_the_ids_of_their_requests)
{
	static const char *const ids[] = {
		"\"x\"", "\"\"", "\"\\u00fc\\n\\\"\"", "0", "-5", "4503599627370496", "null"
	};
	struct end c = end_new(&w, NULL);
	for (size_t i = 0; i < countof(ids); i++) {
		char text[200];
		snprintf(text, sizeof text, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"get_metrics\"}", ids[i]);
		json_auto_t *reply = ask(&w, &c, text), *id = json_loads(ids[i], JSON_DECODE_ANY, NULL);
		ck_assert(json_equal(at(reply, "id"), id));
	}
	end_done(&c);
}
END_TEST

/* ---- roles ---- */

START_TEST(a_role_can_only_be_lowered)
{
	struct end c = end_new(&w, NULL);
	json_auto_t *hello = ask(&w, &c, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"}");
	ck_assert_str_eq(text_at(hello, "result.role"), "operator");
	ck_assert_ptr_nonnull(strstr(text_at(hello, "result.runtimeId"), "rt_"));
	json_auto_t *agent = ask(
		&w, &c, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"role\":\"agent\"}}");
	ck_assert_str_eq(text_at(agent, "result.role"), "agent");
	json_auto_t *up = ask(
		&w, &c, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"role\":\"operator\"}}");
	expect_error(up, -32003, "cannot be raised");
	json_auto_t *store = ask(&w, &c, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"compact_store\"}");
	expect_error(store, -32003, "needs the role operator");
	json_auto_t *start = ask(&w, &c, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"create_session\"}");
	ck_assert_ptr_nonnull(at(start, "result"));
	json_decref(ask(&w, &c,
			"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"role\":\"observer\"}}"));
	json_auto_t *no = ask(&w, &c, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"create_session\"}");
	expect_error(no, -32003, "observer");
	json_auto_t *king = ask(
		&w, &c, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"role\":\"king\"}}");
	expect_error(king, -32602, "role: expected one of");
	end_done(&c);
}
END_TEST

/* ---- ends ---- */

START_TEST(a_half_closed_connection_gets_its_replies)
{
	struct end c = end_new(&w, NULL);
	fake.hold = true;
	end_send(&w, &c, WAIT "\n" HEALTH); /* the last line without its newline */
	shutdown(c.fd, SHUT_WR);
	json_auto_t *one = end_line(&w, &c);
	ck_assert_int_eq(int_at(one, "id"), 1);
	ck_assert_uint_eq(w.control->nclients, 1);
	fake_release();
	json_auto_t *two = end_line(&w, &c);
	ck_assert_str_eq(text_at(two, "id"), "w");
	until(&w, (end_read(&c), c.eof));
	ck_assert_uint_eq(w.control->nclients, 0);
	ck_assert_uint_eq(fake.gone, 1);
	end_done(&c);
}
END_TEST

START_TEST(a_half_closed_connection_that_closes_is_removed)
{
	struct end c = end_new(&w, NULL);
	fake.hold = true;
	end_send(&w, &c, WAIT "\n");
	shutdown(c.fd, SHUT_WR);
	until(&w, fake.fn);
	harness_step(&w);
	ck_assert_uint_eq(w.control->nclients, 1);
	end_done(&c);
	until(&w, w.control->nclients == 0);
	ck_assert_uint_eq(fake.gone, 1);
	ck_assert(!LIST_EMPTY(&w.control->leaving)); /* its call is not answered yet */
	fake_release();
	ck_assert(LIST_EMPTY(&w.control->leaving));
}
END_TEST

START_TEST(a_reply_after_the_client_disconnected_is_discarded)
{
	struct end c = end_new(&w, NULL);
	fake.hold = true;
	end_send(&w, &c, "[" WAIT ",{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"subscribe_events\"}]\n");
	until(&w, fake.fn);
	end_done(&c);
	until(&w, w.control->nclients == 0);
	ck_assert_uint_eq(w.control->nsubscriptions, 0);
	fake.error = "too late";
	fake_release();
	ck_assert(LIST_EMPTY(&w.control->leaving));
	ck_assert(LIST_EMPTY(&w.control->accounts));
}
END_TEST

START_TEST(control_can_be_freed_with_calls_in_progress)
{
	struct end c = end_new(&w, NULL);
	fake.hold = true;
	end_send(
		&w, &c,
		"[" WAIT "," HEALTH "]\n" WAIT
		"\n{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"create_session\",\"params\":{\"idempotencyKey\":\"k\"}}\n"
		"{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"create_session\",\"params\":{\"idempotencyKey\":\"k\"}}\n");
	until(&w, fake.calls == 3);
	for (int i = 0; i < 5; i++)
		harness_step(&w);
	end_done(&c);
	/* teardown frees control with all of them */
}
END_TEST

/* ---- backpressure ---- */

START_TEST(requests_in_flight_are_bounded)
{
	struct client *cl;
	struct end c = end_new(&w, &cl);
	fake.hold = true;
	struct buf many = BUF_INIT;
	for (int i = 0; i < 400; i++)
		buf_str(&many, WAIT "\n");
	end_send_n(&w, &c, many.data, many.len);
	until(&w, fake.calls >= CLIENT_CALLS_MAX);
	for (int i = 0; i < 20; i++)
		harness_step(&w);
	ck_assert_uint_eq(fake.calls, CLIENT_CALLS_MAX);
	/* A disconnect is noticed even while nothing is read. */
	end_done(&c);
	until(&w, w.control->nclients == 0);
	buf_done(&many);
}
END_TEST

START_TEST(a_client_that_does_not_read_is_not_read_from)
{
	struct client *cl;
	struct end c = end_new(&w, &cl), other = end_new(&w, NULL);
	struct buf many = BUF_INIT;
	append(&w, EVENT_RUN_STATUS, (uint32_t)geteuid(), "sess_1", NULL, 200, 2000);
	for (int i = 0; i < 100; i++)
		buf_str(&many,
			"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"list_events\",\"params\":{\"limit\":1000}}\n");
	end_send_n(&w, &c, many.data, many.len);
	until(&w, client_unsent(cl) >= CLIENT_OUT_HIGH);
	for (int i = 0; i < 20; i++) {
		json_decref(ask(&w, &other, HEALTH));
		ck_assert_uint_le(client_unsent(cl), CLIENT_OUT_HIGH + (1u << 20));
	}
	for (int i = 0; i < 100; i++) {
		json_auto_t *reply = end_line(&w, &c);
		ck_assert_uint_eq(json_array_size(at(reply, "result.events")), 200);
	}
	ck_assert_uint_eq(client_unsent(cl), 0);
	ck_assert_ptr_null(cl->out);
	buf_done(&many);
	end_done(&c);
	end_done(&other);
}
END_TEST

/* ---- the listener ---- */

static void open_listener(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	snprintf(a.sun_path, sizeof a.sun_path, "%s/control.sock", w.dir);
	control_free(w.control);
	w.listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(w.listen_fd, (struct sockaddr *)&a, sizeof a), 0);
	ck_assert_int_eq(listen(w.listen_fd, 64), 0);
	harness_open_control(&w);
}

static struct end dial(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	snprintf(a.sun_path, sizeof a.sun_path, "%s/control.sock", w.dir);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
	return (struct end){ .fd = fd };
}

START_TEST(connections_of_a_uid_are_limited)
{
	open_listener();
	w.config.max_connections_per_uid = 3;
	struct end c[4];
	for (int i = 0; i < 4; i++)
		c[i] = dial();
	json_auto_t *refused = end_line(&w, &c[3]);
	expect_error(refused, -32012, "maxConnectionsPerUid");
	until(&w, (end_read(&c[3]), c[3].eof));
	end_done(&c[0]);
	until(&w, w.control->nclients == 2);
	struct end again = dial();
	json_decref(ask(&w, &again, HEALTH));
	for (int i = 1; i < 4; i++)
		end_done(&c[i]);
	end_done(&again);
}
END_TEST

START_TEST(without_descriptors_new_connections_are_rejected)
{
	SKIP_IF(suite_under("valgrind"), "valgrind keeps descriptors of its own below the limit");
	open_listener();
	struct end old = dial(), late = dial();
	json_decref(ask(&w, &old, HEALTH));
	json_decref(ask(&w, &late, HEALTH));
	end_done(&late);
	until(&w, w.control->nclients == 1);
	struct end c = dial();
	/* No descriptor is free: the limit is the number of the next one. */
	int next = dup(0);
	close(next);
	struct rlimit limit, tight;
	getrlimit(RLIMIT_NOFILE, &limit);
	tight = limit;
	tight.rlim_cur = (rlim_t)next;
	setrlimit(RLIMIT_NOFILE, &tight);
	json_auto_t *refused = end_line(&w, &c);
	expect_error(refused, -32012, "no file descriptors left");
	json_decref(ask(&w, &old, HEALTH));
	ck_assert_int_ge(w.control->spare_fd, 0);
	ck_assert_uint_eq(w.control->counts.refused, 1);
	setrlimit(RLIMIT_NOFILE, &limit);
	/* Without the reserve descriptor the listener pauses and resumes later. */
	struct end d = dial();
	int reserve = fd_take(&w.control->spare_fd);
	setrlimit(RLIMIT_NOFILE, &tight);
	until(&w, event_pending(w.control->accept_again_ev, EV_TIMEOUT, NULL));
	ck_assert(!event_pending(w.control->accept_ev, EV_READ, NULL));
	setrlimit(RLIMIT_NOFILE, &limit);
	json_decref(ask(&w, &d, HEALTH));
	ck_assert_int_ge(w.control->spare_fd, 0);
	close(reserve);
	end_done(&c);
	end_done(&d);
	end_done(&old);
}
END_TEST

START_TEST(idle_connections_hold_no_buffers)
{
	struct client *cl;
	struct end c = end_new(&w, &cl);
	json_decref(ask(&w, &c, HEALTH));
	ck_assert_ptr_null(cl->out);
	ck_assert_uint_eq(cl->in.buf.cap, 0);
	ck_assert_uint_lt(sizeof *cl, 1024);
	ck_assert_uint_eq(cl->account->queued, 0);
	end_done(&c);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("control");
	TCase *t = tcase_create("all");
	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, requests_are_parsed_for_every_split);
	tcase_add_test(t, invalid_requests_do_not_end_the_connection);
	tcase_add_test(t, deeply_nested_requests_are_rejected);
	tcase_add_test(t, lines_over_the_limit_are_rejected_and_skipped);
	tcase_add_test(t, a_long_line_below_the_limit_is_accepted);
	tcase_add_test(t, unfinished_lines_count_toward_the_quota);
	tcase_add_test(t, a_batch_gets_one_array_of_replies);
	tcase_add_test(t, a_batch_is_answered_when_all_its_calls_are);
	tcase_add_test(t, the_replies_of_a_batch_are_bounded);
	tcase_add_test(t, replies_have_the_ids_of_their_requests);
	tcase_add_test(t, a_role_can_only_be_lowered);
	tcase_add_test(t, a_half_closed_connection_gets_its_replies);
	tcase_add_test(t, a_half_closed_connection_that_closes_is_removed);
	tcase_add_test(t, a_reply_after_the_client_disconnected_is_discarded);
	tcase_add_test(t, control_can_be_freed_with_calls_in_progress);
	tcase_add_test(t, requests_in_flight_are_bounded);
	tcase_add_test(t, a_client_that_does_not_read_is_not_read_from);
	tcase_add_test(t, connections_of_a_uid_are_limited);
	tcase_add_test(t, without_descriptors_new_connections_are_rejected);
	tcase_add_test(t, idle_connections_hold_no_buffers);
	suite_add_tcase(s, t);
	return harness_main(s);
}
