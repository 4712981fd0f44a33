#ifndef BAILIFF_ENGINE_TASK_ACTION_H
#define BAILIFF_ENGINE_TASK_ACTION_H

/* The connection between actions and tasks. */

#include "runtime/engine/work/task_private.h"

/* The session of a task of the caller's; otherwise ERR_NOT_FOUND. */
int task_session(struct engine *g, const char *task_id, const struct caller *c, char ret_session[ID_SIZE],
		 struct err *e);

#endif
