/*
 * `bailiff-tool mcp`: one conversation with an external MCP server on stdio. The server is started inside the sandbox
 * that this program runs in, asked one thing, and ended; so a server that crashed, hangs or was replaced affects one
 * call only, and the limits of the call's process apply to it. With --keep it is left running for later calls.
 *
 *   bailiff-tool mcp list [OPTIONS] -- CMD…        {"server":{…},"tools":[…]}
 *   bailiff-tool mcp call [OPTIONS] TOOL -- CMD…   {"server":{…},"result": what tools/call returned}; stdin has the
 *                                                  arguments
 *   --env-file NAME=PATH   the variable NAME of the server has what is in the file, without the end of its line
 *   --keep KEY             call: of the server that runs under this key in the sandbox (mcp_runner.h)
 *
 * Both are the server's own JSON: the runtime parses them.
 */

#include "supervisor/tool/file_tool.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/tool/mcp_reader.h"
#include "supervisor/tool/mcp_runner.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROTOCOL "2025-11-25"
#define STATELESS "2026-07-28" /* of servers without initialize */
#define META "io.modelcontextprotocol/"
#define ARGS_MAX 64u
#define PAGES_MAX 32
#define TOOLS_MAX 256u
#define LIST_MAX (1u << 20) /* bytes of all descriptions and schemas */
#define MESSAGES_MAX 10000u /* that a server may send before it answers */
#define STDERR_KEPT 2048u
#define LIST_MS 45000u
#define CALL_MS 3600000u /* the limits of the call's process end it earlier */
#define END_MS 1000
#define PING_MS 5000 /* for a server whose call was cancelled */
#define SECRET_MAX (16u << 10)
#define RETRIES 3

struct mcp {
	pid_t pid;
	int in, out, err; /* of the server; −1 = closed */
	struct mcp_reader reader;
	struct buf pending, errors; /* pending: not written yet; errors: the end of its stderr */
	int64_t id;                 /* of the last request */
	int64_t error;              /* the code of the last answer, if it was an error */
	bool stateless;             /* each request says who sends it: there is no initialize */
	uint64_t deadline_ms;
	/* Of a runner: while it waits for a caller its listener, during a call the caller; otherwise −1. */
	int watched;
	short watched_for;
};
#define MCP_INIT ((struct mcp){ .in = -1, .out = -1, .err = -1, .watched = -1 })

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* ---- the server's process ---- */

static void execute(char **argv, int in, int out, int err)
{
	signal(SIGPIPE, SIG_DFL);
	if (dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 && dup2(err, STDERR_FILENO) >= 0) {
		execvp(argv[0], argv);
		dprintf(STDERR_FILENO, "%s: %s\n", argv[0], strerror(errno));
	}
	_exit(127);
}

static int start_server(struct mcp *m, char **argv, struct err *e)
{
	int in[2] = { -1, -1 }, out[2] = { -1, -1 }, err[2] = { -1, -1 }, r = 0;

	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0 || (m->pid = fork()) < 0)
		r = err_sys(e, errno, "start the server");
	else if (m->pid == 0)
		execute(argv, in[0], out[1], err[1]);
	fd_close(&in[0]);
	fd_close(&out[1]);
	fd_close(&err[1]);
	m->in = in[1];
	m->out = out[0];
	m->err = err[0];
	if (r == 0 && (fd_nonblock(m->in, true) < 0 || fd_nonblock(m->out, true) < 0 || fd_nonblock(m->err, true) < 0))
		r = err_sys(e, errno, "start the server");
	return r;
}

/* The end of stdin asks the server to exit. What is left is killed with the sandbox's process tree. */
static void end_server(struct mcp *m)
{
	fd_close(&m->in);
	fd_close(&m->out);
	fd_close(&m->err);
	for (int i = 0; m->pid > 0 && i < END_MS / 10; i++) {
		if (waitpid(m->pid, NULL, WNOHANG) == m->pid)
			m->pid = 0;
		else
			poll(NULL, 0, 10);
	}
	if (m->pid > 0) {
		kill(m->pid, SIGKILL);
		waitpid(m->pid, NULL, 0);
	}
	mcp_reader_done(&m->reader);
	buf_done(&m->pending);
	buf_done(&m->errors);
}

/* ---- bytes ---- */

