#include "supervisor/gateway/http/http_connection.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/loop/loop.h"
#include "supervisor/gateway/http/http_access.h"
#include "supervisor/gateway/http/http_exchange.h"
#include "supervisor/gateway/http/http_request.h"
#include "supervisor/gateway/http/http_tokens.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <string.h>
#include <sys/socket.h>

#define INPUT_MOST (256u << 10) /* input buffered while a request is being answered */
#define OUTPUT_MUCH (1u << 20)  /* no further request is processed while this much waits to be written */
#define CLOSE_MS 5000           /* deadline for writing the last response */

struct http_exchange {
	struct http_connection *c;
	struct http_exchange_ops ops;
	void *ctx;
	struct buf headers;
	bool streaming, chunked, head_only;
};

struct http_connection {
	struct http_connection *next, **prev; /* of the server's list */
	struct bufferevent *bev;
	struct event *timer, *turn;
	const struct http_limits *limits;
	struct http_counts *counts;
	struct http_connection_ops ops;
	void *ctx;
	enum http_connection_state state;
	uint64_t since;
	struct http_request request;
	struct http_exchange *x;
	bool trusted, last; /* last: close after the current response */
	bool named;         /* named, principal: of the current request */
	char principal[HTTP_PRINCIPAL_MAX];
	bool peer_done; /* received the peer's end of file */
	bool shut;      /* sent ours (SHUT_WR) */
	bool dead;      /* closed; freed on the next turn of the loop */
};

static struct timeval in_ms(unsigned ms) { return (struct timeval){ ms / 1000, (suseconds_t)(ms % 1000) * 1000 }; }

/* Each state has its own timeout; ANSWERING has none, since a stream may last. */
static void enter_state(struct http_connection *c, enum http_connection_state s)
{
	unsigned ms = s == HTTP_RESTING   ? c->limits->idle_ms
		      : s == HTTP_READING ? c->limits->request_ms
		      : s == HTTP_CLOSING ? CLOSE_MS
					  : 0;
	struct timeval tv = in_ms(ms);

	c->state = s;
	c->since = clock_boot_ns();
	if (ms)
		loop_add(c->timer, &tv);
	else
		evtimer_del(c->timer);
}

static void schedule_turn(struct http_connection *c) { event_active(c->turn, EV_TIMEOUT, 0); }

/*
 * Closing may happen inside a callback of this connection, so the memory is freed on the next turn of the loop
 * (on_turn).
 */
static void close_connection(struct http_connection *c)
{
	struct http_exchange *x = c->x;

	if (c->dead)
		return;
	c->dead = true;
	bufferevent_disable(c->bev, EV_READ | EV_WRITE);
	evtimer_del(c->timer);
	if (x) {
		c->x = NULL;
		c->counts->streams -= x->streaming;
		if (x->ops.gone)
			x->ops.gone(x->ctx);
		buf_done(&x->headers);
		free(x);
	}
	schedule_turn(c);
}

static void free_now(struct http_connection *c)
{
	c->ops.closed(c->ctx, c);
	bufferevent_free(c->bev);
	event_free(c->timer);
	event_free(c->turn);
	http_request_done(&c->request);
	free(c);
}

static size_t output_len(const struct http_connection *c)
{
	return evbuffer_get_length(bufferevent_get_output(c->bev));
}

/* ---- requests ---- */

static void begin_exchange(struct http_connection *c)
{
	struct http_exchange *x = mem_zalloc(1, sizeof(*x));

	x->c = c;
	x->head_only = c->request.method && strcmp(c->request.method, "HEAD") == 0;
	c->x = x;
	enter_state(c, HTTP_ANSWERING);
}

/* The rest of the input cannot be parsed or is not wanted, so the connection closes after the response. */
static void refuse_and_close(struct http_connection *c, unsigned status, const char *why)
{
	c->last = true;
	begin_exchange(c);
	if (status == 401)
		http_exchange_header(c->x, "WWW-Authenticate", HTTP_AUTHENTICATE);
	http_exchange_refuse(c->x, status, why);
}

/*
 * The head is complete, the body is not. An unauthorised client must not send it; a client that sent "Expect:
 * 100-continue" waits for permission.
 */
