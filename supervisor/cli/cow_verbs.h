#ifndef BAILIFF_CLI_COW_VERBS_H
#define BAILIFF_CLI_COW_VERBS_H

/* What a copy-on-write run changed: asking for it, and saying what became of it. */

#include "runtime/base/jscan.h"

struct cli;
struct remote_answer;

/*
 * Calls a method with the process and paths of the command line (relative ones are meant from here). 0; else an exit
 * status, and why was printed.
 */
int cow_call(struct cli *c, const char *method, struct remote_answer *ret);
/* Names the PATHs of the command line that an answer has nothing about, and counts them. */
size_t cow_unmatched(struct cli *c, struct jval result);
/* `bailiff apply` and `bailiff discard`: which paths were settled, and which were not. The exit status. */
int cow_settle(struct cli *c, const char *method, const char *settled);
/* After a run: how many there are, and what can be done about them. Only said to people. */
void cow_hint(struct cli *c, const char *process_id);

#endif
