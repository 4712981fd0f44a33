/*
 * `bailiff serve`: the HTTP listener with MCP on /mcp, the console on /ui/ and /api/, and /healthz and /metrics. Other
 * gateways add their paths here. It has the privileges of the user who started it, so it listens on loopback only, and
 * everything except /healthz and the console's files needs the token (the console: a session that began with it) unless
 * --metrics-open is given.
 */

#include "supervisor/gateway/http/serve.h"
#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "runtime/base/text.h"
#include "runtime/loop/loop.h"
#include "supervisor/client/remote.h"
#include "supervisor/gateway/common/gateway_program.h"
#include "supervisor/gateway/http/console.h"
#include "supervisor/gateway/http/http_access.h"
#include "supervisor/gateway/http/http_server.h"
#include "supervisor/gateway/http/http_tokens.h"
#include "supervisor/gateway/http/mcp_endpoint.h"
#include "supervisor/gateway/http/status_pages.h"
#include "supervisor/gateway/mcp/mcp_session.h"
#include "supervisor/gateway/mcp/mcp_tables.h"

#include <errno.h>
#include <event2/event.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SESSIONS_MOST 256
#define SESSION_IDLE_MS (30 * 60 * 1000)
#define DRAIN_MS 5000 /* how long responses in progress may take on shutdown */
#define TICK_MS 50

struct serve {
	/* options */
	const char *listen, *token_file, *client;
	bool print_token, metrics_open;
	uint64_t session_idle_ms, request_ms, connections;
	struct mcp_config mcp;
	int notify_fd; /* gets the address; −1: none */
	/* state */
	struct http_tokens *tokens;
	struct event_base *base;
	struct http_server *server;
	struct mcp_endpoint *endpoint;
	struct status_pages *pages;
	struct console *console;
	bool stopping;
};

/* ---- options ---- */

static int parse_count(const char *name, const char *text, uint64_t most, uint64_t *ret, struct err *e)
{
	char *end = NULL;
	unsigned long long v = text[0] >= '0' && text[0] <= '9' ? strtoull(text, &end, 10) : 0;

	if (!end || *end || v == 0 || v > most)
		return err_field(e, name, "%s: '%.40s' is not a number from 1 to %llu", name, text,
				 (unsigned long long)most);
	*ret = v;
	return 0;
}

static int parse_options(struct serve *s, int argc, char **argv, struct err *e)
{
	gateway_options_auto struct gateway_options o = { 0 };
	const char *connections;

	if (gateway_options_parse("serve", argc, argv, &o, e) < 0 || mcp_options_read(&o, &s->mcp, e) < 0 ||
	    gateway_option_ms(&o, "session-idle", &s->session_idle_ms, e) < 0 ||
	    gateway_option_ms(&o, "request-timeout", &s->request_ms, e) < 0)
		return -1;
	connections = gateway_option(&o, "max-connections");
	if (connections && parse_count("--max-connections", connections, 65536, &s->connections, e) < 0)
		return -1;
	s->listen = gateway_option(&o, "listen") ?: SERVE_LISTEN;
	s->token_file = gateway_option(&o, "token-file");
	s->client = gateway_option(&o, "client") ?: "";
	s->print_token = gateway_option(&o, "print-token") != NULL;
	s->metrics_open = gateway_option(&o, "metrics-open") != NULL;
	s->mcp.away = true;
	if (s->session_idle_ms < 100 || s->session_idle_ms > UINT_MAX / 2)
		return err_field(e, "--session-idle", "--session-idle takes a time from 100ms to 24d");
	if (s->client[0] && (!s->print_token || !http_tokens_is_name(s->client)))
		return err_field(e, "--client",
				 !s->print_token
					 ? "--client requires --print-token: it names the client whose token is printed"
					 : "--client: a name has 1 to %d letters, digits, '.', '_' and '-'",
				 HTTP_CLIENT_NAME_MAX);
	if (s->request_ms < 100 || s->request_ms > 3600 * 1000)
		return err_field(e, "--request-timeout", "--request-timeout takes a time from 100ms to 1h");
	return 0;
}

/* ---- running ---- */

