#ifndef BAILIFF_ENGINE_TASK_H
#define BAILIFF_ENGINE_TASK_H

/*
 * Tasks: what clients ask of them. Each takes the method's parameters, whose types were checked against its row
 * (supervisor/control/methods.def); what they mean beyond that is checked here.
 *
 * task.c          making and changing them, and what the facts of all of them have in common
 * task_verbs.c    what is legal in which status; pause, resume, progress, complete, fail, archive
 * task_attempt.c  attempts: beginning, launching, ending, trying again; the process's owner
 * task_graph.c    edges, what waits for what, and who is released
 * task_cancel.c   cancellation: intent, propagation, and the proof that nothing is left
 * task_time.c     limits, client workers that are gone, and what a restart finds
 *
 * The documents (runtime/view/view_task.h) are the only state; the engine keeps just which connection a client's
 * attempt hangs on, and when to look again.
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
