#ifndef BAILIFF_CLI_COW_VERBS_H
#define BAILIFF_CLI_COW_VERBS_H

/* The verbs for the changes of a copy-on-write run (diff, apply, undo, discard), and revert, which has the same form.
 */

struct cli;

/* After a run, on a terminal: prints the number of changes, and the commands to handle them. */
void cow_hint(struct cli *c, const char *process_id);

#endif
