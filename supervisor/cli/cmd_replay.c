/* `replay`: plays a terminal recording (of a process, from the log, or from an asciicast file), or verifies a pack. */

#include "pty/rawmode.h"
#include "pty/recording.h"
#include "pty/terminal_modes.h"
#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/evidence/pack_check.h"
#include "supervisor/cli/foreground.h"
#include "supervisor/cli/format.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/cli/signature.h"
#include "supervisor/cli/terminal_log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define READ_BYTES (64u << 10)
#define SPEED_MAX 1000000.0

/*
 * A recording contains escape sequences and is written unchanged. `modes` follows which terminal modes they set, so
 * that all of them can be undone however the playback ends.
 */
struct player {
	struct recording_pace pace;
	struct terminal_modes modes;
	sigset_t signals;
	uint64_t due_ns; /* when the next piece is due; absolute, so that time spent writing does not add up */
	int status;      /* > 0: exit with this */
};

/* Waits until the piece is due, and writes it; a signal ends the playback. False: stop. */
static bool play_piece(struct player *p, uint64_t at_us, const char *bytes, size_t n)
{
	uint64_t now = clock_boot_ns();

	if (!p->pace.begun || p->due_ns + 1000000000 < now)
		p->due_ns = now; /* too late to catch up */
	p->due_ns += recording_pause(&p->pace, at_us) * 1000;
	for (int sig = -1; sig < 0;) {
		now = clock_boot_ns();
		uint64_t left = p->due_ns > now ? p->due_ns - now : 0;
		struct timespec ts = { .tv_sec = (time_t)(left / 1000000000), .tv_nsec = (long)(left % 1000000000) };

		sig = sigtimedwait(&p->signals, NULL, &ts);
		if (sig > 0) {
			p->status = 128 + sig;
			return false;
		}
		if (errno == EAGAIN)
			break;
	}
	terminal_modes_feed(&p->modes, bytes, n);
	if (n && fd_write_all(STDOUT_FILENO, bytes, n) < 0) {
		p->status = errno == EPIPE ? 128 + SIGPIPE : EXIT_FAILED;
		if (errno != EPIPE)
			cli_error("replay: write to stdout: %s", strerror(errno));
	}
	return p->status == 0;
}

/* A recording drawn in a smaller window is unreadable; a larger one does no harm. */
static void warn_about_size(unsigned rows, unsigned cols)
{
	unsigned have_rows, have_cols;

	if (rawmode_size(foreground_terminal(), &have_rows, &have_cols) && (have_rows < rows || have_cols < cols))
		cli_error("replay: recorded at %ux%u, this terminal has only %ux%u (rows x columns)", rows, cols,
			  have_rows, have_cols);
}

static bool on_start(void *ctx, const struct terminal_log_start *s)
{
	warn_about_size(s->rows, s->cols);
	return play_piece(ctx, s->at_us, NULL, 0);
}

/* Sizes are ignored: the window that plays it keeps its own. */
static bool on_piece(void *ctx, uint64_t at_us, const char *bytes, size_t n, unsigned rows, unsigned cols)
{
	return play_piece(ctx, at_us, bytes, n);
}

/* A process without a terminal has no recording; `logs` is what the user wants then. */
static int play_process(struct cli *c, struct player *p)
{
	struct terminal_log_fns fns = { .start = on_start, .piece = on_piece, .ctx = p };
	struct err e = ERR_INIT;
	char id[ID_LOOKUP_MAX];

	if (id_lookup_connect(c, id) < 0)
		return EXIT_FAILED;
	if (terminal_log_read(c, id, &fns, &e) == 0)
		return 0;
	cli_fail(c, EXIT_FAILED, &e, "%s", id);
	if (e.code == ERR_STATE)
		cli_hint("bailiff logs %s shows what it printed", id);
	return EXIT_FAILED;
}

/* ---- files ---- */

/* The first line is the header. Events other than output (input, resize, marks) are skipped. */
static int play_line(struct player *p, unsigned number, const char *line, size_t n, struct recording_event *ev,
		     struct err *e)
{
	struct recording_header h;
	int r;

	if (number == 1) {
		if (recording_parse_header(line, n, &h, e) < 0)
			return -1;
		warn_about_size(h.rows, h.cols);
		recording_header_free(&h);
		(void)play_piece(p, 0, NULL, 0);
		return 0;
	}
	r = recording_parse_event(line, n, ev, e);
	if (r == 0 && ev->code == 'o')
		(void)play_piece(p, ev->at_us, buf_cstr(&ev->data), ev->data.len);
	return r < 0 ? -1 : 0;
}

