/*
 * `run` in the foreground, `attach`, and other verbs that follow a process to its end: one poll loop over signals, the
 * daemon, the output descriptor, and stdin. No direction blocks another: a command that does not read its stdin can
 * still print, and a reader that does not take the output does not block Ctrl-C.
 *
 * The connection may break at any moment. Events continue after the last sequence number seen (event_stream.c);
 * unanswered reads and writes are resent by remote.c, writes with the same idempotency key.
 *
 * With `keys` our terminal is in raw mode, except while we are stopped. Code that prints a message before the end must
 * restore the terminal first (restore_terminal).
 */

#include "supervisor/cli/foreground.h"

#include "pty/rawmode.h"
#include "pty/terminal_modes.h"
#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "supervisor/cli/approval.h"
#include "supervisor/cli/event_stream.h"
#include "supervisor/cli/exit_status.h"
#include "supervisor/cli/input_forwarder.h"
#include "supervisor/cli/violation_summary.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define ASKED_NS 2000000000ull  /* how long an answer to a query of the command may take */
#define BUFFERED_MAX (8u << 20) /* --json: bytes buffered for stdout before reading from the daemon stops */

/* ---- the process ---- */

struct follow {
	struct foreground o;
	struct output_stream *flow;
	struct buf filter;
	struct event_stream feed;
	struct input_forwarder typing;
	struct rawmode rawmode;
	struct terminal_modes modes; /* modes that the output has enabled in our terminal */
	uint64_t asked_ns;           /* when the output last had a query that the terminal answers; 0 = never */
	unsigned interrupts;
	bool ended, terminating;
	bool stalled;        /* reported; once for both streams */
	char question[72];   /* an approval to ask for; "" = none */
	char asked[72];      /* the last one */
	int terminal;        /* to ask on; −1 = nobody is asked */
	bool tree_continues; /* the command has ended, its process has not (keepTree) */
	bool output_closed[OUTPUT_PTY];
	unsigned closing; /* close_process_output requests without a reply */
	struct exit_status outcome;
	struct violation_summary denied;
	char *autorun; /* autorun report of the end; NULL: none */
	int status;    /* > 0: overrides the outcome's status */
	bool leaving;  /* exit now … */
	int leave;     /* … with this status */
};

/* ---- requests about the process ---- */

/* An object with the process id and an idempotency key; the caller adds members and closes it. */
static struct jw open_params(struct follow *f, struct buf *params)
{
	struct jw w = jw_on(params);

	jw_obj(&w);
	jw_kstr(&w, "processId", f->o.process_id);
	remote_key(f->o.remote, &w);
	return w;
}

/* Only for our own process, and only once: a guest never terminates the process it follows. */
static void end_process(struct follow *f, const char *reason)
{
	buf_auto struct buf params = BUF_INIT;
	struct jw w;

	if (f->terminating || f->ended || f->o.guest)
		return;
	f->terminating = true;
	w = open_params(f, &params);
	jw_kstr(&w, "reason", reason);
	/* Shells expect SIGHUP when their terminal closes; many ignore SIGTERM. */
	if (f->o.keys)
		jw_kstr(&w, "signal", "HUP");
	jw_obj_end(&w);
	remote_send(f->o.remote, "terminate_process", &params, NULL, NULL);
}

/* A process that waits for approval has not started and cannot be signalled: Ctrl-C terminates it. */
static void on_interrupted(void *ctx, struct jval result, struct jval error)
{
	struct follow *f = ctx;

	if (error.type != JT_NONE && !remote_broken(error))
		end_process(f, "user");
}

static void send_signal(struct follow *f, const char *name, remote_reply_fn on_reply)
{
	buf_auto struct buf params = BUF_INIT;
	struct jw w = open_params(f, &params);

	jw_kstr(&w, "signal", name);
	jw_obj_end(&w);
	remote_send(f->o.remote, "signal_process", &params, on_reply, f);
}

