/*
 * `bailiff-tool mcp-http MODEL_PROGRAM URL [--key-file PATH] [--ca-file PATH]`: an MCP server on stdio that passes all
 * messages to one on streamable HTTP. Each message is a request of bailiff-model (supervisor/model/model.h), which has
 * TLS, the way through the sandbox's proxy, and the key. A request is sent when the previous one has been answered;
 * other messages at once, because the server may need them to answer, and a notification that the request is cancelled
 * ends the wait for its answer.
 *
 * The response to a request is a JSON message, or a stream of them that ends with the answer; each becomes a line. If
 * there is none, the line is an error that says why.
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
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONNECT_MS 30000
#define ANSWER_MS 3600000 /* the limits of the call's process end it earlier */
#define LINE_MAX_BYTES (4u << 20)
#define SESSION_MAX 1024
#define NOT_FOUND 404
#define ID_SIZE 64

struct bridge {
	const char *program, *url, *key_file, *ca_file;
	char session[SESSION_MAX], version[64]; /* "" = none yet */
	struct mcp_reader input;
	struct mcp_message next; /* a request that came while another one was being sent */
	bool waits;              /* there is one */
	bool ended;              /* no input is left, or it is not a message */
	bool over;               /* the server has ended the session, so that another one must be started */
};

/* A message that is being sent, and its response. */
struct exchange {
	struct bridge *bridge;
	char id[ID_SIZE]; /* as JSON; "" = it is not a request */
	bool starts;      /* it is initialize */
	int64_t status;   /* 0 = no head yet */
	bool events;
	bool answered;
	struct buf in, event; /* in: not processed yet; event: the data of the current one */
};

/* ---- bailiff-model ---- */

static void write_head(const struct bridge *b, struct buf *out)
{
	struct jw w = jw_on(out);

	jw_obj(&w);
	jw_kstr(&w, "url", b->url);
	jw_kobj(&w, "headers");
	jw_kstr(&w, "Accept", "application/json, text/event-stream");
	if (b->session[0])
		jw_kstr(&w, "Mcp-Session-Id", b->session);
	if (b->version[0])
		jw_kstr(&w, "MCP-Protocol-Version", b->version);
	jw_obj_end(&w);
	if (b->key_file) {
		jw_kstr(&w, "keyHeader", "Authorization");
		jw_kstr(&w, "keyPrefix", "Bearer ");
		jw_kstr(&w, "keyFile", b->key_file);
	}
	jw_kopt(&w, "caFile", b->ca_file);
	jw_kobj(&w, "timeouts");
	jw_kint(&w, "connectMs", CONNECT_MS);
	jw_kint(&w, "firstByteMs", ANSWER_MS);
	jw_kint(&w, "idleMs", ANSWER_MS);
	jw_kint(&w, "silentMs", ANSWER_MS);
	jw_kint(&w, "totalMs", ANSWER_MS);
	jw_obj_end(&w);
	jw_obj_end(&w);
	buf_byte(out, '\n');
}

/* Its stdin has the request already: it reads all of it before it writes. */
static pid_t start_program(const struct bridge *b, int in, int ret[2], struct err *e)
{
	int out[2] = { -1, -1 }, err[2] = { -1, -1 };
	char *argv[] = { (char *)(uintptr_t)b->program, NULL };
	pid_t pid = -1;

	if (pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0 || (pid = fork()) < 0)
		err_sys(e, errno, "start bailiff-model");
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		signal(SIGPIPE, SIG_DFL);
		if (dup2(in, STDIN_FILENO) >= 0 && dup2(out[1], STDOUT_FILENO) >= 0 && dup2(err[1], STDERR_FILENO) >= 0)
			execv(argv[0], argv);
		_exit(127);
	}
	fd_close(&out[1]);
	fd_close(&err[1]);
	ret[0] = out[0];
	ret[1] = err[0];
	return pid;
}

/* ---- the response ---- */

/* A message of the server as one line: between its tokens JSON may have line ends, inside of them it has none. */
static void write_message(struct exchange *x, const char *p, size_t n)
{
	struct jval v = jval_of(p, n), id = jval_get(v, "id"), version = jval_path(v, "result.protocolVersion");
	buf_auto struct buf line = BUF_INIT;

	buf_append(&line, p, n);
	for (size_t i = 0; i < line.len; i++)
		if (line.data[i] == '\n' || line.data[i] == '\r')
			line.data[i] = ' ';
	buf_byte(&line, '\n');
	if (fd_write_all(STDOUT_FILENO, line.data, line.len) < 0)
		_exit(1); /* nobody reads */
	if (jval_get(v, "method").type == JT_NONE && id.len && id.len == strlen(x->id) &&
	    memcmp(id.text, x->id, id.len) == 0)
		x->answered = true;
	if (x->starts && version.type == JT_STRING)
		jval_str(version, x->bridge->version, sizeof x->bridge->version);
}