/* Consumes complete lines from the front of `in`; at the end of the file the rest is a line, too. */
static int play_lines(struct player *p, struct buf *in, bool eof, unsigned *number, struct recording_event *ev,
		      struct err *e)
{
	while (in->len && !p->status) {
		char *end = memchr(in->data, '\n', in->len);
		size_t n = end ? (size_t)(end - in->data) : in->len;

		if (!end && n > RECORDING_LINE_MAX)
			return err_set(e, ERR_INVALID, "line %u: longer than %u bytes", *number + 1,
				       RECORDING_LINE_MAX);
		if (!end && !eof)
			return 0;
		if (play_line(p, ++*number, in->data, n, ev, e) < 0)
			return err_wrap(e, "line %u", *number);
		buf_consume(in, end ? n + 1 : n);
	}
	return 0;
}

/* The file may be a pipe, so it is read in pieces and played while more arrives. */
static int play_file(const char *path, struct player *p)
{
	fd_auto int opened = strcmp(path, "-") == 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	int fd = strcmp(path, "-") == 0 ? STDIN_FILENO : opened;
	fd_auto int signals = signalfd(-1, &p->signals, SFD_CLOEXEC);
	struct recording_event ev = { 0 };
	buf_auto struct buf in = BUF_INIT;
	struct err e = ERR_INIT;
	unsigned number = 0;
	ssize_t n = 1;

	if (fd < 0)
		err_sys(&e, errno, "open");
	while (!e.code && n > 0 && !p->status) {
		struct pollfd ready[] = { { .fd = fd, .events = POLLIN }, { .fd = signals, .events = POLLIN } };

		/* The signals are blocked: without this, Ctrl-C would wait until a stalled pipe has more. */
		if (poll(ready, 2, -1) < 0 && errno == EINTR)
			continue;
		if (ready[1].revents) {
			p->status = 128 + sigwaitinfo(&p->signals, NULL);
			break;
		}
		n = read(fd, buf_reserve(&in, READ_BYTES), READ_BYTES);
		if (n < 0) {
			err_sys(&e, errno, "read");
			break;
		}
		in.len += (size_t)n;
		(void)play_lines(p, &in, n == 0, &number, &ev, &e);
	}
	if (!e.code && !p->status && number == 0)
		err_set(&e, ERR_INVALID, "the file is empty");
	recording_event_done(&ev);
	return e.code ? cli_fail(NULL, EXIT_FAILED, &e, "%s", path) : 0;
}

/* ---- packs ---- */

/* The summary goes to stdout, problems to stderr. 0 only if there are none. */
static int print_problems(const char *path, const struct pack_verdict *v)
{
	buf_auto struct buf named = BUF_INIT, out = BUF_INIT;

	text_sanitize_line(path, strlen(path), &named);
	buf_str(&named, ": ");
	text_sanitize_line(v->kind, strlen(v->kind), &named);
	buf_printf(&out, "%s, %llu events (%llu to %llu), %llu read models\nsha256 %s\n", named.data,
		   (unsigned long long)v->events, (unsigned long long)v->first, (unsigned long long)v->last,
		   (unsigned long long)v->models, v->sha256);
	if (v->ok)
		buf_str(&out, "ok: the events give the pack's read models, byte for byte, and every byte is as it was "
			      "exported\n");
	int status = format_out(&out);
	if (v->ok)
		return status;
	for (size_t i = 0; i < v->nproblems && i < PACK_PROBLEMS_MAX; i++)
		cli_error("%s", v->problem[i]);
	if (v->nproblems > PACK_PROBLEMS_MAX)
		cli_error("and %zu more", v->nproblems - PACK_PROBLEMS_MAX);
	return EXIT_FAILED;
}

/* Must run before the contents are parsed. */
static int check_signature(const char *path, const void *text, size_t len, const char *key, struct err *e)
{
	mem_auto char *name = mem_printf("%s" SIGNATURE_SUFFIX, path);
	unsigned char signature[SIGNATURE_BYTES + 1];
	fd_auto int fd = open(name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : fd_read_all(fd, signature, sizeof signature);

	if (n < 0)
		return err_sys(e, errno, "read its signature '%s'", name);
	if (n != SIGNATURE_BYTES)
		return err_set(e, ERR_INVALID, "'%s' is not a signature: it has %s than %u bytes", name,
			       n < SIGNATURE_BYTES ? "less" : "more", SIGNATURE_BYTES);
	return signature_check(key, text, len, signature, e);
}

static int check_pack(const char *path, const char *text, size_t len, const char *key)
{
	struct pack_verdict v;
	struct err e = ERR_INIT;

	if ((key && check_signature(path, text, len, key, &e) < 0) || pack_check(text, len, &v, &e) < 0)
		return cli_fail(NULL, EXIT_FAILED, &e, "%s", path);
	int status = print_problems(path, &v);
	if (status == 0 &&
	    (key ? puts("ok: signed with the given key") : puts("not checked: who exported it (--key PUBKEY)")) == EOF)
		return EXIT_FAILED;
	return status;
}

/* Verifies the pack in this file and prints the result. key: a public key that must have signed it, or NULL. */
static int verify_pack(const char *path, const char *key)
{
	fd_auto int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0) {
		cli_error("replay: %s: %s", path, strerror(errno));
		return EXIT_FAILED;
	}
	if (!S_ISREG(st.st_mode) || st.st_size == 0 || (uint64_t)st.st_size > PACK_BYTES_MAX) {
		cli_error("replay: %s: %s", path,
			  !S_ISREG(st.st_mode) ? "not a file"
			  : st.st_size == 0    ? "the file is empty"
					       : "larger than any pack may be");
		return EXIT_FAILED;
	}
	void *text = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (text == MAP_FAILED) {
		cli_error("replay: %s: %s", path, strerror(errno));
		return EXIT_FAILED;
	}
	int status = check_pack(path, text, (size_t)st.st_size, key);
	munmap(text, (size_t)st.st_size);
	return status;
}

