#ifndef BAILIFF_SUPERVISOR_RUNTIME_RUNTIME_H
#define BAILIFF_SUPERVISOR_RUNTIME_RUNTIME_H

/*
 * The runtime: the unprivileged process that serves clients and owns the store. The guard starts it with its
 * descriptors at GUARD_FD_* (guard_msg.h), already under its own uid, without capabilities, and with the log set up.
 */

#include <stdbool.h>
#include <stdint.h>

struct runtime_options {
	bool embedded; /* started by a user's command: exit (status 0) when idle */
	bool verbose;
	bool privileged;                              /* the guard runs as root: the spawner can act for any uid */
	uint32_t owner_uid;                           /* who started the guard */
	const char *home_label;                       /* for messages: the home, or "system" or "user" */
	const char *run_dir, *state_dir, *config_dir; /* real paths; hidden from sandboxes */
	const char *tool_program;                     /* bailiff-tool; NULL = not installed */
	const char *policy_file;                      /* the user's; NULL = each peer has one in its home directory */
	const char *limits;                           /* JSON: which limits of trees are enforced; NULL = unknown */
	const char *audit_state; /* "on": audit records arrive at GUARD_FD_AUDIT; else the reason why not */
	uint64_t audit_since_ns; /* boot time from which they arrive; 0 = since the daemon started */
};

/* The process's exit status: GUARD_EXIT_DONE, GUARD_EXIT_CONFIG, or any other to be restarted. */
int runtime_main(const struct runtime_options *o);

#endif
