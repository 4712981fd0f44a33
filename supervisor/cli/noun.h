#ifndef BAILIFF_CLI_NOUN_H
#define BAILIFF_CLI_NOUN_H

/*
 * Verbs that are rows of verbs.def: a row names the method, the parameters that arguments and options become, and the
 * members of the result to print. Lists are printed as tables, records in full, and changes as short confirmations.
 */

#include "supervisor/cli/cli.h"

/* Runs the row of the current verb that the first argument names. The exit status. */
int noun_run(struct cli *c);

/* Whether the subverb accepts this option of its noun. */
bool noun_takes_option(const struct subverb *s, const char *name);

/* For functions of rows: writes the given options as members, as `spec` says. 0, or the exit status after an error. */
int noun_options(struct cli *c, const char *spec, struct jw *w);
/* Rejects a given option whose name is not in `names`. 0, or the exit status. */
int noun_check_options(struct cli *c, const char *subverb, const char *names);
/* The first given option whose name is in `names`; NULL if there is none. */
const char *noun_first_given(const struct cli *c, const char *names);
/* Sends a change and prints `member` of its result, or with --json all of it. The exit status. */
int noun_change(struct cli *c, struct request *q, const char *method, const char *member);

/* The options that describe a task, of `task create` and `task update`. */
#define TASK_DESCRIPTION                                                                                           \
	"title priority delivery accept=acceptance[] auto-complete=autoComplete:yes "                              \
	"attempts=retryPolicy.maxAttempts:number backoff=retryPolicy.backoffMs:time =retryPolicy.backoffFactor:2 " \
	"timeout=timeoutMs:time idle-timeout=idleMs:time heartbeat=heartbeatMs:time"

/* The settings of a job, of `job create` and `job run`. */
#define JOB_SETTINGS                                                                                      \
	"task=taskId:task session=sessionId:session parallel=maxParallel:uint timeout=maxRuntimeMs:time " \
	"attempts=retryPolicy.maxAttempts:uint item-timeout=retryPolicy.timeoutMs:time"

/* The limits of a model's work, and the names of options that several subverbs have: of the sandbox, of its command, of
 * that work. */
#define SANDBOX_OPTION_NAMES "profile cwd ro rw hide net allow-host tmp-size"
#define COMMAND_OPTION_NAMES                                                                                       \
	"env env-pass cow keep-tree command-timeout cpu-time output-limit memory memory-high pids cpus io-weight " \
	"io-read io-write"
#define AGENT_LIMITS \
	"max-cost=limits.maxCostUsd:number max-requests=limits.maxRequests:uint max-tokens=limits.maxTokens:uint"
#define AGENT_OPTION_NAMES "agent model max-cost max-requests max-tokens"
/* Where the fleet is, and what describes a task of it. */
#define FLEET_SERVER "fleet creds ca cert cert-key key"
#define FLEET_TASK                                                                                                \
	"agent model title needs label priority retries retry-lost deadline lease profile cow env dir git after " \
	"near"

#endif
