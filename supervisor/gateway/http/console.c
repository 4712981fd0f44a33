#include "supervisor/gateway/http/console.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/loop/loop.h"
#include "supervisor/gateway/http/console_files.h"
#include "supervisor/gateway/http/console_output.h"
#include "supervisor/gateway/http/console_reply.h"
#include "supervisor/gateway/http/console_series.h"
#include "supervisor/gateway/http/console_session.h"
#include "supervisor/gateway/http/console_stream.h"
#include "supervisor/gateway/http/http_access.h"
#include "supervisor/gateway/http/http_exchange.h"
#include "supervisor/gateway/http/http_request.h"
#include "supervisor/gateway/http/http_server.h"
#include "supervisor/gateway/http/http_tokens.h"

#include <event2/event.h>
#include <string.h>
#include <strings.h>

#define SWEEP_S 30
#define JSON_TYPE "application/json"

struct console {
	struct event_base *base;
	struct event *sweep;
	struct console_codes codes;
	struct console_series *series;
	TAILQ_HEAD(, console_session) sessions;
	size_t nsessions;
	char cookie[32];
};

static uint64_t now_ms(void) { return clock_boot_ns() / 1000000; }

/* ---- access ---- */

static bool reject_request(struct http_refusal *ret, unsigned status, const char *why)
{
	*ret = (struct http_refusal){ status, why };
	return false;
}

/* The request comes from a page of this server, or from a program. */
static bool is_own_origin(const struct http_request *r, struct http_refusal *ret)
{
	static const char scheme[] = "http://";
	const size_t skip = sizeof(scheme) - 1;
	buf_auto struct buf origin = BUF_INIT, host = BUF_INIT, site = BUF_INIT;

	(void)http_request_header(r, "Host", &host);
	if (http_request_header(r, "Origin", &origin) &&
	    (origin.len <= skip || strncasecmp(origin.data, scheme, skip) != 0 ||
	     strcasecmp(origin.data + skip, buf_cstr(&host)) != 0))
		return reject_request(ret, 403,
				      "the Origin header does not name this server: requests of other pages "
				      "are rejected");
	if (http_request_header(r, "Sec-Fetch-Site", &site) && strcmp(buf_cstr(&site), "same-origin") != 0)
		return reject_request(ret, 403,
				      "Sec-Fetch-Site is not same-origin: requests of other pages are rejected");
	return true;
}

static bool allows_page(void *ctx, const struct http_request *r, struct http_refusal *ret)
{
	buf_auto struct buf v = BUF_INIT;

	if (!is_own_origin(r, ret))
		return false;
	if (http_request_header(r, "X-Bailiff", &v) != 1 || strcmp(buf_cstr(&v), "1") != 0)
		return reject_request(ret, 403, "this needs the header 'X-Bailiff: 1'");
	return true;
}

static struct console_session *session_of(struct console *c, const struct http_request *r)
{
	struct console_session *s, *found = NULL;
	buf_auto struct buf cookie = BUF_INIT;

	if (!http_request_cookie(r, c->cookie, &cookie))
		return NULL;
	TAILQ_FOREACH (s, &c->sessions, entry)
		if (http_access_same(cookie.data, cookie.len, s->cookie, strlen(s->cookie)) && now_ms() < s->until)
			found = s;
	if (found)
		found->used = now_ms();
	return found;
}

static bool has_session(struct console *c, const struct http_request *r, struct http_refusal *ret)
{
	return session_of(c, r) ? true
				: reject_request(ret, 401,
						 "not logged in, or the session has ended: 'bailiff console' "
						 "opens a new one");
}

static bool allows_session(void *ctx, const struct http_request *r, struct http_refusal *ret)
{
	buf_auto struct buf key = BUF_INIT;
	struct console_session *s;

	if (!is_own_origin(r, ret))
		return false;
	if (http_request_header(r, "X-Bailiff", &key) != 1 || key.len == 0)
		return reject_request(ret, 403, "this needs the header 'X-Bailiff: KEY'");
	if (!has_session(ctx, r, ret))
		return false;
	s = session_of(ctx, r);
	return http_access_same(key.data, key.len, s->key, strlen(s->key))
		       ? true
		       : reject_request(ret, 401,
					"X-Bailiff is not the session's key: 'bailiff console' opens a new one");
}

/* ---- login ---- */

static void end_session(struct console *c, struct console_session *s)
{
	TAILQ_REMOVE(&c->sessions, s, entry);
	c->nsessions--;
	console_output_stop_all(s);
	console_session_free(s);
}

