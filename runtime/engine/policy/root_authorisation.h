#ifndef BAILIFF_ENGINE_ROOT_AUTHORISATION_H
#define BAILIFF_ENGINE_ROOT_AUTHORISATION_H

/*
 * Work of a root client may start after the client has disconnected: a task, a job's items, a start that waits for an
 * approval or hooks. The spawner then starts only commands in directories that were authorised while the client was
 * connected. These functions register them; for other users they do nothing.
 *
 * `hold`: the client may get its reply and disconnect before anything is started, so delay the reply until the spawner
 * has recorded the authorisation.
 */

#include <stdbool.h>

struct caller;
struct sandbox_setup;
struct engine;
struct sandbox_request;

void root_authorise(struct engine *engine, const struct sandbox_setup *f, const struct caller *c, bool hold);
void root_authorise_request(struct engine *engine, const struct sandbox_request *r, const struct caller *c, bool hold);

#endif
