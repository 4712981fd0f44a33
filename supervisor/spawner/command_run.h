#ifndef BAILIFF_SUPERVISOR_SPAWNER_COMMAND_RUN_H
#define BAILIFF_SUPERVISOR_SPAWNER_COMMAND_RUN_H

#include "sandbox/status.h"
#include "sandbox/steps.h"

#include <stdint.h>

struct init;

/*
 * Runs the command of a plan, in the init of a single-use sandbox or in a leader: sends READY, starts the command,
 * waits for the end of its tree and reports it. Then exits, with 0 if the end was reported. `session` is the audit
 * session of the sandbox; AUDIT_NO_SESSION in a leader.
 */
_Noreturn void command_run(struct init *in, uint32_t session);

/* Sends a message with up to two descriptors (−1 = none). Exits if both the runtime and the guard are gone. */
void init_send_status(int fd, const struct status_msg *m, int first, int second);
/* Reports the failed step and exits. */
_Noreturn void init_fail(struct init *in, enum sandbox_step step, int error);
/* Sets the score by which the OOM killer chooses, if the sandbox has a memory limit. */
void init_set_oom_score(const struct init *in, const char *score);

#endif
