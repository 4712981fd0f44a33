#ifndef BAILIFF_SUPERVISOR_HOST_PROCESS_IO_H
#define BAILIFF_SUPERVISOR_HOST_PROCESS_IO_H

/*
 * The runtime's descriptors and spool files of one live process: its ends of the pipes, the status socket, the gate and
 * the init's pidfd. The guard keeps copies of the descriptors, so that a restarted runtime can build the same
 * process_io again.
 *
 * Everything that arrives is reported to the engine; the bytes themselves go from pipe to spool inside the kernel.
 * Terminal output passes through a pipe of the runtime's, the relay, because splice(2) needs one. So does stdout with
 * much output: splice locks the pipe that it reads from during the copy to the file, and a command that writes to it
 * meanwhile would spin on that lock. The guard keeps both ends of the relay, so a restarted runtime finds what was in
 * it.
 *
 * The order for one process: process_io_launch; the spawner's reply (process_io_watch); on the status socket READY,
 * EXECED, COMMAND_EXITED and EXITED, or FAILED; the ends of the streams; the init's death by its pidfd, which may
 * be noticed before the others are read; process_io_free once the end is durable. Messages that decide how a
 * process ended are only peeked at, so that they are still on the socket for a restarted runtime.
 *
 * Owned by host_ports.process_ios. A report to the engine may end the process and free its process_io: code that
 * continues after a report first checks that it still exists.
 */

#include "runtime/base/buf.h"
#include "runtime/engine/core/ports.h"
#include "runtime/store/spool.h"
#include "supervisor/guard/guard_msg.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct host_ports;
struct published_ports;

struct process_io_stream {
	struct process_io *io;
	int index;       /* STREAM_… */
	int fd;          /* the command's pipe: read end; −1 once it ended, and for a terminal */
	int relay, feed; /* the relay: read end, write end; −1 = none */
	size_t piped;    /* bytes in the relay */
	struct event *ev, *retry;
	struct spool_file spool;
	bool grown; /* its pipe was enlarged */
};

struct process_io {
	struct host_ports *host;
	struct plan_key key;
	uint64_t serial; /* unique in this runtime */
	struct port_streams names;
	int fds[GUARD_SLOT_COUNT]; /* stdin, status, gate, pidfd, pty; the streams' are in `streams` */
	int32_t pid;
	struct process_io_stream streams[STREAM_COUNT];
	struct event *stdin_ev, *status_ev, *pidfd_ev;
	bool gone;
	enum guard_release release;                /* how the guard has to release it */
	bool net_served, net_ending, net_end_sent; /* what the proxy was sent, and whether its last report is awaited */
	struct published_ports *ports;             /* NULL = none so far */
	bool cow;                                  /* possibly a copy-on-write run */
	bool audited;                              /* audit records with `audit_session` belong to it */
	uint32_t audit_session;
	uint64_t audit_mark; /* the mark it waits for; 0 = none */

	/* while it is launched */
	struct buf plan;
	struct buf rules; /* network `allow`: struct host_rule, one after another */
	struct buf input; /* its complete input … */
	bool given;       /* … if it is known in advance … */
	bool given_stays; /* … and may be continued */
	uint32_t flags;
	int peer_fd;
	unsigned tries;
	bool launching, waits_for_release;
	/* of a member (supervisor/spawner/member_msg.h); else "" */
	char within[PLAN_KEY_MAX]; /* its holder */
	bool led;                  /* its leader has sent READY */
	uint64_t launched_ns;      /* before a new leader was forked; 0 = unknown, after a restart */
	struct event *resend;      /* the holder's link was full */
	bool limited;              /* it may have cgroups of its own */
	int limits_fd;             /* … the leader's end of the socket to the spawner; −1 = not requested yet */
	unsigned kills;            /* requests to kill it; from the second one on the whole sandbox is killed */
};

struct process_io *process_io_new(struct host_ports *w, const char *id, const struct port_streams *names);
/* Closes and frees; files of streams in `unspilled` are removed. */
void process_io_free(struct process_io *io, unsigned unspilled);

/* Creates the pipes of one attempt, deposits the runtime's ends with the guard and sends the others to the spawner. −1
 * with errno. */
int process_io_launch(struct process_io *io);
/*
 * The same for a member: sends the other ends to its holder. 1: the holder's link is full, try again later. −1 with
 * errno.
 */
int process_io_launch_member(struct process_io *io, const struct process_io *holder);
/* Before that, for a member with limits of its own: asks the spawner for its cgroups. −1 with errno. */
int process_io_request_limits(struct process_io *io, const struct process_io *holder);
/* Whether that has to be done. */
bool process_io_needs_limits(const struct process_io *io);
/* This attempt failed; closes its pipes. */
void process_io_abort_launch(struct process_io *io);
/* Descriptors by guard slot; ownership passes. */
void process_io_take_fds(struct process_io *io, int fds[GUARD_SLOT_COUNT]);
/* Starts watching all descriptors. */
void process_io_watch(struct process_io *io);

/*
 * The process to which a denial in this sandbox is assigned: the member whose tree has `pid` (0 = unknown), or the only
 * member. Otherwise the holder itself, as in every sandbox without members. If the process has ended, its `parent` is
 * searched instead.
 */
struct process_io *process_io_blamed(struct process_io *io, int32_t pid, int32_t parent);

ssize_t process_io_write_stdin(struct process_io *io, const void *p, size_t n);
void process_io_close_stdin(struct process_io *io);
void process_io_close_output(struct process_io *io, int stream);     /* stdout or stderr */
unsigned process_io_closed_streams(const int fds[GUARD_SLOT_COUNT]); /* bits 1u << stream, of the guard's descriptors */
/* −1 with errno: it has no terminal (ENOTTY), or not yet. */
int process_io_line(const struct process_io *io, struct port_line *ret);
int process_io_resize(const struct process_io *io, uint32_t rows, uint32_t cols);
int process_io_open_gate(struct process_io *io); /* -1: it stays shut, and the process has to be killed */
void process_io_signal_init(struct process_io *io, uint32_t kind, uint32_t sig);
/* Opens the spool files that exist already. */
void process_io_find_spools(struct process_io *io, uint64_t size[STREAM_COUNT]);
void process_io_stop_reading(struct process_io *io);

/*
 * How the guard has to release it. An audit record that is still on its way must not be assigned to the next command.
 */
static inline enum guard_release process_io_release_of(const struct process_io *io)
{
	return io->release == GUARD_RELEASE_KEPT && io->audit_mark ? GUARD_RELEASE_INIT : io->release;
}

#endif
