#ifndef BAILIFF_ENGINE_JOB_H
#define BAILIFF_ENGINE_JOB_H

/*
 * Jobs: the same work for many items, each with its own status. The supervisor runs items with a command, as many in
 * parallel as the job allows; clients claim and report the others. As with tasks, each function takes its method's
 * parameters.
 *
 * job.c           creates, cancels and ends jobs; time limits; recovery after a restart
 * job_item.c      items: dispatch, launch, ends, reports
 * job_template.c  the command of an item
 */

#include "runtime/engine/core/engine.h"

#include <jansson.h>

#define JOB_METHODS(X) X(create_job) X(cancel_job) X(retry_job_item) X(report_job_item)

#define JOB_METHOD(name)                                                                                       \
	void engine_##name(struct engine *g, const json_t *params, const struct caller *c, engine_reply_fn fn, \
			   void *ctx);
JOB_METHODS(JOB_METHOD)
#undef JOB_METHOD

#endif
