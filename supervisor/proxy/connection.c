/*
 * A client's connection, from its first byte to its last.
 *
 * One port for all: the first byte tells SOCKS 5 from HTTP. What is asked for is judged by name before anything is
 * resolved, and by address before anything is dialled (dial.c); what then goes through a tunnel is looked at as far as
 * it says whom it is meant for (access_check.c). The server's bytes are passed on as they are, but for the end of the
 * connection (http_answer.h).
 *
 * Nothing is buffered without bound: a side that is not read from is not written to for long. Heads have a deadline,
 * not only a time between bytes, so that a slow client holds its place for no longer than that.
 */

#include "supervisor/proxy/connection.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/mem.h"
#include "runtime/loop/loop.h"
#include "supervisor/proxy/credential.h"
#include "supervisor/proxy/http_response.h"
#include "supervisor/proxy/served_sandbox.h"
#include "supervisor/proxy/socks.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define HEAD_S 30
#define IDLE_S 1800
#define FLUSH_S 300 /* for the last bytes to a client that reads slowly */
#define SHUT_S 5
#define INPUT_MAX (128u * 1024) /* more than the longest head or ClientHello */
#define OUTPUT_HIGH (256u * 1024)
#define OUTPUT_LOW (64u * 1024)
#define SEC_NS 1000000000ull

/* ---- time ---- */

static void arm(struct connection *c, uint64_t now)
{
	uint64_t idle = c->active_ns + IDLE_S * SEC_NS, until = c->deadline_ns < idle ? c->deadline_ns : idle;
	uint64_t wait = until > now ? until - now : 0;
	const struct timeval tv = { .tv_sec = (time_t)(wait / SEC_NS),
				    .tv_usec = (suseconds_t)(wait % SEC_NS / 1000) + 1 };

	loop_add(c->timer, &tv);
}

static void on_time(evutil_socket_t fd, short what, void *ctx)
{
	struct connection *c = ctx;
	uint64_t now = clock_boot_ns();

	if (now < c->deadline_ns && now < c->active_ns + IDLE_S * SEC_NS)
		arm(c, now);
	else if (c->state == CONNECTION_ASK || c->state == CONNECTION_FIRST)
		connection_answer(c, 408, "the request did not come within %d seconds", HEAD_S);
	else if (c->state == CONNECTION_DIAL)
		dial_failed(c, "it took too long");
	else
		connection_free(c);
}

void connection_phase(struct connection *c, enum connection_state state, unsigned seconds)
{
	uint64_t now = clock_boot_ns();

	c->state = state;
	c->deadline_ns = seconds ? now + seconds * SEC_NS : UINT64_MAX;
	c->active_ns = now;
	arm(c, now);
}

/* ---- the end ---- */

void connection_free(struct connection *c)
{
	struct served_sandbox *b = c->sandbox;

	if (c->established) {
		traffic_report_add(&b->report, c->target.host, c->target.port, 1, c->sent, c->received);
		b->news(b->ctx);
	}
	if (c->lookup)
		lookup_cancel(c->lookup);
	if (c->server)
		bufferevent_free(c->server);
	bufferevent_free(c->client);
	event_free(c->timer);
	LIST_REMOVE(c, link);
	free(c);
	served_sandbox_connection_ended(b);
}

/* All is sent. */
static void part(struct connection *c)
{
	if (c->client_eof) {
		connection_free(c);
		return;
	}
	shutdown(bufferevent_getfd(c->client), SHUT_WR);
	connection_phase(c, CONNECTION_SHUT, SHUT_S);
}

/* What is written goes out, then our side is closed; what the client still sends is thrown away, so that it is not cut
 * off. */
void connection_close(struct connection *c)
{
	if (c->lookup)
		lookup_cancel(c->lookup);
	c->lookup = NULL;
	if (c->server)
		bufferevent_free(c->server);
	c->server = NULL;
	connection_phase(c, CONNECTION_SHUT, FLUSH_S);
	if (!c->client_eof)
		loop_enable(c->client, EV_READ);
	evbuffer_drain(bufferevent_get_input(c->client), SIZE_MAX);
	if (evbuffer_get_length(bufferevent_get_output(c->client)) == 0)
		part(c);
}

static const char *status_text(unsigned status)
{
	switch (status) {
	case 400: return "Bad Request";
	case 403: return "Forbidden";
	case 408: return "Request Timeout";
	case 504: return "Gateway Timeout";
	default: return "Bad Gateway";
	}
}

