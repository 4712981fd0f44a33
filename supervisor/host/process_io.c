#include "supervisor/host/process_io.h"

#include "pty/master.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/loop/loop.h"
#include "runtime/store/store.h"
#include "sandbox/autorun.h"
#include "sandbox/autorun_report.h"
#include "sandbox/violation.h"
#include "supervisor/host/host_ports.h"
#include "supervisor/host/screens.h"
#include "supervisor/spawner/proc_stat.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define TAKE_AT_ONCE (1u << 20) /* bytes per splice */
#define TAKES_A_TURN 8          /* splices before the loop serves others */
#define PIPE_LARGE (1 << 18)    /* a larger pipe's pages leave the CPU cache before they are spliced */
#define PIPES_LARGE_MAX 16u     /* with relays an eighth of a user's soft limit of pipe pages */
#define STALL_RETRY_MS 200
#define RELAY_SLOTS (1u << GUARD_SLOT_RELAY | 1u << GUARD_SLOT_FEED)
#define ROOM_RETRY_MS 20 /* a terminal can become writable without an event */

struct process_io *process_io_new(struct host_ports *w, const char *id, const struct port_streams *names)
{
	struct process_io *io = mem_zalloc(1, sizeof *io);

	io->host = w;
	io->serial = ++w->process_ios_made;
	snprintf(io->key.id, sizeof io->key.id, "%s", id);
	w->members += names->within != NULL;
	if (names->within) {
		snprintf(io->within, sizeof io->within, "%s", names->within);
		io->release = GUARD_RELEASE_MEMBER;
	}
	io->names = *names;
	io->names.within = NULL; /* borrowed, like the hosts and the input */
	io->peer_fd = io->limits_fd = -1;
	for (int i = 0; i < GUARD_SLOT_COUNT; i++)
		io->fds[i] = -1;
	for (int i = 0; i < STREAM_COUNT; i++)
		io->streams[i] = (struct process_io_stream){
			.io = io, .index = i, .fd = -1, .relay = -1, .feed = -1, .spool = SPOOL_FILE_INIT
		};
	strmap_put(&w->process_ios, io->key.id, io);
	return io;
}

static void event_drop(struct event **ev)
{
	if (*ev)
		event_free(*ev);
	*ev = NULL;
}

static void stream_close(struct process_io_stream *s)
{
	event_drop(&s->ev);
	event_drop(&s->retry);
	fd_close(&s->fd);
	fd_close(&s->relay);
	fd_close(&s->feed);
	if (s->grown)
		s->io->host->grown_pipes--;
	s->grown = false;
}

void process_io_abort_launch(struct process_io *io)
{
	event_drop(&io->stdin_ev);
	event_drop(&io->status_ev);
	event_drop(&io->pidfd_ev);
	event_drop(&io->resend);
	for (int i = 0; i < STREAM_COUNT; i++)
		stream_close(&io->streams[i]);
	for (int i = 0; i < GUARD_SLOT_COUNT; i++)
		fd_close(&io->fds[i]);
}

static void forget_launch(struct process_io *io)
{
	buf_done(&io->plan);
	buf_done(&io->rules);
	buf_done(&io->input);
	fd_close(&io->peer_fd);
}

void process_io_free(struct process_io *io, unsigned unspilled)
{
	audit_reader_remove(&io->host->audit, io);
	proxy_link_remove(&io->host->proxy, io);
	process_io_abort_launch(io);
	for (int i = 0; i < STREAM_COUNT; i++) {
		bool there = io->streams[i].spool.fd >= 0;
		spool_done(&io->streams[i].spool);
		if (there && (unspilled & (1u << i)))
			spool_unlink(io->host->spool_dir, io->names.ref[i]);
	}
	forget_launch(io);
	fd_close(&io->limits_fd);
	strmap_del(&io->host->process_ios, io->key.id);
	io->host->members -= io->within[0] != '\0';
	free(io);
}

/* ---- the status socket and the init's end ---- */

