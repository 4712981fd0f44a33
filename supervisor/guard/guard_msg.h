#ifndef BAILIFF_SUPERVISOR_GUARD_MSG_H
#define BAILIFF_SUPERVISOR_GUARD_MSG_H

/*
 * Messages between the guard and its children (SOCK_SEQPACKET, one fixed struct, with descriptors).
 *
 * Descriptors that the children find after exec:
 *
 * - runtime: GUARD_FD_LINK guard · GUARD_FD_PEER spawner · GUARD_FD_LISTEN control socket · GUARD_FD_STORE,
 *   GUARD_FD_SPOOL directories (O_DIRECTORY) · GUARD_FD_CONFIG configuration file, if it exists (else closed) ·
 *   GUARD_FD_AUDIT socket with audit records, if audit is ours (else closed)
 * - proxy: GUARD_FD_LINK guard · GUARD_FD_PEER runtime. Started when the runtime first asks for it (WANT_PROXY)
 * - otlp: GUARD_FD_LINK guard · GUARD_FD_LISTEN a connection to the control socket · GUARD_FD_STORE its cursor file. A
 *   separate program, started if OTEL_EXPORTER_OTLP_ENDPOINT is set
 * - fleet: GUARD_FD_LINK guard · GUARD_FD_LISTEN a connection to the control socket, made as the user of the fleet's
 *   tasks · GUARD_FD_CONFIG configuration file. A separate program, started if the daemon is a node of a fleet
 * - spawner: GUARD_FD_LINK guard · GUARD_FD_PEER runtime · GUARD_FD_LISTEN (only to read its name) ·
 *   GUARD_FD_GUARD_PIDFD · GUARD_FD_COW directory of copy-on-write runs
 *
 * Ordering rules on which recovery depends:
 *
 * - The runtime sends a start to the spawner and deposits its ends of the pipes in the same step, before it commits
 *   anything about the start. If it dies between the two, the gate closes and the init exits. The spawner deposits the
 *   init's pidfd before it replies. Sending is depositing: the message stays in the guard's socket even if its sender
 *   dies.
 * - A new runtime first does SPAWN_SYNC with the spawner (which has then finished and deposited whatever the previous
 *   runtime requested), then reads the hand-over. The guard drains the spawner's socket before it replies to NEXT.
 * - RELEASE kills the init if it is alive, reaps it, closes everything of that key, and then replies RELEASED: from
 *   then on no process of that sandbox exists, except for an init that is kept (GUARD_RELEASE_KEPT). The runtime sends
 * it after the terminal event is committed, for a start that was never committed, and before it retries a start.
 */

#include "sandbox/plan.h"

#include <stdint.h>

#define GUARD_FD_LINK 3
#define GUARD_FD_PEER 4
#define GUARD_FD_LISTEN 5
#define GUARD_FD_STORE 6
#define GUARD_FD_COW 6     /* the spawner's */
#define GUARD_FD_PROGRAM 7 /* its program, until exec */
#define GUARD_FD_SPOOL 7
#define GUARD_FD_CONFIG 8
#define GUARD_FD_GUARD_PIDFD 9
#define GUARD_FD_AUDIT 10
#define GUARD_FD_POLICY 11      /* this home's policy file */
#define GUARD_FD_HOST_POLICY 12 /* the host's, if that is another file */
#define GUARD_FD_LAST GUARD_FD_HOST_POLICY

/* Maximum of keys; a deposit beyond that is dropped, and RELEASE finds nothing. */
#define GUARD_ENTRIES_MAX 4096

/*
 * Prefix of the keys of clients' sockets (in slot STDIN), one per uid: they later prove for whom a command runs. They
 * also keep the connection open, so the guard shuts them down when a runtime dies: clients notice, and the proof
 * remains.
 */
#define GUARD_PEER_PREFIX "peer-"