static void handle_code(void *ctx, struct http_exchange *x)
{
	static const char console_principal[] = "client:" HTTP_CONSOLE_CLIENT ":";
	static const char *const roles[] = { "", "observer", "agent", "operator" };
	struct console *c = ctx;
	json_auto_t *body = console_reply_body(x);
	const char *role = json_string_value(json_object_get(body, "role"));
	buf_auto struct buf out = BUF_INIT;
	struct jw w = jw_on(&out);
	size_t i = 0;

	if (!body)
		return;
	if (strncmp(http_exchange_principal(x), console_principal, strlen(console_principal)) != 0)
		return console_reply_error(x, 403, "forbidden",
					   "this token is for agents and opens no console: use 'bailiff console'");
	while (json_object_get(body, "role") && i < countof(roles) && (!role || strcmp(roles[i], role) != 0))
		i++;
	if (i == countof(roles))
		return console_reply_error(x, 400, "invalid", "role: expected observer, agent or operator");
	jw_obj(&w);
	jw_kstr(&w, "code", console_codes_add(&c->codes, roles[i], http_exchange_principal(x), now_ms()));
	jw_obj_end(&w);
	http_exchange_reply(x, 200, JSON_TYPE, out.data, out.len);
}

/* The session that was not used for longest makes room, one without an open page first. */
static void evict_session(struct console *c)
{
	struct console_session *s, *oldest = TAILQ_FIRST(&c->sessions);

	TAILQ_FOREACH (s, &c->sessions, entry)
		if (!s->nstreams != !oldest->nstreams ? !s->nstreams : s->used < oldest->used)
			oldest = s;
	end_session(c, oldest);
}

static void handle_login(void *ctx, struct http_exchange *x)
{
	struct console *c = ctx;
	json_auto_t *body = console_reply_body(x);
	const char *text = json_string_value(json_object_get(body, "code"));
	struct console_code code;
	buf_auto struct buf out = BUF_INIT;
	struct jw w = jw_on(&out);

	if (!body)
		return;
	if (!text)
		return console_reply_error(x, 400, "invalid", "code: expected the code of the page's address");
	if (!console_codes_take(&c->codes, text, now_ms(), &code))
		return console_reply_error(
			x, 403, "forbidden",
			"the code was used already, or is older than a minute: 'bailiff console' makes a new one");
	if (c->nsessions == CONSOLE_SESSIONS_MOST)
		evict_session(c);
	struct console_session *s = console_session_new(c->base, &code);
	s->used = now_ms();
	s->until = s->used + CONSOLE_SESSION_MS;
	TAILQ_INSERT_TAIL(&c->sessions, s, entry);
	c->nsessions++;
	mem_auto char *cookie = mem_printf("%s=%s; HttpOnly; SameSite=Strict; Path=/api/", c->cookie, s->cookie);
	http_exchange_header(x, "Set-Cookie", cookie);
	jw_obj(&w);
	jw_kstr(&w, "key", s->key);
	jw_obj_end(&w);
	http_exchange_reply(x, 200, JSON_TYPE, out.data, out.len);
}

static void handle_logout(void *ctx, struct http_exchange *x)
{
	struct console *c = ctx;
	mem_auto char *cookie = mem_printf("%s=; HttpOnly; SameSite=Strict; Path=/api/; Max-Age=0", c->cookie);

	end_session(c, session_of(c, http_exchange_request(x)));
	http_exchange_header(x, "Set-Cookie", cookie);
	http_exchange_reply(x, 204, NULL, NULL, 0);
}

/* ---- calls ---- */

static void on_gone(void *ctx) { console_call_cancel(ctx); }

static void on_reply(void *ctx, unsigned status, struct jval result, struct jval error)
{
	bool failed = error.type != JT_NONE;

	console_reply_raw(ctx, status, failed ? "error" : "result", failed ? error : result);
}

