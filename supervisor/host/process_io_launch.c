/* Launching a process: the pipes and sockets of one attempt, who gets which end, and the gate. */

#include "supervisor/host/process_io.h"

#include "runtime/base/clock.h"
#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "sandbox/status.h"
#include "supervisor/host/host_ports.h"
#include "supervisor/spawner/member_msg.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define GATE_RETRIES 10
#define GATE_RETRY_NS 1000000

/* Both ends of every pipe and socket, by slot. */
struct ends {
	int ours[GUARD_SLOT_COUNT];
	int theirs[GUARD_SLOT_COUNT];
};

static void ends_done(struct ends *x)
{
	for (int i = 0; i < GUARD_SLOT_COUNT; i++) {
		fd_close(&x->ours[i]);
		fd_close(&x->theirs[i]);
	}
}

/* Output is spliced without waiting whatever the pipe's mode; one byte is written to the gate, once. */
static int ends_pipe(struct ends *x, int slot, bool we_write)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return -1;
	x->ours[slot] = p[we_write ? 1 : 0];
	x->theirs[slot] = p[we_write ? 0 : 1];
	return slot == GUARD_SLOT_STDIN ? fcntl(x->ours[slot], F_SETFL, O_NONBLOCK) : 0;
}

/*
 * Input that is known in advance is written before the start, so that it arrives even if the runtime dies. More than
 * fits into a pipe becomes a memfd, which cannot be continued.
 */
static int ends_given(const struct process_io *io, struct ends *x)
{
	int p[2];

	if (pipe2(p, O_CLOEXEC) < 0)
		return -1;
	if (fd_nonblock(p[1], true) < 0 ||
	    (io->input.len && write(p[1], io->input.data, io->input.len) != (ssize_t)io->input.len)) {
		close(p[0]);
		p[0] = fd_memfd_sealed("bailiff-input", io->input.data, io->input.len);
	} else if (io->given_stays) {
		x->ours[GUARD_SLOT_STDIN] = fd_take(&p[1]);
	}
	fd_close(&p[1]);
	x->theirs[GUARD_SLOT_STDIN] = p[0];
	return p[0] < 0 ? -1 : 0;
}

/* A holder's link takes the place of its stdin. */
static int ends_link(struct ends *x)
{
	int p[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p) < 0)
		return -1;
	x->ours[GUARD_SLOT_STDIN] = p[0];
	x->theirs[GUARD_SLOT_STDIN] = p[1];
	return 0;
}

/* The command's own pipes, or one for the output of its terminal: the runtime keeps both ends of that. */
static int ends_streams(const struct process_io *io, struct ends *x)
{
	if (io->flags & PLAN_TTY) {
		if (ends_pipe(x, GUARD_SLOT_RELAY, false) < 0)
			return -1;
		x->ours[GUARD_SLOT_FEED] = fd_take(&x->theirs[GUARD_SLOT_RELAY]);
		return 0;
	}
	if (ends_pipe(x, GUARD_SLOT_STDOUT, false) < 0)
		return -1;
	if (!(io->flags & PLAN_STDERR_MERGE) && ends_pipe(x, GUARD_SLOT_STDERR, false) < 0)
		return -1;
	if (io->flags & PLAN_HOLDER)
		return ends_link(x);
	if (!(io->flags & PLAN_STDIN_PIPE))
		return 0;
	return io->given ? ends_given(io, x) : ends_pipe(x, GUARD_SLOT_STDIN, true);
}

static int ends_make(const struct process_io *io, struct ends *x)
{
	int p[2];

	if (ends_streams(io, x) < 0 || ends_pipe(x, GUARD_SLOT_GATE, true) < 0)
		return -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p) < 0)
		return -1;
	x->ours[GUARD_SLOT_STATUS] = p[0];
	x->theirs[GUARD_SLOT_STATUS] = p[1];
	/* Deposited too, so that a restarted runtime can configure a restarted proxy. */
	if (io->rules.len)
		x->ours[GUARD_SLOT_NET_RULES] = fd_memfd_sealed("bailiff-hosts", io->rules.data, io->rules.len);
	return io->rules.len && x->ours[GUARD_SLOT_NET_RULES] < 0 ? -1 : 0;
}