static void on_signal(evutil_socket_t sig, short what, void *arg) { ((struct serve *)arg)->stopping = true; }

static void on_tick(evutil_socket_t fd, short what, void *arg) {}

static void run_server(struct serve *s, const char *address)
{
	struct event *signals[GATEWAY_SIGNALS];

	gateway_signals_add(s->base, on_signal, s, signals);
	/* Printed after the handlers are installed: the reader may send a signal immediately. */
	printf("listening on http://%s/mcp\n", address);
	fflush(stdout);
	if (s->notify_fd >= 0 && write(s->notify_fd, address, strlen(address)) < 0)
		fprintf(stderr, "bailiff serve: the address could not be reported: %s\n", strerror(errno));
	fd_close(&s->notify_fd);
	while (!s->stopping)
		event_base_loop(s->base, EVLOOP_ONCE);
	/* The handlers are removed, so that a second signal terminates the process. */
	for (size_t i = 0; i < GATEWAY_SIGNALS; i++)
		event_free(signals[i]);
	/* Responses in progress get DRAIN_MS. Streams and sessions end now, and with them their foreground commands. */
	struct timeval tv = { 0, TICK_MS * 1000 };
	struct event *tick = event_new(s->base, -1, EV_PERSIST, on_tick, NULL);
	uint64_t until = clock_boot_ns() + DRAIN_MS * 1000000ull;
	loop_add(tick, &tv);
	mcp_endpoint_stop(s->endpoint);
	console_stop(s->console);
	http_server_stop(s->server);
	while (!http_server_idle(s->server) && clock_boot_ns() < until)
		event_base_loop(s->base, EVLOOP_ONCE);
	event_free(tick);
	status_pages_free(s->pages);
	console_free(s->console);
	http_server_free(s->server);
	mcp_endpoint_free(s->endpoint);
	/* Only connections to the daemon are left; run until their last replies have arrived. */
	(void)loop_run(s->base);
}

static void on_token_gone(void *ctx, const char *principal)
{
	struct serve *s = ctx;

	mcp_endpoint_forget(s->endpoint, principal);
	console_forget(s->console, principal);
}

/* The length of the longest path in the list that contains `path`; 0 if none does. */
static size_t longest_prefix(struct jval list, const char *path)
{
	char one[PATH_MAX];
	size_t most = 0;

	for (struct jiter it = jiter_on(list); jiter_next(&it);)
		if (jval_str(it.value, one, sizeof(one)) && path_within(one, path) && strlen(one) > most)
			most = strlen(one);
	return most;
}

/*
 * 1: a command run in this directory (NULL: no directory) could read the file. 0: it could not, or agents cannot run
 * commands there.
 */
static int is_readable_in(struct remote *r, const char *folder, const char *path, struct err *e)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	struct err why = ERR_INIT;

	jw_obj(&w);
	jw_kopt(&w, "cwd", folder);
	jw_obj_end(&w);
	if (remote_call(r, "get_sandbox", &params, &a, &why) < 0) {
		if (folder && strcmp(why.field, "cwd") == 0)
			return 0;
		*e = why;
		return -1;
	}
	struct jval p = jval_get(a.result, "sandboxProfile");
	size_t shut = longest_prefix(jval_get(p, "hidden"), path), empty = longest_prefix(jval_get(p, "private"), path);
	size_t read = longest_prefix(jval_get(p, "readRoots"), path),
	       written = longest_prefix(jval_get(p, "writeRoots"), path);
	return (shut > empty ? shut : empty) < (read > written ? read : written);
}

/* Also in the file's own directory or a parent, which an agent can choose as its working directory. */
int serve_commands_read(const char *file, struct err *e)
{
	static const struct remote_options o = { 0 };
	mem_auto char *path = realpath(file, NULL), *folder = mem_strdup(path);
	buf_auto struct buf hello = BUF_INIT;
	struct remote *r = NULL;

	if (!path)
		return err_sys(e, errno, "resolve '%s'", file);
	if (remote_open(&o, &r, e) < 0)
		return -1;
	buf_str(&hello, "{\"clientName\":\"bailiff serve\",\"role\":\"agent\"}");
	int seen = remote_handshake(r, "initialize", &hello, e) < 0 ? -1 : is_readable_in(r, NULL, path, e);
	for (char *end = folder + strlen(folder); seen == 0 && end > folder;) {
		*end = '\0';
		end = strrchr(folder, '/');
		end[end == folder] = '\0';
		seen = is_readable_in(r, folder, path, e);
	}
	remote_free(r);
	return seen < 0 ? err_wrap(e, "check whether commands can read '%s'", path) : seen;
}