static void socks_answer(struct connection *c, enum socks_reply reply)
{
	uint8_t out[SOCKS_REPLY_LEN];

	socks_reply(reply, out);
	bufferevent_write(c->client, out, sizeof out);
}

void connection_answer(struct connection *c, unsigned status, const char *fmt, ...)
{
	char text[640];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (c->via == VIA_SOCKS && !c->established) {
		if (c->state != CONNECTION_FIRST && c->state != CONNECTION_SOCKS_GREETING)
			socks_answer(c, status == 403   ? SOCKS_NOT_ALLOWED
					: status == 400 ? SOCKS_FAILED
							: SOCKS_UNREACHABLE);
	} else {
		evbuffer_add_printf(
			bufferevent_get_output(c->client),
			"HTTP/1.1 %u %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\n"
			"Connection: close\r\nProxy-Agent: bailiff\r\n\r\nbailiff: %s\n",
			status, status_text(status), strlen(text) + 10, text);
	}
	connection_close(c);
}

void connection_refuse(struct connection *c, enum proxy_reason why, const char *address)
{
	struct served_sandbox *b = c->sandbox;

	traffic_report_denied(&b->report, c->target.host, c->target.port, address, why);
	b->news(b->ctx);
	connection_answer(c, 403, "denied: connect %s%s%s:%u (%s%s%s)",
			  c->target.is_address && strchr(c->target.host, ':') ? "[" : "", c->target.host,
			  c->target.is_address && strchr(c->target.host, ':') ? "]" : "", c->target.port,
			  proxy_reason_text(why), address[0] ? ": " : "", address);
}

/* ---- asking ---- */

static bool step_first(struct connection *c)
{
	struct evbuffer *in = bufferevent_get_input(c->client);
	unsigned char byte;

	if (evbuffer_copyout(in, &byte, 1) != 1)
		return false;
	c->state = byte == SOCKS_VERSION ? CONNECTION_SOCKS_GREETING : CONNECTION_ASK;
	c->via = byte == SOCKS_VERSION ? VIA_SOCKS : VIA_HTTP;
	return true;
}

static bool step_socks_greeting(struct connection *c)
{
	struct evbuffer *in = bufferevent_get_input(c->client);
	uint8_t p[2 + 255];
	size_t len = 0;
	bool ok = false;
	ssize_t n = evbuffer_copyout(in, p, sizeof p);
	enum parsed r = socks_greeting(p, n > 0 ? (size_t)n : 0, &len, &ok);

	if (r == PARSED_MORE)
		return false;
	if (r == PARSED_BAD) {
		connection_free(c);
		return false;
	}
	evbuffer_drain(in, len);
	const uint8_t answer[2] = { SOCKS_VERSION, ok ? 0 : 0xff };
	bufferevent_write(c->client, answer, sizeof answer);
	if (!ok) {
		connection_close(c);
		return false;
	}
	c->state = CONNECTION_SOCKS_ASK;
	return true;
}

static bool step_socks_ask(struct connection *c)
{
	struct evbuffer *in = bufferevent_get_input(c->client);
	enum socks_reply reply;
	uint8_t p[4 + 256 + 2];
	size_t len = 0;
	ssize_t n = evbuffer_copyout(in, p, sizeof p);
	enum parsed r = socks_request(p, n > 0 ? (size_t)n : 0, &c->target, &len, &reply);

	if (r == PARSED_MORE)
		return false;
	if (r == PARSED_BAD) {
		socks_answer(c, reply);
		connection_close(c);
		return false;
	}
	evbuffer_drain(in, len);
	if (access_check_target(c))
		dial_begin(c);
	return false;
}

static bool step_ask(struct connection *c)
{
	struct evbuffer *in = bufferevent_get_input(c->client);
	size_t n = evbuffer_get_length(in);
	const char *p = (const char *)evbuffer_pullup(in, n < HTTP_HEAD_MAX ? (ssize_t)n : HTTP_HEAD_MAX), *why = "";
	enum parsed r = http_head_parse(p ? p : "", n < HTTP_HEAD_MAX ? n : HTTP_HEAD_MAX, &c->head, &why);

	if (r == PARSED_MORE)
		return false;
	if (r == PARSED_BAD) {
		connection_answer(c, 400, "%s", why);
		return false;
	}
	if (c->head.form == HTTP_ORIGIN) {
		connection_answer(c, 400, "this is a proxy: it takes http:// URLs and CONNECT");
		return false;
	}
	c->via = c->head.form == HTTP_CONNECT ? VIA_CONNECT : VIA_HTTP;
	c->target = c->head.target;
	if (c->head.has_host && !connect_target_agrees(&c->target, &c->head.host)) {
		connection_refuse(c, PROXY_HOST_DIFFERS, "");
		return false;
	}
	if (c->via == VIA_CONNECT)
		evbuffer_drain(in, c->head.len); /* of a request, the head is still needed */
	if (access_check_target(c))
		dial_begin(c);
	return false;
}

