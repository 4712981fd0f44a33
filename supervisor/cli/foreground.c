/*
 * `run` in the foreground, and everything that follows a process to its end: one poll loop over our signals, the daemon,
 * the descriptor that output is written to, and our stdin. No direction waits for another: a command that does not read its
 * stdin still prints, and a reader that does not take the output still lets Ctrl-C through.
 *
 * The connection may break at any moment. The events go on after the last sequence number seen; unanswered reads and
 * writes are sent again by remote.c, the latter under the same idempotency key.
 */

#include "supervisor/cli/foreground.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/denied.h"
#include "supervisor/cli/flow.h"
#include "supervisor/cli/outcome.h"
#include "supervisor/cli/remote.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define STDIN_CHUNK (1u << 20) /* a write is durable before its reply, so fewer and larger ones are faster */
#define HELD_MOST (8u << 20) /* --json: what waits for stdout before we stop listening */

enum input_state { INPUT_READING, INPUT_BUSY, INPUT_OVER };

struct follow {
	struct foreground o;
	struct flow *flow;
	uint64_t last_sequence;
	enum input_state input;
	unsigned interrupts;
	bool ended, terminating;
	struct outcome outcome;
	struct denied denied;
	int status;             /* instead of the outcome's, when > 0 */
	int leave;              /* > 0: leave now with this status */
};

/* ---- requests about the process ---- */

/* An object with the process id and a key; the caller adds to it and closes it. */
static struct jw open_params(struct follow *f, struct buf *params, bool mutating)
{
	struct jw w = jw_on(params);

	jw_obj(&w);
	jw_kstr(&w, "processId", f->o.process_id);
	if (mutating)
		remote_key(f->o.remote, &w);
	return w;
}

static void subscribe_failed(void *ctx, struct jval result, struct jval error)
{
	struct follow *f = ctx;
	struct err e = ERR_INIT;

	if (error.type == JT_NONE || remote_broken(error))
		return;
	remote_error(error, &e);
	cli_error("%s: subscribe to events: %s", f->o.name, e.message);
	f->leave = EXIT_BAILIFF;
}

static void subscribe(void *ctx)
{
	struct follow *f = ctx;
	buf_auto struct buf params = BUF_INIT;
	struct jw w = open_params(f, &params, false);

	jw_kuint(&w, "afterSequence", f->last_sequence);
	jw_obj_end(&w);
	remote_send_once(f->o.remote, "subscribe_events", &params, subscribe_failed, f);
}

static void terminate(struct follow *f, const char *reason)
{
	buf_auto struct buf params = BUF_INIT;
	struct jw w;

	if (f->terminating || f->ended)
		return;
	f->terminating = true;
	w = open_params(f, &params, true);
	jw_kstr(&w, "reason", reason);
	jw_obj_end(&w);
	remote_send(f->o.remote, "terminate_process", &params, NULL, NULL);
}

static void interrupt(struct follow *f)
{
	buf_auto struct buf params = BUF_INIT;
	struct jw w = open_params(f, &params, true);

	jw_kstr(&w, "signal", "INT");
	jw_obj_end(&w);
	remote_send(f->o.remote, "signal_process", &params, NULL, NULL);
}

/* ---- events ---- */

static void note_outputs(struct follow *f, struct jval outputs)
{
	for (struct jiter it = jiter_on(outputs); jiter_next(&it);) {
		int stream = flow_stream_of(it.key);
		char ref[72];

		jval_str(jval_get(it.value, "outputRef"), ref, sizeof(ref));
		if (stream >= 0 && ref[0])
			flow_upto(f->flow, stream, ref, jval_uint(jval_get(it.value, "bytes"), 0));
	}
}

static void on_event(void *ctx, struct jval event)
{
	struct follow *f = ctx;
	uint64_t sequence = jval_uint(jval_get(event, "sequence"), 0);

	if (f->ended || sequence <= f->last_sequence)
		return;
	f->last_sequence = sequence;
	if (f->o.json)
		flow_line(f->flow, event.text, event.len);
	else
		flow_event(f->flow, event);
	denied_take(&f->denied, event);
	if (!outcome_of_event(event, &f->outcome))
		return;
	f->ended = true;
	if (!f->o.json)
		note_outputs(f, jval_path(event, "payload.outputs"));
	flow_flush(f->flow);
}

/* ---- stdin ---- */

static void on_written(void *ctx, struct jval result, struct jval error)
{
	struct follow *f = ctx;
	struct err e = ERR_INIT;

	if (f->input == INPUT_BUSY)
		f->input = INPUT_READING;
	if (error.type == JT_NONE)
		return;
	f->input = INPUT_OVER;
	remote_error(error, &e);
	/* The command closed its stdin or has ended: nothing is wrong. */
	if (f->ended || e.code == ERR_STATE || e.code == ERR_NOT_FOUND)
		return;
	cli_error("%s: write to its stdin: %s", f->o.name, e.message);
	if (jval_is_str(jval_path(error, "data.outcome"), "unknown"))
		cli_hint("a crash of the daemon hid whether it was written, so the command is ended; run it again");
	f->status = EXIT_BAILIFF;
	terminate(f, "stdin_failed");
}

/* What is there now, up to a chunk: a pipe gives 64 KiB at a time. 0 at the end, −1 when there is nothing. */
static ssize_t read_stdin(char *chunk)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	size_t have = 0;

	do {
		ssize_t n = read(STDIN_FILENO, chunk + have, STDIN_CHUNK - have);

		if (n < 0 && !have && (errno == EINTR || errno == EAGAIN))
			return -1;
		if (n <= 0)
			break;
		have += (size_t)n;
	} while (have < STDIN_CHUNK && poll(&p, 1, 0) > 0);
	return (ssize_t)have;
}

