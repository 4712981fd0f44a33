#ifndef BAILIFF_SUPERVISOR_SPAWNER_COMMAND_RUN_H
#define BAILIFF_SUPERVISOR_SPAWNER_COMMAND_RUN_H

#include "sandbox/status.h"
#include "sandbox/steps.h"

#include <stdbool.h>
#include <stdint.h>

struct init;

#define COMMAND_RUN_MAX 256u /* commands of one leader or init */

struct command_run {
	uint32_t session;      /* the audit session of the sandbox; AUDIT_NO_SESSION in a leader */
	int signal_fd;         /* of SIGCHLD */
	uint64_t leader_start; /* when this leader started, if it has led another member before; otherwise 0 */
	bool again;            /* it has run another command before */
	bool keep;             /* it can run another command after this one */
};

/*
 * Runs the command of a plan, in the init of a single-use sandbox or in a leader: sends READY, starts the command,
 * waits for the end of its tree and reports it. Returns once this process has no children and the end was reported;
 * exits with a status other than 0 otherwise. Sets in->kept if it was reported as kept, and has closed the status
 * socket then.
 */
void command_run(struct init *in, const struct command_run *run);
/* A descriptor that is readable while a SIGCHLD is pending for the process that polls it. */
int command_run_signal_fd(void);

/* Sends a message with up to two descriptors (−1 = none). Exits if both the runtime and the guard are gone. */
void init_send_status(int fd, const struct status_msg *m, int first, int second);
/* Reports the failed step and exits. */
_Noreturn void init_fail(struct init *in, enum sandbox_step step, int error);
/* Sets the score by which the OOM killer chooses. */
void init_write_oom_score(const struct init *in, int score);
/* Raises that of the process to come, if its memory is limited, or restores the init's own. */
void init_raise_oom_score(const struct init *in, bool raised);

#endif
