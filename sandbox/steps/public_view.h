#ifndef BAILIFF_SANDBOX_STEPS_PUBLIC_VIEW_H
#define BAILIFF_SANDBOX_STEPS_PUBLIC_VIEW_H

/*
 * What a command is shown of the host that has root's own uid outside (step_context's outer_root): as much of it as
 * everybody may read. public_view.c says why and how. 0, or −1 with errno and the context's path.
 */

#include "sandbox/steps/step.h"

/* Puts a view of a folder or file of the host's at a place of the new root, read-only; what is mounted below it is
 * there too. */
int public_view_bind(struct step_context *c, int source, int place);
/* Covers what not everybody may read of the fresh /proc, and makes the rest read-only. The new root is the working
 * directory. */
int public_view_shut_proc(struct step_context *c);
/* The same for the init's own folder there. After `pivot`, and before capabilities are gone. */
int public_view_shut_init(struct step_context *c);
/* The command's uid and gid as the init sees them on files that are the command's own. */
uid_t public_view_owner(const struct step_context *c);
gid_t public_view_owner_group(const struct step_context *c);

#endif