/* Identifies a process_io across a report to the engine, which may end the process and free it. */
struct process_io_ref {
	struct host_ports *host;
	struct plan_key key;
	uint64_t serial;
};

static struct process_io_ref ref_of(const struct process_io *io)
{
	return (struct process_io_ref){ .host = io->host, .key = io->key, .serial = io->serial };
}

static bool is_alive(const struct process_io_ref *ref)
{
	const struct process_io *io = strmap_get(&ref->host->process_ios, ref->key.id);

	return io && io->serial == ref->serial;
}

static void terminal_watch(struct process_io *io);

static void terminal_take(struct process_io *io, int fd)
{
	int fds[GUARD_SLOT_COUNT];

	if (fd < 0) {
		log_error("READY of %s carries no terminal", io->key.id);
		guard_link_kill(&io->host->guard, &io->key);
		return;
	}
	io->fds[GUARD_SLOT_PTY] = fds[GUARD_SLOT_PTY] = fd;
	guard_link_deposit(&io->host->guard, &io->key, 1u << GUARD_SLOT_PTY, fds);
	terminal_watch(io);
}

static void listener_take(struct process_io *io, int fd)
{
	if (fd < 0) {
		log_error("READY of %s carries no socket for the proxy", io->key.id);
		return;
	}
	io->fds[GUARD_SLOT_NET] = fd;
	guard_link_deposit(&io->host->guard, &io->key, 1u << GUARD_SLOT_NET, io->fds);
	proxy_link_serve(&io->host->proxy, io);
}

static bool lacks_terminal(const struct process_io *io)
{
	return io->fds[GUARD_SLOT_PTY] < 0 && io->names.ref[STREAM_PTY][0];
}

static bool lacks_listener(const struct process_io *io)
{
	return io->fds[GUARD_SLOT_NET] < 0 && io->fds[GUARD_SLOT_NET_RULES] >= 0;
}

/*
 * READY carries the terminal and the proxy's socket. They are deposited with the guard before the message is taken off
 * the socket. Without its terminal a command's output would be lost, so it does not run. A member's READY also carries
 * a pidfd of its leader, from which the pid is read.
 */
static void take_brought(struct process_io *io, int *fds, size_t nfds)
{
	bool terminal = lacks_terminal(io), listener = lacks_listener(io);
	size_t first = nfds > 0 && terminal && master_is(fds[0]) ? 1 : 0; /* the terminal's master comes first */

	if (terminal)
		terminal_take(io, first ? fd_take(&fds[0]) : -1);
	if (listener)
		listener_take(io, first < nfds ? fd_take(&fds[first]) : -1);
	if (io->within[0] && first < nfds)
		io->pid = (int32_t)fd_pidfd_pid(fds[first]);
}

static void stream_readable(evutil_socket_t fd, short what, void *ctx);

/* Output so far is recorded before the end. False: the process_io was freed. */
static bool read_streams(struct process_io *io)
{
	const struct process_io_ref ref = ref_of(io);

	for (int i = 0; i < STREAM_COUNT; i++) {
		if (io->streams[i].ev)
			stream_readable(-1, EV_READ, &io->streams[i]);
		if (!is_alive(&ref))
			return false;
	}
	return true;
}

/* EXITED carries a report on autorun files in a sealed memfd. It stays on the socket for a restarted runtime. */
static void take_report(struct process_io *io)
{
	buf_auto struct buf report = BUF_INIT;
	struct status_msg m;
	struct stat st;
	fd_auto int fd = -1;
	size_t nfds = 1;

	if (fd_recv(io->fds[GUARD_SLOT_STATUS], &m, sizeof m, &fd, &nfds, MSG_PEEK | MSG_DONTWAIT) <
		    (ssize_t)STATUS_MSG_LEAST ||
	    nfds != 1)
		return;
	int seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || !(seals & F_SEAL_WRITE) || fstat(fd, &st) < 0 || st.st_size > (off_t)AUTORUN_REPORT_BYTES_MAX)
		return;
	ssize_t n = pread(fd, buf_reserve(&report, (size_t)st.st_size + 1), (size_t)st.st_size, 0);
	if (n > 0)
		engine_on_autorun(io->host->engine, io->key.id, report.data, (size_t)n);
}

