#ifndef BAILIFF_SANDBOX_STEPS_STEP_H
#define BAILIFF_SANDBOX_STEPS_STEP_H

/* The functions of steps.def, one in each file of this folder. 0, or −1 with errno and, where it helps, c->path. */

#include "sandbox/steps.h"

int step_bounds(struct step_context *c);
int step_limits(struct step_context *c);
int step_id_maps(struct step_context *c);
int step_mounts(struct step_context *c);
int step_root(struct step_context *c);
int step_tmp(struct step_context *c);
int step_dev(struct step_context *c);
int step_proc(struct step_context *c);
int step_trees(struct step_context *c);
int step_accounts(struct step_context *c);
int step_pivot(struct step_context *c);
int step_hostname(struct step_context *c);
int step_network(struct step_context *c);
int step_keyring(struct step_context *c);
int step_ids(struct step_context *c);
int step_lifetime(struct step_context *c);
int step_terminal(struct step_context *c);
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

/* Whether the plan asks for a private root (root.c): steps that belong to one do nothing otherwise. */
bool step_confined(const struct step_context *c);
#define STEP_TMP_BYTES (1ull << 30) /* of private /tmp and so on where the plan says nothing */

/* Empties the bounding set; what the process itself can do stays. */
void step_drop_bounds(void);
/* Notes what a failing step was about, cut to what fits; leaves errno alone. */
void step_path(struct step_context *c, const char *path);

#endif