/* Ctrl-C for a command without our terminal: the daemon sends SIGINT to it. */
static void interrupt_process(struct follow *f) { send_signal(f, "INT", on_interrupted); }

static void stop_following(struct follow *f, int status)
{
	f->leaving = true;
	f->leave = status;
}

/* ---- our terminal ---- */

int foreground_terminal(void)
{
	static const int fds[] = { STDOUT_FILENO, STDIN_FILENO, STDERR_FILENO };

	for (size_t i = 0; i < countof(fds); i++)
		if (isatty(fds[i]))
			return fds[i];
	return -1;
}

bool foreground_stdin_given(void)
{
	struct stat st;

	return fstat(STDIN_FILENO, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISREG(st.st_mode) || S_ISSOCK(st.st_mode));
}

/*
 * Sends our size to the daemon if it has changed. Unchanged sizes are not repeated, since with policy "newest" the last
 * client to send one determines the size.
 */
static void send_size(struct follow *f)
{
	buf_auto struct buf params = BUF_INIT;
	unsigned rows, cols;
	struct jw w;

	if (!f->o.size_policy || f->o.observer || f->ended || !rawmode_size(foreground_terminal(), &rows, &cols))
		return;
	if (rows == f->o.rows && cols == f->o.cols)
		return;
	f->o.rows = rows;
	f->o.cols = cols;
	w = open_params(f, &params);
	jw_kuint(&w, "rows", rows);
	jw_kuint(&w, "cols", cols);
	if (f->o.size_policy[0])
		jw_kstr(&w, "policy", f->o.size_policy);
	jw_obj_end(&w);
	remote_send(f->o.remote, "resize_process", &params, NULL, NULL);
}

/* Keys are passed on as they are; or lines, with the detach key as an additional end of line. */
static int enter_rawmode(struct follow *f, struct err *e)
{
	if (f->o.keys)
		return rawmode_enter(&f->rawmode, STDIN_FILENO, RAWMODE_KEYS, 0, e);
	/* The last key of the sequence acts as an end-of-line character, so that the sequence is seen immediately. */
	if (f->o.lines && f->o.watch.n)
		return rawmode_enter(&f->rawmode, STDIN_FILENO, RAWMODE_LINES, f->o.watch.bytes[f->o.watch.n - 1], e);
	return 0;
}

/* Whether the terminal may still send something that the command asked for. */
static bool expects_answers(const struct follow *f)
{
	return terminal_modes_reports(&f->modes) || (f->asked_ns && clock_mono_ns() < f->asked_ns + ASKED_NS);
}

/* Restores the terminal: modes that the output has enabled, and its settings. */
static void restore_terminal(struct follow *f)
{
	buf_auto struct buf undo = BUF_INIT;
	const bool shown = isatty(STDOUT_FILENO), answers = shown && f->leaving && f->o.keys && expects_answers(f);

	terminal_modes_write_reset(&f->modes, &undo);
	if (!answers)
		rawmode_leave(&f->rawmode);
	if (shown && undo.len)
		(void)fd_write_all(STDOUT_FILENO, undo.data, undo.len);
	if (answers && f->rawmode.on)
		rawmode_drain(&f->rawmode, STDOUT_FILENO);
	rawmode_leave(&f->rawmode);
	f->modes = TERMINAL_MODES_INIT;
	f->asked_ns = 0;
}

/* SIGTSTP is blocked and read from the signalfd, so stop explicitly after restoring the terminal. */
static void stop_ourselves(struct follow *f)
{
	struct err ignored = ERR_INIT;

	restore_terminal(f);
	raise(SIGSTOP);
	(void)enter_rawmode(f, &ignored);
	send_size(f);
}

/* A shell may have changed the terminal while we were stopped. In the background it must not be changed. */
static void on_continued(struct follow *f)
{
	struct err ignored = ERR_INIT;

	if (!f->rawmode.on || tcgetpgrp(STDIN_FILENO) != getpgrp())
		return;
	rawmode_leave(&f->rawmode);
	(void)enter_rawmode(f, &ignored);
	send_size(f);
}

