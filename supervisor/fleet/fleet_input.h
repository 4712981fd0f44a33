#ifndef BAILIFF_FLEET_INPUT_H
#define BAILIFF_FLEET_INPUT_H

/*
 * The workspace of a task on its node: a folder of its own below the node's workspaces, with the content of the spec's
 * bundle, or empty. A bundle comes from the bus in chunks, one for each step, so that claims can be renewed in between;
 * its hash is verified before anything is unpacked.
 *
 * A git repository is not read by the node itself: fleet_input_command makes the command fetch it, inside the task's
 * sandbox and with the network that its profile permits.
 */

#include "supervisor/fleet/fleet_doc.h"

#include <stddef.h>

struct buf;
struct bundle;
struct err;
struct fleet_port;
struct fleet_input;

/*
 * The subject of a bundle's chunk. Every submitter has bundles of their own, even if the files are the same: the hash
 * of a bundle is no secret, and must not be enough to get it into a task of another user.
 */
char *fleet_input_subject(const char *submitter, const struct bundle *b, uint64_t chunk);

/* A folder `name` below dir_fd is made; one that is left from before is removed first. */
int fleet_input_new(struct fleet_port *port, const struct fleet_task *t, int dir_fd, const char *name,
		    struct fleet_input **ret, struct err *e);
/* 1: call again; 0: the workspace is ready; −1: it failed (ERR_UNAVAILABLE: the bus; others are final). */
int fleet_input_step(struct fleet_input *in, struct err *e);
void fleet_input_free(struct fleet_input *in); /* keeps the folder; accepts NULL */

/* Appends the command as a JSON array: the spec's own, or for git a shell that fetches the repository first. */
void fleet_input_command(const struct fleet_spec *spec, struct buf *ret);

#endif