/* May be repeated with a new attempt when a spawner died without a reply: each attempt has its own pipes. */
int process_io_launch(struct process_io *io)
{
	static const int order[] = { GUARD_SLOT_STATUS, GUARD_SLOT_GATE, GUARD_SLOT_STDOUT, GUARD_SLOT_STDERR,
				     GUARD_SLOT_STDIN };
	struct ends x;
	int fds[SPAWN_FDS_MAX];
	size_t n = 0;
	uint32_t slots = 0;

	for (int i = 0; i < GUARD_SLOT_COUNT; i++)
		x.ours[i] = x.theirs[i] = -1;
	bool brief = io->plan.len <= SPAWN_INLINE_MAX;
	fd_auto int plan = brief ? -1 : fd_memfd_sealed("bailiff-plan", io->plan.data, io->plan.len);
	fd_auto int peer = !brief && plan < 0 ? -1 : fcntl(io->peer_fd, F_DUPFD_CLOEXEC, 3);
	if (peer < 0 || ends_make(io, &x) < 0) {
		int saved = errno;
		ends_done(&x);
		errno = saved;
		return -1;
	}
	io->tries++;
	io->key.attempt++;
	io->launching = true;
	for (int i = 0; i < GUARD_SLOT_COUNT; i++)
		slots |= x.ours[i] >= 0 ? 1u << i : 0;
	if (!brief)
		fds[n++] = fd_take(&plan);
	fds[n++] = fd_take(&peer);
	for (size_t i = 0; i < countof(order); i++)
		if (x.theirs[order[i]] >= 0)
			fds[n++] = fd_take(&x.theirs[order[i]]);
	/*
	 * The spawner has more to do than the guard, so it is woken first. If the runtime dies between the two, the
	 * gate closes and the init exits; nothing is committed before both are sent.
	 */
	const struct spawn_launch s = { .key = &io->key,
					.flags = io->flags,
					.plan = brief ? io->plan.data : NULL,
					.plan_len = io->plan.len,
					.fds = fds,
					.nfds = n };
	spawn_link_start(&io->host->spawner, &s, &io->names.expected);
	guard_link_deposit(&io->host->guard, &io->key, slots, x.ours);
	process_io_take_fds(io, x.ours);
	return 0;
}

/*
 * A member's pipes belong to the runtime's user: the spawner, which could change their owner, takes no part. Their mode
 * lets the command open them again through /dev/stdout etc., only in the pipe's direction. No other process can reach
 * them.
 */
static int permit_reopening(const struct ends *x)
{
	if (x->theirs[GUARD_SLOT_STDOUT] >= 0 && fchmod(x->theirs[GUARD_SLOT_STDOUT], 0222) < 0)
		return -1;
	if (x->theirs[GUARD_SLOT_STDERR] >= 0 && fchmod(x->theirs[GUARD_SLOT_STDERR], 0222) < 0)
		return -1;
	return x->theirs[GUARD_SLOT_STDIN] >= 0 && fchmod(x->theirs[GUARD_SLOT_STDIN], 0444) < 0 ? -1 : 0;
}

bool process_io_needs_limits(const struct process_io *io) { return io->names.limits.required && io->limits_fd < 0; }