static void on_wrote(void *ctx, const char *bytes, size_t n)
{
	struct follow *f = ctx;
	const unsigned queries = terminal_modes_queries(&f->modes);
	const bool marked = terminal_modes_marks_pastes(&f->modes);

	terminal_modes_feed(&f->modes, bytes, n);
	if (terminal_modes_queries(&f->modes) != queries)
		f->asked_ns = clock_mono_ns();
	if (marked && !terminal_modes_marks_pastes(&f->modes)) {
		keys_watch_end_paste(&f->typing.watch);
		keys_watch_end_paste(&f->typing.interrupt);
	}
}

/* ---- events ---- */

/* For a user who would look for the server in a browser: it listens inside. */
static void print_port_hint(struct jval event)
{
	struct jval sandbox = jval_get(event, "sandboxId");
	unsigned port = (unsigned)jval_uint(jval_path(event, "payload.port"), 0);
	char id[72];

	jval_str(sandbox.type == JT_STRING ? sandbox : jval_get(event, "processId"), id, sizeof(id));
	cli_error("port %u is listening; bailiff publish %s %u:%u opens it on this host", port, id, port, port);
}

/* The command waits until its output can be stored, and so do we. */
static void print_stall(struct follow *f, struct jval event)
{
	char detail[300], advice[200];

	if (f->stalled || !jval_is_str(jval_get(event, "type"), "runtime.error") ||
	    !jval_is_str(jval_path(event, "payload.code"), "output_stalled"))
		return;
	jval_str(jval_path(event, "payload.detail"), detail, sizeof(detail));
	jval_str(jval_path(event, "payload.advice"), advice, sizeof(advice));
	cli_error("%s", detail);
	cli_hint("%s", advice);
	f->stalled = true;
}

/* The end of the process stops everything else; output that was cited before is still written. */
static void on_event(void *ctx, struct jval event)
{
	struct follow *f = ctx;

	if (f->ended)
		return;
	if (f->o.json)
		output_stream_line(f->flow, event.text, event.len);
	else
		output_stream_event(f->flow, event);
	violation_summary_add(&f->denied, event);
	if (!f->o.json)
		print_stall(f, event);
	if (jval_is_str(jval_get(event, "type"), "action.required") &&
	    jval_is_str(jval_path(event, "payload.actionType"), "permission"))
		jval_str(jval_get(event, "actionId"), f->question, sizeof(f->question));
	if (!f->o.json && !f->o.keys && !f->o.guest && jval_is_str(jval_get(event, "type"), "port.detected"))
		print_port_hint(event);
	/* With --keep-tree we exit with the command; its background processes continue. */
	f->tree_continues = !f->o.guest && exit_status_of_command(event, &f->outcome);
	if (!f->tree_continues && !exit_status_of_event(event, &f->outcome))
		return;
	f->ended = true;
	struct jval autorun = jval_path(event, "payload.autorun");
	if (autorun.type == JT_OBJECT)
		f->autorun = mem_strndup(autorun.text, autorun.len);
	if (!f->o.json)
		output_stream_outputs(f->flow, jval_path(event, "payload.outputs"));
	output_stream_flush(f->flow);
}

/* A new connection starts with the default role and without our size. */
static void on_connected(void *ctx)
{
	static const char role[] = "{\"role\":\"observer\"}";
	struct follow *f = ctx;
	buf_auto struct buf params = BUF_INIT;

	buf_str(&params, role);
	if (f->o.observer)
		remote_send_once(f->o.remote, "initialize", &params, NULL, NULL);
	f->o.rows = f->o.cols = 0; /* the daemon forgets the size with the connection */
	send_size(f);
}

/* ---- stdin ---- */

