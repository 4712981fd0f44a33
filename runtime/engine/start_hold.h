#ifndef BAILIFF_ENGINE_START_HOLD_H
#define BAILIFF_ENGINE_START_HOLD_H

/*
 * A start that cannot go on at once, kept whole: the request, who made it, and who is to be answered. Nothing of it is
 * in the log yet, so it does not outlive the runtime; its client then asks again.
 */

#include "runtime/engine/permission.h"
#include "runtime/engine/start_record.h"

struct start_hold {
	struct start_record record;
	struct caller caller; /* its strings and its descriptor are the hold's */
	struct start_approval approval;
	char *ids[8]; /* that are in no record: session, thread, turn, trace; of the approval: action, binding, scope,
			 session … */
	engine_reply_fn fn;
	void *ctx;
	uint64_t since_ns;                                  /* when it was asked for */
	void (*go)(struct engine *g, struct start_hold *h); /* what goes on with it, while it waits */
};

/* A caller that outlives the call: its strings and its descriptor are copies. */
void caller_keep(struct caller *ret, const struct caller *c);
void caller_drop(struct caller *c);

/* NULL with e: it cannot be kept. The process has its id from here on, also in r->ret_process_id. */
struct start_hold *start_hold_new(struct engine *g, const struct start_request *r, const struct caller *c,
				  engine_reply_fn fn, void *ctx, struct err *e);
void start_hold_free(struct start_hold *h);

#endif
