/*
 * `bailiff-tool mcp`: one conversation with an external MCP server on stdio. The server is started inside the sandbox
 * that this program runs in, asked one thing, and ended; so a server that crashed, hangs or was replaced affects one
 * call only, and the limits of the call's process apply to it.
 *
 *   bailiff-tool mcp list -- CMD…        {"server":{…},"tools":[…]}
 *   bailiff-tool mcp call TOOL -- CMD…   {"server":{…},"result": what tools/call returned}; stdin has the arguments
 *
 * Both are the server's own JSON: the runtime parses them.
 */

#include "supervisor/tool/file_tool.h"

#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "supervisor/tool/mcp_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROTOCOL "2025-11-25"
#define ARGS_MAX 64u
#define PAGES_MAX 32
#define TOOLS_MAX 256u
#define LIST_MAX (1u << 20) /* bytes of all descriptions and schemas */
#define MESSAGES_MAX 10000u /* that a server may send before it answers */
#define STDERR_KEPT 2048u
#define LIST_MS 45000u
#define CALL_MS 3600000u /* the limits of the call's process end it earlier */
#define END_MS 1000

struct mcp {
	pid_t pid;
	int in, out, err; /* of the server; −1 = closed */
	struct mcp_reader reader;
	struct buf pending, said; /* pending: not written yet; said: the end of its stderr */
	int64_t id;               /* of the last request */
	uint64_t deadline_ms;
};

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
	buf_done(&m->said);
}

/* ---- bytes ---- */

static int fail_ended(struct mcp *m, struct err *e)
{
	buf_auto struct buf said = BUF_INIT;

	text_sanitize_line(m->said.len > 200 ? m->said.data + m->said.len - 200 : buf_cstr(&m->said),
			   m->said.len > 200 ? 200 : m->said.len, &said);
	return err_set(e, ERR_UNAVAILABLE, "the server exited before it answered%s%s", said.len ? ": " : "",
		       buf_cstr(&said));
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
		buf_append(&m->said, bytes, (size_t)n);
		if (m->said.len > STDERR_KEPT)
			buf_consume(&m->said, m->said.len - STDERR_KEPT);
	}
}

/* Waits until something can be read or written, and does it. */
static int exchange(struct mcp *m, struct err *e)
{
	const uint64_t now = now_ms();
	struct pollfd p[] = { { .fd = m->out, .events = POLLIN },
			      { .fd = m->err, .events = POLLIN },
			      { .fd = m->pending.len ? m->in : -1, .events = POLLOUT } };
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
	return n == 0 ? fail_ended(m, e) : 0;
}

/* ---- messages ---- */

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
	if (params)
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

/* Sends a request and waits for its answer; the result is valid until the next one. */
static int ask(struct mcp *m, const char *method, const struct buf *params, struct jval *ret, struct err *e)
{
	struct mcp_message a;

	send_request(m, method, params);
	for (unsigned n = 0; n < MESSAGES_MAX;) {
		int r = mcp_reader_next(&m->reader, &a, e);

		if (r < 0 || (r == 0 && exchange(m, e) < 0))
			return -1;
		n += r > 0;
		if (r > 0 && a.kind == MCP_REQUEST)
			answer_request(m, &a);
		if (r == 0 || a.kind != MCP_RESPONSE || jval_int(a.id, -1) != m->id)
			continue;
		if (a.error.type == JT_OBJECT)
			return fail_answer(&a, e);
		*ret = a.result;
		return 0;
	}
	return err_set(e, ERR_UNAVAILABLE, "the server sent %u messages without an answer", MESSAGES_MAX);
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
	jw_kobj(&w, "clientInfo");
	jw_kstr(&w, "name", "bailiff");
	jw_kstr(&w, "version", BAILIFF_VERSION);
	jw_obj_end(&w);
	jw_obj_end(&w);
	if (ask(m, "initialize", &params, &hello, e) < 0)
		return err_wrap(e, "initialize");
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

	if (!jval_bool(jval_get(result, "isError"), false))
		return 0;
	if (jiter_next(&it))
		jval_str_buf(jval_get(it.value, "text"), &text);
	text_sanitize_line(buf_cstr(&text), text.len < 400 ? text.len : text_utf8_cut(text.data, 400), &clean);
	return err_set(e, ERR_INVALID, "%s", clean.len ? buf_cstr(&clean) : "the tool failed and gave no reason");
}

static int call_tool(struct mcp *m, const char *tool, struct jval given, struct jw *w, struct err *e)
{
	buf_auto struct buf params = BUF_INIT;
	struct jw p = jw_on(&params);
	struct jval result;

	jw_obj(&p);
	jw_kstr(&p, "name", tool);
	if (given.type == JT_OBJECT)
		jw_kraw(&p, "arguments", given.text, given.len);
	jw_obj_end(&p);
	if (ask(m, "tools/call", &params, &result, e) < 0)
		return err_wrap(e, "tools/call");
	jw_kraw(w, "result", result.text, result.len);
	return check_result(result, e);
}

int tool_mcp(int argc, char **argv, struct jval arguments, struct jw *w, struct err *e)
{
	const bool call = argc > 2 && strcmp(argv[0], "call") == 0, list = argc > 1 && strcmp(argv[0], "list") == 0;
	const int first = call ? 3 : 2;
	struct mcp m = { .in = -1, .out = -1, .err = -1 };
	buf_auto struct buf info = BUF_INIT, out = BUF_INIT;
	struct jw inner = jw_on(&out);

	if ((!call && !list) || argc <= first || strcmp(argv[first - 1], "--") != 0)
		return err_set(e, ERR_INVALID, "expected: mcp list -- CMD…, or mcp call TOOL -- CMD…");
	if ((unsigned)(argc - first) > ARGS_MAX)
		return err_set(e, ERR_INVALID, "the server's command has more than %u arguments", ARGS_MAX);
	signal(SIGPIPE, SIG_IGN);
	m.deadline_ms = now_ms() + (call ? CALL_MS : LIST_MS);
	/* A failure must leave no half of a result: it is written only when it is complete. */
	jw_obj(&inner);
	int r = start_server(&m, argv + first, e);
	if (r == 0)
		r = shake_hands(&m, &info, e);
	if (r == 0)
		r = call ? call_tool(&m, argv[1], arguments, &inner, e) : list_tools(&m, &inner, e);
	jw_obj_end(&inner);
	struct jval made = jval_get(jval_of(buf_cstr(&out), out.len), call ? "result" : "tools");
	if (r == 0 || (call && made.type == JT_OBJECT)) {
		jw_kraw(w, "server", info.data, info.len);
		jw_kraw(w, call ? "result" : "tools", made.text, made.len);
	}
	end_server(&m);
	return r;
}
