#ifndef BAILIFF_TEST_CONTROL_HARNESS_H
#define BAILIFF_TEST_CONTROL_HARNESS_H

/*
 * A control with a real store in a temporary directory, a fake engine, and clients on socket pairs, on one loop that
 * runs while a test waits. Every wait has a deadline that only a failing test reaches.
 */

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/hash.h"
#include "runtime/base/mem.h"
#include "runtime/event/event.h"
#include "runtime/store/store.h"
#include "supervisor/control/call.h"
#include "supervisor/control/client.h"
#include "supervisor/control/control.h"
#include "supervisor/control/control_private.h"
#include "supervisor/control/peer.h"
#include "supervisor/host/config.h"
#include "tests/unit/supervisor/control/fake_engine.h"

#include <check.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAIT_NS (60ull * 1000000000)

/* ---- the harness ---- */

struct harness {
	char dir[64];
	struct config config;
	struct event_base *base;
	struct store *store;
	struct event *store_ev;
	struct control *control;
	int listen_fd;
};

/* A client's end of the connection, with the input that was read and not yet parsed. */
struct end {
	int fd;
	struct buf in;
	bool eof;
};

static inline void harness_dispatch(evutil_socket_t fd, short what, void *arg) { store_dispatch(arg); }

static inline void harness_open_store(struct harness *w)
{
	char db[96], spool[96];
	struct err e = ERR_INIT;
	snprintf(db, sizeof db, "%s/store", w->dir);
	snprintf(spool, sizeof spool, "%s/spool", w->dir);
	mkdir(db, 0700);
	mkdir(spool, 0700);
	struct store_options o = { .dir = db, .spool_dir = spool, .map_bytes = 1u << 30, .soon_ms = 1 };
	ck_assert_msg(store_open(&o, &w->store, &e) == 0, "%s", e.message);
	w->store_ev = event_new(w->base, store_dispatch_fd(w->store), EV_READ | EV_PERSIST, harness_dispatch, w->store);
	event_add(w->store_ev, NULL);
}

static inline void harness_open_control(struct harness *w)
{
	struct control_options o = {
		.base = w->base,
		.store = w->store,
		.engine = (struct engine *)w,
		.methods = &control_methods,
		.config = &w->config,
		.listen_fd = w->listen_fd,
		.ctx = w,
		.started_real_us = clock_real_us(),
	};
	w->control = control_new(&o);
}