static int fail_ended(struct mcp *m, struct err *e)
{
	buf_auto struct buf shown = BUF_INIT;

	text_sanitize_line(m->errors.len > 200 ? m->errors.data + m->errors.len - 200 : buf_cstr(&m->errors),
			   m->errors.len > 200 ? 200 : m->errors.len, &shown);
	return err_set(e, ERR_UNAVAILABLE, "the server exited before it answered%s%s", shown.len ? ": " : "",
		       buf_cstr(&shown));
}

static void read_stderr(struct mcp *m)
{
	char bytes[1024];
	ssize_t n;

	while (m->err >= 0 && (n = read(m->err, bytes, sizeof bytes)) != -1) {
		if (n == 0) {
			fd_close(&m->err);
			break;
		}
		buf_append(&m->errors, bytes, (size_t)n);
		if (m->errors.len > STDERR_KEPT)
			buf_consume(&m->errors, m->errors.len - STDERR_KEPT);
	}
}

/* Waits until something can be read or written, and does it. 1 = instead, something happened to what is watched. */
static int exchange(struct mcp *m, struct err *e)
{
	const uint64_t now = now_ms();
	struct pollfd p[] = { { .fd = m->out, .events = POLLIN },
			      { .fd = m->err, .events = POLLIN },
			      { .fd = m->pending.len ? m->in : -1, .events = POLLOUT },
			      { .fd = m->watched, .events = m->watched_for } };
	char bytes[65536];
	ssize_t n;

	if (now >= m->deadline_ms)
		return err_set(e, ERR_UNAVAILABLE, "the server did not answer in time");
	if (poll(p, countof(p), (int)(m->deadline_ms - now)) < 0 && errno != EINTR)
		return err_sys(e, errno, "wait for the server");
	read_stderr(m);
	if (p[2].revents) {
		n = write(m->in, m->pending.data, m->pending.len);
		if (n > 0)
			buf_consume(&m->pending, (size_t)n);
		else if (n < 0 && errno == EPIPE)
			buf_reset(&m->pending); /* its answer may be there already */
	}
	n = p[0].revents ? read(m->out, bytes, sizeof bytes) : -1;
	if (n > 0)
		mcp_reader_feed(&m->reader, bytes, (size_t)n);
	return n == 0 ? fail_ended(m, e) : p[3].revents != 0;
}

/* ---- messages ---- */

static void write_client(struct jw *w, const char *member)
{
	jw_kobj(w, member);
	jw_kstr(w, "name", "bailiff");
	jw_kstr(w, "version", BAILIFF_VERSION);
	jw_obj_end(w);
}

/* The parameters with what initialize would have said. */
static void write_stateless(struct jw *w, const struct buf *params)
{
	jw_kobj(w, "params");
	for (struct jiter it = jiter_on(jval_of(params ? buf_cstr(params) : "{}", params ? params->len : 2));
	     jiter_next(&it);) {
		mem_auto char *name = jval_strdup(it.key);

		jw_kraw(w, name, it.value.text, it.value.len);
	}
	jw_kobj(w, "_meta");
	jw_kstr(w, META "protocolVersion", STATELESS);
	jw_kobj(w, META "clientCapabilities");
	jw_obj_end(w);
	write_client(w, META "clientInfo");
	jw_obj_end(w);
	jw_obj_end(w);
}

/* `params` as JSON, or NULL. */
static void send_request(struct mcp *m, const char *method, const struct buf *params)
{
	struct jw w = jw_on(&m->pending);
	const bool notice = strncmp(method, "notifications/", 14) == 0;

	jw_obj(&w);
	jw_kstr(&w, "jsonrpc", "2.0");
	if (!notice)
		jw_kint(&w, "id", ++m->id);
	jw_kstr(&w, "method", method);
	if (m->stateless && !notice)
		write_stateless(&w, params);
	else if (params)
		jw_kraw(&w, "params", params->data, params->len);
	jw_obj_end(&w);
	buf_byte(&m->pending, '\n');
}

/* bailiff offers nothing to a server: no sampling, no roots, no questions to the user. */
static void answer_request(struct mcp *m, const struct mcp_message *q)
{
	struct jw w = jw_on(&m->pending);

	jw_obj(&w);
	jw_kstr(&w, "jsonrpc", "2.0");
	jw_kraw(&w, "id", q->id.text, q->id.len);
	jw_kobj(&w, jval_is_str(q->method, "ping") ? "result" : "error");
	if (!jval_is_str(q->method, "ping")) {
		jw_kint(&w, "code", -32601);
		jw_kstr(&w, "message", "not supported");
	}
	jw_obj_end(&w);
	jw_obj_end(&w);
	buf_byte(&m->pending, '\n');
}

