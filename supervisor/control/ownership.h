#ifndef BAILIFF_CONTROL_OWNERSHIP_H
#define BAILIFF_CONTROL_OWNERSHIP_H

/*
 * Everything that a request names belongs to its caller. This is checked in one place, for every id of every method
 * (owned_ids.def), before the handler runs: a handler that combines several ids, or writes one into an event, need not
 * check each of them. Root and the daemon's own uid may name everything.
 *
 * An unknown id passes: whether it may be new or must exist is up to the handler. An id of another uid's document is
 * rejected as not known, so that the existence of other users' documents is not revealed; where the method would create
 * it, as taken.
 */

#include <stdbool.h>

struct call;
struct err;

int ownership_check(const struct call *c, struct err *e);
/* Whether there is a document with the id that a parameter of this name gives; also if that cannot be looked up. */
bool ownership_exists(const struct call *c, const char *name, const char *id);
/* Whether a parameter of this name has a row. For the test that requires one for each. */
bool ownership_knows(const char *name);

#endif
