#include "supervisor/gateway/http/mcp_stream.h"

#include "runtime/base/buf.h"
#include "runtime/base/mem.h"
#include "runtime/loop/loop.h"
#include "supervisor/gateway/http/http_exchange.h"
#include "supervisor/gateway/http/http_sse.h"
#include "supervisor/gateway/http/mcp_headers.h"

#include <event2/event.h>
#include <string.h>
#include <sys/queue.h>

#define REPLAY_BYTES (4u << 20)
#define REPLAY_EVENTS 4096
#define STREAM_AFTER_MS 500 /* a slower response becomes a stream, kept alive by comments */
#define RETRY_MS 500        /* how long a client should wait before it resumes */

struct mcp_stream {
	TAILQ_ENTRY(mcp_stream) entry;
	struct mcp_streams *of;
	uint64_t number;
	uint64_t last, sent;     /* numbers of the last event created, and of the last one written */
	size_t kept;             /* its events in the replay buffer */
	struct http_exchange *x; /* not NULL: no response yet */
	struct http_sse *sse;    /* not NULL: responding with events */
	struct event *slow;
	struct mcp_post post;
	bool begun; /* became an event stream, so the client may know its event ids */
	bool lost;  /* the client disconnected and cannot resume */
	bool finished;
};

/* An event of a resumable stream, kept for replay. */
struct kept {
	TAILQ_ENTRY(kept) entry;
	struct mcp_stream *stream;
	uint64_t number;
	size_t len;
	char text[];
};

struct mcp_streams {
	struct mcp_streams_options o;
	TAILQ_HEAD(, mcp_stream) all;
	struct mcp_stream *general;
	TAILQ_HEAD(, kept) replay;
	size_t bytes, events, open;
	uint64_t next;
	bool prime;
};

/* ---- replay buffer ---- */

/* Called when a stream is finished and none of its events is in the replay buffer, or when its client is lost. */
static void free_stream(struct mcp_stream *st)
{
	TAILQ_REMOVE(&st->of->all, st, entry);
	if (st->slow)
		event_free(st->slow);
	free(st);
}

static void forget_oldest(struct mcp_streams *s)
{
	struct kept *k = TAILQ_FIRST(&s->replay);
	struct mcp_stream *st = k->stream;

	TAILQ_REMOVE(&s->replay, k, entry);
	s->bytes -= k->len;
	s->events--;
	free(k);
	if (--st->kept == 0 && st->finished && !st->sse)
		free_stream(st);
}

static void store_for_replay(struct mcp_stream *st, const char *text, size_t len)
{
	struct mcp_streams *s = st->of;
	struct kept *k = mem_alloc(sizeof(*k) + len);

	*k = (struct kept){ .stream = st, .number = st->last, .len = len };
	memcpy(k->text, text, len);
	TAILQ_INSERT_TAIL(&s->replay, k, entry);
	s->bytes += len;
	s->events++;
	st->kept++;
	/* The newest event is kept regardless of its size. */
	while ((s->bytes > REPLAY_BYTES || s->events > REPLAY_EVENTS) && TAILQ_FIRST(&s->replay) != k)
		forget_oldest(s);
}

/* All events after `after` are still in the buffer. */
static bool reaches_back(const struct mcp_stream *st, uint64_t after)
{
	const struct kept *k;

	if (after > st->last)
		return false;
	if (after == st->last)
		return true;
	TAILQ_FOREACH (k, &st->of->replay, entry)
		if (k->stream == st)
			return k->number <= after + 1;
	return false;
}

/* ---- connections ---- */

/*
 * Reported from a later turn of the loop. The disconnect may be detected while the client's session is sending, and
 * cancelling the request then would free objects that the session is using.
 */
static void on_lost(struct mcp_stream *st)
{
	st->of->open--;
	if (st->of->o.resumable)
		return;
	st->lost = true;
	event_active(st->slow, EV_TIMEOUT, 0);
}

