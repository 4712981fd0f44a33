#ifndef BAILIFF_CLI_DOCTOR_H
#define BAILIFF_CLI_DOCTOR_H

/*
 * `bailiff doctor` in three parts: trials run bailiff-tool in sandboxes that the daemon builds as for any command
 * (doctor_trial.c), rows judge what was seen from inside (doctor_rows.c), and the verb shows them (cmd_doctor.c).
 */

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jscan.h"
#include "supervisor/client/remote.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

struct cli;

enum doctor_trial_kind {
	DOCTOR_SANDBOX,  /* the default profile, as a command would have it */
	DOCTOR_LANDLOCK, /* how many Landlock domains can be added */
	DOCTOR_FIFO,   /* profile readonly, a FIFO in the workspace; not where Landlock permits writing: below the home
			  and /tmp */
	DOCTOR_MEMORY, /* a memory limit, and more memory than that */
	DOCTOR_PIDS,   /* a limit of processes, and more processes than that */
	DOCTOR_CPU,    /* a tenth of a processor, and a busy loop */
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
	struct buf printed; /* by the program inside */
	struct jval seen;   /* … the JSON object in it; JT_NONE = it did not get as far */
	struct err failure; /* why it did not; message "" = it did */
	char advice[256];   /* the daemon's, with the failure; or "" */
};

struct doctor {
	char wanted[PATH_MAX]; /* the folder in which doctor was started */
	char folder[PATH_MAX]; /* a new one, the trials' workspace: below `wanted`, or where temporary files are */
	struct err not_here;   /* why it is not below `wanted`; message "" = it is */
	char not_here_advice[256];
	uint64_t owner;           /* of the file that was made inside, seen from outside; UINT64_MAX = there is none */
	uint64_t domains_outside; /* as DOCTOR_LANDLOCK, without a sandbox; 0 = there is no Landlock */
	struct doctor_trial trials[DOCTOR_TRIALS];
};

/* Runs all trials; failures are in the trials. Without `tool` (bailiff-tool as the daemon names it) none is run. */
void doctor_try(struct cli *c, const char *tool, struct doctor *ret);
void doctor_done(struct doctor *d);

enum doctor_state { DOCTOR_ENFORCED, DOCTOR_UNAVAILABLE, DOCTOR_NOT_NEEDED };

struct doctor_row {
	const char *layer;
	enum doctor_state state;
	bool required; /* without it commands cannot run safely */
	char seen[256];
	char cause[512]; /* of what is not enforced; "" */
	char fix[320];   /* what to do about it; "" */
};

#define DOCTOR_ROWS_MAX 24
/* `machine`: what bailiffd --version --json said; `health`: get_health's answer. */
size_t doctor_judge(const struct doctor *d, struct jval machine, struct jval health,
		    struct doctor_row ret[DOCTOR_ROWS_MAX]);
const char *doctor_state_name(enum doctor_state state);

#endif
