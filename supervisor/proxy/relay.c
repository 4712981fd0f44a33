/*
 * Relays the bytes between a client and its server, from the first to the last.
 *
 * One port serves all protocols: the first byte distinguishes SOCKS 5 from HTTP. The target is checked by name before
 * it is resolved, and by address before it is dialled. In tunnels, the server name that the client sends is checked as
 * well (access_check.c). The server's bytes are relayed unchanged, except that the response gets Connection: close
 * (http_head.h).
 *
 * Buffers are bounded: while one side does not read, reading from the other stops.
 *
 * A connection is a state machine (connection.h). Each state has a step that consumes the client's input; a step
 * returns true if another one may be able to continue with what is buffered. Bytes of the server need no states, except
 * for the first head of a response.
 *
 * client_held and server_held record which direction was stopped by backpressure; the write callback of the other end
 * resumes it at OUTPUT_LOW. client_eof and drained are the two halves of a half-closed connection: the server sees the
 * end of the client's data only after all of that data.
 */

#include "supervisor/proxy/relay.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/mem.h"
#include "runtime/loop/loop.h"
#include "supervisor/proxy/access_check.h"
#include "supervisor/proxy/connection.h"
#include "supervisor/proxy/http_head.h"
#include "supervisor/proxy/served_sandbox.h"
#include "supervisor/proxy/socks.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- dialling ---- */

/*
 * From a target to a connected socket. Every resolved address is checked, and exactly the checked addresses are
 * dialled. Nothing is resolved twice, so DNS rebinding between check and connect is not possible.
 */

#define DIAL_S 60

static struct bufferevent *wire_socket(struct connection *c, int fd, bool server);

static void fail_dial(struct connection *c, const char *why)
{
	connection_answer(c, 502, "connect %s:%u: %s", c->target.host, c->target.port, why);
}

static int connect_address(const struct net_address *a, uint16_t port)
{
	struct sockaddr_storage to;
	size_t len = net_address_sockaddr(a, port, &to);
	int one = 1, fd = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	if (connect(fd, (struct sockaddr *)&to, (socklen_t)len) == 0 || errno == EINPROGRESS)
		return fd;
	int saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

/* Tries the next address; error: why the previous one failed, or 0. */
static void dial_next(struct connection *c, int error)
{
	if (c->server)
		bufferevent_free(c->server);
	c->server = NULL;
	while (c->next_address < c->naddresses) {
		int fd = connect_address(&c->address[c->next_address++], c->target.port);

		if (fd < 0) {
			error = errno;
			continue;
		}
		c->server = wire_socket(c, fd, true);
		if (!c->server)
			abort();
		/* The socket is connecting: libevent reports the outcome. */
		bufferevent_socket_connect(c->server, NULL, 0);
		return;
	}
	fail_dial(c, error ? strerror(error) : "no address");
}

/* Keeps the addresses that the rules allow. */
static void on_addresses(void *ctx, int error, const struct net_address *found, size_t n)
{
	struct connection *c = ctx;
	enum host_verdict first = HOST_NOT_LISTED;
	char text[NET_ADDRESS_TEXT] = "";

	c->lookup = NULL;
	if (error)
		return fail_dial(c, gai_strerror(error));
	for (size_t i = 0; i < n; i++) {
		enum host_verdict v = host_rules_address(&c->sandbox->rules, c->target.host, &found[i], c->target.port);

		if (v == HOST_ALLOWED && c->naddresses < countof(c->address)) {
			c->address[c->naddresses++] = found[i];
		} else if (!text[0]) {
			first = v;
			net_address_text(&found[i], text);
		}
	}
	if (c->naddresses == 0)
		connection_refuse(c, first == HOST_DENIED ? PROXY_DENIED : PROXY_INSIDE, text);
	else
		dial_next(c, 0);
}

/*
 * An address was checked against the rules already (access_check_target); a name has to be resolved, and each of its
 * addresses checked.
 */
static void dial_begin(struct connection *c)
{
	connection_phase(c, CONNECTION_DIAL, DIAL_S);
	if (c->target.is_address) {
		c->address[c->naddresses++] = c->target.address;
		dial_next(c, 0);
		return;
	}
	const struct lookup_owner owner = { .uid = c->sandbox->user->uid, .sandbox = c->sandbox };
	c->lookup = resolver_ask(c->sandbox->resolver, &owner, c->target.host, on_addresses, c);
	if (!c->lookup)
		fail_dial(c, "too many lookups are in progress");
}

#define INPUT_MAX (128u * 1024) /* more than the longest head or ClientHello */
#define OUTPUT_HIGH (256u * 1024)
#define OUTPUT_LOW (64u * 1024)

/* ---- the request ---- */

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
		connection_answer_socks(c, reply);
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
		connection_answer(c, 400, "this is a proxy: send http:// URLs or CONNECT");
		return false;
	}
	c->via = c->head.form == HTTP_CONNECT ? VIA_CONNECT : VIA_HTTP;
	c->target = c->head.target;
	if (c->head.has_host && !connect_target_agrees(&c->target, &c->head.host)) {
		connection_refuse(c, PROXY_HOST_DIFFERS, "");
		return false;
	}
	if (c->via == VIA_CONNECT)
		evbuffer_drain(in, c->head.len); /* of other requests the head is still needed */
	if (access_check_target(c))
		dial_begin(c);
	return false;
}

