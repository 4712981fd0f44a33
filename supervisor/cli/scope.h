#ifndef BAILIFF_CLI_SCOPE_H
#define BAILIFF_CLI_SCOPE_H

/*
 * The scope of an export, as given by a user: the id of a session (or its beginning), thread, turn or task; a process,
 * which means its turn; or KIND=ID for ids without a prefix.
 */

#include "supervisor/cli/id_lookup.h"

struct scope {
	const char *member; /* "sessionId" */
	char id[ID_LOOKUP_MAX];
};

/* On failure prints why and returns −1. */
int scope_find(struct cli *c, const char *given, struct scope *ret);

#endif
