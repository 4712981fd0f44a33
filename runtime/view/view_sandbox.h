#ifndef BAILIFF_VIEW_SANDBOX_H
#define BAILIFF_VIEW_SANDBOX_H

/*
 * Session sandboxes as clients see them. The document changes only when the sandbox is created, checkpointed, restored
 * or closed. The time of its last use and its running commands are read from the lists of its processes, so that
 * starting a command does not rewrite the document.
 */

#include "runtime/view/view_documents.h"

/* One sandbox, with `lastUsedAt` and `processes`: the ids of the commands that run in it. */
int view_sandbox(struct store *s, uint32_t uid, const char *sandbox_id, struct buf *out, struct err *e);

struct view_sandbox_query {
	const char *session_id; /* NULL = any */
	bool closed;            /* include closed ones */
	unsigned limit;         /* 1 … 1000 */
	const char *cursor;     /* NULL = newest first from the start */
};
/* {"sandboxes":[…],"nextCursor"?}, without `sandboxProfile` and `request`. */
int view_sandboxes(struct store *s, uint32_t uid, const struct view_sandbox_query *q, struct buf *out, struct err *e);

/* Every checkpoint of every sandbox, open or closed, until fn returns false. */
int view_checkpoints(struct store *s, bool (*fn)(void *ctx, const char *checkpoint_id), void *ctx, struct err *e);

#endif
