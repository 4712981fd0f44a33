#ifndef BAILIFF_TESTS_FAKE_DAEMON_H
#define BAILIFF_TESTS_FAKE_DAEMON_H

/*
 * A fake daemon for the command line's tests: speaks the protocol on $BAILIFF_HOME/control.sock and pretends to run one
 * process. The first word of the command determines what the process does (see fake_start), the fields of struct fake
 * which faults occur. Several waiting reads are answered in reverse order, as a real daemon may.
 */

#include "runtime/base/buf.h"
#include "runtime/base/fd.h"
#include "runtime/base/jscan.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"

#include <check.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAKE_PROCESS "proc_01aaaaaaaaaaaaaaaaaaaaaaaa"
#define FAKE_CLIENTS 16

struct fake {
	unsigned break_reads;  /* the connection breaks instead of every n-th read; 0: never */
	unsigned break_writes; /* … after applying every n-th write, before its reply */
	uint64_t read_most;    /* bytes of one read_output; 0: as requested */
	uint64_t hole_from, hole_to;
	bool unknown_write; /* the first write is answered with outcome unknown */
	/* A process on a terminal runs already and has printed "0123456789"; a subscriber sees it print "abcde" and
	 * end with 7. */
	bool terminal;
	int64_t screen_at; /* … whose screen was drawn up to this byte; −1: without a screen */
	/* private */
	char home[64];
	pid_t pid;
	int listen_fd;
	struct fake_client {
		int fd;
		struct buf in, reads;
		bool subscribed, broken;
		uint64_t after;
	} clients[FAKE_CLIENTS];
	struct buf events[4096]; /* by sequence − 1 */
	uint64_t nevents;
	struct buf echo; /* stdout of cat */
	uint64_t big, cited[2];
	bool started, ended;
	unsigned reads, writes;
	char keys[256][80];
	size_t nkeys;
};

/* ---- output of the process ---- */

static inline char fake_byte(uint64_t i) { return (char)((i * 2654435761u) >> 11); }

static inline void fake_event(struct fake *f, const char *type, const char *status, const char *payload)
{
	struct buf *b = &f->events[f->nevents++];

	ck_assert(f->nevents < 4096);
	buf_printf(b,
		   "{\"sequence\":%llu,\"type\":\"%s\",\"timestamp\":\"2026-11-15T02:00:00.000000Z\",\"processId\":"
		   "\"" FAKE_PROCESS "\",",
		   (unsigned long long)f->nevents, type);
	if (status)
		buf_printf(b, "\"status\":\"%s\",", status);
	if (strcmp(type, "process.output") == 0)
		buf_printf(b, "\"outputRef\":\"%s\",", strstr(payload, "stderr") ? "out_err" : "out_out");
	buf_printf(b, "\"payload\":%s}", payload);
}

static inline void fake_output(struct fake *f, int stream, uint64_t length, const char *preview, size_t n)
{
	buf_auto struct buf p = BUF_INIT;
	struct jw w = jw_on(&p);

	jw_obj(&w);
	jw_kstr(&w, "stream", f->terminal ? "pty" : stream ? "stderr" : "stdout");
	jw_kuint(&w, "offset", f->cited[stream]);
	jw_kuint(&w, "length", length);
	jw_key(&w, "preview");
	jw_base64(&w, preview, n);
	jw_kstr(&w, "encoding", "base64");
	jw_kuint(&w, "previewBytes", n);
	jw_obj_end(&w);
	f->cited[stream] += length;
	fake_event(f, "process.output", NULL, p.data);
}

static inline void fake_end(struct fake *f, const char *type, const char *status, const char *members)
{
	buf_auto struct buf p = BUF_INIT;

	buf_printf(&p,
		   "{%s,\"durationMs\":1,\"outputs\":{\"%s\":{\"outputRef\":\"out_out\",\"bytes\":%llu},\"stderr\":{"
		   "\"outputRef\":\"out_err\",\"bytes\":%llu}}}",
		   members, f->terminal ? "pty" : "stdout", (unsigned long long)f->cited[0],
		   (unsigned long long)f->cited[1]);
	fake_event(f, type, status, p.data);
	f->ended = true;
}

