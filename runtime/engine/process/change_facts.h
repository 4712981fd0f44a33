#ifndef BAILIFF_ENGINE_CHANGE_FACTS_H
#define BAILIFF_ENGINE_CHANGE_FACTS_H

/*
 * Facts about the changes of copy-on-write runs, and about applying or discarding them: one artifact.changed for each
 * path up to CHANGES_FACTS_MAX, then one with the total counts. Diffs become outputs of the process.
 */

#include "runtime/engine/core/engine.h"

#include <stdbool.h>

struct buf;
struct view_process_brief;

#define CHANGES_FACTS_MAX 100u        /* events for single paths in one commit; CHANGE_LIST_DIFFED_MAX */
#define CHANGES_DIFF_MAX (64u * 1024) /* a longer diff is not stored */
#define CHANGES_DIFFS_MAX (4u << 20)  /* all diffs of one run */

struct changes_facts {
	const char *process_id;
	const struct view_process_brief *process;
	const char *source;      /* "run", "apply", "undo", "discard", "revert", "retention" */
	const void *list;        /* sandbox/change_list.h, validated; NULL = record only the request */
	bool kept;               /* some changes may remain to be applied or discarded */
	const struct caller *by; /* NULL = the runtime itself */
};

/* Records them in one batch. fn is called after the commit with `{"sequence":N}`, or the error; may be NULL. */
void changes_record(struct engine *engine, const struct changes_facts *f, engine_reply_fn fn, void *ctx);

/*
 * Writes "changes":[…] and the outcome ("applied", "undone", "discarded", "conflicts") as members of an open object.
 * With `diff_ref`, which returns the ref of the diff that was recorded for a path (as JSON text; NULL = none), the list
 * is one of pending changes and the outcome is left out.
 */
struct jw;
void changes_write(const void *list, const char *(*diff_ref)(void *ctx, const char *path_json), void *ctx,
		   struct jw *w);

#endif
