#ifndef BAILIFF_SANDBOX_STATUS_H
#define BAILIFF_SANDBOX_STATUS_H

/*
 * The status socket (SOCK_SEQPACKET) between a sandbox's init and the runtime. The runtime's end is deposited with the
 * guard before the clone, so messages are queued while the runtime is down.
 *
 * init → runtime: READY once (all steps done, waiting at the gate; with PLAN_TTY it has the terminal's master), then
 * EXECED (not always with GATE_OPEN_QUIETLY) or FAILED, then EXITED once, with a report on autorun files
 * (sandbox/autorun.h) if there is something to report. With PLAN_KEEP_TREE, COMMAND_EXITED reports a command that ends
 * before the rest of its tree, and what is left of it; it can be consumed immediately, because a SIGNAL of 0 makes the
 * init repeat it. LOOKUP, at any time after EXECED: a name was looked up for the first time; it may be lost. PORTS: the
 * set of TCP ports on which the sandbox listens has changed; a lost one is sent again. The runtime *peeks* FAILED and
 * EXITED and consumes them only after their events are committed, so that a runtime after a crash finds them again.
 * READY and EXECED can be consumed immediately; a READY with descriptors (the terminal's master; with PLAN_NET_ALLOW
 * the socket that the proxy serves) only after those are deposited with the guard. End of file without EXITED or FAILED
 * means that the init was killed.
 *
 * runtime → init: SIGNAL (to the command's process group; to the command alone if it has left that), KILL_TREE (SIGKILL
 * for everything; the init stays, reaps, and reports EXITED), DIALER (one descriptor: the socket on which the proxy
 * requests sockets of this network namespace, supervisor/spawner/dialer.h; it replaces an earlier one). After EXITED
 * the init exits or, if the message says that it is kept, closes its end.
 */

#include "sandbox/steps.h"
#include "sandbox/tree_files.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum status_kind {
	STATUS_READY = 1,
	STATUS_EXECED = 2,
	STATUS_FAILED = 3,
	STATUS_EXITED = 4,
	STATUS_COMMAND_EXITED = 5,
	STATUS_LOOKUP = 6,
	STATUS_PORTS = 7,
	STATUS_SIGNAL = 16,
	STATUS_KILL_TREE = 17,
	STATUS_DIALER = 18,
};

/* The byte that opens the gate. Quietly: the client waits for the end, so EXECED is left out if that comes soon. */
#define GATE_OPEN 'g'
#define GATE_OPEN_QUIETLY 'q'

enum status_cause {
	STATUS_CAUSE_NONE = 0,   /* the command ended by itself or by a signal */
	STATUS_CAUSE_CPU = 1,    /* the tree's cpu limit */
	STATUS_CAUSE_KILLED = 2, /* KILL_TREE was received */
	/* The holder of a session sandbox reports these: the first two of a member, the others also of itself. */
	STATUS_CAUSE_LEADER = 3,  /* the member's leader was killed or stopped */
	STATUS_CAUSE_CLOSED = 4,  /* the sandbox was closed */
	STATUS_CAUSE_MOUNTS = 5,  /* the sandbox lost the mount at `path` */
	STATUS_CAUSE_LINK = 6,    /* starts of members can no longer be received */
	STATUS_CAUSE_ORPHANS = 7, /* what a dead leader had left could not be killed */
	STATUS_CAUSE_HIDDEN = 8,  /* the host has created `path`, which must be hidden */
};

#define STATUS_LEFT_MAX 6u
/* A process that still runs, with its pid in the sandbox. */
struct status_left {
	int32_t pid;   /* 0 = unused entry */
	char name[16]; /* with a NUL */
};

#define STATUS_PORTS_MAX 32u
/* Ordered, without duplicates; unused entries are 0. */
struct status_ports {
	uint16_t count;
	uint16_t port[STATUS_PORTS_MAX];
};

struct status_msg {
	uint32_t kind;
	uint32_t cause;      /* EXITED */
	int32_t wait_status; /* EXITED, COMMAND_EXITED: raw, of the command */
	int32_t error;       /* FAILED: errno */
	union {
		uint32_t step; /* FAILED: enum sandbox_step */
		uint32_t kept; /* EXITED: bool: the tree is gone, and the init or leader stays for another command */
	};
	union {
		uint32_t signal;  /* SIGNAL */
		uint32_t autorun; /* EXITED: enum autorun_state; with AUTORUN_REPORT a sealed memfd is attached */
	};
	uint32_t layers;      /* READY: enum plan_layer in effect */
	uint32_t left_behind; /* EXITED: processes that were killed after the command ended; COMMAND_EXITED: that still
			       * run
			       */
	uint32_t session;     /* READY: id of this sandbox in audit records; AUDIT_NO_SESSION = none */
	uint32_t tmp_full;    /* EXITED: the file system of /tmp etc. was full at the end */
	union {
		uint64_t user_us;      /* EXITED: of all processes that were waited for, like the following */
		uint64_t leader_start; /* READY of a member: when its leader started, field 22 of its stat file, if that
					* has led another one before; otherwise 0
					*/
	};
	uint64_t system_us, max_rss_bytes;
	uint64_t minor_faults, major_faults, in_blocks, out_blocks, voluntary_switches, involuntary_switches;
	uint64_t oom_kills, pids_refused; /* EXITED: denied by the tree's limits */
	union {
		char path[128];            /* FAILED, EXITED: the path or object concerned, or ""; LOOKUP: the name */
		struct status_ports ports; /* PORTS */
		struct status_left left[STATUS_LEFT_MAX]; /* COMMAND_EXITED: the first of left_behind */
	};
	struct tree_count count; /* EXITED: the cgroups' counters */
};
/* An init that is older than its runtime sends a shorter message. */
#define STATUS_MSG_LEAST offsetof(struct status_msg, count)

#define STATUS_CAUSE_TEXT 128
/* Why a holder ended this member or its sandbox. False: it did not. */
bool status_cause_text(const struct status_msg *m, char ret[STATUS_CAUSE_TEXT]);

#endif