/* ---- talking ---- */

static bool server_is_full(struct connection *c)
{
	if (evbuffer_get_length(bufferevent_get_output(c->server)) < OUTPUT_HIGH)
		return false;
	c->client_held = true;
	bufferevent_disable(c->client, EV_READ);
	return true;
}

/* The client has closed its side: so is the server told, once it has everything. */
static void pass_eof(struct connection *c)
{
	if (c->client_eof && !c->drained && c->server && evbuffer_get_length(bufferevent_get_input(c->client)) == 0 &&
	    evbuffer_get_length(bufferevent_get_output(c->server)) == 0) {
		c->drained = true;
		shutdown(bufferevent_getfd(c->server), SHUT_WR);
	}
}

static bool step_raw(struct connection *c)
{
	struct evbuffer *in = bufferevent_get_input(c->client);

	if (server_is_full(c))
		return false;
	c->sent += evbuffer_get_length(in);
	bufferevent_write_buffer(c->server, in);
	return false;
}

static bool step_body(struct connection *c)
{
	struct evbuffer *in = bufferevent_get_input(c->client), *out = bufferevent_get_output(c->server);

	while (!c->body.done && !c->body.bad && !server_is_full(c)) {
		size_t n = evbuffer_get_contiguous_space(in);

		if (n == 0)
			return false;
		n = http_body_take(&c->body, (const char *)evbuffer_pullup(in, (ssize_t)n), n);
		evbuffer_remove_buffer(in, out, n);
		c->sent += n;
	}
	if (c->body.bad) {
		connection_refuse(c, PROXY_MALFORMED, "");
		return false;
	}
	if (!c->body.done)
		return false;
	connection_phase(c, CONNECTION_HTTP, 0);
	return true;
}

static bool step_shut(struct connection *c)
{
	evbuffer_drain(bufferevent_get_input(c->client), SIZE_MAX);
	return false;
}

static bool step_wait(struct connection *c) { return false; }

void connection_pump(struct connection *c)
{
	static const connection_step steps[CONNECTION_STATE_COUNT] = {
		[CONNECTION_FIRST] = step_first,
		[CONNECTION_SOCKS_GREETING] = step_socks_greeting,
		[CONNECTION_SOCKS_ASK] = step_socks_ask,
		[CONNECTION_ASK] = step_ask,
		[CONNECTION_DIAL] = step_wait,
		[CONNECTION_SNIFF] = access_check_first_bytes,
		[CONNECTION_HTTP] = access_check_http,
		[CONNECTION_BODY] = step_body,
		[CONNECTION_RAW] = step_raw,
		[CONNECTION_SHUT] = step_shut,
	};

	while (steps[c->state](c))
		continue;
}

void connection_send_head(struct connection *c, const char *p, const struct http_head *h)
{
	buf_auto struct buf out = BUF_INIT;

	struct http_extra room;
	const struct http_extra *extra = credentials_for(c->sandbox->credentials, &c->sandbox->rules, &c->target,
							 &room);

	http_head_forward(p, h, c->via == VIA_HTTP, extra, &out);
	c->sent += out.len;
	bufferevent_write(c->server, out.data, out.len);
	http_body_begin(&c->body, h);
	evbuffer_drain(bufferevent_get_input(c->client), h->len);
	connection_phase(c, CONNECTION_BODY, 0);
}

void connection_established(struct connection *c)
{
	c->established = true;
	if (c->via == VIA_HTTP) {
		struct evbuffer *in = bufferevent_get_input(c->client);
		c->answering = true;
		connection_send_head(c, (const char *)evbuffer_pullup(in, (ssize_t)c->head.len), &c->head);
	} else {
		if (c->via == VIA_CONNECT)
			evbuffer_add_printf(bufferevent_get_output(c->client),
					    "HTTP/1.1 200 Connection established\r\n\r\n");
		else
			socks_answer(c, SOCKS_OK);
		connection_phase(c, CONNECTION_SNIFF, 0);
	}
	connection_pump(c);
}

