#ifndef BAILIFF_SANDBOX_STEPS_OVERLAY_H
#define BAILIFF_SANDBOX_STEPS_OVERLAY_H

/* Copy-on-write roots. See overlay.c. */

#include "sandbox/steps/step.h"

/*
 * Creates a detached overlay for this write root: over `lower`, the detached tree that would be bound without it;
 * `source` is the resolved directory. −1 with errno.
 */
int overlay_tree(struct step_context *c, uint32_t mount, int source, int lower);

/* Marks a placeholder that was created in the upper layer: it is not a change of the command's. */
#define OVERLAY_PLACEHOLDER "user.bailiff.placeholder"

#endif