static inline void harness_new(struct harness *w)
{
	*w = (struct harness){ .listen_fd = -1 };
	fake = (struct fake_engine){ 0 };
	snprintf(w->dir, sizeof w->dir, "/tmp/bailiff-control-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(w->dir));
	config_defaults(&w->config);
	w->base = event_base_new();
	harness_open_store(w);
	harness_open_control(w);
}

static inline void harness_close(struct harness *w)
{
	control_free(w->control);
	event_free(w->store_ev);
	store_close(w->store);
}

static inline void harness_done(struct harness *w)
{
	harness_close(w);
	event_base_free(w->base);
	char *argv[] = { (char *)"rm", (char *)"-rf", w->dir, NULL };
	pid_t pid = fork();
	if (pid == 0) {
		execv("/bin/rm", argv);
		_exit(127);
	}
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

/* Runs the loop once; waits briefly if nothing is ready. */
static inline void harness_step(struct harness *w)
{
	struct timeval little = { .tv_usec = 2000 };
	event_base_loopexit(w->base, &little);
	event_base_loop(w->base, EVLOOP_ONCE);
}

#define until(w, condition)                                                               \
	do {                                                                              \
		uint64_t deadline_ = clock_boot_ns() + WAIT_NS;                           \
		while (!(condition)) {                                                    \
			harness_step(w);                                                  \
			ck_assert_msg(clock_boot_ns() < deadline_, "never: " #condition); \
		}                                                                         \
	} while (0)

/* ---- clients ---- */

static inline struct end end_new(struct harness *w, struct client **ret)
{
	int fds[2];
	struct peer peer;
	struct err e = ERR_INIT;
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
	ck_assert_int_eq(peer_read(fds[1], &peer, &e), 0);
	struct client *cl = control_adopt(w->control, fds[1], &peer);
	if (ret)
		*ret = cl;
	return (struct end){ .fd = fds[0] };
}

static inline void end_done(struct end *e)
{
	fd_close(&e->fd);
	buf_done(&e->in);
}

static inline void end_read(struct end *e)
{
	char piece[65536];
	ssize_t n;
	while (!e->eof && (n = read(e->fd, piece, sizeof piece)) >= 0) {
		e->eof = n == 0;
		buf_append(&e->in, piece, (size_t)n);
	}
	if (!e->eof && errno != EAGAIN)
		e->eof = true;
}

static inline void end_send_n(struct harness *w, struct end *e, const char *text, size_t n)
{
	uint64_t deadline = clock_boot_ns() + WAIT_NS;
	while (n) {
		ssize_t sent = send(e->fd, text, n, MSG_NOSIGNAL);
		if (sent < 0) {
			ck_assert_msg(errno == EAGAIN, "send: %s", strerror(errno));
			ck_assert(clock_boot_ns() < deadline);
			harness_step(w);
			continue;
		}
		text += sent;
		n -= (size_t)sent;
	}
}

static inline void end_send(struct harness *w, struct end *e, const char *text)
{
	end_send_n(w, e, text, strlen(text));
}

static inline bool end_has_line(struct end *e)
{
	end_read(e);
	return e->in.len && memchr(e->in.data, '\n', e->in.len);
}

/* The next line, parsed; the caller frees it. */
static inline json_t *end_line(struct harness *w, struct end *e)
{
	until(w, end_has_line(e) || e->eof);
	ck_assert_msg(end_has_line(e), "the connection ended");
	char *newline = memchr(e->in.data, '\n', e->in.len);
	json_error_t bad;
	json_t *v = json_loadb(e->in.data, (size_t)(newline - e->in.data), JSON_DECODE_ANY | JSON_REJECT_DUPLICATES,
			       &bad);
	ck_assert_msg(v != NULL, "%s in %.*s", bad.text, (int)(newline - e->in.data), e->in.data);
	buf_consume(&e->in, (size_t)(newline + 1 - e->in.data));
	return v;
}

static inline json_t *ask(struct harness *w, struct end *e, const char *text)
{
	end_send(w, e, text);
	end_send(w, e, "\n");
	return end_line(w, e);
}

/* A member by its path "error.data.field", or NULL. */
static inline json_t *at(json_t *v, const char *path)
{
	char part[64];
	while (v && *path) {
		size_t n = strcspn(path, ".");
		snprintf(part, sizeof part, "%.*s", (int)n, path);
		v = json_is_array(v) ? json_array_get(v, (size_t)atoi(part)) : json_object_get(v, part);
		path += n + (path[n] == '.');
	}
	return v;
}

static inline const char *text_at(json_t *v, const char *path)
{
	const char *s = json_string_value(at(v, path));
	return s ? s : "(nothing)";
}

static inline long long int_at(json_t *v, const char *path) { return json_integer_value(at(v, path)); }

#define expect_error(reply, wanted, part)                                                              \
	do {                                                                                           \
		mem_auto char *all_ = json_dumps(reply, 0);                                            \
		ck_assert_msg(int_at(reply, "error.code") == (wanted) &&                               \
				      strstr(text_at(reply, "error.message"), part),                   \
			      "%s", all_);                                                             \
		ck_assert_msg(at(reply, "error.data.category") && at(reply, "error.data.retryable") && \
				      at(reply, "error.data.advice"),                                  \
			      "%s", all_);                                                             \
	} while (0)

/* ---- events ---- */

static inline void count_commit(void *ctx, const struct store_result *r)
{
	ck_assert_msg(r->status == 0, "%s", r->err ? r->err->message : "");
	--*(unsigned *)ctx;
}

/* Appends n events of one session and process, and waits for their commit. `fill` bytes make them larger. */
static inline void append(struct harness *w, enum event_type type, uint32_t uid, const char *session,
			  const char *process, unsigned n, size_t fill)
{
	unsigned left = 0;
	struct buf payload = BUF_INIT;
	for (unsigned i = 0; i < n; i++) {
		struct err e = ERR_INIT;
		struct event_draft d = { .type = type, .uid = uid };
		d.ids[ID_SESSION] = session;
		d.ids[ID_PROCESS] = process;
		buf_reset(&payload);
		buf_printf(&payload, "{\"phase\":\"%u\",\"title\":\"%0*d\"}", i, (int)fill, 7);
		d.payload = payload.data;
		d.payload_len = payload.len;
		struct store_batch *b = store_batch_new(w->store);
		ck_assert_msg(store_batch_event(b, &d, &e) == 0, "%s %s", e.field, e.message);
		left++;
		store_submit(w->store, b, 0, count_commit, &left);
		until(w, left < 256);
	}
	until(w, left == 0);
	buf_done(&payload);
}

static inline int harness_main(Suite *s)
{
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}

#endif
