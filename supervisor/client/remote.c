#include "supervisor/client/remote.h"

#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "supervisor/client/autostart.h"
#include "supervisor/client/home_candidates.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define LINE_MAX_BYTES (16u << 20) /* the longest line of the protocol */
#define READ_BYTES (256u << 10)
#define RETRY_LEAST_MS 10
#define RETRY_MOST_MS 1000
#define START_AFTER_MS 5000 /* a daemon that is being restarted has this long before we start another */
#define GIVE_UP_MS 30000
#define START_WAIT_MS 5000 /* for a daemon that another client starts at the same time */

#define PASSED_MAX 4

struct pending {
	struct pending *next;
	uint64_t id;
	bool once, greets;
	struct buf line;
	remote_reply_fn fn;
	void *ctx;
};

struct remote {
	struct remote_options options;
	struct home places[HOME_CANDIDATES_MAX];
	size_t nplaces;
	const struct home *place; /* the home whose daemon answered */
	int fd;
	struct buf in;
	size_t scanned; /* bytes of `in` without a newline */
	struct buf out;
	size_t sent;
	struct pending *first, **last;
	struct buf greeting;    /* a complete line, or empty */
	int passed[PASSED_MAX]; /* descriptors that were received and not taken, oldest first */
	unsigned npassed;
	uint64_t next_id;
	char key[33];
	unsigned nkeys;
	void (*connected)(void *ctx);
	void (*event)(void *ctx, struct jval event);
	void *ctx;
	/*
	 * When the daemon was lost (now_ms); 0: connected. A connection that is closed before any data arrived does not
	 * reset it; otherwise a daemon that rejects us would be retried forever.
	 */
	uint64_t lost_ms, retry_ms, connected_ms, give_up_ms;
	unsigned wait_ms;
	bool heard;                /* data was received on this connection */
	bool started;              /* a daemon was started since the loss */
	struct autostart starting; /* … and is not ready yet */
	struct err not_started;    /* why starting it failed */
};

static uint64_t now_ms(void) { return clock_boot_ns() / 1000000; }

/* ---- connecting ---- */

static int connect_to(const char *path, bool wait)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	const char *name = strrchr(path, '/');
	fd_auto int dir = -1, fd = -1;

	if (strlen(path) < sizeof(sa.sun_path)) {
		memcpy(sa.sun_path, path, strlen(path));
	} else {
		/* Too long for sun_path: use a descriptor of the directory, as the daemon does. */
		mem_auto char *folder = mem_strndup(path, (size_t)(name - path));
		dir = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (dir < 0)
			return -1;
		snprintf(sa.sun_path, sizeof(sa.sun_path), "/proc/self/fd/%d%s", dir, name);
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | (wait ? 0 : SOCK_NONBLOCK), 0);
	if (fd < 0)
		return -1;
	while (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		if (errno != EINTR)
			return -1;
	if (fd_nonblock(fd, true) < 0)
		return -1;
	return fd_take(&fd);
}

static bool is_absent(int errnum) { return errnum == ENOENT || errnum == ECONNREFUSED || errnum == ENOTDIR; }

enum { REACHED, NO_DAEMON, BUSY }; /* BUSY: a daemon is there, but its backlog is full */

/* Tries the homes in order; the first whose daemon answers is used. An error other than "no daemon" ends the search. */
static int connect_places(struct remote *r, struct err *e)
{
	for (size_t i = 0; i < r->nplaces; i++) {
		const struct home *h = &r->places[i];

		r->fd = connect_to(h->socket, !r->options.later);
		if (r->fd >= 0) {
			r->place = h;
			return REACHED;
		}
		if (errno == EAGAIN)
			return BUSY;
		if (!is_absent(errno))
			return err_sys(e, errno, "connect to %s", h->socket);
	}
	return NO_DAEMON;
}

static bool may_start(const struct remote *r)
{
	return r->options.start || (r->options.start_if_store && home_has_store(&r->places[0]));
}

void remote_start_none(struct remote *r) { r->options.start = r->options.start_if_store = false; }

static void set_lost(struct remote *r, uint64_t now)
{
	r->lost_ms = now;
	r->give_up_ms = now + GIVE_UP_MS;
	r->wait_ms = RETRY_LEAST_MS;
	r->started = false;
	r->not_started = ERR_INIT;
}

