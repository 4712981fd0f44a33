/* Streams of MCP over HTTP and the server below them, with a client at the other end of a socket pair. */

#include "runtime/base/buf.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "supervisor/gateway/http/http_exchange.h"
#include "supervisor/gateway/http/http_request.h"
#include "supervisor/gateway/http/http_server.h"
#include "supervisor/gateway/http/http_sse.h"
#include "supervisor/gateway/http/mcp_stream.h"
#include "tests/unit/suite.h"

#include <event2/event.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct rig {
	struct event_base *base;
	struct http_server *server;
	struct http_exchange *x; /* the newest one, not answered yet */
	struct mcp_streams *streams;
	unsigned gone, abandoned;
} rig;

static void on_exchange(void *ctx, struct http_exchange *x) { rig.x = x; }

static void on_gone(void *ctx) { rig.gone++; }

static void on_abandoned(void *ctx, struct mcp_stream *s) { rig.abandoned++; }

static void setup(void)
{
	struct http_limits limits = HTTP_LIMITS_DEFAULT;

	signal(SIGPIPE, SIG_IGN); /* as main does */
	rig = (struct rig){ .base = event_base_new() };
	rig.server = http_server_new(rig.base, &limits, NULL);
	http_server_route(
		rig.server,
		&(struct http_route){ .path = "/", .methods = "GET, POST", .open = true, .handle = on_exchange }, NULL);
}

static void teardown(void)
{
	if (rig.streams)
		mcp_streams_free(rig.streams);
	http_server_free(rig.server);
	event_base_free(rig.base);
}

static void streams(bool resumable)
{
	rig.streams = mcp_streams_new(
		&(struct mcp_streams_options){ .base = rig.base, .resumable = resumable, .abandoned = on_abandoned });
}

static void run_loop(void)
{
	for (int i = 0; i < 20; i++)
		event_base_loop(rig.base, EVLOOP_NONBLOCK);
}

/* Connects a client and sends a request; its exchange is in rig.x. */
static int send_request(const char *method)
{
	int pair[2];
	char text[128];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	http_server_accept(rig.server, pair[0]);
	snprintf(text, sizeof(text), "%s / HTTP/1.1\r\nHost: localhost\r\n\r\n", method);
	ck_assert_int_eq(fd_write_all(pair[1], text, strlen(text)), 0);
	rig.x = NULL;
	run_loop();
	ck_assert_ptr_nonnull(rig.x);
	return pair[1];
}

/* The text that was sent to a client so far. */
static char *got(int fd)
{
	struct buf b = BUF_INIT;
	char part[65536];
	ssize_t n;

	run_loop();
	while ((n = read(fd, part, sizeof(part))) > 0) {
		buf_append(&b, part, (size_t)n);
		run_loop();
	}
	return buf_take(&b);
}

static void expect_sent(int fd, const char *words)
{
	mem_auto char *text = got(fd);

	for (const char *w = words; *w;) {
		size_t n = strcspn(w, "|");
		ck_assert_msg(memmem(text, strlen(text), w, n) != NULL, "no '%.*s' in: %s", (int)n, w, text);
		w += n + (w[n] == '|');
	}
}

static struct mcp_stream *post(bool modern)
{
	return mcp_streams_post(
		rig.streams, rig.x,
		&(struct mcp_post){ .modern = modern, .complete = true, .session_id = modern ? NULL : "the-id" });
}

static json_t *message(const char *text)
{
	json_t *m = json_loads(text, 0, NULL);

	ck_assert_ptr_nonnull(m);
	return m;
}

START_TEST(a_reply_without_earlier_messages_is_json)
{
	streams(true);
	int fd = send_request("POST");
	mcp_streams_send(rig.streams, post(false), message("{\"id\":1,\"result\":{}}"), true);
	expect_sent(fd, "200 OK|application/json|Mcp-Session-Id: the-id|{\"id\":1,\"result\":{}}");
	ck_assert_uint_eq(mcp_streams_open(rig.streams), 0);
	close(fd);
}
END_TEST

