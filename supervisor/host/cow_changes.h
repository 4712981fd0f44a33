#ifndef BAILIFF_SUPERVISOR_HOST_COW_CHANGES_H
#define BAILIFF_SUPERVISOR_HOST_COW_CHANGES_H

/*
 * The runtime's side of copy-on-write changes: asks the spawner, whose helpers may read and write the files, writes the
 * events and answers clients. The changes themselves are on disk and survive any restart.
 *
 * Callbacks run on the loop, at once if the request is rejected. A client that disconnects does not cancel its request.
 */

#include "runtime/base/buf.h"
#include "runtime/engine/core/engine.h"
#include "sandbox/change_list.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct cow_changes_job;
struct spawn_link;
struct spawn_msg;
struct store;

struct cow_changes {
	struct store *store;
	struct engine *engine;
	struct spawn_link *spawner;
	TAILQ_HEAD(, cow_changes_job) jobs; /* not answered */
	size_t sent, sent_copies;           /* that the spawner has to answer */
	uint32_t next;
	uint64_t copies_budget; /* bytes of the copies of one uid; 0 = no limit; the caller sets it */
	struct buf checkpoints; /* ids when they last expired, each terminated by NUL */
	bool ended;
};

void cow_changes_init(struct cow_changes *c, struct store *store, struct engine *engine, struct spawn_link *spawner);
void cow_changes_done(struct cow_changes *c); /* open requests are not answered */

struct change_request {
	enum change_op op; /* LIST, DIFF (a list with the diffs themselves), APPLY, UNDO, DISCARD or REVERT */
	const char *process_id;
	uint32_t viewer;  /* the uid whose processes are visible, or VIEW_ANY_UID */
	struct buf paths; /* NUL-terminated strings one after another, none = all; owned by the caller */
};
void cow_changes_request(struct cow_changes *c, const struct change_request *r, const struct caller *caller,
			 engine_reply_fn fn, void *ctx);

/*
 * Copies the layers of a run, or of a checkpoint, to another id: a new checkpoint, or a process that is about to start
 * with them. fn gets an error, or nothing.
 */
void cow_changes_copy(struct cow_changes *c, const char *from, const char *to, engine_reply_fn fn, void *ctx);
/* Removes the layers of a run or a checkpoint. */
void cow_changes_drop(struct cow_changes *c, const char *id);

/* The end of this process is committed: if it was a copy-on-write run, its changes become events. */
void cow_changes_on_ended(struct cow_changes *c, const char *process_id);
/* Once, when the runtime starts to serve: removes directories of runs that no event mentions. */
void cow_changes_sweep(struct cow_changes *c);
/* Appends an id with its NUL to a struct buf. */
bool cow_changes_add_id(void *buf, const char *id);
/*
 * Before old events are pruned: drops the changes of runs that ended before this sequence, and the checkpoints of
 * sandboxes that were removed since the last call.
 */
void cow_changes_expire(struct cow_changes *c, uint64_t floor);

/* The spawner's answer. */
void cow_changes_on_answer(struct cow_changes *c, const struct spawn_msg *m);

#endif