/* A line of an event stream: data of an event, or the empty one at its end. */
static void take_line(struct exchange *x, const char *p, size_t n)
{
	if (n && p[n - 1] == '\r')
		n--;
	if (n >= 5 && memcmp(p, "data:", 5) == 0) {
		const size_t at = n > 5 && p[5] == ' ' ? 6 : 5;

		if (x->event.len)
			buf_byte(&x->event, '\n');
		buf_append(&x->event, p + at, n - at);
	}
	if (n || !x->event.len)
		return;
	write_message(x, x->event.data, x->event.len);
	buf_reset(&x->event);
}

/* −1: there is more than a message may have. */
static int take_bytes(struct exchange *x)
{
	const char *end;

	while ((end = x->in.len ? memchr(x->in.data, '\n', x->in.len) : NULL) && (x->events || !x->status)) {
		const size_t n = (size_t)(end - x->in.data);

		if (x->status) {
			take_line(x, x->in.data, n);
		} else {
			struct jval head = jval_of(x->in.data, n), headers = jval_get(head, "headers");
			char type[64];

			x->status = jval_int(jval_get(head, "status"), 0);
			jval_str(jval_get(headers, "content-type"), type, sizeof type);
			x->events = strncasecmp(type, "text/event-stream", 17) == 0;
			if (jval_get(headers, "mcp-session-id").type == JT_STRING)
				jval_str(jval_get(headers, "mcp-session-id"), x->bridge->session,
					 sizeof x->bridge->session);
		}
		buf_consume(&x->in, n + 1);
	}
	return x->in.len > LINE_MAX_BYTES || x->event.len > LINE_MAX_BYTES ? -1 : 0;
}

static void read_input(struct bridge *b)
{
	char bytes[65536];
	ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes);

	if (n > 0)
		mcp_reader_feed(&b->input, bytes, (size_t)n);
	else if (n == 0 || errno != EINTR)
		b->ended = true;
}

static void take_messages(struct exchange *x);

/* Until the response has ended, or has what is needed of it. Answers and notifications need no response. */
static int read_response(struct exchange *x, int fd, struct err *e)
{
	struct bridge *b = x->bridge;

	for (;;) {
		if (*x->id)
			take_messages(x);
		if (x->answered || (x->status && !*x->id))
			break;
		struct pollfd p[] = { { .fd = fd, .events = POLLIN },
				      { .fd = *x->id && !b->ended && !b->waits ? STDIN_FILENO : -1,
					.events = POLLIN } };

		if (poll(p, countof(p), -1) < 0 && errno != EINTR)
			return err_sys(e, errno, "wait for the server");
		if (p[1].revents)
			read_input(b);
		if (!p[0].revents)
			continue;
		ssize_t n = read(fd, buf_reserve(&x->in, 65536), 65536);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		buf_extend(&x->in, (size_t)n);
		if (take_bytes(x) < 0)
			return err_set(e, ERR_EXHAUSTED, "the server sent a message of more than %u bytes",
				       LINE_MAX_BYTES);
	}
	if (x->answered || (x->status >= 200 && x->status < 300)) {
		if (!x->answered && !x->events && x->in.len && *x->id)
			write_message(x, x->in.data, x->in.len);
		return 0;
	}
	if (!x->status)
		return err_set(e, ERR_UNAVAILABLE, "no response");
	buf_auto struct buf shown = BUF_INIT;
	text_sanitize_line(buf_cstr(&x->in), x->in.len < 200 ? x->in.len : text_utf8_cut(x->in.data, 200), &shown);
	return err_set(e, ERR_UNAVAILABLE, "HTTP status %lld%s%s", (long long)x->status, shown.len ? ": " : "",
		       buf_cstr(&shown));
}

/* bailiff-model says on stderr why it has no response. */
static void explain(int fd, struct err *e)
{
	char text[4096], message[300];
	ssize_t n = fd_read_all(fd, text, sizeof text);
	struct jval why = jval_get(jval_of(text, n > 0 ? (size_t)n : 0), "message");

	if (why.type != JT_STRING)
		return;
	jval_str(why, message, sizeof message);
	err_set(e, ERR_UNAVAILABLE, "%s", message);
}