START_TEST(errors_have_a_status)
{
	static const struct {
		int code;
		bool modern;
		const char *status;
	} rows[] = {
		{ -32601, true, "404" },  { -32601, false, "200" }, { -32021, true, "400" }, { -32022, true, "400" },
		{ -32020, true, "400" },  { -32602, true, "200" },  { -32603, true, "200" }, { -32700, false, "400" },
		{ -32600, false, "400" }, { -32021, false, "200" },
	};

	streams(false);
	for (size_t i = 0; i < countof(rows); i++) {
		char text[100], status[16];
		int fd = send_request("POST");
		snprintf(text, sizeof(text), "{\"id\":1,\"error\":{\"code\":%d,\"message\":\"\"}}", rows[i].code);
		snprintf(status, sizeof(status), "HTTP/1.1 %s ", rows[i].status);
		mcp_streams_send(rig.streams, post(rows[i].modern), message(text), true);
		mem_auto char *sent = got(fd);
		ck_assert_msg(strncmp(sent, status, strlen(status)) == 0, "row %zu: %s", i, sent);
		ck_assert_ptr_null(strstr(sent, "Mcp-Session-Id"));
		close(fd);
		run_loop();
	}
}
END_TEST

START_TEST(messages_before_the_reply_start_a_stream)
{
	streams(true);
	mcp_streams_prime(rig.streams, true);
	int fd = send_request("POST");
	struct mcp_stream *st = post(false);
	mcp_streams_send(rig.streams, st, message("{\"method\":\"notifications/progress\"}"), false);
	expect_sent(fd, "text/event-stream|X-Accel-Buffering: no|id: 1-0\nretry: |\ndata:\n\n|id: 1-1\ndata: "
			"{\"method\":\"notifications/progress\"}\n\n");
	mcp_streams_send(rig.streams, st, message("{\"id\":1,\"result\":{}}"), true);
	expect_sent(fd, "id: 1-2\ndata: {\"id\":1,\"result\":{}}\n\n|\r\n0\r\n\r\n");
	close(fd);
}
END_TEST

START_TEST(a_broken_stream_continues_and_is_resumed)
{
	streams(true);
	int fd = send_request("POST");
	struct mcp_stream *st = post(false);
	mcp_streams_send(rig.streams, st, message("{\"n\":1}"), false);
	expect_sent(fd, "id: 1-1");
	close(fd);
	run_loop();
	ck_assert_uint_eq(mcp_streams_open(rig.streams), 0);
	ck_assert_uint_eq(rig.abandoned, 0);
	mcp_streams_send(rig.streams, st, message("{\"n\":2}"), false);
	fd = send_request("GET");
	ck_assert(mcp_streams_get(rig.streams, rig.x, "1-1"));
	expect_sent(fd, "id: 1-2\ndata: {\"n\":2}");
	mcp_streams_send(rig.streams, st, message("{\"n\":3}"), true);
	expect_sent(fd, "id: 1-3\ndata: {\"n\":3}\n\n|0\r\n\r\n");
	/* It has ended, and can still be read. */
	ck_assert(mcp_streams_get(rig.streams, (send_request("GET"), rig.x), "1-1"));
	ck_assert(!mcp_streams_get(rig.streams, (send_request("GET"), rig.x), "1-4"));
	ck_assert(!mcp_streams_get(rig.streams, (send_request("GET"), rig.x), "2-1"));
	ck_assert(!mcp_streams_get(rig.streams, (send_request("GET"), rig.x), "nonsense"));
	close(fd);
}
END_TEST

START_TEST(dropped_events_cannot_be_resumed)
{
	streams(true);
	int fd = send_request("POST");
	struct mcp_stream *st = post(false);
	mcp_streams_send(rig.streams, st, message("{\"n\":0}"), false);
	close(fd);
	run_loop();
	for (int i = 1; i < 5000; i++)
		mcp_streams_send(rig.streams, st, json_pack("{si}", "n", i), false);
	ck_assert(!mcp_streams_get(rig.streams, (send_request("GET"), rig.x), "1-1"));
	fd = send_request("GET");
	ck_assert(mcp_streams_get(rig.streams, rig.x, "1-4990"));
	expect_sent(fd, "id: 1-4991\n|id: 1-5000\ndata: {\"n\":4999}");
	/* A finished stream without kept events is removed. */
	mcp_streams_send(rig.streams, st, message("{\"n\":-1}"), true);
	for (int i = 0; i < 5000; i++)
		mcp_streams_send(rig.streams, NULL, json_pack("{si}", "n", i), false);
	ck_assert(!mcp_streams_get(rig.streams, (send_request("GET"), rig.x), "1-5001"));
	close(fd);
}
END_TEST