/* Handles what the forwarder found in stdin: the detach keys, a hangup, or a failed write. */
static void on_typed(struct follow *f)
{
	struct input_forwarder *t = &f->typing;

	if (t->detached) {
		stop_following(f, 0);
	} else if (t->hung_up) {
		end_process(f, "user");
		stop_following(f, 128 + SIGHUP);
	} else if (t->failed && !f->ended && !f->status) {
		restore_terminal(f);
		cli_error("%s: write to its stdin: %s", f->o.name, t->failure.message);
		if (t->unknown && !f->o.guest)
			cli_hint(
				"the daemon crashed and it is unknown whether the input was written, so the command is "
				"ended; run it again");
		f->status = EXIT_BAILIFF;
		if (f->o.guest)
			stop_following(f, EXIT_BAILIFF);
		end_process(f, "stdin_failed");
	}
}

/* ---- signals ---- */

/*
 * For our own process, the first Ctrl-C interrupts the command, the second terminates it, the third exits without
 * waiting.
 */
static void on_signal(struct follow *f, int sig)
{
	if (sig == SIGWINCH) {
		send_size(f);
	} else if (sig == SIGTSTP) {
		stop_ourselves(f);
	} else if (sig == SIGCONT) {
		on_continued(f);
	} else if (sig == SIGUSR1 || sig == SIGUSR2) { /* the command says what they mean */
		if (!f->ended)
			send_signal(f, sig == SIGUSR1 ? "USR1" : "USR2", NULL);
	} else if (f->o.guest) {
		if (sig == SIGINT && !f->o.observer)
			interrupt_process(f);
		else
			stop_following(f, 128 + sig);
	} else {
		f->interrupts++;
		if (sig == SIGINT && f->interrupts == 1)
			interrupt_process(f);
		else if (!f->terminating)
			end_process(f, "user");
		else
			stop_following(f, 128 + sig); /* the daemon terminates the process (onDisconnect) */
	}
}

/* Blocks the signals that we handle and opens a signalfd; `ret_old` is the previous mask. */
static int open_signals(const struct foreground *o, sigset_t *ret_old)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	if (!o->guest) {
		sigaddset(&set, SIGUSR1);
		sigaddset(&set, SIGUSR2);
	}
	if (o->size_policy)
		sigaddset(&set, SIGWINCH);
	if (o->keys || o->lines) {
		sigaddset(&set, SIGQUIT);
		sigaddset(&set, SIGTSTP);
		sigaddset(&set, SIGCONT);
	}
	sigprocmask(SIG_BLOCK, &set, ret_old);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Ctrl-C cancels what waits; a guest only leaves it. */
static void ask_approval(struct follow *f)
{
	struct err ignored = ERR_INIT;
	bool again = strcmp(f->question, f->asked) == 0;

	memcpy(f->asked, f->question, sizeof(f->asked));
	f->question[0] = '\0';
	if (f->terminal < 0 || f->ended || again)
		return;
	restore_terminal(f);
	int r = approval_ask(f->o.cli, f->terminal, f->asked, NULL);
	if (r == 0) {
		(void)enter_rawmode(f, &ignored);
	} else if (f->o.guest) {
		stop_following(f, 128 + SIGINT);
	} else {
		f->status = r > 0 ? 128 + SIGINT : EXIT_BAILIFF;
		end_process(f, "user");
	}
}

/* ---- loop ---- */

/* An error means that the process had ended already, with output that was never read: exit as for SIGPIPE. */
static void on_close_answered(void *ctx, struct jval result, struct jval error)
{
	struct follow *f = ctx;

	f->closing--;
	if (error.type != JT_NONE && !f->status)
		f->status = 128 + SIGPIPE;
}

/* Behaves like a pipe without a reader: the command is not terminated, but gets SIGPIPE when it writes there. */
static void close_outputs(struct follow *f)
{
	for (int i = 0; i < OUTPUT_PTY && !f->o.guest && !f->o.json && !f->ended; i++) {
		buf_auto struct buf params = BUF_INIT;
		struct jw w;

		if (!output_stream_closed(f->flow, i) || f->output_closed[i])
			continue;
		f->output_closed[i] = true;
		f->closing++;
		w = open_params(f, &params);
		jw_kstr(&w, "stream", output_stream_name(i));
		jw_obj_end(&w);
		remote_send(f->o.remote, "close_process_output", &params, on_close_answered, f);
	}
}

