#ifndef BAILIFF_CONTROL_REQUEST_H
#define BAILIFF_CONTROL_REQUEST_H

/*
 * From a line of a client to a running call: JSON-RPC requests and batches, the lookup of the method's row, and the
 * checks that the row asks for. The table itself is in methods.c, above the handlers.
 */

#include "supervisor/control/control.h"

/* Handles a line: a request, a notification or a batch of them. An empty line is ignored. */
void request_line(struct client *cl, const char *line, size_t len);

const struct method *method_find(const struct method_table *table, const char *name); /* or NULL */
/* The method with the most similar name, for "did you mean"; or NULL. */
const char *method_nearest(const struct method_table *table, const char *name);
const char *method_role_name(enum engine_role role);
const char *method_param_type_name(enum param_type type);

#endif
