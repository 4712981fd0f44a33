#ifndef BAILIFF_ENGINE_CHANGE_FACTS_H
#define BAILIFF_ENGINE_CHANGE_FACTS_H

/*
 * Facts about what copy-on-write runs changed, and what became of it: artifact.changed for each path up to a bound,
 * then one that counts them all. Diffs become outputs of the process.
 */

#include "runtime/engine/core/engine.h"

#include <stdbool.h>

struct buf;
struct view_process_brief;

#define CHANGES_FACTS_MAX 100u        /* events for single paths in one commit; CHANGE_LIST_DIFFED_MAX */
#define CHANGES_DIFF_MAX (64u * 1024) /* a diff that is longer is not kept */
#define CHANGES_DIFFS_MAX (4u << 20)  /* of one run */

struct changes_facts {
	const char *process_id;
	const struct view_process_brief *process;
	const char *source;      /* "run", "apply", "discard", "retention" */
	const void *list;        /* sandbox/change_list.h, checked; NULL = only what was asked for is told */
	bool kept;               /* there may be changes left */
	const struct caller *by; /* NULL = the runtime itself */
};

/* Writes them. fn is called after the commit with `{"sequence":N}`, or the error; may be NULL. */
void changes_record(struct engine *g, const struct changes_facts *f, engine_reply_fn fn, void *ctx);

/* "changes":[…] and, of what was done, "applied", "discarded" and "conflicts", as members of an open object. */
struct jw;
void changes_write(const void *list, const char *(*diff_ref)(void *ctx, const char *path_json), void *ctx,
		   struct jw *w);

#endif