static void report_lookup(struct engine *g, const char *id, const char *host)
{
	struct violation v = { .kind = "network", .operation = "lookup", .source = "resolver", .port = -1 };

	snprintf(v.host, sizeof v.host, "%s", host);
	engine_on_violation(g, id, &v);
}

/* The message is still there: the init died with unread ones (its own remain), or there was no memory for a moment. */
static bool may_receive_again(int errnum)
{
	return errnum == ECONNRESET || errnum == EINTR || errnum == ENOMEM || errnum == ENOBUFS;
}

/* The message stays on the socket. Descriptors are received only if some are expected. */
static ssize_t peek_status(struct process_io *io, struct status_msg *m, int fds[2], size_t *nfds)
{
	const int fd = io->fds[GUARD_SLOT_STATUS];
	const bool brings = lacks_terminal(io) || lacks_listener(io) || (io->within[0] && !io->led);
	ssize_t n;

	memset(m, 0, sizeof *m);
	do {
		*nfds = brings ? 2 : 0;
		n = brings ? fd_recv(fd, m, sizeof *m, fds, nfds, MSG_PEEK | MSG_DONTWAIT) : -1;
		if (n < 0)
			*nfds = 0;
		if (!brings || (n < 0 && errno == EMSGSIZE)) /* not the descriptors that were expected */
			n = recv(fd, m, sizeof *m, MSG_PEEK | MSG_DONTWAIT);
	} while (n < 0 && may_receive_again(errno));
	m->path[sizeof m->path - 1] = '\0';
	return n;
}

/* A member is forked by the holder of its sandbox: that it has started is known from READY. */
static void member_started(struct process_io *io, const struct status_msg *m)
{
	const struct port_started s = { .pid = io->pid,
					.start_time = m->leader_start ? m->leader_start
								      : proc_start_time_since(io->pid, io->launched_ns),
					.layers = m->layers,
					.attempt = io->key.attempt };

	audit_reader_add_member(&io->host->audit, io);
	io->led = true;
	forget_launch(io);
	engine_on_started(io->host->engine, io->key.id, &s);
}

/* Reports a message that was taken to the engine, whose reaction may free the process_io. */
static void report_status(struct process_io *io, const struct status_msg *m)
{
	struct engine *g = io->host->engine;
	const struct process_io_ref ref = ref_of(io);

	if (m->kind == STATUS_READY && io->within[0])
		member_started(io, m);
	else if (m->kind == STATUS_READY)
		audit_reader_add(&io->host->audit, io, m->session);
	if (!is_alive(&ref))
		return;
	if (m->kind == STATUS_READY)
		engine_on_ready(g, ref.key.id, m->layers);
	else if (m->kind == STATUS_EXECED)
		engine_on_execed(g, ref.key.id);
	else if (m->kind == STATUS_LOOKUP)
		report_lookup(g, process_io_blamed(io, 0, 0)->key.id, m->path);
	else if (m->kind == STATUS_PORTS)
		engine_on_ports(g, ref.key.id, &m->ports);
	else if (m->kind == STATUS_COMMAND_EXITED && read_streams(io))
		engine_on_command_exited(g, ref.key.id, m);
}

/*
 * Takes READY and EXECED; leaves FAILED and EXITED for a restarted runtime. With `all` until there is none left; else
 * one, because more are rare and wake the loop again. 1 = *ret_last is the last message, −1 = the process_io was freed.
 */