/* ---- relaying ---- */

/* Backpressure: stops reading from the client while the server does not read. on_server_writable resumes. */
static bool server_is_full(struct connection *c)
{
	if (evbuffer_get_length(bufferevent_get_output(c->server)) < OUTPUT_HIGH)
		return false;
	c->client_held = true;
	bufferevent_disable(c->client, EV_READ);
	return true;
}

/* Once the server has received everything, shuts down the half that the client has closed. */
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

/* Discards further input; connection_close explains why it is read at all. */
static bool step_shut(struct connection *c)
{
	evbuffer_drain(bufferevent_get_input(c->client), SIZE_MAX);
	return false;
}

static bool step_wait(struct connection *c) { return false; }

/*
 * Runs the steps of the current state until one has to wait. A step that returns false may have freed the connection,
 * so `c` is not used after that.
 */
static void run_steps(struct connection *c)
{
	static bool (*const steps[CONNECTION_STATE_COUNT])(struct connection *) = {
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

/* ---- callbacks ---- */

static void on_client_bytes(struct bufferevent *bev, void *ctx)
{
	struct connection *c = ctx;

	c->active_ns = clock_boot_ns();
	run_steps(c);
}

/* Relays interim responses (100 Continue) unchanged; the final head gets Connection: close. */
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
		/*
		 * A response that is not HTTP ends the parsing, too (`interim` is false then): the rest is relayed as
		 * it is.
		 */
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

static void on_client_writable(struct bufferevent *bev, void *ctx)
{
	struct connection *c = ctx;

	if (c->state == CONNECTION_SHUT && evbuffer_get_length(bufferevent_get_output(bev)) == 0) {
		connection_close_written(c);
	} else if (c->server_held && c->server) {
		c->server_held = false;
		loop_enable(c->server, EV_READ);
	}
}

static void on_server_writable(struct bufferevent *bev, void *ctx)
{
	struct connection *c = ctx;

	if (c->client_held) {
		c->client_held = false;
		loop_enable(c->client, EV_READ);
		run_steps(c);
		return;
	}
	pass_eof(c);
}

static void on_client_event(struct bufferevent *bev, short what, void *ctx)
{
	struct connection *c = ctx;

	c->client_eof = true;
	bool pending = evbuffer_get_length(bufferevent_get_output(bev)) > 0;
	/*
	 * Before DIAL nothing was requested, so a client that closes its half is gone. Later, half-closed is a valid
	 * state.
	 */
	if (what & BEV_EVENT_ERROR || c->state < CONNECTION_DIAL || (c->state == CONNECTION_SHUT && !pending))
		connection_free(c);
	else
		pass_eof(c);
}

static void on_server_event(struct bufferevent *bev, short what, void *ctx)
{
	struct connection *c = ctx;

	if (what & BEV_EVENT_CONNECTED) {
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
				connection_answer_socks(c, SOCKS_OK);
			connection_phase(c, CONNECTION_SNIFF, 0);
		}
		run_steps(c);
	} else if (c->state == CONNECTION_DIAL) {
		dial_next(c, evutil_socket_geterror(bufferevent_getfd(bev)));
	} else {
		c->answering = false; /* the rest of the head will not arrive */
		pass_answer(c);
		connection_close(c);
	}
}

static struct bufferevent *wire_socket(struct connection *c, int fd, bool server)
{
	struct bufferevent *bev = bufferevent_socket_new(c->sandbox->base, fd, BEV_OPT_CLOSE_ON_FREE);

	if (!bev)
		return NULL;
	bufferevent_setcb(bev, server ? on_server_bytes : on_client_bytes,
			  server ? on_server_writable : on_client_writable, server ? on_server_event : on_client_event,
			  c);
	bufferevent_setwatermark(bev, EV_READ, 0, INPUT_MAX);
	bufferevent_setwatermark(bev, EV_WRITE, OUTPUT_LOW, 0);
	loop_enable(bev, EV_READ | EV_WRITE);
	return bev;
}

void relay_start(struct served_sandbox *b, int fd)
{
	struct connection *c = mem_zalloc(1, sizeof *c);

	c->sandbox = b;
	c->client = wire_socket(c, fd, false);
	c->timer = evtimer_new(b->base, connection_on_timer, c);
	if (!c->client || !c->timer)
		abort();
	LIST_INSERT_HEAD(&b->connections, c, link);
	connection_phase(c, CONNECTION_FIRST, CONNECTION_HEAD_S);
}
