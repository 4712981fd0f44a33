#ifndef BAILIFF_CONTROL_METHOD_H
#define BAILIFF_CONTROL_METHOD_H

/*
 * Looks up rows of the method table and runs a call as declared by its row. The table itself is in methods.c, above the
 * handlers.
 */

#include "supervisor/control/control.h"

#define METHOD_KEY_MAX 200 /* the longest idempotencyKey */

const struct method *method_find(const struct method_table *table, const char *name); /* or NULL */
/* The method with the most similar name, for "did you mean"; or NULL. */
const char *method_nearest(const struct method_table *table, const char *name);
const char *method_role_name(enum engine_role role);
const char *method_param_type_name(enum param_type type);

/*
 * Checks role, then parameters, then the idempotency key, and runs the handler: the call is answered now or later.
 * `params` were given by the client: NULL when there were none.
 */
void method_run(struct call *c);

#endif
