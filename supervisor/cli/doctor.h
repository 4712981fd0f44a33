#ifndef BAILIFF_CLI_DOCTOR_H
#define BAILIFF_CLI_DOCTOR_H

/*
 * `bailiff doctor` in three parts: trials run bailiff-tool in sandboxes that the daemon builds as for any command
 * (doctor_trial.c), rows evaluate what it saw inside (doctor_rows.c), and the verb prints them (cmd_doctor.c).
 */

#include "supervisor/cli/cli.h"

#include <limits.h>

enum doctor_trial_kind {
	DOCTOR_SANDBOX,  /* the default profile, as for a command */
	DOCTOR_LANDLOCK, /* how many Landlock domains can be added */
	DOCTOR_FIFO, /* profile readonly and a FIFO in the workspace; not where Landlock permits writing: below the home
			and /tmp */
	DOCTOR_MEMORY, /* a memory limit, and an attempt to exceed it */
	DOCTOR_PIDS,   /* a limit of processes, and an attempt to exceed it */
	DOCTOR_CPU,    /* a tenth of a CPU, and a busy loop */
	DOCTOR_TERMINAL,
	DOCTOR_TRIALS,
};

#define DOCTOR_MEMORY_LIMIT (32u << 20)
#define DOCTOR_MEMORY_TRIED (96u << 20)
#define DOCTOR_CPU_MS 300u
#define DOCTOR_PIDS_LIMIT 16u
#define DOCTOR_PIDS_TRIED 64u

struct doctor_trial {
	struct remote_answer answer;
	struct buf printed; /* output of the program inside */
	struct jval seen;   /* the JSON object in it; JT_NONE: none was printed */
	struct err failure; /* why not; message "": it succeeded */
	char stage[32];     /* of the sandbox, that failed; or "" */
	char advice[256];   /* what a person can do about it; or "" */
};

struct doctor {
	char wanted[PATH_MAX]; /* doctor's working directory */
	char folder[PATH_MAX]; /* the trials' workspace, newly created: below `wanted`, or in a temporary directory */
	struct err not_here;   /* why it is not below `wanted`; message "": it is */
	char not_here_advice[256];
	uint64_t owner;           /* of a file created inside, as seen from outside; UINT64_MAX: there is none */
	uint64_t domains_outside; /* like DOCTOR_LANDLOCK, but without a sandbox; 0: no Landlock */
	struct doctor_trial trials[DOCTOR_TRIALS];
};

/*
 * Runs all trials and stores failures in them. Without `tool` (the path of bailiff-tool, from the daemon) none is run.
 */
void doctor_try(struct cli *c, const char *tool, struct doctor *ret);
void doctor_done(struct doctor *d);

enum doctor_state { DOCTOR_ENFORCED, DOCTOR_UNAVAILABLE, DOCTOR_NOT_NEEDED };

struct doctor_row {
	const char *layer;
	enum doctor_state state;
	bool required; /* commands cannot run safely without it */
	char seen[256];
	char cause[512]; /* why it is not enforced; or "" */
	char fix[320];   /* how to fix it; or "" */
};

#define DOCTOR_ROWS_MAX 24
/* `machine`: output of bailiffd --version --json; `health`: reply of get_health. */
size_t doctor_judge(const struct doctor *d, struct jval machine, struct jval health,
		    struct doctor_row ret[DOCTOR_ROWS_MAX]);
const char *doctor_state_name(enum doctor_state state);

#endif
