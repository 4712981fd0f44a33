#include "supervisor/gateway/http/console_watch.h"

#include "runtime/base/buf.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/loop/loop.h"
#include "supervisor/gateway/http/console_link.h"
#include "supervisor/gateway/http/console_reply.h"
#include "supervisor/gateway/http/console_session.h"
#include "supervisor/gateway/http/http_exchange.h"

#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#define PIECE_BYTES (256u << 10)

static const struct {
	const char *daemon, *console;
} names[] = { { "stdout", "stdout" }, { "stderr", "stderr" }, { "pty", "terminal" } };
#define OUTPUTS countof(names)

struct output {
	struct watch *of;
	char ref[72];
	uint64_t next; /* everything before was sent */
	uint64_t end;  /* the process has printed this much */
	bool reading;
};

struct watch {
	TAILQ_ENTRY(watch) entry;
	struct console_watches *of;
	char id[72];
	struct http_exchange *x; /* until the daemon has answered get_process … */
	struct event *late;      /* … or this time has passed */
	bool from_given, known;
	uint64_t from, request;
	unsigned pending; /* requests with this object as context */
	bool removed;     /* freed when none is pending */
	struct output outputs[OUTPUTS];
};

struct console_watches {
	struct event_base *base;
	struct console_link *link;
	struct console_watches_ops ops;
	void *ctx;
	TAILQ_HEAD(, watch) all;
	size_t count;
};

static int index_of(struct jval name)
{
	for (size_t i = 0; i < OUTPUTS; i++)
		if (jval_is_str(name, names[i].daemon))
			return (int)i;
	return -1;
}

const char *console_watch_stream(const char *name)
{
	for (size_t i = 0; i < OUTPUTS; i++)
		if (strcmp(names[i].console, name) == 0)
			return names[i].daemon;
	return NULL;
}

/* ---- reading ---- */

static void free_watch(struct watch *v)
{
	TAILQ_REMOVE(&v->of->all, v, entry);
	v->of->count -= !v->removed;
	if (v->x)
		http_exchange_refuse(v->x, 503, "the event stream has ended");
	event_free(v->late);
	free(v);
}

/* A request was answered. False: the watch was removed meanwhile and is freed now, or the connection broke. */
static bool is_wanted(struct watch *v, struct jval error)
{
	v->pending--;
	if (v->removed && v->pending == 0) {
		free_watch(v);
		return false;
	}
	return !v->removed && !remote_broken(error);
}

static void on_piece(void *ctx, struct jval result, struct jval error);

static void read_more(struct output *o)
{
	struct watch *v = o->of;
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);

	if (o->reading || o->next >= o->end || !o->ref[0] || v->removed || !console_link_is_up(v->of->link))
		return;
	jw_obj(&w);
	jw_kstr(&w, "outputRef", o->ref);
	jw_kuint(&w, "offset", o->next);
	jw_kuint(&w, "length", PIECE_BYTES);
	jw_kstr(&w, "encoding", "base64");
	jw_obj_end(&w);
	o->reading = true;
	v->pending++;
	console_link_send(v->of->link, "read_output", &params, on_piece, o);
}

static bool send_piece(struct output *o, uint64_t offset, struct jval data)
{
	struct watch *v = o->of;
	buf_auto struct buf out = BUF_INIT;
	struct jw w = jw_on(&out);

	jw_obj(&w);
	jw_kstr(&w, "processId", v->id);
	jw_kstr(&w, "stream", names[o - v->outputs].console);
	jw_kuint(&w, "offset", offset);
	jw_kuint(&w, "request", v->request);
	jw_kraw(&w, "data", data.text, data.len);
	jw_obj_end(&w);
	return v->of->ops.output(v->of->ctx, out.data, out.len);
}

/*
 * The piece may be short, and skips bytes that were not kept. Nothing at all: beyond three quarters of its limit an
 * output can be read again when the process has ended; the next event tries again.
 */
static void on_piece(void *ctx, struct jval result, struct jval error)
{
	struct output *o = ctx;
	struct jval data = jval_get(result, "data");
	uint64_t offset = jval_uint(jval_get(result, "offset"), o->next);
	uint64_t next = jval_uint(jval_get(result, "nextOffset"), o->next);

	o->reading = false;
	if (!is_wanted(o->of, error) || error.type != JT_NONE || next <= o->next)
		return;
	o->next = next;
	if (data.len > 2 && !send_piece(o, offset, data))
		return;
	read_more(o);
}

/* ---- watches ---- */

static struct watch *find_watch(struct console_watches *w, struct jval id)
{
	struct watch *v;

	TAILQ_FOREACH (v, &w->all, entry)
		if (!v->removed && jval_is_str(id, v->id))
			return v;
	return NULL;
}

static void set_ends(struct watch *v, struct jval outputs)
{
	for (struct jiter it = jiter_on(outputs); jiter_next(&it);) {
		int i = index_of(it.key);
		uint64_t end = jval_uint(jval_get(it.value, "bytes"), 0);

		if (i >= 0 && end > v->outputs[i].end)
			v->outputs[i].end = end;
	}
}

/* Events that came since the request only raise `end`, so that nothing is read twice or left out. */
static void begin_reading(struct watch *v, struct jval process)
{
	struct jval outputs = jval_get(process, "outputs");

	for (struct jiter it = jiter_on(outputs); jiter_next(&it);) {
		int i = index_of(it.key);

		if (i < 0)
			continue;
		jval_str(jval_get(it.value, "outputRef"), v->outputs[i].ref, sizeof(v->outputs[i].ref));
		v->outputs[i].next = v->from_given ? v->from : jval_uint(jval_get(it.value, "bytes"), 0);
	}
	set_ends(v, outputs);
	v->known = true;
	for (size_t i = 0; i < OUTPUTS; i++)
		read_more(&v->outputs[i]);
}

