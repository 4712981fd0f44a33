#ifndef BAILIFF_ENGINE_PENDING_START_H
#define BAILIFF_ENGINE_PENDING_START_H

/*
 * A start that cannot go on at once, kept whole: the request, who made it, and who is to be answered. Nothing of it is
 * in the log yet, so it does not outlive the runtime; its client then asks again.
 */

#include "runtime/engine/process/start_record.h"

struct pending_start {
	struct start_record record;
	struct caller caller; /* its strings and its descriptor are the hold's */
	struct start_approval approval;
	char *ids[8]; /* that are in no record: session, thread, turn, trace; of the approval: action, binding, scope,
			 session … */
	engine_reply_fn fn;
	void *ctx;
	uint64_t since_ns;                                     /* when it was asked for */
	void (*go)(struct engine *g, struct pending_start *h); /* what goes on with it, while it waits */
};

/* NULL with e: it cannot be kept. The process has its id from here on, also in r->ret_process_id. */
struct pending_start *pending_start_new(struct engine *g, const struct start_request *r, const struct caller *c,
					engine_reply_fn fn, void *ctx, struct err *e);
void pending_start_free(struct pending_start *h);
struct sandbox_setup;
/* Continues with `go` when the policy of its workspace is known. Takes the pending start. */
void pending_start_wait(struct engine *g, const struct sandbox_setup *f, const struct sandbox_request *r,
			struct pending_start *h, void (*go)(struct engine *g, struct pending_start *h));

#endif
