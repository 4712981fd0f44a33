#ifndef BAILIFF_ENGINE_PENDING_START_H
#define BAILIFF_ENGINE_PENDING_START_H

/*
 * A start that has to wait: copies of the request and the caller, and the pending reply. Nothing of it is in the log
 * yet, so it does not survive a restart of the runtime; the client then has to retry.
 */

#include "runtime/engine/process/start_record.h"

#include <limits.h>

struct pending_start {
	struct start_record record;
	struct caller caller; /* owns its strings and its descriptor */
	struct start_approval approval;
	char *ids[8]; /* owned strings that the record does not have: session, thread, turn, trace; those of the
			 approval: action, binding, scope, session … */
	engine_reply_fn fn;
	void *ctx;
	uint64_t since_ns;                                          /* start of the first wait; 0 = has not waited */
	void (*go)(struct engine *engine, struct pending_start *h); /* called at the end of the wait */
	bool replaced;                                              /* it has replaced the sandbox of its session */
	char *separate_reason;                                      /* of struct start_request; or NULL */
};

/* NULL with e on failure. Assigns the process id, which is also returned in r->ret_process_id. */
struct pending_start *pending_start_new(struct engine *engine, const struct start_request *r, const struct caller *c,
					engine_reply_fn fn, void *ctx, struct err *e);
void pending_start_free(struct pending_start *h);
struct sandbox_setup;
/* Calls `go` when the folder was searched (sandbox_setup_lookup). Takes ownership of the pending start. */
void pending_start_await(struct engine *engine, const char *folder, struct pending_start *h,
			 void (*go)(struct engine *engine, struct pending_start *h));
/* Calls `go` when the policy of the workspace is available. Takes ownership of the pending start. */
void pending_start_wait(struct engine *engine, const struct sandbox_setup *f, const struct sandbox_request *r,
			struct pending_start *h, void (*go)(struct engine *engine, struct pending_start *h));

#endif
