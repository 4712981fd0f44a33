#ifndef BAILIFF_GATEWAY_CODEX_ENVIRONMENT_H
#define BAILIFF_GATEWAY_CODEX_ENVIRONMENT_H

/*
 * The environment of a command that Codex starts: what its envPolicy takes of the executor's own variables, and `env`
 * on top. Without a policy `env` is all there is.
 *
 * start_process begins with variables of its own, so those that Codex does not want are removed by name.
 */

#include <jansson.h>

struct err;

/* `own`: "K=V" strings, NULL-terminated. *ret is start_process's `env`. ERR_INVALID with the field. */
int environment_of(const json_t *policy, const json_t *env, char *const *own, json_t **ret, struct err *e);

#endif