static int status_pump(struct process_io *io, bool all, struct status_msg *ret_last)
{
	int fd = io->fds[GUARD_SLOT_STATUS], fds[2] = { -1, -1 };
	const struct process_io_ref ref = ref_of(io);
	struct status_msg m;
	size_t nfds;

	do {
		ssize_t n = peek_status(io, &m, fds, &nfds);
		if (n < (ssize_t)STATUS_MSG_LEAST) {
			if (n == 0 || (n < 0 && errno != EAGAIN))
				event_drop(&io->status_ev); /* closed by the init: its pidfd reports the end */
			return 0;
		}
		if (m.kind == STATUS_READY)
			take_brought(io, fds, nfds);
		for (size_t i = 0; i < nfds; i++)
			fd_close(&fds[i]);
		if (m.kind == STATUS_FAILED || m.kind == STATUS_EXITED) {
			event_drop(&io->status_ev); /* it stays readable: no more events are needed */
			if (m.kind == STATUS_EXITED && m.autorun == AUTORUN_REPORT)
				take_report(io);
			*ret_last = m;
			return 1;
		}
		while (recv(fd, &m, sizeof m, MSG_DONTWAIT) < 0 && may_receive_again(errno))
			continue;
		report_status(io, &m);
		if (!is_alive(&ref))
			return -1;
	} while (all);
	return 0;
}

/*
 * The init is gone or, if it or a member's leader is kept, the command's tree is; or a member's status socket is
 * closed, which its holder does only when the tree is gone. The last message decides how the process ended; without
 * `known` it may still be unread.
 */
static void report_gone(struct process_io *io, const struct status_msg *known)
{
	struct status_msg last;
	const struct process_io_ref ref = ref_of(io);
	int r = known ? 1 : status_pump(io, true, &last);

	if (r < 0)
		return;
	if (known)
		last = *known;
	/*
	 * A member's socket closes without a last message only if its holder died. The kernel closes the holder's
	 * descriptors before it kills the rest of the namespace, and lets the holder itself end after that.
	 */
	const struct process_io *holder = io->within[0] ? strmap_get(&io->host->process_ios, io->within) : NULL;
	if (r == 0 && holder && !holder->gone)
		return; /* report_member follows */
	if (r > 0 && io->host->launch_again(io, &last))
		return;
	io->gone = true;
	if (io->names.ref[STREAM_PTY][0] && io->fds[GUARD_SLOT_PTY] < 0) { /* it died before READY */
		stream_close(&io->streams[STREAM_PTY]);
		engine_on_output_end(ref.host->engine, ref.key.id, STREAM_PTY);
	}
	if (!is_alive(&ref))
		return;
	char why[STATUS_CAUSE_TEXT];
	if (io->within[0] && !io->led && r && status_cause_text(&last, why))
		engine_on_launch_failed(ref.host->engine, ref.key.id, STEP_CLONE, 0,
					last.cause == STATUS_CAUSE_LEADER ? REASON_NONE : REASON_SANDBOX_ENDED, why);
	else if (io->within[0] && !io->led && r && last.kind == STATUS_FAILED)
		engine_on_launch_failed(ref.host->engine, ref.key.id, last.step, last.error, REASON_NONE, last.path);
	else if (io->within[0] && !io->led) /* its holder died first */
		engine_on_launch_failed(ref.host->engine, ref.key.id, STEP_CLONE, ECONNRESET, REASON_SANDBOX_ENDED, "");
	else
		engine_on_gone(ref.host->engine, ref.key.id, r ? &last : NULL);
}

/*
 * The holder is dead, and with it each of its members. Whether the end of a member's socket was noticed does not
 * matter: a request that nobody read turns it into an error, which libevent's EV_CLOSED does not report.
 */
static void report_member(void *ctx, const char *id, void *value)
{
	const struct plan_key *holder = ctx;
	struct process_io *io = value;

	if (strcmp(io->within, holder->id) != 0 || io->gone || io->fds[GUARD_SLOT_STATUS] < 0)
		return; /* without a socket it was not sent yet: its launch fails */
	event_drop(&io->pidfd_ev);
	report_gone(io, NULL);
}

