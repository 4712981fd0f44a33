#ifndef BAILIFF_SUPERVISOR_HOST_COW_CHANGES_H
#define BAILIFF_SUPERVISOR_HOST_COW_CHANGES_H

/*
 * What copy-on-write runs changed, on the runtime's side: asks the spawner (whose helpers may read and write the
 * files), writes the facts and answers clients. The changes themselves are on disk and survive any restart.
 */

#include "runtime/engine/core/engine.h"
#include "sandbox/change_list.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct changes_job;
struct spawn_link;
struct spawn_msg;
struct store;

struct changes {
	struct store *store;
	struct engine *engine;
	struct spawn_link *spawner;
	TAILQ_HEAD(, changes_job) jobs; /* asked, not answered */
	uint32_t next;
	bool ended;
};

void changes_init(struct changes *c, struct store *store, struct engine *engine, struct spawn_link *spawner);
void changes_done(struct changes *c); /* nobody is answered any more */

/*
 * A client's request: LIST, DIFF (a list with the diffs themselves), APPLY or DISCARD. paths: NUL-terminated strings
 * one after another, none = all. `viewer` is what the views are asked with.
 */
void changes_request(struct changes *c, enum change_op op, const char *process_id, uint32_t viewer, const char *paths,
		     size_t paths_len, const struct caller *caller, engine_reply_fn fn, void *ctx);

/* The end of this process is committed: if it was a copy-on-write run, its changes become facts. */
void changes_on_ended(struct changes *c, const char *process_id);
/* Once, when the runtime begins to serve: what no fact speaks of is removed. */
void changes_sweep(struct changes *c);
/* Forgets the changes of runs that ended below this sequence. */
void changes_expire(struct changes *c, uint64_t floor);

/* The spawner's answer. */
void changes_on_answer(struct changes *c, const struct spawn_msg *m);

#endif
