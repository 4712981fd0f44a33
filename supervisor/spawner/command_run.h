#ifndef BAILIFF_SUPERVISOR_SPAWNER_COMMAND_RUN_H
#define BAILIFF_SUPERVISOR_SPAWNER_COMMAND_RUN_H

#include "sandbox/status.h"
#include "sandbox/steps.h"

#include <stdint.h>

struct init;

/*
 * Sends READY, starts the command, waits for the end of its tree and reports it; then exits, with 0 if the end was
 * reported. `session` is the audit session of the sandbox.
 */
_Noreturn void command_run(struct init *in, uint32_t session);

/* Sends a message with up to two descriptors; −1 = not sent. Exits if nobody is left to receive it. */
void init_send_status(int fd, const struct status_msg *m, int first, int second);
/* Reports the failed step and exits. */
_Noreturn void init_fail(struct init *in, enum sandbox_step step, int error);
/* Sets the score that the OOM killer goes by, if the sandbox has a memory limit. */
void init_set_oom_score(const struct init *in, const char *score);

#endif
