/*
 * `bailiff-tool mcp-http MODEL_PROGRAM URL [--key-file PATH] [--ca-file PATH]`: an MCP server on stdio that passes all
 * messages to one on streamable HTTP. Each message is a request of bailiff-model (supervisor/model/model.h), which has
 * TLS, the way through the sandbox's proxy, and the key. A request is sent when the previous one has been answered;
 * other messages at once, because the server may need them to answer, and a notification that the request is cancelled
 * ends the wait for its answer.
 *
 * The response to a request is a JSON message, or a stream of them that ends with the answer; each becomes a line. If
 * there is none, the line is an error that says why. A stream whose events have ids may end earlier: the rest is read
 * with GET after the last of them. The session is ended with DELETE.
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
#define EVENT_ID_SIZE 512
#define RESUMES_MAX 5 /* in a row without an event */
#define RETRY_MS 1000
#define RETRY_MIN_MS 50
#define RETRY_MAX_MS 30000
#define END_MS 2000 /* for the server to end the session */

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
	bool ends;        /* it ends the session */
	int64_t status;   /* 0 = no head yet */
	bool events;
	bool answered;
	struct buf in, event;         /* in: not processed yet; event: the data of the current one */
	char event_id[EVENT_ID_SIZE]; /* of the last whole event that had one; "" = none, or too long */
	char next_id[EVENT_ID_SIZE];  /* of the event being read */
	bool has_next_id;
	int retry_ms;     /* after which the server wants to be asked for the rest */
	unsigned resumed; /* how often, since the last event */
};

/* ---- bailiff-model ---- */

/* What a header cannot have is written as base64. */
static void write_header(struct jw *w, const char *name, const char *value)
{
	const size_t n = strlen(value);
	bool plain = n && value[0] != ' ' && value[n - 1] != ' ' && strncmp(value, "=?base64?", 9) != 0;
	buf_auto struct buf coded = BUF_INIT;

	for (const char *s = value; *s; s++)
		plain &= *s >= ' ' && *s <= '~';
	buf_str(&coded, "=?base64?");
	text_base64_encode(value, n, &coded);
	buf_str(&coded, "?=");
	jw_kstr(w, name, plain ? value : buf_cstr(&coded));
}

/* A request that says its version itself, to a server without sessions: headers repeat what is in it. */
static bool write_stateless_headers(struct jw *w, struct jval body)
{
	static const char *const names[] = { "name", "uri", "taskId" };
	const struct jval params = jval_get(body, "params");
	mem_auto char *version = jval_strdup(
			      jval_get(jval_get(params, "_meta"), "io.modelcontextprotocol/protocolVersion")),
		      *method = jval_strdup(jval_get(body, "method"));

	if (!version || !method)
		return false;
	write_header(w, "MCP-Protocol-Version", version);
	write_header(w, "Mcp-Method", method);
	for (size_t i = 0; i < countof(names); i++) {
		mem_auto char *name = jval_strdup(jval_get(params, names[i]));

		if (name) {
			write_header(w, "Mcp-Name", name);
			break;
		}
	}
	return true;
}

