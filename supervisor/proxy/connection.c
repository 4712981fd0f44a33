/*
 * The state of a client's connection: deadlines, the proxy's own replies, and closing. relay.c moves the bytes.
 *
 * A head has a deadline for the whole of it, in addition to the limit between two bytes, so a slow client cannot occupy
 * one of the limited connections for longer than that.
 */

#include "supervisor/proxy/connection.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/mem.h"
#include "runtime/loop/loop.h"
#include "supervisor/proxy/credential.h"
#include "supervisor/proxy/served_sandbox.h"
#include "supervisor/proxy/socks.h"

#include <ctype.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* Between two bytes in either direction. Long, because tunnels carry protocols that are silent for minutes. */
#define IDLE_S 1800
#define FLUSH_S 300 /* to send the last bytes to a client that reads slowly */
#define SHUT_S 5
#define SEC_NS 1000000000ull

/* ---- time ---- */

static void arm_timer(struct connection *c, uint64_t now)
{
	uint64_t idle = c->active_ns + IDLE_S * SEC_NS, until = c->deadline_ns < idle ? c->deadline_ns : idle;
	uint64_t wait = until > now ? until - now : 0;
	const struct timeval tv = { .tv_sec = (time_t)(wait / SEC_NS),
				    .tv_usec = (suseconds_t)(wait % SEC_NS / 1000) + 1 };

	loop_add(c->timer, &tv);
}

void connection_on_timer(evutil_socket_t fd, short what, void *ctx)
{
	struct connection *c = ctx;
	uint64_t now = clock_boot_ns();

	/*
	 * Activity only stores a time, because re-arming the timer at each read would cost more. So the timer may fire
	 * early, and is then set again.
	 */
	if (now < c->deadline_ns && now < c->active_ns + IDLE_S * SEC_NS)
		arm_timer(c, now);
	else if (c->state == CONNECTION_ASK || c->state == CONNECTION_FIRST)
		connection_answer(c, 408, "no complete request within %d seconds", CONNECTION_HEAD_S);
	else if (c->state == CONNECTION_DIAL)
		connection_answer(c, 504, "connect %s:%u: timed out", c->target.host, c->target.port);
	else
		connection_free(c);
}

void connection_phase(struct connection *c, enum connection_state state, unsigned seconds)
{
	uint64_t now = clock_boot_ns();

	c->state = state;
	c->deadline_ns = seconds ? now + seconds * SEC_NS : UINT64_MAX;
	c->active_ns = now;
	arm_timer(c, now);
}

/* ---- closing ---- */

void connection_free(struct connection *c)
{
	struct served_sandbox *b = c->sandbox;

	if (c->established) {
		/* Once, at the end: bytes of a connection that is still open are not reported. */
		traffic_report_add(&b->report, c->target.host, c->target.port, 1, c->sent, c->received);
		b->on_change(b->ctx);
	}
	if (c->lookup)
		lookup_cancel(c->lookup);
	if (c->server)
		bufferevent_free(c->server);
	bufferevent_free(c->client);
	event_free(c->timer);
	LIST_REMOVE(c, link);
	free(c);
	/* Lets the sandbox accept again if it was at its limit. */
	b->connection_ended(b);
}

/* Shuts down our half once everything is sent; the client's half follows. */
void connection_close_written(struct connection *c)
{
	if (c->client_eof)
		return connection_free(c);
	shutdown(bufferevent_getfd(c->client), SHUT_WR);
	connection_phase(c, CONNECTION_SHUT, SHUT_S);
}

/*
 * Sends the pending output, then shuts down our half. Further bytes of the client are read and discarded: closing the
 * socket with unread input would send a reset, and the client could lose our last bytes.
 */
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
		connection_close_written(c);
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

/* The error type of RFC 9209. */
static const char *error_type(const struct connection *c, unsigned status)
{
	switch (status) {
	case 403: return "http_request_denied";
	case 504: return "connection_timeout";
	case 502: return c->naddresses ? "destination_unavailable" : "dns_error";
	default: return "http_request_error";
	}
}

void connection_answer_socks(struct connection *c, enum socks_reply reply)
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
	/*
	 * Once a SOCKS tunnel is established, the client no longer expects SOCKS replies. An HTTP reply at least
	 * informs a client that speaks HTTP; for others it is noise before the close.
	 */
	if (c->via == VIA_SOCKS && !c->established) {
		if (c->state != CONNECTION_FIRST && c->state != CONNECTION_SOCKS_GREETING)
			connection_answer_socks(c, status == 403   ? SOCKS_NOT_ALLOWED
						   : status == 400 ? SOCKS_FAILED
								   : SOCKS_UNREACHABLE);
	} else {
		char details[sizeof text]; /* HTTP clients rarely show the body of the answer to CONNECT */

		snprintf(details, sizeof details, "%s", text);
		for (char *d = details; *d; d++)
			if (*d == '"' || *d == '\\' || !isprint((unsigned char)*d))
				*d = '?';
		evbuffer_add_printf(
			bufferevent_get_output(c->client),
			"HTTP/1.1 %u %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %zu\r\n"
			"Connection: close\r\nProxy-Agent: bailiff\r\n"
			"Proxy-Status: bailiff; error=%s; details=\"%s\"\r\n\r\nbailiff: %s\n",
			status, status_text(status), strlen(text) + 10, error_type(c, status), details, text);
	}
	connection_close(c);
}

void connection_refuse(struct connection *c, enum proxy_reason why, const char *address)
{
	struct served_sandbox *b = c->sandbox;

	traffic_report_denied(&b->report, c->target.host, c->target.port, address, why);
	b->on_change(b->ctx);
	connection_answer(c, 403, "denied: connect %s%s%s:%u (%s%s%s)",
			  c->target.is_address && strchr(c->target.host, ':') ? "[" : "", c->target.host,
			  c->target.is_address && strchr(c->target.host, ':') ? "]" : "", c->target.port,
			  proxy_reason_text(why), address[0] ? ": " : "", address);
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
