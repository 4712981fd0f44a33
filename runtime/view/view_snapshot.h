#ifndef BAILIFF_VIEW_VIEW_SNAPSHOT_H
#define BAILIFF_VIEW_VIEW_SNAPSHOT_H

/*
 * Members of a thread's snapshot: steps, tool calls, actions and queue, each in a bounded window. They write into an
 * object that is open.
 */

#include "runtime/view/view_ids.h"

struct jw;

int view_write_actions(struct store *s, const char *thread_id, struct jw *w,
		       struct err *e); /* "pendingRequests", "actions" */

#endif
