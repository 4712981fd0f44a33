#ifndef BAILIFF_CLI_DENIED_H
#define BAILIFF_CLI_DENIED_H

/* What the sandbox refused a process, collected from its sandbox.violation events and told in a few lines at the end.
 */

#include "supervisor/client/refusal.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DENIED_LINES 5

struct denied {
	bool is_lookup[DENIED_LINES];
	char *lines[DENIED_LINES]; /* "denied: write /etc/hosts (outside the write roots)", each once */
	char *later[64];           /* different ones that are not shown, to count each once */
	size_t count, nlater;
	bool many;                  /* more than can be told apart */
	struct refusal_needs needs; /* what options could have allowed */
	struct refusal_needs needs_without_lookups;
};

/* true if the event is one. */
bool denied_take(struct denied *d, struct jval event);
/* On stderr: the lines, how many more, and which options would allow it. A command that succeeded could do without the
 * names it looked up. */
void denied_tell(const struct denied *d, const char *process_id, bool succeeded);
void denied_done(struct denied *d);

#endif