static void handle_call(void *ctx, struct http_exchange *x)
{
	static const struct http_exchange_ops ops = { .gone = on_gone };
	struct console_session *s = session_of(ctx, http_exchange_request(x));
	json_auto_t *body = console_reply_body(x);
	const char *method = json_string_value(json_object_get(body, "method"));
	const json_t *params = json_object_get(body, "params");

	if (!body)
		return;
	if (!method)
		return console_reply_error(x, 400, "invalid",
					   "method: expected the name of a method of the control socket");
	if (params && !json_is_object(params))
		return console_reply_error(x, 400, "invalid", "params: expected an object");
	if (console_method_refused(method))
		return console_reply_error(x, 400, "invalid", console_method_refused(method));
	if (json_is_true(json_object_get(params, "subscribe")))
		return console_reply_error(x, 400, "invalid", "params.subscribe: events come with GET /api/stream");
	if (s->ncalls >= CONSOLE_CALLS_MOST)
		return console_reply_error(x, 429, "resource_exhausted",
					   "too many calls of this session are unanswered");
	http_exchange_listen(x, &ops, console_session_call(s, method, params, on_reply, x));
}

/* ---- streams, downloads, numbers ---- */

static void handle_stream(void *ctx, struct http_exchange *x)
{
	console_stream_open(session_of(ctx, http_exchange_request(x)), x);
}

static void handle_watch(void *ctx, struct http_exchange *x)
{
	console_stream_watch(session_of(ctx, http_exchange_request(x)), x);
}

/* A link cannot send X-Bailiff; the cookie is not sent with requests of other sites. */
static bool allows_download(void *ctx, const struct http_request *r, struct http_refusal *ret)
{
	return is_own_origin(r, ret) && has_session(ctx, r, ret);
}

static void handle_output(void *ctx, struct http_exchange *x)
{
	console_output_send(session_of(ctx, http_exchange_request(x)), x);
}

static void handle_series(void *ctx, struct http_exchange *x)
{
	struct console *c = ctx;
	buf_auto struct buf out = BUF_INIT;

	console_series_write(c->series, &out);
	http_exchange_reply(x, 200, JSON_TYPE, out.data, out.len);
}

/* ---- the console ---- */

static void on_sweep(evutil_socket_t fd, short what, void *arg)
{
	struct console *c = arg;
	struct console_session *s, *next;

	for (s = TAILQ_FIRST(&c->sessions); s; s = next) {
		next = TAILQ_NEXT(s, entry);
		if (now_ms() >= s->until)
			end_session(c, s);
	}
}

struct console *console_new(struct event_base *base, struct http_server *server)
{
	static const struct {
		const char *path, *methods;
		bool (*allows)(void *ctx, const struct http_request *r, struct http_refusal *ret);
		void (*handle)(void *ctx, struct http_exchange *x);
	} rows[] = {
		{ "/api/code", "POST", allows_page, handle_code }, /* the only one that needs the token */
		{ "/api/login", "POST", allows_page, handle_login },
		{ "/api/logout", "POST", allows_session, handle_logout },
		{ "/api/call", "POST", allows_session, handle_call },
		{ "/api/stream", "GET", allows_session, handle_stream },
		{ "/api/watch", "POST", allows_session, handle_watch },
		{ "/api/output", "GET", allows_download, handle_output },
		{ "/api/series", "GET", allows_session, handle_series },
	};
	struct console *c = mem_zalloc(1, sizeof(*c));
	struct timeval tv = { SWEEP_S, 0 };

	c->base = base;
	TAILQ_INIT(&c->sessions);
	c->sweep = event_new(base, -1, EV_PERSIST, on_sweep, c);
	if (!c->sweep)
		abort();
	loop_add(c->sweep, &tv);
	c->series = console_series_new(base);
	console_files_serve(server);
	for (size_t i = 0; i < countof(rows); i++)
		http_server_route(
			server,
			&(struct http_route){ .path = rows[i].path,
					      .methods = rows[i].methods,
					      .open = i > 0,
					      .body_bytes = rows[i].handle == handle_login ? HTTP_ANONYMOUS_BYTES : 0,
					      .allows = rows[i].allows,
					      .handle = rows[i].handle },
			c);
	return c;
}

void console_set_port(struct console *c, uint16_t port)
{
	snprintf(c->cookie, sizeof(c->cookie), "bailiff_console_%u", port);
}

void console_forget(struct console *c, const char *principal)
{
	struct console_session *s, *next;

	console_codes_forget(&c->codes, principal);
	for (s = TAILQ_FIRST(&c->sessions); s; s = next) {
		next = TAILQ_NEXT(s, entry);
		if (strcmp(s->principal, principal) == 0)
			end_session(c, s);
	}
}

void console_stop(struct console *c)
{
	while (c->nsessions)
		end_session(c, TAILQ_FIRST(&c->sessions));
}

void console_free(struct console *c)
{
	if (!c)
		return;
	console_stop(c);
	console_series_free(c->series);
	event_free(c->sweep);
	free(c);
}
