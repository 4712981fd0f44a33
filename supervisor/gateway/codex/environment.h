#ifndef BAILIFF_GATEWAY_CODEX_ENVIRONMENT_H
#define BAILIFF_GATEWAY_CODEX_ENVIRONMENT_H

/*
 * The environment of a command that Codex starts: the executor's variables that its envPolicy selects, overridden by
 * `env`. Without a policy, only `env`.
 *
 * start_process adds default variables; those that Codex does not want are removed by name.
 */

#include <jansson.h>

struct err;

/* `own`: "K=V" strings, NULL-terminated. *ret becomes start_process's `env`. ERR_INVALID with the field. */
int environment_of(const json_t *policy, const json_t *env, char *const *own, json_t **ret, struct err *e);

#endif