START_TEST(the_general_stream_waits_for_a_reader)
{
	streams(true);
	mcp_streams_send(rig.streams, NULL, message("{\"n\":1}"), false);
	int fd = send_request("GET");
	ck_assert(mcp_streams_get(rig.streams, rig.x, NULL));
	expect_sent(fd, "id: 0-1\ndata: {\"n\":1}");
	int second = send_request("GET");
	ck_assert(mcp_streams_get(rig.streams, rig.x, NULL));
	expect_sent(fd, "0\r\n\r\n");
	mcp_streams_send(rig.streams, NULL, message("{\"n\":2}"), false);
	mem_auto char *text = got(second);
	ck_assert_ptr_nonnull(strstr(text, "id: 0-2"));
	ck_assert_msg(!strstr(text, "id: 0-1"), "what was read is not sent again: %s", text);
	close(fd);
	close(second);
}
END_TEST

START_TEST(a_disconnected_modern_client_is_reported_once)
{
	streams(false);
	/* before and after it became a stream */
	for (int begun = 0; begun < 2; begun++) {
		int fd = send_request("POST");
		struct mcp_stream *st = post(true);
		if (begun)
			mcp_streams_send(rig.streams, st, message("{\"n\":1}"), false);
		close(fd);
		run_loop();
		ck_assert_uint_eq(rig.abandoned, (unsigned)begun + 1);
		ck_assert_uint_eq(mcp_streams_open(rig.streams), 0);
	}
	/* Answered just when it disconnected: nothing to cancel. */
	int fd = send_request("POST");
	struct mcp_stream *st = post(true);
	mcp_streams_send(rig.streams, st, message("{\"n\":1}"), false);
	close(fd);
	mcp_streams_send(rig.streams, st, message("{\"id\":1,\"result\":{}}"), true);
	run_loop();
	ck_assert_uint_eq(rig.abandoned, 2);
}
END_TEST

START_TEST(a_client_that_does_not_read_is_disconnected)
{
	int fd = send_request("GET");
	struct http_sse *s = http_sse_new(rig.base, rig.x, on_gone, NULL);
	mem_auto char *big = mem_alloc(65536);
	unsigned sent = 0;

	memset(big, 'a', 65536);
	while (sent < 1000 && http_sse_event(s, "message", NULL, big, 65536)) {
		sent++;
		run_loop();
	}
	ck_assert_msg(sent >= HTTP_SSE_QUEUE_MOST / 65536 && sent < 200, "%u events", sent);
	ck_assert_uint_eq(rig.gone, 1);
	run_loop();
	ck_assert(http_server_idle(rig.server));
	close(fd);
}
END_TEST

START_TEST(freeing_the_streams_ends_their_responses)
{
	streams(true);
	int waits = send_request("POST");
	post(false);
	int reads = send_request("GET");
	ck_assert(mcp_streams_get(rig.streams, rig.x, NULL));
	mcp_streams_free(mem_take(&rig.streams));
	expect_sent(waits, "503 Service");
	expect_sent(reads, "text/event-stream|0\r\n\r\n");
	close(waits);
	close(reads);
}
END_TEST

int main(void)
{
	const struct suite_case cases[] = {
		{ "streams", setup, teardown, 60,
		  SUITE_TESTS(a_reply_without_earlier_messages_is_json, errors_have_a_status,
			      messages_before_the_reply_start_a_stream, a_broken_stream_continues_and_is_resumed,
			      dropped_events_cannot_be_resumed, the_general_stream_waits_for_a_reader,
			      a_disconnected_modern_client_is_reported_once,
			      a_client_that_does_not_read_is_disconnected, freeing_the_streams_ends_their_responses) },
	};

	return suite_run_cases("mcp_stream", cases, countof(cases));
}
