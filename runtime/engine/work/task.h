#ifndef BAILIFF_ENGINE_TASK_H
#define BAILIFF_ENGINE_TASK_H

/*
 * Tasks: the methods that clients call. Each takes the method's parameters, whose types have been checked against its
 * row (supervisor/control/methods.def); everything beyond the types is checked here.
 *
 * task.c          creating and updating tasks, and the facts that all of them share
 * task_verbs.c    progress, pause, resume, complete, fail, archive
 * task_read.c     documents, parameters, and which verbs are legal in which status
 * task_attempt.c  attempts: start, launch, end, retry; the owner of their processes
 * task_graph.c    edges between tasks, and the release of tasks that waited
 * task_cancel.c   cancellation: intent, propagation, and the proof that nothing is left
 * task_time.c     time limits, disconnected client workers, and recovery after a restart
 *
 * The documents (runtime/view/view_task.h) are the only state. In memory the engine only keeps the connection of each
 * client's attempt, and the time of the next check.
 */

#include "runtime/engine/core/engine.h"

#include <jansson.h>

#define TASK_METHODS(X)         \
	X(create_task)          \
	X(update_task)          \
	X(start_task)           \
	X(append_task_progress) \
	X(pause_task)           \
	X(resume_task)          \
	X(cancel_task) X(retry_task) X(complete_task) X(fail_task) X(archive_task) X(link_tasks) X(unlink_tasks)

#define TASK_METHOD(name)                                                                                      \
	void engine_##name(struct engine *g, const json_t *params, const struct caller *c, engine_reply_fn fn, \
			   void *ctx);
TASK_METHODS(TASK_METHOD)
#undef TASK_METHOD

#endif