static void on_sse_gone(void *ctx)
{
	struct mcp_stream *st = ctx;

	st->sse = NULL;
	on_lost(st);
}

static void on_exchange_gone(void *ctx)
{
	struct mcp_stream *st = ctx;

	st->x = NULL;
	on_lost(st);
}

/* Requires st->sse. False: the client is disconnected. */
static bool write_event(struct mcp_stream *st, uint64_t number, const char *text, size_t len)
{
	char id[MCP_EVENT_ID_MAX];

	mcp_event_id_format(st->number, number, id);
	if (!http_sse_event(st->sse, "message", st->of->o.resumable ? id : NULL, text, len))
		return false;
	st->sent = number;
	return true;
}

static void send_prime(struct mcp_stream *st, uint64_t after)
{
	char id[MCP_EVENT_ID_MAX];

	if (!st->of->o.resumable || !st->of->prime)
		return;
	mcp_event_id_format(st->number, after, id);
	http_sse_prime(st->sse, id, RETRY_MS);
}

/* Turns the response to a POST into an event stream. */
static void begin_stream(struct mcp_stream *st)
{
	struct http_exchange *x = st->x;

	st->x = NULL;
	st->begun = true;
	evtimer_del(st->slow);
	if (st->post.session_id)
		http_exchange_header(x, "Mcp-Session-Id", st->post.session_id);
	st->sse = http_sse_new(st->of->o.base, x, on_sse_gone, st);
	send_prime(st, 0);
	if (st->post.hang_up && st->sse) {
		st->of->open--;
		http_sse_end(st->sse);
		st->sse = NULL;
	}
}

static void on_slow(evutil_socket_t fd, short what, void *arg)
{
	struct mcp_stream *st = arg;

	if (st->lost) {
		if (!st->finished)
			st->of->o.abandoned(st->of->o.ctx, st);
		free_stream(st);
	} else if (st->x) {
		begin_stream(st);
	}
}

static void close_connection(struct mcp_stream *st)
{
	struct http_sse *sse = st->sse;

	if (!sse)
		return;
	st->sse = NULL;
	st->of->open--;
	http_sse_end(sse);
}

/* ---- messages ---- */

/* The HTTP status for a JSON-RPC error. Legacy clients get 200 except for malformed messages. */
static unsigned status_of(const struct mcp_post *p, const json_t *message)
{
	const json_t *error = json_object_get(message, "error");
	json_int_t code = json_integer_value(json_object_get(error, "code"));

	if (!error)
		return 200;
	switch (code) {
	case -32700:
	case -32600: return 400;
	case -32601: return p->modern ? 404 : 200;
	case -32602: return p->modern && !p->complete ? 400 : 200;
	case -32020: /* headers and body disagree */
	case -32021: /* a capability is missing */
	case -32022: /* unsupported version */ return p->modern ? 400 : 200;
	default: return 200;
	}
}

/* Responds with plain JSON, or 202 if there is no message. */
static void send_reply(struct mcp_stream *st, const json_t *message)
{
	struct http_exchange *x = st->x;
	mem_auto char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;

	st->x = NULL;
	st->of->open--;
	if (text && st->post.session_id && !json_object_get(message, "error"))
		http_exchange_header(x, "Mcp-Session-Id", st->post.session_id);
	if (text)
		http_exchange_reply(x, status_of(&st->post, message), "application/json", text, strlen(text));
	else
		http_exchange_reply(x, 202, NULL, "", 0);
}

static void send_event(struct mcp_stream *st, const json_t *message)
{
	mem_auto char *text = json_dumps(message, JSON_COMPACT);
	size_t len = text ? strlen(text) : 0;

	if (!text)
		return;
	st->last++;
	if (st->of->o.resumable)
		store_for_replay(st, text, len);
	if (st->sse)
		write_event(st, st->last, text, len);
}

