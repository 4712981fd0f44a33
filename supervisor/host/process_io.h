#ifndef BAILIFF_SUPERVISOR_HOST_PROCESS_IO_H
#define BAILIFF_SUPERVISOR_HOST_PROCESS_IO_H

/*
 * What the runtime holds of one live process: its ends of the pipes, the status socket, the gate, the init's pidfd and
 * the spool files. The guard holds copies of the descriptors, so that the next runtime can make the same hold again.
 *
 * Everything that comes is reported to the engine; the bytes themselves go from pipe to spool inside the kernel. What a
 * terminal prints goes through a pipe of our own on its way, because splice(2) wants one; the guard holds both ends of
 * that, so what is in it when a runtime dies is found by the next.
 */

#include "runtime/base/buf.h"
#include "runtime/engine/core/ports.h"
#include "runtime/store/spool.h"
#include "supervisor/guard/guard_msg.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct world;

struct hold_stream {
	struct hold *hold;
	int index;    /* STREAM_… */
	int fd;       /* the pipe's read end; −1 once it ended */
	int feed;     /* of a terminal: the pipe's write end; else −1 */
	size_t piped; /* of a terminal: bytes in the pipe */
	struct event *ev, *retry;
	struct spool_file spool;
	bool grown; /* its pipe was made larger */
};

struct hold {
	struct world *world;
	struct plan_key key;
	uint64_t serial; /* no other hold of this runtime has it */
	struct port_streams names;
	int fds[GUARD_SLOT_COUNT]; /* stdin, status, gate, pidfd, pty; the streams' are in `streams` */
	int32_t pid;
	struct hold_stream streams[STREAM_COUNT];
	struct event *stdin_ev, *status_ev, *pidfd_ev;
	bool gone;
	bool net_served, net_ending,
		net_end_sent; /* what the proxy knows of it, and whether its last report is awaited */
	bool cow;             /* may be a copy-on-write run */
	bool audited;         /* audit records of `audit_session` are about it */
	uint32_t audit_session;
	uint64_t audit_mark; /* waits for this one; 0 = for none */

	/* while it is being launched */
	struct buf plan;
	struct buf rules; /* network `allow`: struct host_rule, one after another */
	struct buf input; /* all that it has to read … */
	bool given;       /* … if that is known */
	uint32_t flags;
	int peer_fd;
	unsigned tries;
	bool launching, waits_for_release;
};

struct hold *hold_new(struct world *w, const char *id, const struct port_streams *names);
/* Closes and frees; files of streams in `unspilled` are removed. */
void hold_free(struct hold *h, unsigned unspilled);

/* Makes the pipes for one try, deposits our ends with the guard and sends the others to the spawner. −1 with errno. */
int hold_launch(struct hold *h);
/* This try is over; closes its pipes. */
void hold_drop_try(struct hold *h);
/* Descriptors by slot, as the guard holds them; they are taken over. */
void hold_take_fds(struct hold *h, int fds[GUARD_SLOT_COUNT]);
/* From here on everything is watched. */
void hold_watch(struct hold *h);

ssize_t hold_write_stdin(struct hold *h, const void *p, size_t n);
void hold_close_stdin(struct hold *h);
void hold_close_output(struct hold *h, int stream);            /* stdout or stderr */
unsigned hold_closed_streams(const int fds[GUARD_SLOT_COUNT]); /* bits 1u << stream, of what the guard hands over */
/* −1 with errno: there is no terminal (ENOTTY), or not yet. */
int hold_line(const struct hold *h, struct port_line *ret);
int hold_resize(const struct hold *h, uint32_t rows, uint32_t cols);
void hold_open_gate(struct hold *h);
void hold_tell_init(struct hold *h, uint32_t kind, uint32_t sig);
/* Opens the spool files that are there already. */
void hold_find_spools(struct hold *h, uint64_t size[STREAM_COUNT]);
void hold_stop_reading(struct hold *h);

#endif