/* Blocks until the daemon answers. Even if starting failed, another client may have started one. */
static int connect_starting(struct remote *r, struct err *e)
{
	const struct home *h = &r->places[0];
	struct err why = ERR_INIT;
	int started = autostart_start(h, &why);
	uint64_t until = now_ms() + START_WAIT_MS;

	for (;;) {
		int c = connect_places(r, e);
		if (c <= 0)
			return c;
		if (now_ms() >= until || (started < 0 && why.code == ERR_SANDBOX))
			break;
		poll(NULL, 0, 20);
	}
	if (started < 0) {
		*e = why;
		return -1;
	}
	return err_set(e, ERR_UNAVAILABLE, "start a daemon: it does not answer on %s", h->socket);
}

static int remote_connect(struct remote *r, struct err *e)
{
	int c = connect_places(r, e);

	if (c <= 0)
		return c;
	if (r->options.later && (c == BUSY || may_start(r))) {
		r->retry_ms = now_ms();
		set_lost(r, r->retry_ms);
		return 0;
	}
	if (may_start(r))
		return connect_starting(r, e);
	return err_set(e, ERR_UNAVAILABLE, "no daemon is running (nothing answers on %s)", r->places[0].socket);
}

int remote_open(const struct remote_options *o, struct remote **ret, struct err *e)
{
	struct remote *r = mem_zalloc(1, sizeof(*r));
	uint8_t random[16];

	r->options = *o;
	r->fd = -1;
	r->last = &r->first;
	r->next_id = 1;
	r->nplaces = home_candidates(getuid(), r->places);
	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		abort();
	for (size_t i = 0; i < sizeof(random); i++)
		snprintf(r->key + 2 * i, 3, "%02x", random[i]);
	if (remote_connect(r, e) < 0) {
		remote_free(r);
		return -1;
	}
	*ret = r;
	return 0;
}

int remote_take_fd(struct remote *r)
{
	int fd = r->npassed ? r->passed[0] : -1;

	if (fd >= 0)
		memmove(r->passed, r->passed + 1, --r->npassed * sizeof(int));
	return fd;
}

static void close_passed(struct remote *r)
{
	while (r->npassed)
		close(r->passed[--r->npassed]);
}

static void pending_free(struct pending *p)
{
	buf_done(&p->line);
	free(p);
}

void remote_free(struct remote *r)
{
	if (!r)
		return;
	while (r->first) {
		struct pending *p = r->first;
		r->first = p->next;
		pending_free(p);
	}
	buf_done(&r->in);
	buf_done(&r->out);
	buf_done(&r->greeting);
	close_passed(r);
	autostart_done(&r->starting);
	fd_close(&r->fd);
	free(r);
}

static const struct home *current_home(const struct remote *r) { return r->place ? r->place : &r->places[0]; }

const char *remote_socket_path(const struct remote *r) { return current_home(r)->socket; }

const char *remote_kind(const struct remote *r) { return current_home(r)->kind; }

void remote_listen(struct remote *r, void (*connected)(void *ctx), void (*event)(void *ctx, struct jval event),
		   void *ctx)
{
	r->connected = connected;
	r->event = event;
	r->ctx = ctx;
}

/* ---- disconnect and reconnect ---- */

static const char broken[] =
	"{\"code\":0,\"message\":\"the connection broke before the answer came; whether it was done is not known\"}";

bool remote_broken(struct jval error) { return error.type == JT_OBJECT && jval_int(jval_get(error, "code"), -1) == 0; }

static void back_off(struct remote *r, uint64_t now)
{
	r->retry_ms = now + r->wait_ms;
	r->wait_ms = r->wait_ms * 2 > RETRY_MOST_MS ? RETRY_MOST_MS : r->wait_ms * 2;
}

/*
 * Requests sent with remote_send_once fail now; all others are kept for the next connection. Callbacks run after the
 * list is consistent again.
 */