void mcp_streams_send(struct mcp_streams *s, struct mcp_stream *on, json_t *message, bool last)
{
	struct mcp_stream *st = on ? on : s->general;

	if (st && on && last)
		st->finished = true;
	if (st && !st->lost && st->x && last)
		send_reply(st, message);
	else if (st && !st->lost && st->x)
		begin_stream(st);
	if (st && st->begun && message)
		send_event(st, message);
	json_decref(message);
	if (!st || !st->finished || st->lost)
		return;
	close_connection(st);
	if (st->kept == 0)
		free_stream(st);
}

/* ---- creation ---- */

static struct mcp_stream *new_stream(struct mcp_streams *s)
{
	struct mcp_stream *st = mem_zalloc(1, sizeof(*st));

	st->of = s;
	st->number = s->next++;
	TAILQ_INSERT_TAIL(&s->all, st, entry);
	return st;
}

struct mcp_streams *mcp_streams_new(const struct mcp_streams_options *o)
{
	struct mcp_streams *s = mem_zalloc(1, sizeof(*s));

	s->o = *o;
	TAILQ_INIT(&s->all);
	TAILQ_INIT(&s->replay);
	if (o->resumable) {
		s->general = new_stream(s);
		s->general->begun = true;
	} else {
		s->next = 1;
	}
	return s;
}

void mcp_streams_free(struct mcp_streams *s)
{
	struct mcp_stream *st;

	while (!TAILQ_EMPTY(&s->replay)) {
		struct kept *k = TAILQ_FIRST(&s->replay);
		TAILQ_REMOVE(&s->replay, k, entry);
		free(k);
	}
	while ((st = TAILQ_FIRST(&s->all))) {
		if (st->x)
			http_exchange_refuse(st->x, 503, "the session ended before the response");
		close_connection(st);
		free_stream(st);
	}
	free(s);
}

struct mcp_stream *mcp_streams_post(struct mcp_streams *s, struct http_exchange *x, const struct mcp_post *post)
{
	static const struct http_exchange_ops ops = { .gone = on_exchange_gone };
	struct mcp_stream *st = new_stream(s);
	struct timeval tv = { 0, STREAM_AFTER_MS * 1000 };

	st->x = x;
	st->post = *post;
	st->slow = evtimer_new(s->o.base, on_slow, st);
	if (!st->slow)
		abort();
	s->open++;
	http_exchange_listen(x, &ops, st);
	if (post->hang_up)
		begin_stream(st);
	else
		loop_add(st->slow, &tv);
	return st;
}

void mcp_streams_prime(struct mcp_streams *s, bool on) { s->prime = on; }

size_t mcp_streams_open(const struct mcp_streams *s) { return s->open; }

/* Replays the events after `after`, then continues with new ones. */
static void attach_stream(struct mcp_stream *st, struct http_exchange *x, uint64_t after)
{
	struct mcp_streams *s = st->of;
	struct kept *k, *next;

	close_connection(st);
	s->open++;
	st->sse = http_sse_new(s->o.base, x, on_sse_gone, st);
	send_prime(st, after);
	for (k = TAILQ_FIRST(&s->replay); k && st->sse; k = next) {
		next = TAILQ_NEXT(k, entry);
		if (k->stream == st && k->number > after && !write_event(st, k->number, k->text, k->len))
			return;
	}
	if (st->finished)
		close_connection(st);
}

bool mcp_streams_get(struct mcp_streams *s, struct http_exchange *x, const char *last_event_id)
{
	struct mcp_stream *st = s->general;
	uint64_t number, after = st->sent;

	if (last_event_id && !mcp_event_id_parse(last_event_id, &number, &after)) {
		http_exchange_refuse(x, 400, "Last-Event-ID is not an id of this server");
		return false;
	}
	if (last_event_id) {
		TAILQ_FOREACH (st, &s->all, entry)
			if (st->number == number && st->begun)
				break;
	}
	if (!st || (last_event_id && !reaches_back(st, after))) {
		http_exchange_refuse(x, 404, "the events after this Last-Event-ID are no longer available");
		return false;
	}
	attach_stream(st, x, after);
	return true;
}