static bool wants_body(struct http_connection *c)
{
	static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
	struct http_refusal no = { 0 };

	if (!c->ops.head(c->ctx, &c->request, &no)) {
		refuse_and_close(c, no.status, no.why);
		return false;
	}
	if (c->request.body.len == 0 && http_request_lists(&c->request, "Expect", "100-continue"))
		bufferevent_write(c->bev, text, sizeof(text) - 1);
	return true;
}

/* Parses one contiguous piece of the input. True if there may be more to parse. */
static bool feed_bytes(struct http_connection *c)
{
	struct evbuffer *in = bufferevent_get_input(c->bev);
	size_t n = evbuffer_get_contiguous_space(in), used = 0;

	if (n == 0)
		return false;
	bool had_head = c->request.have_head;
	enum http_request_state s = http_request_feed(&c->request, (const char *)evbuffer_pullup(in, (ev_ssize_t)n), n,
						      &used);
	evbuffer_drain(in, used);
	if (s == HTTP_REQUEST_BAD) {
		c->counts->bad_requests++;
		refuse_and_close(c, c->request.status, c->request.why);
		return false;
	}
	if (s == HTTP_REQUEST_DONE) {
		c->counts->requests++;
		c->last |= http_request_wants_close(&c->request);
		begin_exchange(c);
		c->ops.request(c->ctx, c->x);
		return false;
	}
	return had_head || !c->request.have_head || wants_body(c);
}

static void take_input(struct http_connection *c)
{
	struct evbuffer *in = bufferevent_get_input(c->bev);

	while (!c->dead && (c->state == HTTP_RESTING || c->state == HTTP_READING) && output_len(c) < OUTPUT_MUCH) {
		if (c->state == HTTP_RESTING) {
			/* Skips empty lines between requests (RFC 9112, section 2.2). */
			char two[2];

			while (evbuffer_copyout(in, two, 2) == 2 && two[0] == '\r' && two[1] == '\n')
				evbuffer_drain(in, 2);
		}
		if (evbuffer_get_length(in) == 0)
			break;
		if (c->state == HTTP_RESTING)
			enter_state(c, HTTP_READING);
		if (!feed_bytes(c))
			break;
	}
	/* The peer sent end of file: an incomplete request will never be completed. */
	if (!c->dead && c->peer_done && (c->state == HTTP_RESTING || c->state == HTTP_READING) &&
	    evbuffer_get_length(in) == 0)
		close_connection(c);
}

static void on_turn(evutil_socket_t fd, short what, void *arg)
{
	struct http_connection *c = arg;

	if (c->dead)
		free_now(c);
	else
		take_input(c);
}

static void on_read(struct bufferevent *bev, void *arg)
{
	struct http_connection *c = arg;

	if (c->state == HTTP_CLOSING)
		evbuffer_drain(bufferevent_get_input(bev), evbuffer_get_length(bufferevent_get_input(bev)));
	else
		take_input(c);
}

/*
 * The last response is written: send our end of file, then wait for the peer's until the timer fires. Closing a socket
 * with unread input would reset the connection, and the peer could lose the response.
 */
static void linger_close(struct http_connection *c)
{
	if (c->peer_done || c->shut || shutdown(bufferevent_getfd(c->bev), SHUT_WR) < 0)
		close_connection(c);
	c->shut = true;
}

/* The output buffer is empty. */
static void on_write(struct bufferevent *bev, void *arg)
{
	struct http_connection *c = arg;

	if (c->dead || output_len(c))
		return;
	if (c->state == HTTP_CLOSING)
		linger_close(c);
	else if (c->state != HTTP_ANSWERING)
		take_input(c);
}

static void on_event(struct bufferevent *bev, short what, void *arg)
{
	struct http_connection *c = arg;

	if (what & BEV_EVENT_EOF)
		c->peer_done = true;
	if (c->dead || what & BEV_EVENT_CONNECTED)
		return;
	/* Requests may still be in the input buffer, and the last response in the output buffer. */
	if (what & BEV_EVENT_EOF && (c->state == HTTP_RESTING || c->state == HTTP_READING))
		return schedule_turn(c);
	if (what & BEV_EVENT_EOF && c->state == HTTP_CLOSING && !c->shut) {
		bufferevent_disable(bev, EV_READ);
		return;
	}
	close_connection(c);
}

