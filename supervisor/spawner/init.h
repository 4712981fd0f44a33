#ifndef BAILIFF_SUPERVISOR_SPAWNER_INIT_H
#define BAILIFF_SUPERVISOR_SPAWNER_INIT_H

/* The sandbox's first process: pid 1 of its pid namespace. See init.c. */

#include "sandbox/steps/step.h"
#include "supervisor/spawner/prebuilt_msg.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct cpu_affinity;
struct process_title;

struct init {
	struct step_context steps;
	struct process_title *title;
	const struct cpu_affinity *affinity;
	int leaf_fd;    /* the cgroup that it is cloned into; −1 = none */
	bool audit;     /* enter an audit session of its own */
	bool reset_oom; /* the spawner is protected from the OOM killer; the sandbox must not be */
	/*
	 * The command's arguments from argv[1] on, NULL-terminated: argv[0] is room for the shell, when what is to be
	 * executed turns out to be a script without an interpreter line.
	 */
	const char **argv;
	const char **envv;
	struct prebuilt_msg_buffer *room; /* of a sandbox that is built ahead: for its order */
	const char *cow_folder;           /* of all copy-on-write runs */
	const uint8_t *autorun_key;       /* seals reports on autorun files */
	char cow_path[PATH_MAX];
	/* Written by the command's process before it executes: it shares this memory until then (see init.c). */
	enum sandbox_step reached;
	int error; /* 0, or why `reached` failed */
};

/* The plan at hand, and its argument and environment vectors in the room that `argv` has for them. */
void init_set_plan(struct init *in, const struct plan_head *p);
/* What the child of the clone does. */
_Noreturn void init_main(struct init *in);

/* In the command's process: the remaining steps, then exec. Comes back only with in->error set. */
void exec_command(struct init *in);

/*
 * Processor time of every process of the namespace but pid 1, with what they waited for, in µs; 0 without a /proc. A
 * process that lets the kernel reap its children (SIGCHLD ignored) waited for nothing: their time is nowhere to be
 * seen, but in the cgroup's.
 */
uint64_t cputime_tree_us(void);
/* All that a cgroup ever used, from its cpu.stat, in µs. */
uint64_t cputime_cgroup_us(int stat_fd);

#endif
