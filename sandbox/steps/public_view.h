#ifndef BAILIFF_SANDBOX_STEPS_PUBLIC_VIEW_H
#define BAILIFF_SANDBOX_STEPS_PUBLIC_VIEW_H

/*
 * What a command with root's own uid outside (step_context's outer_root) sees of the host: only what everybody may
 * read. public_view.c has the reasons and the method. Functions return 0, or −1 with errno and the context's path.
 */

#include "sandbox/steps/step.h"

/*
 * Attaches a read-only view of a host directory or file to a place of the new root, including what is mounted below it.
 */
int public_view_bind(struct step_context *c, int source, int place);
/*
 * Covers everything in the fresh /proc that is not readable by everybody, and makes the rest read-only. The new root
 * must be the working directory.
 */
int public_view_shut_proc(struct step_context *c);
/* The same for the init's own directory there. Call after `pivot` and before capabilities are dropped. */
int public_view_shut_init(struct step_context *c);
/* The command's uid and gid as the init sees them on the command's own files. */
uid_t public_view_owner(const struct step_context *c);
gid_t public_view_owner_group(const struct step_context *c);

#endif