static void on_pidfd(evutil_socket_t fd, short what, void *ctx)
{
	struct process_io *io = ctx;
	struct host_ports *w = io->host;
	struct plan_key key = io->key;
	const bool holder = io->flags & PLAN_HOLDER;

	event_drop(&io->pidfd_ev);
	report_gone(io, NULL);
	if (holder)
		strmap_visit(&w->process_ios, report_member, &key);
}

static struct event *watch_fd(struct process_io *io, int fd, short what, event_callback_fn fn, void *ctx);

static void on_status(evutil_socket_t fd, short what, void *ctx)
{
	struct process_io *io = ctx;
	struct status_msg last;
	const struct process_io_ref ref = ref_of(io);
	int r = status_pump(io, false, &last);

	if (r < 0)
		return;
	const bool kept = r > 0 && last.kind == STATUS_EXITED && last.kept;
	/* No more messages: the end of a member whose leader does not stay is the end of the socket. */
	if (io->within[0] && !io->status_ev && !kept)
		io->pidfd_ev = watch_fd(io, io->fds[GUARD_SLOT_STATUS], EV_CLOSED | EV_PERSIST, on_pidfd, io);
	if (r == 0 || io->host->launch_again(io, &last))
		return;
	if (io->within[0] && !io->led && last.kind == STATUS_FAILED)
		engine_on_launch_failed(ref.host->engine, ref.key.id, last.step, last.error, REASON_NONE, last.path);
	else
		engine_on_exited(ref.host->engine, ref.key.id, &last);
	if (kept && is_alive(&ref) && !io->gone) {
		io->release = io->within[0] ? io->release : GUARD_RELEASE_KEPT;
		event_drop(&io->pidfd_ev);
		report_gone(io, &last);
	}
}

/* ---- streams ---- */

static int stream_spool(struct process_io_stream *s)
{
	struct err e = ERR_INIT;

	if (s->spool.fd >= 0)
		return 0;
	if (spool_open(s->io->host->spool_dir, s->io->names.ref[s->index], s->io->names.limit, &s->spool, &e) == 0)
		return 0;
	errno = e.sys ? e.sys : EIO;
	return -1;
}

/* event_active: the pipe may have been readable all the time, and no new event would follow. */
static void stream_retry(evutil_socket_t fd, short what, void *ctx)
{
	struct process_io_stream *s = ctx;

	loop_add(s->ev, NULL);
	event_active(s->ev, EV_READ, 0);
}

/* No output is lost while the disk is full: it stays in the pipe, and the command blocks when the pipe is full. */
static void stream_stall(struct process_io_stream *s, int error)
{
	const struct timeval later = { .tv_usec = STALL_RETRY_MS * 1000 };
	const struct process_io_ref ref = ref_of(s->io);

	if (!s->ev) /* closed in the meantime */
		return;
	event_del(s->ev);
	if (!s->retry)
		s->retry = evtimer_new(s->io->host->base, stream_retry, s);
	loop_add(s->retry, &later);
	engine_on_output_stalled(ref.host->engine, ref.key.id, s->index, error);
}

/* Deposited before it is used. Without one, splice(2) reads from the command's pipe: slower, not less safe. */
static void stream_add_relay(struct process_io_stream *s)
{
	int p[2], fds[GUARD_SLOT_COUNT];

	if (pipe2(p, O_CLOEXEC | O_NONBLOCK) < 0)
		return;
	fcntl(p[0], F_SETPIPE_SZ, PIPE_LARGE);
	s->relay = fds[GUARD_SLOT_RELAY] = p[0];
	s->feed = fds[GUARD_SLOT_FEED] = p[1];
	guard_link_deposit(&s->io->host->guard, &s->io->key, RELAY_SLOTS, fds);
}

/* A stream that fills its pipe gets a larger one, up to PIPES_LARGE_MAX. */
static void stream_grow(struct process_io_stream *s, int64_t taken)
{
	struct host_ports *w = s->io->host;

	if (s->grown || taken < 65536 || w->grown_pipes >= PIPES_LARGE_MAX)
		return;
	if (fcntl(s->fd, F_SETPIPE_SZ, PIPE_LARGE) > 0) {
		s->grown = true;
		w->grown_pipes++;
		if (s->index == STREAM_STDOUT && s->relay < 0)
			stream_add_relay(s);
	}
}