static int send_message(struct exchange *x, const char *body, size_t n, struct err *e)
{
	buf_auto struct buf head = BUF_INIT;
	int streams[2] = { -1, -1 };

	write_head(x->bridge, &head);
	buf_append(&head, body, n);
	fd_auto int in = fd_memfd_sealed("request", head.data, head.len);
	if (in < 0 || lseek(in, 0, SEEK_SET) < 0)
		return err_sys(e, errno, "send the request");
	pid_t pid = start_program(x->bridge, in, streams, e);
	if (pid < 0)
		return -1;
	int r = read_response(x, streams[0], e);
	if (r < 0 && !x->status)
		explain(streams[1], e);
	fd_close(&streams[0]);
	kill(pid, SIGKILL); /* a stream may go on after the answer */
	waitpid(pid, NULL, 0);
	fd_close(&streams[1]);
	return r;
}

/* ---- messages ---- */

static void write_error(const struct exchange *x, const char *message)
{
	buf_auto struct buf line = BUF_INIT;
	struct jw w = jw_on(&line);

	jw_obj(&w);
	jw_kstr(&w, "jsonrpc", "2.0");
	jw_kraw(&w, "id", x->id, strlen(x->id));
	jw_kobj(&w, "error");
	jw_kint(&w, "code", -32000);
	jw_kstr(&w, "message", message);
	jw_obj_end(&w);
	jw_obj_end(&w);
	buf_byte(&line, '\n');
	(void)fd_write_all(STDOUT_FILENO, line.data, line.len);
}

/* The message that the reader returned last. */
static struct jval last_message(const struct bridge *b) { return jval_of(b->input.bytes.data, b->input.taken - 1); }

static void pass_on(struct bridge *b, const struct mcp_message *m)
{
	const struct jval body = last_message(b);
	struct exchange x = { .bridge = b, .starts = jval_is_str(m->method, "initialize") };
	const bool had_session = b->session[0];
	struct err e = ERR_INIT;
	int r;

	if (m->kind == MCP_REQUEST && m->id.len < sizeof x.id)
		snprintf(x.id, sizeof x.id, "%.*s", (int)m->id.len, m->id.text);
	r = send_message(&x, body.text, body.len, &e);
	if (r == 0 && !x.answered)
		err_set(&e, ERR_UNAVAILABLE, "the server's response has no answer");
	if (e.code && *x.id)
		write_error(&x, e.message);
	buf_done(&x.in);
	buf_done(&x.event);
	b->over |= had_session && x.status == NOT_FOUND;
}

/* The next message of the client, or false. */
static bool next_message(struct bridge *b, struct mcp_message *ret)
{
	struct err e = ERR_INIT;
	int r = mcp_reader_next(&b->input, ret, &e);

	b->ended |= r < 0;
	return r > 0;
}

/* What the client says while it waits for an answer. */
static void take_messages(struct exchange *x)
{
	struct bridge *b = x->bridge;
	struct mcp_message m;

	while (!b->waits && !x->answered && next_message(b, &m)) {
		struct jval id = jval_path(last_message(b), "params.requestId");

		if (m.kind == MCP_REQUEST) {
			b->next = m;
			b->waits = true;
			return;
		}
		const bool cancels = jval_is_str(m.method, "notifications/cancelled") && id.len == strlen(x->id) &&
				     memcmp(id.text, x->id, id.len) == 0;
		pass_on(b, &m);
		x->answered |= cancels;
	}
}

int tool_mcp_http_main(int argc, char **argv)
{
	struct bridge b = { .program = argc > 1 ? argv[0] : "", .url = argc > 1 ? argv[1] : "" };
	struct mcp_message m;

	for (int i = 2; i + 1 < argc; i += 2)
		*(strcmp(argv[i], "--key-file") == 0 ? &b.key_file : &b.ca_file) = argv[i + 1];
	signal(SIGPIPE, SIG_IGN);
	while (!b.over) {
		if (b.waits) {
			b.waits = false;
			m = b.next;
			pass_on(&b, &m);
		} else if (next_message(&b, &m))
			pass_on(&b, &m);
		else if (b.ended)
			break;
		else
			read_input(&b);
	}
	mcp_reader_done(&b.input);
	return b.over;
}