/* say N: a line on each stream, exit N · big N: that many bytes · limit, lost, hang, cat · missing, locked: not started
 */
static inline bool fake_start(struct fake *f, struct jval command, struct buf *error)
{
	char word[2][64] = { "", "" };
	size_t n = 0;

	for (struct jiter it = jiter_on(command); jiter_next(&it) && n < 2; n++)
		jval_str(it.value, word[n], sizeof(word[n]));
	if (strcmp(word[0], "missing") == 0 || strcmp(word[0], "locked") == 0) {
		buf_printf(error,
			   "{\"code\":-32014,\"message\":\"exec: "
			   "no\",\"data\":{\"stage\":\"exec\",\"errno\":%d,\"advice\":\"look again\"}}",
			   word[0][0] == 'm' ? ENOENT : EACCES);
		return false;
	}
	f->started = true;
	fake_event(f, "process.started", NULL, "{\"pid\":1}");
	if (strcmp(word[0], "say") == 0) {
		buf_auto struct buf end = BUF_INIT;

		fake_output(f, 0, 4, "out\n", 4);
		fake_output(f, 1, 4, "err\n", 4);
		buf_printf(&end, "\"exitCode\":%d", atoi(word[1]));
		fake_end(f, "process.completed", "completed", end.data);
	} else if (strcmp(word[0], "big") == 0) {
		f->big = strtoull(word[1], NULL, 10);
		while (f->cited[0] < f->big) {
			uint64_t step = f->big - f->cited[0] < 700001 ? f->big - f->cited[0] : 700001;
			char preview[4] = { fake_byte(f->cited[0]), fake_byte(f->cited[0] + 1), 0, 0 };
			fake_output(f, 0, step, preview, step < 2 ? 0 : 2);
		}
		fake_end(f, "process.completed", "completed", "\"exitCode\":0");
	} else if (strcmp(word[0], "limit") == 0) {
		fake_end(f, "process.failed", "timed_out",
			 "\"category\":\"timeout\",\"limit\":\"wall\",\"message\":\"over\"");
	} else if (strcmp(word[0], "lost") == 0) {
		fake_end(f, "process.failed", "lost", "\"category\":\"transport\",\"message\":\"lost\"");
	}
	return true;
}

/* ---- replies ---- */

static inline void fake_send(struct fake_client *c, const struct buf *b)
{
	if (c->fd >= 0 && !c->broken && fd_write_all(c->fd, b->data, b->len) < 0)
		c->broken = true;
}

static inline void fake_reply(struct buf *out, struct jval id, const char *member, const char *json)
{
	buf_printf(out, "{\"jsonrpc\":\"2.0\",\"id\":%.*s,\"%s\":%s}\n", (int)id.len, id.text, member, json);
}

static inline void fake_read(struct fake *f, struct jval params, struct buf *out)
{
	uint64_t offset = jval_uint(jval_get(params, "offset"), 0), n = jval_uint(jval_get(params, "length"), 0), next;
	bool big = f->big && jval_is_str(jval_get(params, "outputRef"), "out_out");
	uint64_t total = big ? f->big : f->echo.len;
	buf_auto struct buf bytes = BUF_INIT;
	struct jw w = jw_on(out);

	if (f->read_most && n > f->read_most)
		n = f->read_most;
	if (offset + n > total)
		n = offset < total ? total - offset : 0;
	next = offset + n;
	if (offset < f->hole_from && next > f->hole_from)
		n = f->hole_from - offset, next = f->hole_from;
	if (offset >= f->hole_from && offset < f->hole_to)
		n = 0, next = f->hole_to;
	char *to = buf_reserve(&bytes, (size_t)n + 1);
	for (uint64_t i = 0; i < n; i++)
		to[i] = big ? fake_byte(offset + i) : f->echo.data[offset + i];
	bytes.len = (size_t)n;
	jw_obj(&w);
	jw_key(&w, "data");
	jw_base64(&w, buf_cstr(&bytes), bytes.len);
	jw_kstr(&w, "encoding", "base64");
	jw_kuint(&w, "offset", offset);
	jw_kuint(&w, "nextOffset", next);
	jw_kuint(&w, "totalBytes", total);
	jw_kbool(&w, "eof", next == total);
	jw_obj_end(&w);
}