static int fail_answer(const struct mcp_message *a, struct err *e)
{
	buf_auto struct buf text = BUF_INIT, clean = BUF_INIT;

	jval_str_buf(jval_get(a->error, "message"), &text);
	text_sanitize_line(buf_cstr(&text), text.len < 300 ? text.len : text_utf8_cut(text.data, 300), &clean);
	return err_set(e, ERR_INVALID, "the server answered with error %lld: %s",
		       (long long)jval_int(jval_get(a->error, "code"), 0), buf_cstr(&clean));
}

/* Sends a request and waits for its answer; the result is valid until the next one. ERR_STATE: the caller is gone. */
static int ask(struct mcp *m, const char *method, const struct buf *params, struct jval *ret, struct err *e)
{
	struct mcp_message a;

	send_request(m, method, params);
	m->error = 0;
	for (unsigned n = 0; n < MESSAGES_MAX;) {
		int r = mcp_reader_next(&m->reader, &a, e), moved = r == 0 ? exchange(m, e) : 0;

		if (r < 0 || moved < 0)
			return -1;
		if (moved > 0)
			return err_set(e, ERR_STATE, "the call was cancelled");
		n += r > 0;
		if (r > 0 && a.kind == MCP_REQUEST)
			answer_request(m, &a);
		if (r == 0 || a.kind != MCP_RESPONSE || jval_int(a.id, -1) != m->id)
			continue;
		m->error = a.error.type == JT_OBJECT ? jval_int(jval_get(a.error, "code"), -1) : 0;
		if (a.error.type == JT_OBJECT)
			return fail_answer(&a, e);
		*ret = a.result;
		return 0;
	}
	return err_set(e, ERR_UNAVAILABLE, "the server sent %u messages without an answer", MESSAGES_MAX);
}

/* Whether an error of initialize may be that of a server that has no such method. */
static bool may_be_stateless(int64_t code)
{
	static const int64_t codes[] = { -32601, -32600, -32602, -32020, -32022 };

	for (size_t i = 0; i < countof(codes); i++)
		if (codes[i] == code)
			return true;
	return false;
}

/* Without initialize, the server says in server/discover what it supports. */
static int discover(struct mcp *m, struct buf *ret_info, struct err *e)
{
	struct err why = ERR_INIT;
	struct jval hello;
	bool known = false;

	m->stateless = true;
	if (ask(m, "server/discover", NULL, &hello, &why) < 0) {
		m->stateless = false;
		return err_wrap(e, "initialize");
	}
	*e = ERR_INIT;
	for (struct jiter it = jiter_on(jval_get(hello, "supportedVersions")); jiter_next(&it);)
		known |= jval_is_str(it.value, STATELESS);
	if (!known)
		return err_set(e, ERR_UNAVAILABLE, "server/discover: the server does not support version " STATELESS);
	struct jval info = jval_get(jval_get(hello, "_meta"), META "serverInfo");
	buf_append(ret_info, info.type == JT_OBJECT ? info.text : "{}", info.type == JT_OBJECT ? info.len : 2);
	return 0;
}

static int shake_hands(struct mcp *m, struct buf *ret_info, struct err *e)
{
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	struct jval hello;

	jw_obj(&w);
	jw_kstr(&w, "protocolVersion", PROTOCOL);
	jw_kobj(&w, "capabilities");
	jw_obj_end(&w);
	write_client(&w, "clientInfo");
	jw_obj_end(&w);
	if (ask(m, "initialize", &params, &hello, e) < 0)
		return may_be_stateless(m->error) ? discover(m, ret_info, e) : err_wrap(e, "initialize");
	struct jval info = jval_get(hello, "serverInfo");
	if (jval_get(hello, "protocolVersion").type != JT_STRING || info.type != JT_OBJECT)
		return err_set(e, ERR_UNAVAILABLE, "initialize: the answer has no protocolVersion or serverInfo");
	buf_append(ret_info, info.text, info.len);
	send_request(m, "notifications/initialized", NULL);
	return 0;
}

/* ---- what is asked ---- */

