#include "supervisor/gateway/http/http_server.h"

#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/loop/loop.h"
#include "supervisor/gateway/http/http_access.h"
#include "supervisor/gateway/http/http_connection.h"
#include "supervisor/gateway/http/http_exchange.h"
#include "supervisor/gateway/http/http_request.h"
#include "supervisor/gateway/http/http_tokens.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#define ROUTES_MAX 24
#define BACKLOG 128
#define ACCEPT_PAUSE_MS 200 /* after accept failed, most likely because no descriptor is left */

struct http_server {
	struct event_base *base;
	struct http_limits limits;
	struct http_tokens *tokens;
	struct {
		struct http_route route;
		void *ctx;
	} routes[ROUTES_MAX];
	size_t nroutes;
	struct evconnlistener *listener;
	struct event *pause;
	struct http_connection *connections;
	struct http_counts counts;
	bool stopping;
};

struct http_server *http_server_new(struct event_base *base, const struct http_limits *limits,
				    struct http_tokens *tokens)
{
	struct http_server *s = mem_zalloc(1, sizeof(*s));

	s->base = base;
	s->limits = *limits;
	s->tokens = tokens;
	return s;
}

void http_server_route(struct http_server *s, const struct http_route *route, void *ctx)
{
	if (s->nroutes == ROUTES_MAX)
		abort();
	s->routes[s->nroutes].route = *route;
	s->routes[s->nroutes++].ctx = ctx;
}

const struct http_counts *http_server_counts(const struct http_server *s) { return &s->counts; }

/* ---- requests ---- */

static bool lists_method(const char *methods, const char *method)
{
	size_t n = strlen(method);

	for (const char *p = methods; *p; p += strcspn(p, ",")) {
		p += strspn(p, ", ");
		if (strncmp(p, method, n) == 0 && (p[n] == ',' || p[n] == '\0'))
			return true;
	}
	return false;
}

static size_t route_of(const struct http_server *s, const struct http_request *r)
{
	for (size_t i = 0; i < s->nroutes; i++) {
		const struct http_route *route = &s->routes[i].route;

		if (route->prefix ? strncmp(r->path, route->path, strlen(route->path)) == 0
				  : strcmp(r->path, route->path) == 0)
			return i;
	}
	return s->nroutes;
}

/* Unknown paths require the token too: without it, a client cannot find out which paths exist. */
static struct http_access access_of(const struct http_server *s, const struct http_request *r)
{
	size_t i = route_of(s, r);
	struct http_access a = { .open = !s->tokens || (i < s->nroutes && s->routes[i].route.open) };

	if (!a.open)
		a.tokens = http_tokens_all(s->tokens, &a.ntokens);
	return a;
}

static bool allows_request(struct http_server *s, const struct http_request *r, const struct http_token **ret_who,
			   struct http_refusal *ret)
{
	struct http_access access = access_of(s, r);
	size_t i = route_of(s, r);

	if (http_access_allows(&access, r, ret_who, ret) &&
	    (i == s->nroutes || !s->routes[i].route.allows || s->routes[i].route.allows(s->routes[i].ctx, r, ret)))
		return true;
	s->counts.refused++;
	return false;
}

/* Runs before the body is read, so that an unauthorised client cannot make us buffer one. */
static bool on_head(void *ctx, struct http_request *r, struct http_refusal *ret)
{
	const struct http_server *s = ctx;
	const struct http_token *who;
	size_t i = route_of(s, r);

	if (!allows_request(ctx, r, &who, ret))
		return false;
	if (i == s->nroutes || !s->routes[i].route.body_bytes ||
	    http_request_limit_body(r, s->routes[i].route.body_bytes))
		return true;
	*ret = (struct http_refusal){ 413, HTTP_BODY_LONG };
	return false;
}

/* Checks the access again: on_head runs only if the body was not received together with the head. */
static void on_request(void *ctx, struct http_exchange *x)
{
	struct http_server *s = ctx;
	const struct http_request *r = http_exchange_request(x);
	const struct http_token *who = NULL;
	struct http_refusal no = { 0 };
	size_t i = route_of(s, r);
	const struct http_route *route = i < s->nroutes ? &s->routes[i].route : NULL;

	if (!allows_request(s, r, &who, &no)) {
		if (no.status == 401)
			http_exchange_header(x, "WWW-Authenticate", HTTP_AUTHENTICATE);
		return http_exchange_refuse(x, no.status, no.why);
	}
	http_connection_authorise(http_exchange_connection(x), who);
	if (!route)
		return http_exchange_refuse(x, 404, "nothing is served under this path");
	if (!lists_method(route->methods, r->method)) {
		http_exchange_header(x, "Allow", route->methods);
		http_exchange_refuse(x, 405, "this path does not support the method");
		return;
	}
	if (s->stopping)
		return http_exchange_refuse(x, 503, "bailiff serve is being stopped");
	route->handle(s->routes[i].ctx, x);
}