static inline void fake_terminal_process(const struct fake *f, struct buf *out)
{
	buf_printf(
		out,
		"{\"processId\":\"" FAKE_PROCESS
		"\",\"status\":\"running\",\"command\":[\"vim\"],\"stdin\":\"tty\",\"tty\":{\"rows\":24,\"cols\":80},"
		"\"outputs\":{\"pty\":{\"outputRef\":\"out_out\",\"bytes\":%llu}}}",
		(unsigned long long)f->cited[0]);
}

/* Output from a time without attached clients; its events are in the log. */
static inline void fake_terminal_begin(struct fake *f)
{
	f->started = true;
	fake_event(f, "process.started", NULL, "{\"pid\":1}");
	buf_str(&f->echo, "0123456789");
	fake_output(f, 0, 10, f->echo.data, 10);
}

static inline void fake_terminal_continue(struct fake *f)
{
	buf_str(&f->echo, "abcde");
	fake_output(f, 0, 5, f->echo.data + 10, 5);
	fake_end(f, "process.completed", "completed", "\"exitCode\":7");
}

static inline void fake_process(const struct fake *f, struct buf *out)
{
	if (f->terminal) {
		fake_terminal_process(f, out);
		return;
	}
	buf_printf(out,
		   "{\"processId\":\"" FAKE_PROCESS "\",\"status\":\"%s\",\"command\":[\"printf\",\"a "
		   "b\\u001b[2J\"],\"startedAt\":\"2026-11-15T02:00:00Z\","
		   "\"durationMs\":1500%s,\"outputs\":{\"stdout\":{\"outputRef\":\"out_out\",\"bytes\":%llu}}}",
		   f->ended ? "completed" : "running", f->ended ? ",\"exitCode\":7" : "",
		   (unsigned long long)f->cited[0]);
}

/* True if this key was used before: the request has already taken effect. */
static inline bool fake_key_seen(struct fake *f, struct jval params)
{
	char key[80];

	jval_str(jval_get(params, "idempotencyKey"), key, sizeof(key));
	ck_assert(key[0]);
	for (size_t i = 0; i < f->nkeys; i++)
		if (strcmp(f->keys[i], key) == 0)
			return true;
	ck_assert(f->nkeys < 256);
	memcpy(f->keys[f->nkeys++], key, sizeof(key));
	return false;
}

static inline void fake_write(struct fake *f, struct fake_client *c, struct jval id, struct jval params,
			      struct buf *out)
{
	struct jval data = jval_get(params, "data");
	bool seen = fake_key_seen(f, params);

	if (f->unknown_write) {
		fake_reply(out, id, "error",
			   "{\"code\":-32011,\"message\":\"not known\",\"data\":{\"outcome\":\"unknown\"}}");
		return;
	}
	if (!seen) {
		size_t before = f->echo.len;

		ck_assert_int_eq(text_base64_decode(data.text + 1, data.len - 2, &f->echo), 0);
		fake_output(f, 0, f->echo.len - before, f->echo.data + before,
			    f->echo.len - before < 2048 ? f->echo.len - before : 2048);
		if (f->break_writes && ++f->writes % f->break_writes == 0) {
			c->broken = true;
			return;
		}
	}
	fake_reply(out, id, "result", "{\"bytes\":1,\"sequence\":1}");
}

