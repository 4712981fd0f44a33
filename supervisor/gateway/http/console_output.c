#include "supervisor/gateway/http/console_output.h"

#include "runtime/base/buf.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/loop/loop.h"
#include "supervisor/gateway/http/console_reply.h"
#include "supervisor/gateway/http/console_session.h"
#include "supervisor/gateway/http/console_watch.h"
#include "supervisor/gateway/http/http_exchange.h"
#include "supervisor/gateway/http/http_request.h"

#include <event2/event.h>
#include <string.h>

#define PIECE_BYTES (512u << 10)
#define QUEUE_BYTES (1u << 20) /* no further piece is requested while this much is unsent */
#define DRAIN_MS 10

struct console_download {
	TAILQ_ENTRY(console_download) entry; /* of the session */
	struct console_session *session;
	struct http_exchange *x;
	struct console_call *call; /* NULL: none pending */
	struct event *drain;
	const char *stream; /* the daemon's name */
	char *process, *name, *ref;
	uint64_t next;
};

static void free_download(struct console_download *d)
{
	TAILQ_REMOVE(&d->session->downloads, d, entry);
	if (d->call)
		console_call_cancel(d->call);
	event_free(d->drain);
	free(d->process);
	free(d->name);
	free(d->ref);
	free(d);
}

static void on_gone(void *ctx) { free_download(ctx); }

static void break_off(struct console_download *d)
{
	struct http_exchange *x = d->x;

	free_download(d);
	http_exchange_drop(x);
}

void console_output_stop_all(struct console_session *s)
{
	struct console_download *d;

	while ((d = TAILQ_FIRST(&s->downloads)))
		break_off(d);
}

static void on_piece(void *ctx, unsigned status, struct jval result, struct jval error);

static void request_piece(struct console_download *d)
{
	static const struct timeval tv = { 0, DRAIN_MS * 1000 };
	json_auto_t *params = NULL;

	if (http_exchange_queued(d->x) > QUEUE_BYTES) {
		loop_add(d->drain, &tv);
		return;
	}
	params = json_pack("{s:s, s:I, s:i, s:s}", "outputRef", d->ref, "offset", (json_int_t)d->next, "length",
			   (int)PIECE_BYTES, "encoding", "base64");
	d->call = console_session_call(d->session, "read_output", params, on_piece, d);
}

static void on_drain(evutil_socket_t fd, short what, void *arg) { request_piece(arg); }

/* The response has begun: an error can only break it off. */
static void on_piece(void *ctx, unsigned status, struct jval result, struct jval error)
{
	struct console_download *d = ctx;
	struct http_exchange *x = d->x;
	struct jval data = jval_get(result, "data");
	uint64_t next = jval_uint(jval_get(result, "nextOffset"), d->next);
	buf_auto struct buf bytes = BUF_INIT;

	d->call = NULL;
	if (error.type != JT_NONE || data.type != JT_STRING ||
	    text_base64_decode(data.text + 1, data.len - 2, &bytes) < 0) {
		return break_off(d);
	}
	http_exchange_write(x, bytes.data, bytes.len);
	if (jval_bool(jval_get(result, "eof"), true) || next <= d->next) {
		free_download(d);
		return http_exchange_end(x);
	}
	d->next = next;
	request_piece(d);
}

static void on_process(void *ctx, unsigned status, struct jval result, struct jval error)
{
	struct console_download *d = ctx;
	struct http_exchange *x = d->x;
	struct jval output = jval_get(jval_get(result, "outputs"), d->stream);

	d->call = NULL;
	d->ref = jval_strdup(jval_get(output, "outputRef"));
	if (!d->ref) {
		free_download(d);
		if (error.type != JT_NONE)
			return console_reply_raw(x, status == 200 ? 404 : status, "error", error);
		return console_reply_error(x, 404, "not_found", "stream: the process has no such output");
	}
	mem_auto char *disposition = mem_printf("attachment; filename=\"%s-%s.log\"", d->process, d->name);
	http_exchange_header(x, "Content-Disposition", disposition);
	http_exchange_header(x, "Content-Security-Policy", "default-src 'none'; sandbox");
	/* A page of another port gets the cookie sent, and browsers without Sec-Fetch-Site send no other sign of it. */
	http_exchange_header(x, "Cross-Origin-Resource-Policy", "same-origin");
	http_exchange_stream(x, 200, "application/octet-stream");
	request_piece(d);
}

void console_output_send(struct console_session *s, struct http_exchange *x)
{
	static const struct http_exchange_ops ops = { .gone = on_gone };
	const struct http_request *r = http_exchange_request(x);
	buf_auto struct buf process = BUF_INIT, name = BUF_INIT;
	json_auto_t *params = NULL;
	struct console_download *d;

	if (http_request_query(r, "processId", &process) != 1 || process.len == 0 || process.len > 71)
		return console_reply_error(x, 400, "invalid", "processId: expected the id of a process");
	if (http_request_query(r, "stream", &name) != 1 || !console_watch_stream(buf_cstr(&name)))
		return console_reply_error(x, 400, "invalid", "stream: expected stdout, stderr or terminal");
	if (s->ncalls >= CONSOLE_CALLS_MOST)
		return console_reply_error(x, 429, "resource_exhausted",
					   "too many calls of this session are unanswered");
	d = mem_zalloc(1, sizeof(*d));
	*d = (struct console_download){ .session = s,
					.x = x,
					.stream = console_watch_stream(name.data),
					.process = mem_strdup(process.data),
					.name = mem_strdup(name.data) };
	d->drain = evtimer_new(s->base, on_drain, d);
	if (!d->drain)
		abort();
	TAILQ_INSERT_TAIL(&s->downloads, d, entry);
	http_exchange_listen(x, &ops, d);
	params = json_pack("{s:s}", "processId", d->process);
	d->call = console_session_call(s, "get_process", params, on_process, d);
}