static int list_tools(struct mcp *m, struct jw *w, struct err *e)
{
	buf_auto struct buf params = BUF_INIT;
	size_t count = 0, bytes = 0;
	struct jval page;

	jw_karr(w, "tools");
	for (int i = 0; i < PAGES_MAX; i++) {
		if (ask(m, "tools/list", params.len ? &params : NULL, &page, e) < 0)
			return err_wrap(e, "tools/list");
		for (struct jiter it = jiter_on(jval_get(page, "tools")); jiter_next(&it);) {
			bytes += it.value.len;
			if (++count > TOOLS_MAX || bytes > LIST_MAX)
				return err_set(e, ERR_EXHAUSTED,
					       "the server has more than %u tools, or %u bytes of them", TOOLS_MAX,
					       LIST_MAX);
			jw_raw(w, it.value.text, it.value.len);
		}
		struct jval next = jval_get(page, "nextCursor");
		if (next.type != JT_STRING) {
			jw_arr_end(w);
			return 0;
		}
		struct jw p = jw_on(&params);
		buf_reset(&params);
		jw_obj(&p);
		jw_kraw(&p, "cursor", next.text, next.len);
		jw_obj_end(&p);
	}
	return err_set(e, ERR_EXHAUSTED, "tools/list: more than %d pages", PAGES_MAX);
}

/* A result that says it is an error ends as one, with its first text as the message. */
static int check_result(struct jval result, struct err *e)
{
	buf_auto struct buf text = BUF_INIT, clean = BUF_INIT;
	struct jiter it = jiter_on(jval_get(result, "content"));

	if (jval_is_str(jval_get(result, "resultType"), "input_required"))
		return err_set(e, ERR_INVALID, "the tool asks for input, which bailiff does not offer to servers");
	if (!jval_bool(jval_get(result, "isError"), false))
		return 0;
	if (jiter_next(&it))
		jval_str_buf(jval_get(it.value, "text"), &text);
	text_sanitize_line(buf_cstr(&text), text.len < 400 ? text.len : text_utf8_cut(text.data, 400), &clean);
	return err_set(e, ERR_INVALID, "%s", clean.len ? buf_cstr(&clean) : "the tool failed and gave no reason");
}

/* `params` of tools/call. */
static int call_tool(struct mcp *m, const struct buf *params, struct jw *w, struct err *e)
{
	struct jval result;

	if (ask(m, "tools/call", params, &result, e) < 0)
		return err_wrap(e, "tools/call");
	jw_kraw(w, "result", result.text, result.len);
	return check_result(result, e);
}

/* ---- the runner ---- */

struct kept {
	char **argv;
	struct mcp mcp;
	struct buf info;
};

/* A line with the members of `made`, and why there is nothing or not all of it. */
static int send_line(int fd, const struct buf *made, const struct err *e)
{
	buf_auto struct buf line = BUF_INIT;
	struct jw w = jw_on(&line);

	jw_obj(&w);
	for (struct jiter it = jiter_on(jval_of(buf_cstr(made), made->len)); jiter_next(&it);)
		jw_kraw(&w, "value", it.value.text, it.value.len);
	if (e->code) {
		jw_kint(&w, "code", e->code);
		jw_kstr(&w, "message", e->message);
	}
	jw_obj_end(&w);
	buf_byte(&line, '\n');
	return fd_write_all(fd, line.data, line.len);
}

/* Until the end of the line, which is not stored; 0 = the other end closed before it, −1. */
static int read_line(int fd, struct buf *ret)
{
	for (;;) {
		char *at = buf_reserve(ret, 65536);
		ssize_t n = read(fd, at, 65536);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0 || ret->len + (size_t)n > 2 * MCP_LINE_MAX)
			return n == 0 ? 0 : -1;
		ret->len += (size_t)n;
		if (ret->data[ret->len - 1] == '\n') {
			ret->len--;
			return 1;
		}
	}
}

/* Until a caller has connected. What the server says meanwhile is answered or discarded. */
static int wait_for_caller(struct mcp *m, int listener, struct err *e)
{
	struct mcp_message a;
	int r = 0;

	m->watched = listener;
	m->watched_for = POLLIN;
	while (r == 0) {
		m->deadline_ms = now_ms() + CALL_MS;
		while ((r = mcp_reader_next(&m->reader, &a, e)) > 0)
			if (a.kind == MCP_REQUEST)
				answer_request(m, &a);
		if (r == 0)
			r = exchange(m, e);
	}
	m->watched = -1;
	return r < 0 ? -1 : 0;
}