static void forward_stdin(struct follow *f)
{
	mem_auto char *chunk = mem_alloc(STDIN_CHUNK);
	ssize_t n = read_stdin(chunk);
	buf_auto struct buf params = BUF_INIT;
	struct jw w;

	if (n < 0)
		return;
	w = open_params(f, &params, true);
	if (n > 0) {
		jw_key(&w, "data");
		jw_base64(&w, chunk, (size_t)n);
		jw_kstr(&w, "encoding", "base64");
	}
	jw_obj_end(&w);
	f->input = n > 0 ? INPUT_BUSY : INPUT_OVER;
	remote_send(f->o.remote, n > 0 ? "write_process_stdin" : "close_process_stdin", &params, n > 0 ? on_written : NULL, f);
}

/* ---- signals ---- */

static void on_signal(struct follow *f, int sig)
{
	f->interrupts++;
	if (sig == SIGINT && f->interrupts == 1)
		interrupt(f);
	else if (!f->terminating)
		terminate(f, "user");
	else
		f->leave = 128 + sig; /* the daemon ends what we leave behind */
}

/* The signals we answer, blocked and readable; `ret_old` is the mask from before. */
static int open_signals(sigset_t *ret_old)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, ret_old);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void take_signals(struct follow *f, int fd)
{
	struct signalfd_siginfo si;

	while (read(fd, &si, sizeof(si)) == sizeof(si))
		on_signal(f, (int)si.ssi_signo);
}

/* ---- the loop ---- */

static void on_write_failed(struct follow *f, const struct err *e)
{
	if (e->sys == EPIPE) {
		f->status = 128 + SIGPIPE;
	} else {
		cli_error("%s: %s", f->o.name, e->message);
		f->status = EXIT_BAILIFF;
	}
	terminate(f, "stdout_closed");
}

static int turn(struct follow *f, int signal_fd, struct err *e)
{
	enum { SIGNALS, REMOTE, OUTPUT, INPUT, COUNT };
	struct pollfd p[COUNT];
	struct err write_error = ERR_INIT;
	int timeout;

	p[SIGNALS] = (struct pollfd){ .fd = signal_fd, .events = POLLIN };
	timeout = remote_prepare(f->o.remote, !f->o.json || flow_held(f->flow) < HELD_MOST, &p[REMOTE]);
	p[OUTPUT] = (struct pollfd){ .fd = flow_fd(f->flow), .events = POLLOUT };
	p[INPUT] = (struct pollfd){ .fd = f->input == INPUT_READING && !f->ended ? STDIN_FILENO : -1, .events = POLLIN };
	if (poll(p, COUNT, timeout) < 0) {
		if (errno != EINTR)
			return err_sys(e, errno, "poll");
		return 0;
	}
	if (p[SIGNALS].revents)
		take_signals(f, signal_fd);
	if (remote_turn(f->o.remote, p[REMOTE].revents, e) < 0)
		return -1;
	if (p[INPUT].revents && f->input == INPUT_READING)
		forward_stdin(f);
	if (flow_write(f->flow, &write_error) < 0)
		on_write_failed(f, &write_error);
	return 0;
}

static void say_omitted(const struct flow *flow)
{
	static const char *const names[] = { "stdout", "stderr" };

	for (int i = 0; i < FLOW_STREAMS; i++)
		if (flow_omitted(flow, i))
			cli_error("%llu bytes of %s were omitted (output limit)", (unsigned long long)flow_omitted(flow, i), names[i]);
}

static int conclude(struct follow *f)
{
	const struct err *lost = flow_failed(f->flow);

	if (f->leave)
		return f->leave;
	say_omitted(f->flow);
	if (!f->o.json)
		denied_tell(&f->denied, f->o.process_id);
	if (f->outcome.note[0] && f->status != 128 + SIGPIPE)
		cli_error("%s: %s", f->o.name, f->outcome.note);
	if (lost) {
		cli_error("%s: its output could not be read: %s", f->o.name, lost->message);
		return EXIT_BAILIFF;
	}
	return f->status ? f->status : f->outcome.status;
}

int foreground_follow(const struct foreground *o)
{
	struct flow_options fo = { .remote = o->remote, .fd = { STDOUT_FILENO, STDERR_FILENO } };
	struct follow f = { .o = *o, .last_sequence = o->after_sequence, .flow = flow_new(&fo) };
	struct err e = ERR_INIT;
	sigset_t old;
	fd_auto int signal_fd = open_signals(&old);
	int status;

	f.input = o->forward_stdin ? INPUT_READING : INPUT_OVER;
	remote_listen(o->remote, subscribe, on_event, &f);
	subscribe(&f);
	while (!f.leave && !(f.ended && flow_done(f.flow))) {
		if (turn(&f, signal_fd, &e) == 0)
			continue;
		cli_error("%s: %s", o->name, e.message);
		cli_hint("bailiff logs %s and bailiff wait %s show the rest once a daemon runs", o->process_id, o->process_id);
		f.leave = EXIT_BAILIFF;
	}
	status = conclude(&f);
	remote_listen(o->remote, NULL, NULL, NULL);
	flow_free(f.flow);
	denied_done(&f.denied);
	sigprocmask(SIG_SETMASK, &old, NULL);
	return status;
}
