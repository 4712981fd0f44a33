#ifndef BAILIFF_SANDBOX_STEPS_OVERLAY_H
#define BAILIFF_SANDBOX_STEPS_OVERLAY_H

/* Copy-on-write roots. See overlay.c. */

#include "sandbox/steps/step.h"

/*
 * A detached overlay for this write root of the plan: over `lower`, the detached tree that would be bound without it;
 * `source` is the folder as it was looked up. −1 with errno.
 */
int overlay_tree(struct step_context *c, uint32_t mount, int source, int lower);

/* By this attribute a placeholder that was made in the upper layer is known: it is no change of the command's. */
#define OVERLAY_PLACEHOLDER "user.bailiff.placeholder"

#endif
