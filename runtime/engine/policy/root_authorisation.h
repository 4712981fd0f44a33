#ifndef BAILIFF_ENGINE_ROOT_AUTHORISATION_H
#define BAILIFF_ENGINE_ROOT_AUTHORISATION_H

/*
 * A root client may be gone when what it asked for is run: a task, a job's items, a start that waits for permission or
 * hooks. The spawner then runs only what it was told of while the client was there, so it is told now. For other users
 * nothing is done.
 *
 * `hold`: the reply may come, and the client leave, before anything is started; then the reply waits until the spawner
 * has taken note.
 */

#include <stdbool.h>

struct caller;
struct sandbox_setup;
struct engine;
struct sandbox_request;

void root_authorise(struct engine *g, const struct sandbox_setup *f, const struct caller *c, bool hold);
void root_authorise_request(struct engine *g, const struct sandbox_request *r, const struct caller *c, bool hold);

#endif