static void on_timer(evutil_socket_t fd, short what, void *arg) { close_connection(arg); }

struct http_connection *http_connection_new(struct event_base *base, int fd, const struct http_limits *limits,
					    struct http_counts *counts, const struct http_connection_ops *ops,
					    void *ctx)
{
	struct http_connection *c = mem_zalloc(1, sizeof(*c));
	struct timeval stalled = in_ms(limits->stalled_ms);

	c->limits = limits;
	c->counts = counts;
	c->ops = *ops;
	c->ctx = ctx;
	c->bev = bufferevent_socket_new(base, fd, BEV_OPT_CLOSE_ON_FREE);
	c->timer = evtimer_new(base, on_timer, c);
	c->turn = evtimer_new(base, on_turn, c);
	if (!c->bev || !c->timer || !c->turn)
		abort();
	http_request_init(&c->request, limits->body_bytes);
	bufferevent_setcb(c->bev, on_read, on_write, on_event, c);
	bufferevent_setwatermark(c->bev, EV_READ, 0, INPUT_MOST);
	bufferevent_set_timeouts(c->bev, NULL, &stalled);
	enter_state(c, HTTP_RESTING);
	loop_enable(c->bev, EV_READ | EV_WRITE);
	return c;
}

enum http_connection_state http_connection_state(const struct http_connection *c) { return c->state; }

uint64_t http_connection_since(const struct http_connection *c) { return c->since; }

bool http_connection_trusted(const struct http_connection *c) { return c->trusted; }

void http_connection_authorise(struct http_connection *c, const struct http_token *who)
{
	c->trusted |= who != NULL;
	c->named = who && who->name[0];
	snprintf(c->principal, sizeof(c->principal), "%s", who ? who->principal : "");
}

const char *http_exchange_principal(const struct http_exchange *x) { return x->c->principal; }

bool http_exchange_named(const struct http_exchange *x) { return x->c->named; }

void http_connection_drop(struct http_connection *c) { close_connection(c); }

void http_connection_free(struct http_connection *c) { free_now(c); }

void http_connection_finish(struct http_connection *c)
{
	if (c->state == HTTP_ANSWERING)
		c->last = true;
	else if (c->state != HTTP_CLOSING && output_len(c))
		enter_state(c, HTTP_CLOSING);
	else if (c->state != HTTP_CLOSING)
		close_connection(c);
}

struct http_connection *http_connection_next(const struct http_connection *c) { return c->next; }

void http_connection_link(struct http_connection *c, struct http_connection **head)
{
	c->next = *head;
	c->prev = head;
	if (c->next)
		c->next->prev = &c->next;
	*head = c;
}

void http_connection_unlink(struct http_connection *c)
{
	*c->prev = c->next;
	if (c->next)
		c->next->prev = c->prev;
}

/* ---- responses ---- */

const struct http_request *http_exchange_request(const struct http_exchange *x) { return &x->c->request; }

struct http_connection *http_exchange_connection(struct http_exchange *x) { return x->c; }

void http_exchange_listen(struct http_exchange *x, const struct http_exchange_ops *ops, void *ctx)
{
	x->ops = *ops;
	x->ctx = ctx;
}

void http_exchange_header(struct http_exchange *x, const char *name, const char *value)
{
	buf_printf(&x->headers, "%s: %s\r\n", name, value);
}

static const char *http_status_text(unsigned status)
{
	static const struct {
		unsigned status;
		const char *text;
	} rows[] = {
		{ 200, "OK" },
		{ 202, "Accepted" },
		{ 204, "No Content" },
		{ 304, "Not Modified" },
		{ 400, "Bad Request" },
		{ 401, "Unauthorized" },
		{ 403, "Forbidden" },
		{ 404, "Not Found" },
		{ 405, "Method Not Allowed" },
		{ 406, "Not Acceptable" },
		{ 409, "Conflict" },
		{ 413, "Content Too Large" },
		{ 415, "Unsupported Media Type" },
		{ 429, "Too Many Requests" },
		{ 431, "Request Header Fields Too Large" },
		{ 500, "Internal Server Error" },
		{ 503, "Service Unavailable" },
	};

	for (size_t i = 0; i < countof(rows); i++)
		if (rows[i].status == status)
			return rows[i].text;
	return "Status";
}