static inline void fake_request(struct fake *f, struct fake_client *c, struct jval request)
{
	struct jval id = jval_get(request, "id"), params = jval_get(request, "params");
	buf_auto struct buf out = BUF_INIT, body = BUF_INIT;
	char method[64];

	jval_str(jval_get(request, "method"), method, sizeof(method));
	if (strcmp(method, "start_process") == 0) {
		if (f->started || fake_start(f, jval_get(params, "command"), &body))
			fake_reply(&out, id, "result",
				   "{\"processId\":\"" FAKE_PROCESS "\",\"status\":\"running\",\"sequence\":1}");
		else
			fake_reply(&out, id, "error", body.data);
	} else if (strcmp(method, "subscribe_events") == 0) {
		c->subscribed = true;
		c->after = jval_uint(jval_get(params, "afterSequence"), 0);
		if (f->terminal && !f->ended)
			fake_terminal_continue(f);
		fake_reply(&out, id, "result", "{\"subscriptionId\":\"s\"}");
	} else if (strcmp(method, "read_output") == 0) {
		if (f->break_reads && ++f->reads % f->break_reads == 0) {
			fake_send(c, &c->reads); /* otherwise nothing would ever arrive */
			c->broken = true;
			return;
		}
		fake_read(f, params, &body);
		fake_reply(&out, id, "result", body.data);
		/* the last read is answered first */
		buf_append(&out, c->reads.data, c->reads.len);
		buf_reset(&c->reads);
		buf_append(&c->reads, out.data, out.len);
		return;
	} else if (strcmp(method, "write_process_stdin") == 0) {
		fake_write(f, c, id, params, &out);
	} else if (strcmp(method, "close_process_stdin") == 0) {
		if (!fake_key_seen(f, params) && !f->ended)
			fake_end(f, "process.completed", "completed", "\"exitCode\":0");
		fake_reply(&out, id, "result", "{\"sequence\":1}");
	} else if (strcmp(method, "terminate_process") == 0 || strcmp(method, "signal_process") == 0) {
		bool interrupt = method[0] == 's';
		if (!f->ended)
			fake_end(f, interrupt ? "process.completed" : "process.terminated", NULL,
				 interrupt ? "\"signal\":\"INT\"" : "\"signal\":15");
		fake_reply(&out, id, "result", "{\"sequence\":1}");
	} else if (strcmp(method, "close_process_output") == 0) {
		if (!f->ended)
			fake_end(f, "process.completed", NULL, "\"signal\":\"PIPE\"");
		fake_reply(&out, id, "result", "{\"sequence\":1}");
	} else if (strcmp(method, "initialize") == 0) {
		buf_printf(&body, "{\"lastSequence\":%llu}", (unsigned long long)f->nevents);
		fake_reply(&out, id, "result", body.data);
	} else if (strcmp(method, "get_screen") == 0 && f->screen_at >= 0) {
		buf_printf(&body, "{\"ansi\":\"<screen>\",\"offset\":%lld}", (long long)f->screen_at);
		fake_reply(&out, id, "result", body.data);
	} else if (strcmp(method, "list_processes") == 0) {
		buf_str(&body, "{\"processes\":[");
		fake_process(f, &body);
		buf_str(&body, "]}");
		fake_reply(&out, id, "result", body.data);
	} else if (strcmp(method, "get_process") == 0 || strcmp(method, "wait_process") == 0) {
		fake_process(f, &body);
		fake_reply(&out, id, "result", body.data);
	} else if (strcmp(method, "list_events") == 0) {
		buf_str(&body, "{\"events\":[");
		for (uint64_t i = jval_uint(jval_get(params, "afterSequence"), 0), n = 0; i < f->nevents && n < 3;
		     i++, n++) {
			buf_str(&body, n ? "," : "");
			buf_append(&body, f->events[i].data, f->events[i].len);
		}
		buf_printf(&body, "],\"hasMore\":%s}",
			   jval_uint(jval_get(params, "afterSequence"), 0) + 3 < f->nevents ? "true" : "false");
		fake_reply(&out, id, "result", body.data);
	} else {
		fake_reply(&out, id, "error",
			   "{\"code\":-32601,\"message\":\"no such method\",\"data\":{\"advice\":\"list_methods\"}}");
	}
	fake_send(c, &out);
}

