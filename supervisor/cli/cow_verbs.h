#ifndef BAILIFF_CLI_COW_VERBS_H
#define BAILIFF_CLI_COW_VERBS_H

/* The changes of a copy-on-write run: requests about them, and their output. */

#include "runtime/base/jscan.h"

struct cli;
struct remote_answer;

/*
 * Calls a method with the process and paths of the command line (relative to the working directory). 0, or an exit
 * status after printing the error.
 */
int cow_call(struct cli *c, const char *method, struct remote_answer *ret);
/* Prints the PATHs of the command line that do not occur in a reply, and returns their number. */
size_t cow_unmatched(struct cli *c, struct jval result);
/* `bailiff apply` and `bailiff discard`: which paths were settled, and which were not. The exit status. */
int cow_settle(struct cli *c, const char *method, const char *settled);
/* After a run, on a terminal: prints the number of changes, and the commands to handle them. */
void cow_hint(struct cli *c, const char *process_id);

#endif