/* The spawner gets the plan with the member's limits in place of the sandbox's. */
int process_io_request_limits(struct process_io *io, const struct process_io *holder)
{
	buf_auto struct buf plan = BUF_INIT;
	int pair[2], fds[SPAWN_FDS_MAX];
	size_t n = 0;

	buf_append(&plan, io->plan.data, io->plan.len);
	((struct plan_head *)(void *)plan.data)->limits = io->names.limits;
	bool brief = plan.len <= SPAWN_INLINE_MAX;
	fd_auto int memfd = brief ? -1 : fd_memfd_sealed("bailiff-plan", plan.data, plan.len);
	fd_auto int peer = !brief && memfd < 0 ? -1 : fcntl(io->peer_fd, F_DUPFD_CLOEXEC, 3);
	if (peer < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	io->limits_fd = pair[0];
	io->tries++;
	io->key.attempt++;
	io->launching = io->limited = true;
	if (!brief)
		fds[n++] = fd_take(&memfd);
	fds[n++] = fd_take(&peer);
	fds[n++] = pair[1];
	const struct spawn_launch s = { .key = &io->key,
					.flags = io->flags,
					.plan = brief ? plan.data : NULL,
					.plan_len = plan.len,
					.fds = fds,
					.nfds = n };
	spawn_link_limit(&io->host->spawner, &s, &holder->key, holder->pid);
	return 0;
}

int process_io_launch_member(struct process_io *io, const struct process_io *holder)
{
	bool brief = io->plan.len <= SPAWN_INLINE_MAX;
	fd_auto int plan = brief ? -1 : fd_memfd_sealed("bailiff-plan", io->plan.data, io->plan.len);
	struct ends x;
	uint32_t slots = 0;

	for (int i = 0; i < GUARD_SLOT_COUNT; i++)
		x.ours[i] = x.theirs[i] = -1;
	int r = (!brief && plan < 0) || ends_make(io, &x) < 0 || permit_reopening(&x) < 0 ? -1 : 0;
	io->key.attempt += !io->limited; /* its cgroups have the name of this attempt */
	io->launched_ns = clock_boot_ns();
	if (r == 0) {
		const int fds[MEMBER_FDS] = {
			[MEMBER_FD_PLAN] = plan,
			[MEMBER_FD_STATUS] = x.theirs[GUARD_SLOT_STATUS],
			[MEMBER_FD_GATE] = x.theirs[GUARD_SLOT_GATE],
			[MEMBER_FD_OUT] = x.theirs[GUARD_SLOT_STDOUT],
			[MEMBER_FD_ERR] = x.theirs[GUARD_SLOT_STDERR],
			[MEMBER_FD_IN] = x.theirs[GUARD_SLOT_STDIN],
			[MEMBER_FD_LIMITS] = io->limits_fd,
		};
		r = member_msg_send_start(holder->fds[GUARD_SLOT_STDIN], &io->key, brief ? io->plan.data : NULL,
					  io->plan.len, fds);
	}
	if (r < 0) {
		int saved = errno;
		ends_done(&x);
		errno = saved;
		return saved == EAGAIN ? 1 : -1;
	}
	for (int i = 0; i < GUARD_SLOT_COUNT; i++) {
		slots |= x.ours[i] >= 0 ? 1u << i : 0;
		fd_close(&x.theirs[i]);
	}
	guard_link_deposit_member(&io->host->guard, &io->key, slots, x.ours);
	process_io_take_fds(io, x.ours);
	process_io_watch(io);
	return 0;
}

void process_io_take_fds(struct process_io *io, int fds[GUARD_SLOT_COUNT])
{
	io->streams[STREAM_STDOUT].fd = fd_take(&fds[GUARD_SLOT_STDOUT]);
	io->streams[STREAM_STDERR].fd = fd_take(&fds[GUARD_SLOT_STDERR]);
	struct process_io_stream *s = &io->streams[io->names.ref[STREAM_PTY][0] ? STREAM_PTY : STREAM_STDOUT];
	s->relay = fd_take(&fds[GUARD_SLOT_RELAY]);
	s->feed = fd_take(&fds[GUARD_SLOT_FEED]);
	int piped = 0;
	if (s->relay >= 0 && ioctl(s->relay, FIONREAD, &piped) == 0)
		s->piped = (size_t)piped;
	for (int i = 0; i < GUARD_SLOT_COUNT; i++)
		if (fds[i] >= 0)
			io->fds[i] = fd_take(&fds[i]);
}

/*
 * The kernel may have no memory for the pipe just now. A gate that stays shut is worse than a short wait: the guard has
 * a copy of it, so the command would wait for ever.
 */
int process_io_open_gate(struct process_io *io)
{
	const int fd = io->fds[GUARD_SLOT_GATE];
	const char byte = io->names.end_awaited ? GATE_OPEN_QUIETLY : GATE_OPEN;
	ssize_t n = fd < 0 ? 1 : write(fd, &byte, 1);

	for (int i = 0; i < GATE_RETRIES && n < 0 && errno != EPIPE; i++) {
		nanosleep(&(struct timespec){ .tv_nsec = GATE_RETRY_NS }, NULL);
		n = write(fd, &byte, 1);
	}
	/* EPIPE: the command has passed the gate (before a restart) or is dead; both are reported elsewhere. */
	int r = n < 0 && errno != EPIPE ? -1 : 0;
	if (r < 0)
		log_error("open the gate of %s: %s; killing it", io->key.id, strerror(errno));
	fd_close(&io->fds[GUARD_SLOT_GATE]);
	return r;
}