/* ---- the loop ---- */

static inline void fake_take_lines(struct fake *f, struct fake_client *c)
{
	for (;;) {
		char *nl = c->in.len ? memchr(c->in.data, '\n', c->in.len) : NULL;
		if (!nl || c->broken)
			break;
		fake_request(f, c, jval_of(c->in.data, (size_t)(nl - c->in.data)));
		buf_consume(&c->in, (size_t)(nl - c->in.data) + 1);
	}
	if (c->reads.len)
		fake_send(c, &c->reads);
	buf_reset(&c->reads);
}

static inline void fake_drop(struct fake_client *c)
{
	fd_close(&c->fd);
	buf_done(&c->in);
	buf_done(&c->reads);
	*c = (struct fake_client){ .fd = -1 };
}

static inline void fake_publish(struct fake *f)
{
	for (size_t i = 0; i < FAKE_CLIENTS; i++) {
		struct fake_client *c = &f->clients[i];

		while (c->fd >= 0 && !c->broken && c->subscribed && c->after < f->nevents) {
			buf_auto struct buf line = BUF_INIT;

			buf_str(&line, "{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{\"subscriptionId\":\"s\","
				       "\"event\":");
			buf_append(&line, f->events[c->after].data, f->events[c->after].len);
			buf_str(&line, "}}\n");
			c->after++;
			fake_send(c, &line);
		}
		if (c->fd >= 0 && c->broken)
			fake_drop(c);
	}
}

static inline void fake_accept(struct fake *f)
{
	int fd = accept(f->listen_fd, NULL, NULL);

	for (size_t i = 0; i < FAKE_CLIENTS; i++)
		if (f->clients[i].fd < 0) {
			f->clients[i].fd = fd;
			return;
		}
	_exit(99);
}

static inline void fake_serve(struct fake *f)
{
	for (size_t i = 0; i < FAKE_CLIENTS; i++)
		f->clients[i].fd = -1;
	if (f->terminal)
		fake_terminal_begin(f);
	for (;;) {
		struct pollfd p[FAKE_CLIENTS + 1];

		p[FAKE_CLIENTS] = (struct pollfd){ .fd = f->listen_fd, .events = POLLIN };
		for (size_t i = 0; i < FAKE_CLIENTS; i++)
			p[i] = (struct pollfd){ .fd = f->clients[i].fd, .events = POLLIN };
		if (poll(p, FAKE_CLIENTS + 1, -1) < 0)
			_exit(98);
		for (size_t i = 0; i < FAKE_CLIENTS; i++) {
			struct fake_client *c = &f->clients[i];
			ssize_t n;

			if (!p[i].revents)
				continue;
			n = read(c->fd, buf_reserve(&c->in, 1 << 18), 1 << 18);
			if (n <= 0) {
				fake_drop(c);
				continue;
			}
			c->in.len += (size_t)n;
			fake_take_lines(f, c);
		}
		if (p[FAKE_CLIENTS].revents)
			fake_accept(f);
		fake_publish(f);
	}
}

/* Creates a home, sets BAILIFF_HOME and serves in a child until fake_stop. */
static inline void fake_begin(struct fake *f)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };

	snprintf(f->home, sizeof(f->home), "/tmp/bailiff-cli-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(f->home));
	setenv("BAILIFF_HOME", f->home, 1);
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s/control.sock", f->home);
	f->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(f->listen_fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	ck_assert_int_eq(listen(f->listen_fd, 16), 0);
	f->pid = fork();
	ck_assert_int_ge(f->pid, 0);
	if (f->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		signal(SIGPIPE, SIG_IGN);
		fake_serve(f);
	}
	close(f->listen_fd);
}

static inline void fake_stop(struct fake *f)
{
	mem_auto char *sock = mem_printf("%s/control.sock", f->home);

	kill(f->pid, SIGKILL);
	waitpid(f->pid, NULL, 0);
	unlink(sock);
	rmdir(f->home);
}

#endif