/* The kinds of deposited descriptors. */
enum guard_slot {
	GUARD_SLOT_STDIN,  /* write end */
	GUARD_SLOT_STDOUT, /* read end */
	GUARD_SLOT_STDERR,
	GUARD_SLOT_STATUS,
	GUARD_SLOT_GATE,      /* write end: one byte opens, closing aborts */
	GUARD_SLOT_PIDFD,     /* of the init; from the spawner */
	GUARD_SLOT_PTY,       /* master of the terminal; sent with the init's READY */
	GUARD_SLOT_RELAY,     /* pipe between the terminal, or stdout with much output, and the spool: read end */
	GUARD_SLOT_FEED,      /* the same pipe: write end */
	GUARD_SLOT_NET,       /* listening socket inside the sandbox, for the proxy */
	GUARD_SLOT_NET_RULES, /* hosts that the proxy allows: sealed memfd of struct host_rule */
	GUARD_SLOT_LIMIT,     /* timer: the guard kills the init when it expires. The runtime may move it */
	GUARD_SLOT_COUNT
};

enum guard_role { GUARD_RUNTIME, GUARD_SPAWNER, GUARD_PROXY, GUARD_OTLP, GUARD_FLEET, GUARD_ROLES };

/* Files that the guard opens for the runtime, at GUARD_FD_CONFIG, _POLICY and _HOST_POLICY, if they exist. */
enum guard_file { GUARD_FILE_CONFIG, GUARD_FILE_POLICY, GUARD_FILE_HOST_POLICY, GUARD_FILES };

enum guard_release {
	GUARD_RELEASE_INIT = 0,
	GUARD_RELEASE_MEMBER = 1, /* no reply is needed: a member has no init and no cgroup */
	GUARD_RELEASE_KEPT =
		2, /* the init has ended the command by itself and stays for another one (spawner/prebuilt.h):
		      it is not killed if it has closed its end of the status socket */
};

/*
 * The value of a DEPOSIT. While those of members follow each other closely, the guard reads messages up to 11 ms late.
 */
enum guard_deposit { GUARD_DEPOSIT_OTHER = 0, GUARD_DEPOSIT_MEMBER = 1 };

enum guard_kind {
	/* child → guard */
	GUARD_DEPOSIT = 1,  /* key, slots + as many descriptors, in slot order; pid when PIDFD is among them;
			       value: enum guard_deposit */
	GUARD_WITHDRAW = 2, /* key, slots: closes only those (stdin after close_process_stdin) */
	GUARD_KILL = 3,     /* key: SIGKILL to the init; no reply */
	GUARD_RELEASE = 4,  /* key → RELEASED; value: enum guard_release */
	GUARD_NEXT = 5,  /* index → ITEM with the entry at or after index, or END; one that is being released has no
			    descriptors */
	GUARD_READY = 6, /* the child is serving (resets its restart delay). value, from the runtime: ms that it gives
			    commands to end */
	GUARD_WANT_PROXY = 7,   /* start the proxy if it is not running; its link is sent with PEER */
	GUARD_WANT_RELOAD = 8,  /* value: token → RELOAD, as after SIGHUP */
	GUARD_WANT_RESTART = 9, /* index: enum guard_role (spawner, proxy): the link to it is broken, restart it */
	/* guard → child */
	GUARD_RELEASED = 16, /* key, value = 1 if it was still alive */
	GUARD_ITEM = 17,     /* key, slots + descriptors, pid, index of the next entry */
	GUARD_END = 18,
	GUARD_PEER = 19,     /* one descriptor: the link to another child that was restarted; index: enum guard_role */
	GUARD_STOP = 20,     /* to the runtime: end live processes, record that, exit 0 */
	GUARD_RELOAD = 21,   /* after SIGHUP. value: bits of enum guard_file, newly opened and attached in this order;
				index: bits of files that exist but could not be opened;
				token: of the last WANT_RELOAD that came before they were opened, or 0 */
	GUARD_FLEET_IS = 22, /* to the runtime: pid of the fleet's node, 0 = it has exited */
};

struct guard_msg {
	uint32_t kind;
	uint32_t slots; /* bits 1u << enum guard_slot */
	int32_t pid;
	uint32_t index;
	uint32_t value;
	uint32_t token;
	struct plan_key key;
};

/* Exit statuses after which the guard does not restart the child. */
#define GUARD_EXIT_DONE 0    /* orderly stop */
#define GUARD_EXIT_CONFIG 78 /* the configuration or the store is unusable; the reason was logged */

#endif
