#ifndef BAILIFF_CLI_VIOLATION_SUMMARY_H
#define BAILIFF_CLI_VIOLATION_SUMMARY_H

/* What the sandbox refused a process, collected from its sandbox.violation events and told in a few lines at the end.
 */

#include "supervisor/client/violation_text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VIOLATION_SUMMARY_LINES 5

struct violation_summary {
	bool is_lookup[VIOLATION_SUMMARY_LINES];
	char *lines[VIOLATION_SUMMARY_LINES]; /* "denied: write /etc/hosts (outside the write roots)", each once */
	char *later[64];                      /* different ones that are not shown, to count each once */
	size_t count, nlater;
	bool many;                    /* more than can be told apart */
	struct violation_needs needs; /* what options could have allowed */
	struct violation_needs needs_without_lookups;
};

/* true if the event is one. */
bool violation_summary_add(struct violation_summary *d, struct jval event);
/* On stderr: the lines, how many more, and which options would allow it. A command that succeeded could do without the
 * names it looked up. */
void violation_summary_print(const struct violation_summary *d, const char *process_id, bool succeeded);
void violation_summary_done(struct violation_summary *d);

#endif