static void lose_connection(struct remote *r)
{
	struct pending **at = &r->first;
	uint64_t now = now_ms();

	fd_close(&r->fd);
	close_passed(r);
	buf_done(&r->in);
	buf_reset(&r->out);
	r->scanned = r->sent = 0;
	if (r->lost_ms == 0 || r->heard || now - r->connected_ms > RETRY_MOST_MS)
		set_lost(r, now);
	back_off(r, now);
	struct pending *dropped = NULL;
	while (*at) {
		struct pending *p = *at;
		if (p->once) {
			*at = p->next;
			p->next = dropped;
			dropped = p;
		} else {
			at = &p->next;
		}
	}
	r->last = at;
	while (dropped) {
		struct pending *p = dropped;
		dropped = p->next;
		if (p->fn)
			p->fn(p->ctx, (struct jval){ 0 }, jval_of(broken, sizeof(broken) - 1));
		pending_free(p);
	}
}

/*
 * Never blocks, since others use the same loop. If there has never been a daemon, it is started immediately; a lost one
 * gets START_AFTER_MS to return.
 */
static void start_daemon(struct remote *r, uint64_t now)
{
	int s = 1;

	if (r->starting.pid) {
		s = autostart_poll(&r->starting, &r->not_started);
	} else if (!r->started && may_start(r) && (!r->place || now - r->lost_ms >= START_AFTER_MS)) {
		s = autostart_begin(&r->places[0], &r->starting, &r->not_started);
		r->started = true;
	}
	const uint64_t wait_ms = r->not_started.code == ERR_SANDBOX ? 0 : START_WAIT_MS;
	if (s < 0 && !r->place && r->give_up_ms > now + wait_ms)
		r->give_up_ms = now + wait_ms;
}

static int fail_lost(struct remote *r, struct err *e)
{
	if (r->not_started.message[0]) {
		*e = r->not_started;
		return -1;
	}
	return err_set(e, ERR_UNAVAILABLE,
		       r->place ? "the daemon at %s went away and did not come back" : "no daemon answers on %s",
		       remote_socket_path(r));
}

static int reconnect(struct remote *r, struct err *e)
{
	const bool again = r->place;
	uint64_t now = now_ms();

	if (now < r->retry_ms)
		return 0;
	if (now >= r->give_up_ms)
		return fail_lost(r, e);
	int c = connect_places(r, e);
	if (c < 0)
		return -1;
	if (c > 0) {
		if (c == NO_DAEMON)
			start_daemon(r, now);
		back_off(r, now);
		return 0;
	}
	autostart_done(&r->starting);
	r->connected_ms = now;
	r->heard = false;
	if (!r->first || !r->first->greets)
		buf_append(&r->out, buf_cstr(&r->greeting), r->greeting.len);
	/* Repeating is safe: mutating requests carry an idempotency key (remote.h). */
	for (struct pending *p = r->first; p; p = p->next)
		buf_append(&r->out, p->line.data, p->line.len);
	if (r->connected && again)
		r->connected(r->ctx);
	return 0;
}

/* ---- sending ---- */