/* The server must say that it still works, or it is ended: the call may have been cancelled because it hangs. */
static int cancel_call(struct mcp *m, struct err *e)
{
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	struct jval ignored;

	*e = ERR_INIT;
	jw_obj(&w);
	jw_kint(&w, "requestId", m->id);
	jw_obj_end(&w);
	send_request(m, "notifications/cancelled", &params);
	m->deadline_ms = now_ms() + PING_MS;
	return ask(m, m->stateless ? "server/discover" : "ping", NULL, &ignored, e);
}

/* −1 = the server can no longer be used. */
static int serve_caller(struct kept *k, int fd, struct err *e)
{
	buf_auto struct buf params = BUF_INIT, out = BUF_INIT, hello = BUF_INIT;
	struct jw w = jw_on(&out), h = jw_on(&hello);
	struct mcp *m = &k->mcp;

	jw_obj(&h);
	if (k->info.len)
		jw_kraw(&h, "server", k->info.data, k->info.len);
	jw_obj_end(&h);
	if (send_line(fd, &hello, e) < 0 || e->code || read_line(fd, &params) <= 0)
		return e->code ? -1 : 0;
	m->watched = fd;
	m->watched_for = POLLRDHUP;
	m->deadline_ms = now_ms() + CALL_MS;
	jw_obj(&w);
	int r = call_tool(m, &params, &w, e);
	jw_obj_end(&w);
	m->watched = -1;
	if (r < 0 && e->code == ERR_STATE)
		return cancel_call(m, e);
	(void)send_line(fd, &out, e);
	if (e->code == ERR_INVALID) /* the server has answered */
		*e = ERR_INIT;
	return e->code ? -1 : 0;
}

static void keep_server(void *ctx, int listener)
{
	struct kept *k = ctx;
	struct err e = ERR_INIT;
	int r;

	k->mcp.deadline_ms = now_ms() + LIST_MS;
	if (start_server(&k->mcp, k->argv, &e) == 0)
		(void)shake_hands(&k->mcp, &k->info, &e);
	/* The first caller gets the error of the start. */
	do {
		fd_auto int fd = -1;

		r = e.code ? 0 : wait_for_caller(&k->mcp, listener, &e);
		if (r == 0 && (fd = mcp_runner_accept(listener)) >= 0)
			r = serve_caller(k, fd, &e);
	} while (r == 0 && !e.code);
	end_server(&k->mcp);
}

/* A line of the runner: its value is appended to *ret, its error becomes e. 0 = it is gone. */
static int receive_line(int fd, struct buf *ret, struct err *e)
{
	buf_auto struct buf line = BUF_INIT;
	int r = read_line(fd, &line);
	struct jval v = jval_of(buf_cstr(&line), line.len), value = jval_get(v, "value");

	if (r <= 0 || v.type != JT_OBJECT)
		return 0;
	buf_append(ret, value.text ? value.text : "", value.len);
	buf_auto struct buf message = BUF_INIT;
	jval_str_buf(jval_get(v, "message"), &message);
	if (message.len)
		err_set(e, (enum err_code)jval_int(jval_get(v, "code"), ERR_UNAVAILABLE), "%s", buf_cstr(&message));
	return 1;
}

/* Nothing has been sent before the first line arrives, so a runner that is just ending is replaced. */
static int call_kept(const char *key, char **argv, const struct buf *params, struct buf *ret_info, struct buf *ret,
		     struct err *e)
{
	struct kept k = { .argv = argv, .mcp = MCP_INIT };

	for (int i = 0; i < RETRIES; i++) {
		fd_auto int fd = mcp_runner_connect(key, keep_server, &k, e);

		if (fd < 0)
			return -1;
		buf_reset(ret_info);
		if (!receive_line(fd, ret_info, e))
			continue;
		if (e->code)
			return -1;
		if (fd_write_all(fd, params->data, params->len) < 0 || fd_write_all(fd, "\n", 1) < 0 ||
		    !receive_line(fd, ret, e))
			return err_set(e, ERR_UNAVAILABLE,
				       "the server ended before it answered; the call may have had "
				       "an effect");
		return e->code ? -1 : 0;
	}
	return err_set(e, ERR_UNAVAILABLE, "the server ends as soon as it has started");
}

/* ---- the command line ---- */

struct mcp_options {
	bool call;
	const char *tool, *keep;
	char **argv; /* of the server */
};

