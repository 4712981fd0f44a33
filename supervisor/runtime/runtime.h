#ifndef BAILIFF_SUPERVISOR_RUNTIME_RUNTIME_H
#define BAILIFF_SUPERVISOR_RUNTIME_RUNTIME_H

/*
 * The runtime: the unprivileged process that serves clients and keeps the facts. The guard starts it with its
 * descriptors at GUARD_FD_* (guard_msg.h), already under its own uid and without capabilities, and with the log set up.
 */

#include <stdbool.h>
#include <stdint.h>

struct runtime_options {
	bool embedded; /* started by a command of the user's: leave (exit 0) when idle */
	bool verbose;
	bool privileged;                              /* the guard has root: the spawner can act for any uid */
	uint32_t owner_uid;                           /* who started the guard */
	const char *home_label;                       /* for messages: the home, or "system" or "user" */
	const char *run_dir, *state_dir, *config_dir; /* by their real names: hidden from sandboxes */
	const char *tool_program;                     /* bailiff-tool; NULL = it is not there */
	const char *policy_file;                      /* the user's; NULL = each peer has one in its home */
	const char *limits;                           /* JSON: which limits of trees are enforced; NULL = not known */
	const char *audit_state; /* "on": audit records come to GUARD_FD_AUDIT; else why they do not */
	uint64_t audit_since_ns; /* boot time: since when they come; 0 = since the daemon was started */
};

/* The process's exit status: GUARD_EXIT_DONE, GUARD_EXIT_CONFIG, or anything else to be started again. */
int runtime_main(const struct runtime_options *o);

#endif
