#ifndef BAILIFF_SUPERVISOR_GUARD_MSG_H
#define BAILIFF_SUPERVISOR_GUARD_MSG_H

/*
 * Messages between the guard and its children (SOCK_SEQPACKET, one fixed struct, descriptors beside it).
 *
 * Descriptors the children find after exec:
 *   runtime: GUARD_FD_LINK guard · GUARD_FD_PEER spawner · GUARD_FD_LISTEN control socket · GUARD_FD_STORE,
 *     GUARD_FD_SPOOL
 *            folders (O_DIRECTORY) · GUARD_FD_CONFIG config file, if there is one (else closed) · GUARD_FD_AUDIT
 *              where
 *            audit records come, if they are ours (else closed)
 *   proxy:   GUARD_FD_LINK guard · GUARD_FD_PEER runtime. Started when the runtime first asks for it (WANT_PROXY)
 *   otlp:    GUARD_FD_LINK guard · GUARD_FD_LISTEN a connection to the control socket · GUARD_FD_STORE its cursor
 *            file. Another program,
 *            started when OTEL_EXPORTER_OTLP_ENDPOINT is set
 *   spawner: GUARD_FD_LINK guard · GUARD_FD_PEER runtime · GUARD_FD_LISTEN (only to know its name) ·
 *     GUARD_FD_GUARD_PIDFD · GUARD_FD_COW folder of copy-on-write runs
 *
 * Order rules that recovery rests on:
 *  - the runtime deposits its ends of a start's pipes before it sends the start to the spawner; the spawner deposits
 *    the
 *    init's pidfd before it answers. Sending is depositing: the message waits in the guard's socket even if its
 *      sender dies.
 *  - a new runtime first does SPAWN_SYNC with the spawner (which has then finished and deposited whatever an earlier
 *    runtime asked for), then takes the hand-over; the guard drains the spawner's socket before answering NEXT.
 *  - RELEASE kills the init if it is alive, reaps it, closes everything of that key, and then answers RELEASED: after
 *    that
 *    no process of that sandbox exists. The runtime sends it after the terminal event is committed, for a start that
 *      was
 *    never committed, and before it tries a start again.
 */

#include "sandbox/plan.h"

#include <stdint.h>

#define GUARD_FD_LINK 3
#define GUARD_FD_PEER 4
#define GUARD_FD_LISTEN 5
#define GUARD_FD_STORE 6
#define GUARD_FD_COW 6     /* the spawner's */
#define GUARD_FD_PROGRAM 7 /* its file, until it is executed */
#define GUARD_FD_SPOOL 7
#define GUARD_FD_CONFIG 8
#define GUARD_FD_GUARD_PIDFD 9
#define GUARD_FD_AUDIT 10
#define GUARD_FD_POLICY 11      /* this home's policy file */
#define GUARD_FD_HOST_POLICY 12 /* the machine's, where that is another one */
#define GUARD_FD_LAST GUARD_FD_HOST_POLICY

/* So many keys at once; a deposit past that is dropped, and RELEASE finds nothing. */
#define GUARD_ENTRIES_MAX 4096

/*
 * Keys of clients' sockets (in slot STDIN), one for each uid: they prove later who a command is run for. They also hold
 * the connection open, so the guard shuts them down when a runtime dies: clients must notice, and the proof stays.
 */
#define GUARD_PEER_PREFIX "peer-"

/* What a deposited descriptor is. */
enum guard_slot {
	GUARD_SLOT_STDIN,  /* write end */
	GUARD_SLOT_STDOUT, /* read end */
	GUARD_SLOT_STDERR,
	GUARD_SLOT_STATUS,
	GUARD_SLOT_GATE,      /* write end: one byte opens, closing aborts */
	GUARD_SLOT_PIDFD,     /* of the init; from the spawner */
	GUARD_SLOT_PTY,       /* master of the terminal; comes with the init's READY */
	GUARD_SLOT_PTY_PIPE,  /* through which its output goes on the way to the spool: read end */
	GUARD_SLOT_PTY_FEED,  /* write end */
	GUARD_SLOT_NET,       /* listening socket inside, for the proxy */
	GUARD_SLOT_NET_RULES, /* what the proxy lets through: sealed memfd of struct host_rule */
	GUARD_SLOT_COUNT
};

enum guard_role { GUARD_RUNTIME, GUARD_SPAWNER, GUARD_PROXY, GUARD_OTLP, GUARD_ROLES };

/* Files that the guard opens for the runtime, at GUARD_FD_CONFIG, _POLICY and _HOST_POLICY if they are there. */
enum guard_file { GUARD_FILE_CONFIG, GUARD_FILE_POLICY, GUARD_FILE_HOST_POLICY, GUARD_FILES };

enum guard_kind {
	/* child → guard */
	GUARD_DEPOSIT = 1,  /* key, slots + as many descriptors, in slot order; pid when PIDFD is among them */
	GUARD_WITHDRAW = 2, /* key, slots: closes just those (stdin after close_process_stdin) */
	GUARD_KILL = 3,     /* key: SIGKILL to the init; no answer */
	GUARD_RELEASE = 4,  /* key → RELEASED */
	GUARD_NEXT = 5,     /* index → ITEM with the entry at or after index, or END; one that is being released comes
			       without descriptors */
	GUARD_READY = 6, /* the child serves now (resets its restart delay). value, from the runtime: ms that it gives
			    commands to end */
	GUARD_WANT_PROXY = 7,  /* start the proxy, if it is not there; its link comes as PEER */
	GUARD_WANT_RELOAD = 8, /* → RELOAD, as if SIGHUP had come */
	GUARD_WANT_RESTART =
		9, /* index: enum guard_role (spawner, proxy): the link to it is broken, start another one */
	/* guard → child */
	GUARD_RELEASED = 16, /* key, value = 1 if it was still alive */
	GUARD_ITEM = 17,     /* key, slots + descriptors, pid, index of the next one */
	GUARD_END = 18,
	GUARD_PEER = 19, /* one descriptor: the link to another child, which was started anew; index: enum guard_role */
	GUARD_STOP = 20, /* to the runtime: end live processes, record, exit 0 */
	GUARD_RELOAD = 21, /* SIGHUP came. value: bits of enum guard_file that are there, opened anew, in their order
			      beside it; index: bits of those that are there but could not be opened */
};

struct guard_msg {
	uint32_t kind;
	uint32_t slots; /* bits 1u << enum guard_slot */
	int32_t pid;
	uint32_t index;
	uint32_t value;
	uint32_t reserved;
	struct plan_key key;
};

/* Exit statuses by which a child tells the guard not to start it again. */
#define GUARD_EXIT_DONE 0    /* orderly stop */
#define GUARD_EXIT_CONFIG 78 /* the configuration or the store cannot be used; the reason was logged */

#endif
