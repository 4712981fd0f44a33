/*
 * A whole conversation with the HTTP server, over a socket: pipelined requests, half ones, answers at once, later and
 * as streams. The first byte determines how the rest is cut into pieces. The upstream is fake; every exchange must end
 * once, and nothing may be left.
 */

#include "runtime/base/fd.h"
#include "supervisor/gateway/http/http_exchange.h"
#include "supervisor/gateway/http/http_request.h"
#include "supervisor/gateway/http/http_server.h"
#include "supervisor/gateway/http/http_sse.h"
#include "supervisor/gateway/http/http_tokens.h"

#include <event2/event.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct event_base *base;
static struct http_exchange *later; /* one connection has one exchange at a time */
static struct http_sse *stream;

static void on_later_gone(void *ctx) { later = NULL; }

static void on_stream_gone(void *ctx) { stream = NULL; }

static void echo(void *ctx, struct http_exchange *x)
{
	const struct http_request *r = http_exchange_request(x);
	buf_auto struct buf v = BUF_INIT;

	if (http_request_query(r, "q", &v) > 0 && strpbrk(buf_cstr(&v), "&?= \""))
		abort();
	if (http_request_cookie(r, "c", &v) && strchr(buf_cstr(&v), ';'))
		abort();
	http_exchange_reply(x, 200, "text/plain", r->body.data, r->body.len);
}

static void answer_later(void *ctx, struct http_exchange *x)
{
	static const struct http_exchange_ops ops = { .gone = on_later_gone };

	if (later)
		abort();
	later = x;
	http_exchange_listen(x, &ops, NULL);
}

static void answer_stream(void *ctx, struct http_exchange *x)
{
	if (stream)
		abort();
	stream = http_sse_new(base, x, on_stream_gone, NULL);
	http_sse_prime(stream, "1-0", 100);
}

static void turn(int fd)
{
	char sink[4096];

	for (int i = 0; i < 4; i++) {
		event_base_loop(base, EVLOOP_NONBLOCK);
		if (later) {
			struct http_exchange *x = later;
			later = NULL;
			http_exchange_refuse(x, 404, "later");
		}
		if (stream && i == 1) {
			struct http_sse *s = stream;
			if (http_sse_event(s, "message", "1-1", "a\nb", 3)) {
				stream = NULL;
				http_sse_end(s);
			}
		}
		while (read(fd, sink, sizeof(sink)) > 0)
			;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct http_route routes[] = {
		{ .path = "/echo", .methods = "GET, POST, HEAD", .open = true, .handle = echo },
		{ .path = "/later", .methods = "GET, POST", .open = true, .handle = answer_later },
		{ .path = "/stream", .methods = "GET", .handle = answer_stream },
	};
	struct http_limits limits = HTTP_LIMITS_DEFAULT;
	int pair[2];

	if (size < 1 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0)
		return 0;
	signal(SIGPIPE, SIG_IGN);
	limits.body_bytes = 4096;
	base = event_base_new();
	struct http_tokens *tokens = NULL;
	if (http_tokens_parse("0123456789abcdef", 16, &tokens, NULL) < 0)
		abort();
	struct http_server *s = http_server_new(base, &limits, tokens);
	for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++)
		http_server_route(s, &routes[i], NULL);
	http_server_accept(s, pair[0]);
	size_t step = data[0] ? data[0] * 16u : size;
	for (size_t at = 1; at < size; at += step) {
		size_t n = step < size - at ? step : size - at;
		if (write(pair[1], data + at, n) < 0)
			break;
		turn(pair[1]);
	}
	shutdown(pair[1], SHUT_WR);
	turn(pair[1]);
	close(pair[1]);
	turn(-1);
	http_server_free(s);
	http_tokens_free(tokens);
	if (later || stream)
		abort();
	event_base_free(base);
	return 0;
}
