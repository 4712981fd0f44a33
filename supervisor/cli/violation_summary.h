#ifndef BAILIFF_CLI_VIOLATION_SUMMARY_H
#define BAILIFF_CLI_VIOLATION_SUMMARY_H

/* A process's violations, collected from its sandbox.violation events and printed in a few lines at the end. */

#include "sandbox/violation_text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VIOLATION_SUMMARY_LINES 5

struct violation_summary {
	bool optional[VIOLATION_SUMMARY_LINES];
	char *lines[VIOLATION_SUMMARY_LINES]; /* "denied: write /etc/hosts (outside the write roots)", without
						 duplicates */
	char *later[64];                      /* further ones that are not shown, counted without duplicates */
	size_t count, nlater;
	bool many;                    /* more than `later` can hold: the count is a minimum */
	struct violation_needs needs; /* the options that would have allowed them */
	struct violation_needs needs_without_optional;
};

/* True if the event is a violation. */
bool violation_summary_add(struct violation_summary *d, struct jval event);
/*
 * Prints the lines to stderr, the number of further ones, and the options that would allow them. What is
 * optional (violation_text.h) is omitted if the command succeeded, since it did not need it. in_sandbox: it ran in a
 * session sandbox, whose access does not change.
 */
void violation_summary_print(const struct violation_summary *d, const char *process_id, bool succeeded,
			     bool in_sandbox);
void violation_summary_done(struct violation_summary *d);

#endif