static void on_process(void *ctx, struct jval result, struct jval error)
{
	struct watch *v = ctx;
	struct http_exchange *x;

	if (!is_wanted(v, error))
		return;
	x = v->x;
	v->x = NULL;
	evtimer_del(v->late);
	if (error.type != JT_NONE) {
		if (x)
			console_reply_raw(x, 404, "error", error);
		return free_watch(v);
	}
	if (x)
		http_exchange_reply(x, 204, NULL, NULL, 0);
	begin_reading(v, result);
}

static void request_process(struct watch *v)
{
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);

	jw_obj(&w);
	jw_kstr(&w, "processId", v->id);
	jw_obj_end(&w);
	v->pending++;
	console_link_send(v->of->link, "get_process", &params, on_process, v);
}

static void remove_watch(struct watch *v)
{
	if (v->pending == 0) {
		free_watch(v);
	} else {
		v->removed = true;
		v->of->count--;
		evtimer_del(v->late);
	}
}

static void on_gone(void *ctx) { ((struct watch *)ctx)->x = NULL; }

/* The daemon is away. The page asks again, so nothing is watched until then. */
static void on_late(evutil_socket_t fd, short what, void *arg)
{
	struct watch *v = arg;
	struct http_exchange *x = v->x;

	v->x = NULL;
	if (x)
		console_reply_error(x, 503, "unavailable", "the daemon does not answer");
	remove_watch(v);
}

void console_watches_add(struct console_watches *w, const char *process_id, const uint64_t *offset, uint64_t request,
			 struct http_exchange *x)
{
	static const struct http_exchange_ops ops = { .gone = on_gone };
	static const struct timeval tv = { CONSOLE_WAIT_MS / 1000, 0 };
	struct watch *v = mem_zalloc(1, sizeof(*v));

	console_watches_remove(w, process_id);
	if (w->count >= CONSOLE_WATCHES_MOST || strlen(process_id) >= sizeof(v->id)) {
		free(v);
		return http_exchange_refuse(x, 400, "processId: too long, or too many processes are watched");
	}
	v->of = w;
	snprintf(v->id, sizeof(v->id), "%s", process_id);
	v->from_given = offset != NULL;
	v->from = offset ? *offset : 0;
	v->request = request;
	v->x = x;
	v->late = evtimer_new(w->base, on_late, v);
	if (!v->late)
		abort();
	loop_add(v->late, &tv);
	for (size_t i = 0; i < OUTPUTS; i++)
		v->outputs[i].of = v;
	TAILQ_INSERT_TAIL(&w->all, v, entry);
	w->count++;
	http_exchange_listen(x, &ops, v);
	if (console_link_is_up(w->link))
		request_process(v);
}

void console_watches_remove(struct console_watches *w, const char *process_id)
{
	struct watch *v, *next;

	for (v = TAILQ_FIRST(&w->all); v; v = next) {
		next = TAILQ_NEXT(v, entry);
		if (v->removed || strcmp(v->id, process_id) != 0)
			continue;
		if (v->x)
			http_exchange_refuse(v->x, 409, "another request about this process came first");
		v->x = NULL;
		remove_watch(v);
	}
}

void console_watches_event(struct console_watches *w, struct jval event)
{
	static const char *const ends[] = { "process.completed", "process.failed", "process.terminated" };
	struct jval type = jval_get(event, "type"), payload = jval_get(event, "payload");
	struct watch *v = TAILQ_EMPTY(&w->all) ? NULL : find_watch(w, jval_get(event, "processId"));

	if (!v)
		return;
	if (jval_is_str(type, "process.output")) {
		int i = index_of(jval_get(payload, "stream"));
		uint64_t end = jval_uint(jval_get(payload, "offset"), 0) + jval_uint(jval_get(payload, "length"), 0);

		if (i >= 0 && end > v->outputs[i].end)
			v->outputs[i].end = end;
	}
	for (size_t i = 0; i < countof(ends); i++)
		if (jval_is_str(type, ends[i]))
			set_ends(v, jval_get(payload, "outputs"));
	for (size_t i = 0; i < OUTPUTS && v->known; i++)
		read_more(&v->outputs[i]);
}

void console_watches_resume(struct console_watches *w)
{
	struct watch *v, *next;

	for (v = TAILQ_FIRST(&w->all); v; v = next) {
		next = TAILQ_NEXT(v, entry);
		if (!v->known && !v->removed && v->pending == 0)
			request_process(v);
		for (size_t i = 0; i < OUTPUTS && v->known; i++)
			read_more(&v->outputs[i]);
	}
}

struct console_watches *console_watches_new(struct event_base *base, struct console_link *link,
					    const struct console_watches_ops *ops, void *ctx)
{
	struct console_watches *w = mem_zalloc(1, sizeof(*w));

	*w = (struct console_watches){ .base = base, .link = link, .ops = *ops, .ctx = ctx };
	TAILQ_INIT(&w->all);
	return w;
}

void console_watches_free(struct console_watches *w)
{
	while (!TAILQ_EMPTY(&w->all))
		free_watch(TAILQ_FIRST(&w->all));
	free(w);
}
