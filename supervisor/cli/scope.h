#ifndef BAILIFF_CLI_SCOPE_H
#define BAILIFF_CLI_SCOPE_H

/*
 * What an export is about, as people write it: the id of a session (or its beginning), thread, turn or task; of a
 * process, whose turn is meant; or KIND=ID for ids that do not tell what they are.
 */

#include "supervisor/cli/id_lookup.h"

struct scope {
	const char *member; /* "sessionId" */
	char id[ID_LOOKUP_MAX];
};

/* Prints what is wrong and returns −1. */
int scope_find(struct cli *c, const char *given, struct scope *ret);

#endif
