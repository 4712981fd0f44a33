#ifndef BAILIFF_CLI_NOUN_H
#define BAILIFF_CLI_NOUN_H

/*
 * Verbs that are rows of verbs.def: a row names the method, the parameters that arguments and options become, and the
 * members of the result to print. Lists are printed as tables, records in full, and changes as short confirmations.
 */

#include "supervisor/cli/cli.h"

/* Runs the row of the current verb that the first argument names. The exit status. */
int noun_run(struct cli *c);

/* For functions of rows: writes the given options as members, as `spec` says. 0, or the exit status after an error. */
int noun_options(struct cli *c, const char *spec, struct jw *w);
/* Sends a change and prints `member` of its result, or with --json all of it. The exit status. */
int noun_change(struct cli *c, struct request *q, const char *method, const char *member);

/* The options that describe a task, of `task create` and `task update`. */
#define TASK_DESCRIPTION                                                                                           \
	"title priority delivery accept=acceptance[] auto-complete=autoComplete:yes "                              \
	"attempts=retryPolicy.maxAttempts:number backoff=retryPolicy.backoffMs:time =retryPolicy.backoffFactor:2 " \
	"timeout=timeoutMs:time idle-timeout=idleMs:time heartbeat=heartbeatMs:time"

#endif
