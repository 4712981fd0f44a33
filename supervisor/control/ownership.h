#ifndef BAILIFF_CONTROL_OWNERSHIP_H
#define BAILIFF_CONTROL_OWNERSHIP_H

/*
 * Everything that a request names belongs to its caller. This is checked in one place, for every id of every method
 * (owned_ids.def), before the method's handler runs: a handler that combines several ids, or writes one into a fact,
 * need not ask for each of them. Root and the daemon's own uid may name everything.
 *
 * An id that names nothing passes: whether it may be new, or must be known, is the handler's to say. One that names
 * another uid's document is refused as not known, so that nobody learns what others have; where the method would make
 * it, as taken.
 */

#include <stdbool.h>

struct call;
struct err;

int ownership_check(const struct call *c, struct err *e);
/* Whether a parameter of this name has a row. For the test that holds them all to have one. */
bool ownership_knows(const char *name);

#endif