/* Like a key of a model: a file that only its owner can access. Messages do not contain what is in it. */
static int set_from_file(const char *given, struct err *e)
{
	const char *path = strchr(given, '=');
	char text[SECRET_MAX + 2];
	struct stat st;

	if (!path || path == given)
		return err_set(e, ERR_INVALID, "--env-file: expected NAME=PATH");
	mem_auto char *name = mem_strndup(given, (size_t)(path++ - given));
	fd_auto int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, errno, "the file of the variable %s, '%.200s'", name, path);
	if (!S_ISREG(st.st_mode) || (st.st_mode & 077))
		return err_set(e, ERR_PERMISSION,
			       "the file of the variable %s, '%.200s', must be a regular file that only its owner can "
			       "access (chmod 600)",
			       name, path);
	ssize_t n = fd_read_all(fd, text, sizeof text - 1);
	if (n < 0)
		return err_sys(e, errno, "the file of the variable %s, '%.200s'", name, path);
	while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r'))
		n--;
	text[n] = '\0';
	const bool fits = n > 0 && (size_t)n <= SECRET_MAX && strlen(text) == (size_t)n;
	if (fits)
		setenv(name, text, 1);
	explicit_bzero(text, sizeof text);
	return fits ? 0
		    : err_set(e, ERR_INVALID,
			      "the file of the variable %s, '%.200s', must have 1 to %u bytes without NUL", name, path,
			      SECRET_MAX);
}

static int read_options(int argc, char **argv, struct mcp_options *ret, struct err *e)
{
	int i = 1;

	ret->call = argc > 0 && strcmp(argv[0], "call") == 0;
	for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0 && argv[i][2]; i += 2) {
		if (strcmp(argv[i], "--keep") == 0)
			ret->keep = argv[i + 1];
		else if (strcmp(argv[i], "--env-file") != 0)
			return err_set(e, ERR_INVALID, "unknown option %.40s", argv[i]);
		else if (set_from_file(argv[i + 1], e) < 0)
			return -1;
	}
	if (ret->call && i < argc)
		ret->tool = argv[i++];
	if (argc < 1 || (!ret->call && strcmp(argv[0], "list") != 0) || i + 1 >= argc || strcmp(argv[i], "--") != 0)
		return err_set(e, ERR_INVALID,
			       "expected: mcp list [OPTIONS] -- CMD…, or mcp call [OPTIONS] TOOL -- CMD…");
	if ((unsigned)(argc - i - 1) > ARGS_MAX)
		return err_set(e, ERR_INVALID, "the server's command has more than %u arguments", ARGS_MAX);
	ret->argv = argv + i + 1;
	return 0;
}

/* A server of its own for this request. */
static int ask_once(const struct mcp_options *o, const struct buf *params, struct buf *ret_info, struct buf *ret,
		    struct err *e)
{
	struct mcp m = MCP_INIT;
	buf_auto struct buf out = BUF_INIT;
	struct jw inner = jw_on(&out);

	m.deadline_ms = now_ms() + (o->call ? CALL_MS : LIST_MS);
	jw_obj(&inner);
	int r = start_server(&m, o->argv, e);
	if (r == 0)
		r = shake_hands(&m, ret_info, e);
	if (r == 0)
		r = o->call ? call_tool(&m, params, &inner, e) : list_tools(&m, &inner, e);
	jw_obj_end(&inner);
	struct jval made = jval_get(jval_of(buf_cstr(&out), out.len), o->call ? "result" : "tools");
	buf_append(ret, made.text ? made.text : "", made.len);
	end_server(&m);
	return r;
}

int tool_mcp(int argc, char **argv, struct jval arguments, struct jw *w, struct err *e)
{
	buf_auto struct buf info = BUF_INIT, out = BUF_INIT, params = BUF_INIT;
	struct jw p = jw_on(&params);
	struct mcp_options o = { 0 };

	if (read_options(argc, argv, &o, e) < 0)
		return -1;
	signal(SIGPIPE, SIG_IGN);
	jw_obj(&p);
	if (o.call)
		jw_kstr(&p, "name", o.tool);
	if (o.call && arguments.type == JT_OBJECT)
		jw_kraw(&p, "arguments", arguments.text, arguments.len);
	jw_obj_end(&p);
	int r = o.keep ? call_kept(o.keep, o.argv, &params, &info, &out, e) : ask_once(&o, &params, &info, &out, e);
	/* A failure must leave no half of a result: it is written only when it is complete. */
	struct jval made = jval_of(buf_cstr(&out), out.len);
	if (r == 0 || (o.call && made.type == JT_OBJECT)) {
		jw_kraw(w, "server", info.data, info.len);
		jw_kraw(w, o.call ? "result" : "tools", made.text, made.len);
	}
	return r;
}