/*
 * The token grants the user's authority over answers, so no command may be able to read it. The default file is one of
 * the daemon's secret paths; any other file must be configured as one.
 */
static int check_hidden(const char *file, struct err *e)
{
	int seen = serve_commands_read(file, e);

	return seen <= 0 ? seen
			 : err_field(e, "--token-file",
				     "commands in sandboxes could read '%s': add it to secretPaths in config.json and "
				     "restart the daemon, or omit --token-file",
				     file);
}

static int start_server(struct serve *s, struct err *e)
{
	struct http_limits limits = HTTP_LIMITS_DEFAULT;
	struct http_address address;
	char text[HTTP_ADDRESS_TEXT];

	if (http_address_parse(s->listen, &address, e) < 0 || gateway_check_daemon(e) < 0 ||
	    (s->token_file && check_hidden(s->token_file, e) < 0))
		return -1;
	fd_raise_nofile();
	limits.connections = s->connections;
	limits.request_ms = (unsigned)s->request_ms;
	s->base = event_base_new();
	if (!s->base)
		abort();
	s->server = http_server_new(s->base, &limits, s->tokens);
	s->endpoint = mcp_endpoint_new(&(struct mcp_endpoint_options){ .base = s->base,
								       .config = &s->mcp,
								       .sessions = SESSIONS_MOST,
								       .idle_ms = (unsigned)s->session_idle_ms });
	mcp_endpoint_serve(s->endpoint, s->server, "/mcp");
	http_tokens_listen(s->tokens, on_token_gone, s);
	s->pages = status_pages_new(s->base, s->server, s->endpoint, s->metrics_open);
	s->console = console_new(s->base, s->server);
	if (http_server_listen(s->server, &address, &address, e) < 0 ||
	    gateway_sandbox_enter(http_tokens_file(s->tokens), e) < 0)
		return -1;
	console_set_port(s->console, address.port);
	http_address_format(&address, text);
	run_server(s, text);
	event_base_free(s->base);
	return 0;
}

static int load_tokens(struct serve *s, struct err *e)
{
	char path[PATH_MAX];

	if (!s->token_file && http_tokens_path(path, sizeof(path), e) < 0)
		return -1;
	return http_tokens_load(s->token_file ? s->token_file : path, s->client, true, &s->tokens, e);
}

static int print_token(const struct serve *s, struct err *e)
{
	const struct http_token *t = http_tokens_named(s->tokens, s->client);

	if (!t)
		return err_field(e, "--client", "every token belongs to a named client: choose one with --client NAME");
	printf("%s\n", t->text);
	return 0;
}

int serve_main(int argc, char **argv) { return serve_run(argc, argv, -1); }

int serve_run(int argc, char **argv, int notify_fd)
{
	struct serve s = { .notify_fd = notify_fd,
			   .session_idle_ms = SESSION_IDLE_MS,
			   .request_ms = HTTP_LIMITS_DEFAULT.request_ms,
			   .connections = HTTP_LIMITS_DEFAULT.connections };
	struct err e = ERR_INIT;
	int status = 0;

	mcp_config_init(&s.mcp);
	if (parse_options(&s, argc, argv, &e) < 0) {
		fprintf(stderr, "bailiff serve: %s\n", e.message);
		return 2;
	}
	if (load_tokens(&s, &e) < 0 || (s.print_token ? print_token(&s, &e) : start_server(&s, &e)) < 0) {
		fprintf(stderr, "bailiff serve: %s\n", e.message);
		status = e.code == ERR_INVALID ? 2 : 1;
	}
	http_tokens_free(s.tokens);
	return status;
}
