#ifndef BAILIFF_CLI_STEP_CHECK_H
#define BAILIFF_CLI_STEP_CHECK_H

/*
 * Checks the members of a pipeline's step against the parameters of start_process, as list_methods describes them, so
 * that a mistake in the last step is found before the first one runs. Values are checked by their types only: whether a
 * folder exists may depend on an earlier step.
 */

#include <jansson.h>

struct cli;
struct err;

/* The parameters of start_process, a new reference. NULL on failure. */
json_t *step_parameters(struct cli *c, struct err *e);

/* The members that `own` names (it ends with NULL) are skipped: they are the pipeline's. */
int step_check(const json_t *parameters, const json_t *step, const char *const *own, struct err *e);

#endif