/* End of a stream without output: no spool file is created for it. */
static bool stream_ended_empty(const struct process_io_stream *s)
{
	struct pollfd p = { .fd = s->index == STREAM_PTY ? s->io->fds[GUARD_SLOT_PTY] : s->fd, .events = POLLIN };

	return s->spool.fd < 0 && !s->piped && poll(&p, 1, 0) == 1 && p.revents == POLLHUP;
}

/* What an earlier runtime left in the relay comes first. */
static int64_t stream_take(struct process_io_stream *s)
{
	if (stream_spool(s) < 0)
		return -1;
	if (s->feed < 0)
		return spool_take(&s->spool, s->fd, TAKE_AT_ONCE);
	if (!s->piped) {
		ssize_t moved = s->index == STREAM_PTY
					? master_move(s->io->fds[GUARD_SLOT_PTY], s->feed)
					: splice(s->fd, NULL, s->feed, NULL, PIPE_LARGE, SPLICE_F_NONBLOCK);
		if (moved <= 0)
			return moved;
		s->piped = (size_t)moved;
	}
	int64_t n = spool_take(&s->spool, s->relay, s->piped);
	if (n > 0)
		s->piped -= (size_t)n;
	return n;
}

static void stream_readable(evutil_socket_t fd, short what, void *ctx)
{
	struct process_io_stream *s = ctx;
	struct engine *g = s->io->host->engine;
	const struct process_io_ref ref = ref_of(s->io);
	const int index = s->index;
	int64_t n = 0;

	if (store_full(s->io->host->store)) {
		stream_stall(s, ENOSPC);
		return;
	}
	for (int i = 0; i < TAKES_A_TURN && !stream_ended_empty(s); i++) {
		n = stream_take(s);
		if (n <= 0)
			break;
		stream_grow(s, n);
	}
	int error = n < 0 ? errno : 0;
	engine_on_output(g, ref.key.id, index, s->spool.size);
	if (!is_alive(&ref))
		return;
	if (index == STREAM_PTY && s->spool.size && ref.host->screens)
		screens_on_output(ref.host->screens, ref.key.id, s->spool.size);
	if (n == 0) {
		stream_close(s);
		engine_on_output_end(g, ref.key.id, index);
	} else if (n < 0 && error != EAGAIN && error != EINTR) {
		stream_stall(s, error);
	} else {
		engine_on_output_stalled(g, ref.key.id, index, 0);
	}
}

void process_io_stop_reading(struct process_io *io)
{
	for (int i = 0; i < STREAM_COUNT; i++)
		stream_close(&io->streams[i]);
}

void process_io_find_spools(struct process_io *io, uint64_t size[STREAM_COUNT])
{
	for (int i = 0; i < STREAM_COUNT; i++) {
		struct process_io_stream *s = &io->streams[i];
		size[i] = 0;
		if (!io->names.ref[i][0] || faccessat(io->host->spool_dir, io->names.ref[i], F_OK, 0) < 0)
			continue;
		if (stream_spool(s) < 0)
			log_error("open the spool of %s: %s", io->key.id, strerror(errno));
		else
			size[i] = s->spool.size;
	}
}

/* ---- input, gate, signals ---- */

static void on_stdin_room(evutil_socket_t fd, short what, void *ctx)
{
	struct process_io *io = ctx;

	const struct process_io_ref ref = ref_of(io);

	engine_on_stdin_room(ref.host->engine, ref.key.id);
}

