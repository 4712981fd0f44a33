#ifndef BAILIFF_SANDBOX_STEPS_STEP_H
#define BAILIFF_SANDBOX_STEPS_STEP_H

/* The functions of steps.def, one in each file of this folder. 0, or −1 with errno and, where it helps, c->path. */

#include "sandbox/steps.h"

int step_id_maps(struct step_context *c);
int step_mounts(struct step_context *c);
int step_proc(struct step_context *c);
int step_ids(struct step_context *c);
int step_lifetime(struct step_context *c);
int step_no_new_privs(struct step_context *c);
int step_descriptors(struct step_context *c);
int step_landlock(struct step_context *c);
int step_seccomp(struct step_context *c);
int step_session(struct step_context *c);
int step_stdio(struct step_context *c);
int step_cwd(struct step_context *c);
int step_rlimits(struct step_context *c);
int step_signals(struct step_context *c);
int step_gate(struct step_context *c);

/* Notes what a failing step was about, cut to what fits; leaves errno alone. */
void step_path(struct step_context *c, const char *path);

#endif