/* Our reader is gone. What that means depends on whether the process is ours. */
static void on_write_failed(struct follow *f, const struct err *e)
{
	if (e->sys == EPIPE && output_stream_closed(f->flow, OUTPUT_STDOUT) && !f->o.guest && !f->o.json && !f->ended)
		return; /* handled by close_outputs */
	if (e->sys == EPIPE) {
		f->status = 128 + SIGPIPE;
	} else {
		restore_terminal(f);
		cli_error("%s: %s", f->o.name, e->message);
		f->status = EXIT_BAILIFF;
	}
	if (f->o.guest)
		stop_following(f, f->status);
	end_process(f, "stdout_closed");
}

/* One turn of the loop. −1: the daemon cannot be reached, or the subscription was rejected. */
static int process_poll(struct follow *f, int signal_fd, struct err *e)
{
	enum { SIGNALS, REMOTE, OUTPUT, INPUT, READER, COUNT };
	struct pollfd p[COUNT];
	struct signalfd_siginfo si;
	struct err write_error = ERR_INIT;
	int timeout;

	p[SIGNALS] = (struct pollfd){ .fd = signal_fd, .events = POLLIN };
	timeout = remote_prepare_poll(f->o.remote, !f->o.json || output_stream_buffered(f->flow) < BUFFERED_MAX,
				      &p[REMOTE]);
	p[OUTPUT] = (struct pollfd){ .fd = output_stream_fd(f->flow), .events = POLLOUT };
	p[INPUT] = (struct pollfd){ .fd = f->ended ? -1 : input_forwarder_fd(&f->typing), .events = POLLIN };
	/* With no events requested, poll reports only that the reader of stdout has exited. */
	p[READER] = (struct pollfd){ .fd = f->o.guest ? STDOUT_FILENO : -1 };
	int check = output_stream_timeout(f->flow);
	if (check >= 0 && (timeout < 0 || check < timeout))
		timeout = check;
	if (poll(p, COUNT, timeout) < 0) {
		if (errno != EINTR)
			return err_sys(e, errno, "poll");
		return 0;
	}
	while (p[SIGNALS].revents && read(signal_fd, &si, sizeof(si)) == sizeof(si))
		on_signal(f, (int)si.ssi_signo);
	if (remote_process_poll(f->o.remote, p[REMOTE].revents, e) < 0)
		return -1;
	if (f->feed.failed) {
		*e = f->feed.failure;
		return -1;
	}
	if (p[INPUT].revents && input_forwarder_fd(&f->typing) >= 0)
		input_forwarder_read(&f->typing);
	on_typed(f);
	if (p[READER].revents & POLLERR)
		err_sys(&write_error, EPIPE, "write");
	if (write_error.code || output_stream_write(f->flow, &write_error) < 0)
		on_write_failed(f, &write_error);
	close_outputs(f);
	if (f->question[0])
		ask_approval(f);
	return 0;
}

/* What is printed after the end, and the exit status. An incomplete output is an error of bailiff. */
static int conclude_process(struct follow *f)
{
	const struct err *lost = output_stream_failed(f->flow);

	if (f->typing.detached && !f->ended) {
		cli_error("detached from %s, which keeps running", f->o.process_id);
		cli_hint("bailiff attach %s reattaches", f->o.process_id);
	}
	if (f->leaving)
		return f->leave;
	output_stream_print_omitted(f->flow);
	if (!f->o.json && !f->o.observer)
		violation_summary_print(&f->denied, f->o.process_id, f->outcome.status == 0, f->o.in_sandbox);
	if (f->autorun && !f->o.json && !f->o.observer)
		print_autorun(f->o.cli, jval_of(f->autorun, strlen(f->autorun)), f->o.process_id, f->o.cow);
	if (f->status != 128 + SIGPIPE)
		exit_status_print(&f->outcome, f->o.name);
	if (lost) {
		cli_error("%s: cannot read its output: %s", f->o.name, lost->message);
		return EXIT_BAILIFF;
	}
	return f->status ? f->status : f->outcome.status;
}