/* ---- callbacks ---- */

static void on_client_bytes(struct bufferevent *bev, void *ctx)
{
	struct connection *c = ctx;

	c->active_ns = clock_boot_ns();
	connection_pump(c);
}

static void pass_answer_heads(struct connection *c, struct evbuffer *in)
{
	while (c->answering) {
		buf_auto struct buf head = BUF_INIT;
		size_t n = evbuffer_get_length(in), len = 0;
		bool interim = false;

		n = n < HTTP_HEAD_MAX ? n : HTTP_HEAD_MAX;
		const char *p = (const char *)evbuffer_pullup(in, (ssize_t)n);
		enum parsed r = p ? http_response_parse(p, n, &len, &interim) : PARSED_MORE;
		if (r == PARSED_MORE)
			return;
		c->answering = interim;
		if (r == PARSED_BAD)
			return;
		if (interim)
			buf_append(&head, p, len);
		else
			http_response_forward(p, len, &head);
		bufferevent_write(c->client, head.data, head.len);
		evbuffer_drain(in, len);
		c->received += len;
	}
}

static void pass_answer(struct connection *c)
{
	struct evbuffer *in = bufferevent_get_input(c->server);

	pass_answer_heads(c, in);
	if (c->answering)
		return;
	c->received += evbuffer_get_length(in);
	evbuffer_add_buffer(bufferevent_get_output(c->client), in);
}

static void on_server_bytes(struct bufferevent *bev, void *ctx)
{
	struct connection *c = ctx;

	c->active_ns = clock_boot_ns();
	pass_answer(c);
	if (evbuffer_get_length(bufferevent_get_output(c->client)) >= OUTPUT_HIGH) {
		c->server_held = true;
		bufferevent_disable(bev, EV_READ);
	}
}

static void on_client_room(struct bufferevent *bev, void *ctx)
{
	struct connection *c = ctx;

	if (c->state == CONNECTION_SHUT && evbuffer_get_length(bufferevent_get_output(bev)) == 0) {
		part(c);
	} else if (c->server_held && c->server) {
		c->server_held = false;
		loop_enable(c->server, EV_READ);
	}
}

static void on_server_room(struct bufferevent *bev, void *ctx)
{
	struct connection *c = ctx;

	if (c->client_held) {
		c->client_held = false;
		loop_enable(c->client, EV_READ);
		connection_pump(c);
		return;
	}
	pass_eof(c);
}

static void on_client_event(struct bufferevent *bev, short what, void *ctx)
{
	struct connection *c = ctx;

	c->client_eof = true;
	bool pending = evbuffer_get_length(bufferevent_get_output(bev)) > 0;
	if (what & BEV_EVENT_ERROR || c->state < CONNECTION_DIAL || (c->state == CONNECTION_SHUT && !pending))
		connection_free(c);
	else
		pass_eof(c);
}

static void on_server_event(struct bufferevent *bev, short what, void *ctx)
{
	struct connection *c = ctx;

	if (what & BEV_EVENT_CONNECTED) {
		connection_established(c);
	} else if (c->state == CONNECTION_DIAL) {
		dial_next(c, evutil_socket_geterror(bufferevent_getfd(bev)));
	} else {
		c->answering = false; /* half a head is all that there will be */
		pass_answer(c);
		connection_close(c);
	}
}

struct bufferevent *connection_wire(struct connection *c, int fd, bool server)
{
	struct bufferevent *bev = bufferevent_socket_new(c->sandbox->base, fd, BEV_OPT_CLOSE_ON_FREE);

	if (!bev)
		return NULL;
	bufferevent_setcb(bev, server ? on_server_bytes : on_client_bytes, server ? on_server_room : on_client_room,
			  server ? on_server_event : on_client_event, c);
	bufferevent_setwatermark(bev, EV_READ, 0, INPUT_MAX);
	bufferevent_setwatermark(bev, EV_WRITE, OUTPUT_LOW, 0);
	loop_enable(bev, EV_READ | EV_WRITE);
	return bev;
}

void connection_new(struct served_sandbox *b, int fd)
{
	struct connection *c = mem_zalloc(1, sizeof *c);

	c->sandbox = b;
	c->client = connection_wire(c, fd, false);
	c->timer = evtimer_new(b->base, on_time, c);
	if (!c->client || !c->timer)
		abort();
	LIST_INSERT_HEAD(&b->connections, c, link);
	connection_phase(c, CONNECTION_FIRST, HEAD_S);
}
