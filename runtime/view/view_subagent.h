#ifndef BAILIFF_VIEW_SUBAGENT_H
#define BAILIFF_VIEW_SUBAGENT_H

/*
 * Subagents: child agents with their own threads. A subagent belongs to the session and the thread of its parent; its
 * own work is in its thread, whose parentThreadId leads back. Descendants are found from thread to thread.
 */

#include "runtime/view/view_documents.h"

struct jw;

/* As clients see it. */
void subagent_json(const struct subagent_doc *d, struct jw *w);
struct view_subagent_query {
	const char *session_id, *parent_thread_id; /* NULL = any; one of them, or all of the uid's */
	bool descendants;                          /* of parent_thread_id: include children of children */
	unsigned limit;
	const char *cursor;
};
/* {"subagents":[…],"nextCursor"?}, newest first; descendants depth first, without a cursor. */
int view_subagents(struct store *s, uint32_t uid, const struct view_subagent_query *q, struct buf *out, struct err *e);
/* An array of a session's (or, thread_id given, a thread's direct) subagents, the newest 50. */
int view_write_subagents(struct store *s, const char *session_id, const char *thread_id, struct jw *w, struct err *e);

#endif
