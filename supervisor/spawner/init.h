#ifndef BAILIFF_SUPERVISOR_SPAWNER_INIT_H
#define BAILIFF_SUPERVISOR_SPAWNER_INIT_H

/* The sandbox's first process: pid 1 of its pid namespace. See init.c. */

#include "sandbox/steps/step.h"
#include "supervisor/spawner/prebuilt_msg.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct autorun;
struct cpu_affinity;
struct leftovers;
struct process_title;

#define OOM_SCORE_RAISED 800 /* of a sandbox, if the daemon itself is not protected */
#define OOM_SCORE_MORE 200   /* of a command with a memory limit, in addition */
#define OOM_SCORE_MAX 1000

struct init {
	struct step_context steps;
	struct process_title *title;
	const struct cpu_affinity *affinity;
	const volatile uint64_t
		*sockets; /* created in all sandboxes with a cgroup (socket_counter.h); NULL = unknown */
	int leaf_fd;      /* the cgroup into which it is cloned; −1 = none */
	int mounts_fd;    /* dedicated prebuilt sandbox: polls as POLLPRI when its mounts have changed; else −1 */
	bool leader;      /* not pid 1: runs a member of a holder (holder.c) */
	volatile uint8_t *starting; /* of a leader: set to 0 when its command was executed; shared with the holder */
	/* Of a leader whose member has limits of its own (member_limits.h); steps.tree is the whole sandbox's. */
	bool has_own, own_memory;
	struct tree_files own;
	struct autorun *autorun; /* of a leader, or of an init that is kept: its commands use the same memory */
	struct leftovers
		*leftovers; /* dedicated prebuilt sandbox: what it was like before its first command; else NULL */
	struct tree_count counted; /* the cgroups' counters at the end of the last command */
	bool polite;               /* while it waits for a command, it has the policy SCHED_BATCH */
	bool kept;                 /* it waits for another command: the last one may have left nothing */
	bool audit;                /* enter an audit session of its own */
	int oom_score;             /* oom_score_adj of the sandbox; commands with a memory limit get more */
	/*
	 * The command's arguments start at argv[1], NULL-terminated. argv[0] is reserved for the shell, which runs a
	 * script without an interpreter line.
	 */
	const char **argv;
	const char **envv;
	struct prebuilt_msg_buffer *room; /* prebuilt sandboxes: buffer for the command's message */
	size_t mapped;                    /* length of the current plan, if it is not in `room`; otherwise 0 */
	const char *cow_folder;           /* directory of all copy-on-write runs */
	const uint8_t *autorun_key;       /* seals reports on autorun files */
	char cow_path[PATH_MAX];
	/* Written by the command's process before exec: it shares this memory until then (see init.c). */
	enum sandbox_step reached;
	int error; /* 0, or the errno with which `reached` failed */
};

/* Sets the current plan and fills its argument and environment vectors in the space at `argv`. */
void init_set_plan(struct init *in, const struct plan_head *p);
/* Entry point of the cloned child. */
_Noreturn void init_main(struct init *in);

/* In the command's process: runs the remaining steps, then exec. Returns only with in->error set. */
void exec_command(struct init *in);

/*
 * CPU time in µs of every process below `root`, including reaped children; beyond every limit if /proc cannot be read.
 * If a process ignores SIGCHLD, the kernel reaps its children and their time is visible only in the cgroup's
 * statistics.
 */
uint64_t cputime_tree_us(pid_t root);
/* Total CPU time of a cgroup in µs, from its cpu.stat. */
uint64_t cputime_cgroup_us(int stat_fd);

#endif
