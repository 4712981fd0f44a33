#ifndef BAILIFF_ENGINE_JOB_H
#define BAILIFF_ENGINE_JOB_H

/*
 * Jobs: many items of the same work, with a status of their own each. Items with a command are run by the supervisor,
 * as many at once as the job allows; the others are claimed and reported by clients. As with tasks, each function takes
 * its method's parameters.
 *
 * job.c        making, cancelling and ending jobs; time; what a restart finds
 * job_item.c   items: dispatch, launch, ends, reports
 * job_template.c  what is run for an item
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