/* If the socket is full, the rest is sent later; a broken connection is detected by the next turn. */
static void flush_out(struct remote *r)
{
	while (r->fd >= 0 && r->sent < r->out.len) {
		ssize_t n = send(r->fd, r->out.data + r->sent, r->out.len - r->sent, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		r->sent += (size_t)n;
	}
	if (r->sent == r->out.len) {
		buf_reset(&r->out);
		r->sent = 0;
	}
}

static void write_line(uint64_t id, const char *method, const struct buf *params, struct buf *line)
{
	struct jw w = jw_on(line);

	jw_obj(&w);
	jw_kstr(&w, "jsonrpc", "2.0");
	jw_kuint(&w, "id", id);
	jw_kstr(&w, "method", method);
	if (params && params->len)
		jw_kraw(&w, "params", params->data, params->len);
	jw_obj_end(&w);
	buf_byte(line, '\n');
}

static void send_request(struct remote *r, const char *method, const struct buf *params, bool once, remote_reply_fn fn,
			 void *ctx)
{
	struct pending *p = mem_zalloc(1, sizeof(*p));

	*p = (struct pending){ .id = r->next_id++, .once = once, .fn = fn, .ctx = ctx };
	write_line(p->id, method, params, &p->line);
	*r->last = p;
	r->last = &p->next;
	if (r->fd >= 0) {
		buf_append(&r->out, p->line.data, p->line.len);
		flush_out(r);
	}
}

void remote_send(struct remote *r, const char *method, const struct buf *params, remote_reply_fn fn, void *ctx)
{
	send_request(r, method, params, false, fn, ctx);
}

void remote_send_once(struct remote *r, const char *method, const struct buf *params, remote_reply_fn fn, void *ctx)
{
	send_request(r, method, params, true, fn, ctx);
}

void remote_key(struct remote *r, struct jw *w)
{
	char key[64];

	snprintf(key, sizeof(key), "cli-%s-%u", r->key, ++r->nkeys);
	jw_kstr(w, "idempotencyKey", key);
}

/* ---- receiving ---- */

static struct pending *take_pending(struct remote *r, struct jval id)
{
	uint64_t want = jval_uint(id, 0);

	for (struct pending **at = &r->first; *at; at = &(*at)->next) {
		struct pending *p = *at;

		/* The daemon could not read the id and replied with null: that refers to the oldest request. */
		if (p->id != want && id.type == JT_NUMBER)
			continue;
		*at = p->next;
		if (r->last == &p->next)
			r->last = at;
		return p;
	}
	return NULL;
}

static void on_line(struct remote *r, const char *line, size_t len)
{
	struct jval id = { 0 }, result = { 0 }, error = { 0 }, method = { 0 }, params = { 0 };

	/* One pass over all members, so that a reply with a megabyte of output is not scanned once per member. */
	struct jval whole = { .type = len && line[0] == '{' ? JT_OBJECT : JT_NONE, .text = line, .len = len };
	for (struct jiter it = jiter_on(whole); jiter_next(&it);) {
		if (jval_is_str(it.key, "id"))
			id = it.value;
		else if (jval_is_str(it.key, "result"))
			result = it.value;
		else if (jval_is_str(it.key, "error"))
			error = it.value;
		else if (jval_is_str(it.key, "method"))
			method = it.value;
		else if (jval_is_str(it.key, "params"))
			params = it.value;
	}
	if (method.type == JT_STRING) {
		if (r->event && jval_is_str(method, "event"))
			r->event(r->ctx, jval_get(params, "event"));
		return;
	}
	if (result.type == JT_NONE && error.type == JT_NONE)
		return;
	struct pending *p = take_pending(r, id);
	if (!p)
		return;
	if (p->fn)
		p->fn(p->ctx, error.type == JT_NONE ? result : (struct jval){ 0 }, error);
	pending_free(p);
}

/* `scanned` avoids searching the same bytes of a long line for a newline again after each read. */
static void dispatch_message(struct remote *r)
{
	size_t done = 0;

	for (;;) {
		char *end = r->in.len > r->scanned ? memchr(r->in.data + r->scanned, '\n', r->in.len - r->scanned)
						   : NULL;

		if (!end) {
			r->scanned = r->in.len;
			break;
		}
		size_t next = (size_t)(end - r->in.data) + 1;
		on_line(r, r->in.data + done, next - 1 - done);
		done = r->scanned = next;
	}
	if (done) {
		buf_consume(&r->in, done);
		r->scanned -= done;
	}
}

/* Reads once. 0: connected, 1: disconnected. */
static int receive_message(struct remote *r)
{
	char *room = buf_reserve(&r->in, READ_BYTES);
	size_t passed = PASSED_MAX - r->npassed;
	ssize_t n = fd_recv(r->fd, room, READ_BYTES, r->passed + r->npassed, &passed, 0);

	if (n < 0)
		return errno != EAGAIN && errno != EINTR;
	r->npassed += (unsigned)passed;
	if (n == 0)
		return 1;
	r->heard = true;
	r->in.len += (size_t)n;
	r->in.data[r->in.len] = 0;
	dispatch_message(r);
	return r->in.len > LINE_MAX_BYTES;
}

int remote_prepare_poll(struct remote *r, bool want_input, struct pollfd *p)
{
	*p = (struct pollfd){ .fd = r->fd };
	if (r->fd < 0) {
		uint64_t now = now_ms();
		return r->retry_ms > now ? (int)(r->retry_ms - now) : 0;
	}
	p->events = (short)((want_input ? POLLIN : 0) | (r->sent < r->out.len ? POLLOUT : 0));
	return -1;
}

int remote_process_poll(struct remote *r, short revents, struct err *e)
{
	if (r->fd < 0)
		return reconnect(r, e);
	flush_out(r);
	if ((revents & (POLLIN | POLLHUP | POLLERR)) && receive_message(r))
		lose_connection(r);
	return 0;
}

/* ---- one request at a time ---- */

void remote_answer_done(struct remote_answer *a)
{
	buf_done(&a->text);
	*a = REMOTE_ANSWER_INIT;
}

void remote_answer_fill(void *answer, struct jval result, struct jval error)
{
	struct remote_answer *a = answer;
	struct jval v = error.type == JT_NONE ? result : error;

	buf_reset(&a->text);
	buf_append(&a->text, v.text, v.len);
	v = jval_of(a->text.data, a->text.len);
	a->result = a->error = (struct jval){ 0 };
	*(error.type == JT_NONE ? &a->result : &a->error) = v;
	a->done = true;
}

int remote_await(struct remote *r, struct remote_answer *a, struct err *e)
{
	while (!a->done) {
		struct pollfd p;
		int timeout = remote_prepare_poll(r, true, &p);

		if (poll(&p, 1, timeout) < 0) {
			if (errno != EINTR)
				return err_sys(e, errno, "poll");
			p.revents = 0;
		}
		if (remote_process_poll(r, p.revents, e) < 0)
			return -1;
	}
	if (a->error.type != JT_NONE)
		return remote_error(a->error, e);
	return 0;
}

int remote_call_once(struct remote *r, const char *method, const struct buf *params, struct remote_answer *ret,
		     struct err *e)
{
	remote_answer_done(ret);
	remote_send_once(r, method, params, remote_answer_fill, ret);
	return remote_await(r, ret, e);
}

int remote_call(struct remote *r, const char *method, const struct buf *params, struct remote_answer *ret,
		struct err *e)
{
	remote_answer_done(ret);
	remote_send(r, method, params, remote_answer_fill, ret);
	return remote_await(r, ret, e);
}

void remote_handshake_async(struct remote *r, const char *method, const struct buf *params, remote_reply_fn fn,
			    void *ctx)
{
	buf_reset(&r->greeting);
	write_line(0, method, params, &r->greeting); /* id 0 is never used by a request, so its reply is ignored */
	remote_send(r, method, params, fn, ctx);
	r->first->greets = true; /* nothing was sent before it */
}

int remote_handshake(struct remote *r, const char *method, const struct buf *params, struct err *e)
{
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;

	remote_handshake_async(r, method, params, remote_answer_fill, &a);
	return remote_await(r, &a, e);
}

static const struct {
	int code;
	enum err_code err;
} codes[] = {
	{ -32700, ERR_INVALID },     { -32600, ERR_INVALID },   { -32601, ERR_NOT_FOUND }, { -32602, ERR_INVALID },
	{ -32003, ERR_NOT_ALLOWED }, { -32004, ERR_NOT_FOUND }, { -32009, ERR_CONFLICT },  { -32010, ERR_PERMISSION },
	{ -32011, ERR_UNAVAILABLE }, { -32012, ERR_EXHAUSTED }, { -32013, ERR_EXPIRED },   { -32014, ERR_SANDBOX },
	{ -32015, ERR_STATE },
};

int remote_error(struct jval error, struct err *e)
{
	char message[ERR_MESSAGE_MAX];
	int64_t code = jval_int(jval_get(error, "code"), 0);
	enum err_code err = ERR_INTERNAL;

	jval_str(jval_get(error, "message"), message, sizeof(message));
	for (size_t i = 0; i < countof(codes); i++)
		if (codes[i].code == code)
			err = codes[i].err;
	err_set(e, err, "%s", message[0] ? message : "the daemon gave no reason");
	if (!e)
		return -1;
	jval_str(jval_path(error, "data.field"), e->field, sizeof(e->field));
	if (jval_str(jval_path(error, "data.reason"), message, sizeof(message)))
		e->reason = err_reason_of(message);
	return -1;
}
