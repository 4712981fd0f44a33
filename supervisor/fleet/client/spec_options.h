#ifndef BAILIFF_FLEET_CLIENT_SPEC_OPTIONS_H
#define BAILIFF_FLEET_CLIENT_SPEC_OPTIONS_H

/* The spec of a task (fleet_doc.h) from the options of `fleet submit` and `fleet run`. */

#include "supervisor/fleet/bundle.h"
#include "supervisor/fleet/fleet_doc.h"

struct buf;
struct cli;

/* A random id that starts with this letter. */
void fleet_new_id(char letter, char ret[FLEET_ID_MAX + 1]);

struct spec_item {
	const char *text; /* replaces {item} in the command or prompt */
	size_t index;     /* replaces {index} */
};

/*
 * Appends the spec's text. `group` is the job of the item; both may be NULL. `bundle` is NULL without a workspace. The
 * text is complete and within all limits. 0, or the exit status after an error that names the option.
 */
int spec_options_write(struct cli *c, const char *id, const char *group, const struct spec_item *item,
		       const struct bundle *bundle, struct buf *ret);

#endif
