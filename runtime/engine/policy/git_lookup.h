#ifndef BAILIFF_ENGINE_GIT_LOOKUP_H
#define BAILIFF_ENGINE_GIT_LOOKUP_H

/*
 * The repository that a folder is in, on which the workspace of a request depends. A file system that does not answer
 * must delay only the requests that concern it. So before a request is decided, what is not known is waited for
 * (sandbox_setup_lookup, engine_await_folders); what follows uses what was found then.
 */

#include <limits.h>

struct engine;
struct err;
struct git_key;

/* As ports.git_of. The home need not be clean; peer_fd −1: any of the uid's. */
int git_lookup_of(struct engine *engine, const struct git_key *at, char ret[PATH_MAX], struct err *e);

#endif