ssize_t process_io_write_stdin(struct process_io *io, const void *p, size_t n)
{
	const struct timeval later = { .tv_usec = ROOM_RETRY_MS * 1000 };
	ssize_t r;

	if (io->fds[GUARD_SLOT_PTY] >= 0) {
		r = master_write(io->fds[GUARD_SLOT_PTY], p, n);
		if (r == 0 && io->stdin_ev)
			loop_add(io->stdin_ev, &later);
		return r;
	}
	if (io->fds[GUARD_SLOT_STDIN] < 0) {
		errno = EPIPE;
		return -1;
	}
	do
		r = write(io->fds[GUARD_SLOT_STDIN], p, n);
	while (r < 0 && errno == EINTR);
	if (r >= 0 || errno != EAGAIN)
		return r;
	if (io->stdin_ev)
		loop_add(io->stdin_ev, NULL);
	return 0;
}

void process_io_close_stdin(struct process_io *io)
{
	event_drop(&io->stdin_ev);
	fd_close(&io->fds[GUARD_SLOT_STDIN]);
	guard_link_withdraw(&io->host->guard, &io->key, 1u << GUARD_SLOT_STDIN);
}

void process_io_close_output(struct process_io *io, int stream)
{
	stream_close(&io->streams[stream]);
	guard_link_withdraw(&io->host->guard, &io->key,
			    stream == STREAM_STDOUT ? RELAY_SLOTS | 1u << GUARD_SLOT_STDOUT : 1u << GUARD_SLOT_STDERR);
}

unsigned process_io_closed_streams(const int fds[GUARD_SLOT_COUNT])
{
	return (fds[GUARD_SLOT_STDOUT] < 0 ? 1u << STREAM_STDOUT : 0) |
	       (fds[GUARD_SLOT_STDERR] < 0 ? 1u << STREAM_STDERR : 0);
}

void process_io_signal_init(struct process_io *io, uint32_t kind, uint32_t sig)
{
	const struct status_msg m = { .kind = kind, .signal = sig };

	if (io->fds[GUARD_SLOT_STATUS] >= 0 &&
	    send(io->fds[GUARD_SLOT_STATUS], &m, sizeof m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		log_debug("send to the init of %s: %s", io->key.id, strerror(errno));
}

/* ---- watching ---- */

static struct event *watch_fd(struct process_io *io, int fd, short what, event_callback_fn fn, void *ctx)
{
	struct event *ev = fd < 0 ? NULL : event_new(io->host->base, fd, what, fn, ctx);

	if (ev && !(what & EV_WRITE))
		loop_add(ev, NULL);
	return ev;
}

static void stream_watch(struct process_io_stream *s, int fd)
{
	s->ev = watch_fd(s->io, fd, EV_READ | EV_PERSIST, stream_readable, s);
	if (s->ev && s->piped) /* left in the relay by an earlier runtime; the command may print nothing more */
		event_active(s->ev, EV_READ, 0);
}

static void terminal_watch(struct process_io *io)
{
	int fd = io->fds[GUARD_SLOT_PTY];

	if (fd < 0 || io->streams[STREAM_PTY].ev)
		return;
	io->stdin_ev = watch_fd(io, fd, EV_WRITE, on_stdin_room, io);
	stream_watch(&io->streams[STREAM_PTY], fd);
}

void process_io_watch(struct process_io *io)
{
	io->launching = false;
	if (!io->limited) /* one with limits can still be launched again */
		forget_launch(io);
	io->status_ev = watch_fd(io, io->fds[GUARD_SLOT_STATUS], EV_READ | EV_PERSIST, on_status, io);
	if (!io->within[0]) /* the end of a member follows its last message */
		io->pidfd_ev = watch_fd(io, io->fds[GUARD_SLOT_PIDFD], EV_READ | EV_PERSIST, on_pidfd, io);
	if (!(io->flags & PLAN_HOLDER)) /* a holder's link is not written through write_stdin */
		io->stdin_ev = watch_fd(io, io->fds[GUARD_SLOT_STDIN], EV_WRITE, on_stdin_room, io);
	for (int i = 0; i < STREAM_PTY; i++)
		stream_watch(&io->streams[i], io->streams[i].fd);
	terminal_watch(io); /* or when READY brings it */
}