static void write_head(const struct exchange *x, const char *method, struct jval body, struct buf *out)
{
	const struct bridge *b = x->bridge;
	struct jw w = jw_on(out);

	jw_obj(&w);
	jw_kstr(&w, "url", b->url);
	jw_kstr(&w, "method", method);
	jw_kobj(&w, "headers");
	jw_kstr(&w, "Accept", "application/json, text/event-stream");
	if (!write_stateless_headers(&w, body)) {
		if (b->session[0])
			jw_kstr(&w, "Mcp-Session-Id", b->session);
		if (b->version[0])
			jw_kstr(&w, "MCP-Protocol-Version", b->version);
	}
	if (x->event_id[0])
		jw_kstr(&w, "Last-Event-ID", x->event_id);
	jw_obj_end(&w);
	if (b->key_file) {
		jw_kstr(&w, "keyHeader", "Authorization");
		jw_kstr(&w, "keyPrefix", "Bearer ");
		jw_kstr(&w, "keyFile", b->key_file);
	}
	jw_kopt(&w, "caFile", b->ca_file);
	const int limit = x->ends ? END_MS : ANSWER_MS;
	jw_kobj(&w, "timeouts");
	jw_kint(&w, "connectMs", x->ends ? END_MS : CONNECT_MS);
	jw_kint(&w, "firstByteMs", limit);
	jw_kint(&w, "idleMs", limit);
	jw_kint(&w, "silentMs", limit);
	jw_kint(&w, "totalMs", limit);
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

/* The value of a field of an event, if the line is that field. */
static const char *field_of(const char *line, size_t n, const char *name, size_t *ret_len)
{
	const size_t m = strlen(name);
	size_t at = m + 1;

	if (n <= m || line[m] != ':' || memcmp(line, name, m) != 0)
		return NULL;
	at += at < n && line[at] == ' ';
	*ret_len = n - at;
	return line + at;
}

/* A line of an event stream: a field of an event, or the empty one at its end. */
static void take_line(struct exchange *x, const char *p, size_t n)
{
	size_t len;
	const char *value;

	if (n && p[n - 1] == '\r')
		n--;
	if ((value = field_of(p, n, "data", &len))) {
		if (x->event.len)
			buf_byte(&x->event, '\n');
		buf_append(&x->event, value, len);
	} else if ((value = field_of(p, n, "id", &len))) {
		(void)snprintf(x->next_id, sizeof x->next_id, "%.*s", len < sizeof x->next_id ? (int)len : 0, value);
		x->has_next_id = true;
	} else if ((value = field_of(p, n, "retry", &len))) {
		const int64_t ms = jval_int(jval_of(value, len), x->retry_ms);

		x->retry_ms = ms > RETRY_MAX_MS ? RETRY_MAX_MS : ms < RETRY_MIN_MS ? RETRY_MIN_MS : (int)ms;
	}
	if (n)
		return;
	if (x->has_next_id) {
		memcpy(x->event_id, x->next_id, sizeof x->event_id);
		x->has_next_id = false;
		x->resumed = 0;
	}
	if (!x->event.len)
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

static void write_error(struct exchange *x, int64_t code, const char *message)
{
	buf_auto struct buf line = BUF_INIT;
	struct jw w = jw_on(&line);

	jw_obj(&w);
	jw_kstr(&w, "jsonrpc", "2.0");
	jw_kraw(&w, "id", x->id, strlen(x->id));
	jw_kobj(&w, "error");
	jw_kint(&w, "code", code);
	jw_kstr(&w, "message", message);
	jw_obj_end(&w);
	jw_obj_end(&w);
	buf_byte(&line, '\n');
	(void)fd_write_all(STDOUT_FILENO, line.data, line.len);
	x->answered = true;
}

/* Until the output of bailiff-model has ended, or has what is needed of it; with fd −1 for `ms`. */
static int wait_for_server(struct exchange *x, int fd, int ms, struct err *e)
{
	struct bridge *b = x->bridge;

	for (;;) {
		if (*x->id)
			take_messages(x);
		if (x->answered || (x->status && !*x->id))
			return 0;
		struct pollfd p[] = { { .fd = fd, .events = POLLIN },
				      { .fd = *x->id && !b->ended && !b->waits ? STDIN_FILENO : -1,
					.events = POLLIN } };

		const int ready = poll(p, countof(p), ms);
		if (ready < 0 && errno != EINTR)
			return err_sys(e, errno, "wait for the server");
		if (ready == 0)
			return 0;
		if (p[1].revents)
			read_input(b);
		if (!p[0].revents)
			continue;
		ssize_t n = read(fd, buf_reserve(&x->in, 65536), 65536);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return 0;
		buf_extend(&x->in, (size_t)n);
		if (take_bytes(x) < 0)
			return err_set(e, ERR_EXHAUSTED, "the server sent a message of more than %u bytes",
				       LINE_MAX_BYTES);
	}
}

/* An error of the protocol is passed on, whatever its HTTP status. */
static bool pass_on_error(struct exchange *x)
{
	const struct jval error = jval_get(jval_of(buf_cstr(&x->in), x->in.len), "error");
	buf_auto struct buf text = BUF_INIT;

	if (!*x->id || x->events || error.type != JT_OBJECT)
		return false;
	jval_str_buf(jval_get(error, "message"), &text);
	buf_printf(&text, " (HTTP status %lld)", (long long)x->status);
	write_error(x, jval_int(jval_get(error, "code"), -32000), buf_cstr(&text));
	return true;
}

/* Answers and notifications need no response. */
static int read_response(struct exchange *x, int fd, struct err *e)
{
	if (wait_for_server(x, fd, -1, e) < 0)
		return -1;
	if (x->answered || (x->status >= 200 && x->status < 300)) {
		if (!x->answered && !x->events && x->in.len && *x->id)
			write_message(x, x->in.data, x->in.len);
		return 0;
	}
	if (!x->status)
		return err_set(e, ERR_UNAVAILABLE, "no response");
	if (pass_on_error(x))
		return 0;
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

static int send_request(struct exchange *x, const char *method, struct jval body, struct err *e)
{
	buf_auto struct buf head = BUF_INIT;
	int streams[2] = { -1, -1 };

	write_head(x, method, body, &head);
	buf_append(&head, body.text ? body.text : "", body.len);
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

/* Whether the answer is in the rest of a stream that has ended. */
static bool can_resume(const struct exchange *x)
{
	return *x->id && !x->answered && x->events && x->event_id[0] && x->resumed < RESUMES_MAX;
}

/* A server that does not respond to GET may be restarting. */
static int resume_stream(struct exchange *x, struct err *e)
{
	x->resumed++;
	if (wait_for_server(x, -1, x->retry_ms, e) < 0)
		return -1;
	if (x->answered)
		return 0;
	x->status = 0;
	x->events = false;
	buf_reset(&x->in);
	buf_reset(&x->event);
	x->has_next_id = false;
	if (send_request(x, "GET", (struct jval){ 0 }, e) == 0)
		return 0;
	if ((x->status && x->status < 500) || x->resumed == RESUMES_MAX)
		return -1;
	*e = ERR_INIT;
	x->events = true;
	return 0;
}

static int send_message(struct exchange *x, struct jval body, struct err *e)
{
	int r = send_request(x, "POST", body, e);

	while (r == 0 && can_resume(x))
		r = resume_stream(x, e);
	return r;
}

/* ---- messages ---- */

/* The message that the reader returned last. */
static struct jval last_message(const struct bridge *b) { return jval_of(b->input.bytes.data, b->input.taken - 1); }

static void pass_on(struct bridge *b, const struct mcp_message *m)
{
	const struct jval body = last_message(b);
	struct exchange x = { .bridge = b, .starts = jval_is_str(m->method, "initialize"), .retry_ms = RETRY_MS };
	const bool had_session = b->session[0];
	struct err e = ERR_INIT;
	int r;

	if (m->kind == MCP_REQUEST && m->id.len < sizeof x.id)
		snprintf(x.id, sizeof x.id, "%.*s", (int)m->id.len, m->id.text);
	r = send_message(&x, body, &e);
	if (r == 0 && !x.answered)
		err_set(&e, ERR_UNAVAILABLE, "the server's response has no answer");
	if (e.code && *x.id)
		write_error(&x, -32000, e.message);
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

static void end_session(struct bridge *b)
{
	struct exchange x = { .bridge = b, .ends = true };
	struct err ignored = ERR_INIT;

	(void)send_request(&x, "DELETE", (struct jval){ 0 }, &ignored);
	buf_done(&x.in);
	buf_done(&x.event);
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
	if (b.session[0] && !b.over)
		end_session(&b);
	mcp_reader_done(&b.input);
	return b.over;
}