/* ---- connections ---- */

static void on_closed(void *ctx, struct http_connection *c)
{
	struct http_server *s = ctx;

	http_connection_unlink(c);
	s->counts.connections--;
}

void http_server_accept(struct http_server *s, int fd)
{
	static const struct http_connection_ops ops = { .head = on_head, .request = on_request, .closed = on_closed };

	s->counts.accepted++;
	if (s->counts.connections >= s->limits.connections) {
		/*
		 * The connection to evict: the one that has been without a request for longest, those that never showed
		 * a token first.
		 */
		struct http_connection *best = NULL;
		for (struct http_connection *c = s->connections; c; c = http_connection_next(c)) {
			if (http_connection_state(c) == HTTP_ANSWERING)
				continue;
			if (!best || (http_connection_trusted(best) && !http_connection_trusted(c)) ||
			    (http_connection_trusted(best) == http_connection_trusted(c) &&
			     http_connection_since(c) < http_connection_since(best)))
				best = c;
		}
		struct http_connection *c = best;
		if (!c) {
			s->counts.refused_connections++;
			/* Rejects a connection without reading its request. */
			static const char text[] = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: "
						   "5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
			ssize_t n = send(fd, text, sizeof(text) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
			if (n < 0)
				log_debug("http: the excess connection was closed already");
			fd_close(&fd);
			return;
		}
		s->counts.evicted++;
		http_connection_drop(
			c); /* freed on the next turn of the loop; exceeding the limit by one until then is harmless */
	}
	int on = 1;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	http_connection_link(http_connection_new(s->base, fd, &s->limits, &s->counts, &ops, s), &s->connections);
	s->counts.connections++;
}

static void on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *sa, int len, void *arg)
{
	http_server_accept(arg, fd);
}

static void on_pause(evutil_socket_t fd, short what, void *arg)
{
	struct http_server *s = arg;

	if (s->listener)
		evconnlistener_enable(s->listener);
}

/* Most likely no descriptor is left. The listener stays readable, so without a pause the loop would spin. */
static void on_accept_error(struct evconnlistener *l, void *arg)
{
	struct http_server *s = arg;
	struct timeval tv = { 0, ACCEPT_PAUSE_MS * 1000 };

	log_warning("http: accept: %s", strerror(errno));
	evconnlistener_disable(l);
	loop_add(s->pause, &tv);
}

static int address_of(const struct http_address *a, struct sockaddr_storage *ret, socklen_t *ret_len)
{
	struct sockaddr_in *four = (struct sockaddr_in *)ret;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)ret;

	memset(ret, 0, sizeof(*ret));
	if (strchr(a->host, ':')) {
		six->sin6_family = AF_INET6;
		six->sin6_port = htons(a->port);
		*ret_len = sizeof(*six);
		return inet_pton(AF_INET6, a->host, &six->sin6_addr);
	}
	four->sin_family = AF_INET;
	four->sin_port = htons(a->port);
	*ret_len = sizeof(*four);
	return inet_pton(AF_INET, a->host, &four->sin_addr);
}

int http_server_listen(struct http_server *s, const struct http_address *a, struct http_address *ret, struct err *e)
{
	struct sockaddr_storage sa;
	socklen_t len;
	char text[HTTP_ADDRESS_TEXT];

	http_address_format(a, text);
	if (address_of(a, &sa, &len) != 1)
		return err_field(e, "--listen", "'%s' is not an address", text);
	s->listener = evconnlistener_new_bind(s->base, on_accept, s,
					      LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_REUSEABLE,
					      BACKLOG, (struct sockaddr *)&sa, (int)len);
	if (!s->listener)
		return err_sys(e, errno, "listen on %s", text);
	evconnlistener_set_error_cb(s->listener, on_accept_error);
	s->pause = evtimer_new(s->base, on_pause, s);
	if (getsockname(evconnlistener_get_fd(s->listener), (struct sockaddr *)&sa, &len) < 0)
		return err_sys(e, errno, "get the port of %s", text);
	*ret = *a;
	ret->port = ntohs(sa.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&sa)->sin6_port
						   : ((struct sockaddr_in *)&sa)->sin_port);
	return 0;
}

void http_server_stop(struct http_server *s)
{
	s->stopping = true;
	if (s->listener)
		evconnlistener_free(s->listener);
	s->listener = NULL;
	for (struct http_connection *c = s->connections, *next; c; c = next) {
		next = http_connection_next(c);
		http_connection_finish(c);
	}
}

bool http_server_idle(const struct http_server *s) { return !s->connections; }

void http_server_free(struct http_server *s)
{
	if (!s)
		return;
	if (s->listener)
		evconnlistener_free(s->listener);
	if (s->pause)
		event_free(s->pause);
	/* The loop no longer runs, so free the connections directly. */
	while (s->connections) {
		struct http_connection *c = s->connections;
		http_connection_drop(c);
		http_connection_free(c);
	}
	free(s);
}