/* ---- the verb ---- */

/* A name with a slash or the usual suffix is a file, as is one that exists and is not an id. */
static bool is_file(const char *given)
{
	size_t n = strlen(given);
	struct stat st;

	return strcmp(given, "-") == 0 || strchr(given, '/') || (n > 5 && strcmp(given + n - 5, ".cast") == 0) ||
	       (strncmp(given, "proc_", 5) != 0 && stat(given, &st) == 0 && S_ISREG(st.st_mode));
}

/* 0, or the exit status after a usage error. 0 would mean no maximum, so it becomes 1 microsecond. */
static int read_pace(struct cli *c, struct recording_pace *ret)
{
	const char *speed = opts_get(&c->opts, OPT_replay_SPEED), *idle = opts_get(&c->opts, OPT_replay_MAX_IDLE);
	struct recording_pace p = { .speed = 1 };
	struct err e = ERR_INIT;
	uint64_t ms = 0;
	char *end;

	if (speed) {
		p.speed = strtod(speed, &end);
		if (end == speed || *end || !(p.speed > 0 && p.speed <= SPEED_MAX))
			return cli_usage(c, "option '--speed': '%s' is not a number above 0", speed);
	}
	if (idle && text_duration_ms(idle, &ms, &e) < 0)
		return cli_usage(c, "option '--max-idle': %s", e.message);
	if (idle)
		p.idle_us = ms ? ms * 1000 : 1;
	*ret = p;
	return 0;
}

/* The terminal answers the queries of a recording as if they were its own: nobody reads these answers. */
static void silence_terminal(struct rawmode *m)
{
	struct err ignored = ERR_INIT;

	if (isatty(STDOUT_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp())
		(void)rawmode_enter(m, STDIN_FILENO, RAWMODE_QUIET, 0, &ignored);
}

int cmd_replay(struct cli *c)
{
	struct rawmode mode = { .fd = -1 };
	struct player p = { .modes = TERMINAL_MODES_INIT };
	buf_auto struct buf undo = BUF_INIT;
	sigset_t old;
	int status;

	if (opts_get(&c->opts, OPT_replay_VERIFY))
		return c->opts.nargs
			       ? cli_usage(c, "--verify takes one pack and nothing else")
			       : verify_pack(opts_get(&c->opts, OPT_replay_VERIFY), opts_get(&c->opts, OPT_replay_KEY));
	if (opts_get(&c->opts, OPT_replay_KEY))
		return cli_usage(c, "option '--key' needs --verify PACK");
	if (c->opts.nargs != 1)
		return cli_usage(c, c->opts.nargs ? "one recording at a time" : "which process, or which file?");
	if ((status = read_pace(c, &p.pace)) != 0)
		return status;
	sigemptyset(&p.signals);
	sigaddset(&p.signals, SIGINT);
	sigaddset(&p.signals, SIGTERM);
	sigaddset(&p.signals, SIGHUP);
	/* Blocked, and received with sigtimedwait between two pieces: a signal never leaves a piece half written. */
	sigprocmask(SIG_BLOCK, &p.signals, &old);
	silence_terminal(&mode);
	status = is_file(c->opts.args[0]) ? play_file(c->opts.args[0], &p) : play_process(c, &p);
	terminal_modes_write_reset(&p.modes, &undo);
	if (undo.len && isatty(STDOUT_FILENO))
		(void)fd_write_all(STDOUT_FILENO, undo.data, undo.len);
	if (terminal_modes_queries(&p.modes) || terminal_modes_reports(&p.modes))
		rawmode_drain(&mode, STDOUT_FILENO);
	rawmode_leave(&mode);
	sigprocmask(SIG_SETMASK, &old, NULL);
	return p.status ? p.status : status;
}