/* Sets up the three parts: output, events and input. */
static void prepare_poll(struct follow *f)
{
	const struct foreground *o = &f->o;
	struct output_stream_options fo = { .remote = o->remote,
					    .fd = { STDOUT_FILENO, STDERR_FILENO, STDOUT_FILENO },
					    .process_id = o->process_id,
					    .ctx = f };
	struct jw w = jw_on(&f->filter);
	struct err never = ERR_INIT;

	if (isatty(STDOUT_FILENO) && !o->json && (o->keys || o->guest))
		fo.wrote = on_wrote;
	f->flow = output_stream_new(&fo);
	for (int i = 0; i < OUTPUT_STREAMS; i++)
		output_stream_start_at(f->flow, i, o->start[i]);
	if (o->screen)
		output_stream_bytes(f->flow, o->screen->data, o->screen->len);
	output_stream_outputs(f->flow, o->outputs);
	jw_kstr(&w, "processId", o->process_id);
	f->feed = (struct event_stream){ .remote = o->remote,
					 .early = o->early,
					 .filter = &f->filter,
					 .sequence = o->after_sequence,
					 .event = on_event,
					 .connected = on_connected,
					 .ctx = f };
	f->typing = (struct input_forwarder){ .remote = o->remote,
					      .process_id = o->process_id,
					      .terminal = o->keys || o->lines,
					      .keys = o->keys,
					      .keep_open = o->guest,
					      .discard = !o->forward_stdin,
					      .watch = o->watch,
					      .over = !o->forward_stdin && !o->keys && !o->lines };
	(void)keys_watch_init(&f->typing.interrupt, "ctrl-c", &never);
}

int foreground_follow(const struct foreground *o, bool *ret_seen)
{
	struct follow f = { .o = *o, .modes = TERMINAL_MODES_INIT };
	struct err e = ERR_INIT;
	sigset_t old;
	fd_auto int signal_fd = open_signals(o, &old);
	int status;

	prepare_poll(&f);
	event_stream_start(&f.feed);
	send_size(&f);
	f.terminal = o->json || o->observer ? -1 : approval_terminal();
	if (o->action_id) {
		snprintf(f.question, sizeof(f.question), "%s", o->action_id);
		ask_approval(&f);
	}
	if (!f.leaving && !f.rawmode.on && enter_rawmode(&f, &e) < 0) {
		cli_error("%s: %s", o->name, e.message);
		end_process(&f, "user");
		stop_following(&f, EXIT_BAILIFF);
	}
	while (!f.leaving && !(f.ended && output_stream_done(f.flow) && !f.closing)) {
		if (process_poll(&f, signal_fd, &e) == 0)
			continue;
		restore_terminal(&f);
		cli_error("%s: %s", o->name, e.message);
		cli_hint("bailiff logs %s and bailiff wait %s show the rest once a daemon runs", o->process_id,
			 o->process_id);
		stop_following(&f, EXIT_BAILIFF);
	}
	restore_terminal(&f);
	status = conclude_process(&f);
	if (f.tree_continues && !f.leaving && !o->json)
		cli_error("%s: its background processes keep running; bailiff kill %s ends them", o->name,
			  o->process_id);
	*ret_seen = !f.leaving;
	event_stream_stop(&f.feed);
	output_stream_free(f.flow);
	buf_done(&f.typing.pending);
	buf_done(&f.filter);
	violation_summary_done(&f.denied);
	free(f.autorun);
	fd_close(&f.terminal);
	sigprocmask(SIG_SETMASK, &old, NULL);
	return status;
}