static void write_head(struct http_exchange *x, unsigned status, const char *type, const char *framing)
{
	struct http_connection *c = x->c;
	buf_auto struct buf out = BUF_INIT;

	c->counts->by_class[status / 100 % 6]++;
	buf_printf(&out, "HTTP/1.1 %u %s\r\n", status, http_status_text(status));
	if (type)
		buf_printf(&out, "Content-Type: %s\r\nX-Content-Type-Options: nosniff\r\n", type);
	/* Responses contain command output and data that needs a token: never cache them, unless the handler says so.
	 */
	if (!strstr(buf_cstr(&x->headers), "Cache-Control:"))
		buf_str(&out, "Cache-Control: no-store\r\n");
	if (x->headers.len)
		buf_append(&out, x->headers.data, x->headers.len);
	buf_str(&out, framing);
	if (c->last)
		buf_str(&out, "Connection: close\r\n");
	else if (!c->request.parsed.minor)
		buf_str(&out, "Connection: keep-alive\r\n");
	buf_str(&out, "\r\n");
	bufferevent_write(c->bev, out.data, out.len);
}

/* The response is in the output buffer. Continue with the next request, or close. */
static void finish_exchange(struct http_exchange *x)
{
	struct http_connection *c = x->c;

	c->counts->streams -= x->streaming;
	c->x = NULL;
	buf_done(&x->headers);
	free(x);
	http_request_done(&c->request);
	http_request_init(&c->request, c->limits->body_bytes);
	if (c->last) {
		enter_state(c, HTTP_CLOSING);
		if (output_len(c) == 0)
			linger_close(c);
		return;
	}
	enter_state(c, HTTP_RESTING);
	schedule_turn(c);
}

void http_exchange_reply(struct http_exchange *x, unsigned status, const char *type, const char *body, size_t n)
{
	char framing[64];

	snprintf(framing, sizeof(framing), "Content-Length: %zu\r\n", n);
	write_head(x, status, type, status == 204 || status == 304 ? "" : framing);
	if (n && !x->head_only)
		bufferevent_write(x->c->bev, body, n);
	finish_exchange(x);
}

void http_exchange_stream(struct http_exchange *x, unsigned status, const char *type)
{
	x->streaming = true;
	x->c->counts->streams++;
	/* HTTP/1.0 has no chunked encoding: the end of the connection ends the body. */
	x->chunked = x->c->request.parsed.minor == 1;
	x->c->last |= !x->chunked;
	write_head(x, status, type, x->chunked ? "Transfer-Encoding: chunked\r\n" : "");
}

void http_exchange_write(struct http_exchange *x, const char *p, size_t n)
{
	struct evbuffer *out = bufferevent_get_output(x->c->bev);

	if (n == 0)
		return;
	if (x->chunked)
		evbuffer_add_printf(out, "%zx\r\n", n);
	evbuffer_add(out, p, n);
	if (x->chunked)
		evbuffer_add(out, "\r\n", 2);
}

void http_exchange_end(struct http_exchange *x)
{
	if (x->chunked)
		bufferevent_write(x->c->bev, "0\r\n\r\n", 5);
	finish_exchange(x);
}

size_t http_exchange_queued(const struct http_exchange *x) { return output_len(x->c); }

void http_exchange_drop(struct http_exchange *x)
{
	x->ops = (struct http_exchange_ops){ 0 };
	close_connection(x->c);
}

void http_exchange_refuse(struct http_exchange *x, unsigned status, const char *why)
{
	buf_auto struct buf body = BUF_INIT;
	struct jw w = jw_on(&body);

	jw_obj(&w);
	jw_kstr(&w, "error", why);
	jw_obj_end(&w);
	buf_byte(&body, '\n');
	http_exchange_reply(x, status, "application/json", body.data, body.len);
}
