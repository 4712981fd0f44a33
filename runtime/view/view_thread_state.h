#ifndef BAILIFF_VIEW_THREAD_STATE_H
#define BAILIFF_VIEW_THREAD_STATE_H

/*
 * The parts of a thread's read model that summarise its turns: how the last one ended, what runs now, under which
 * permissions, what it produced, and what needs attention. Derived on request from the newest turns.
 */

struct err;
struct jw;
struct store;
struct thread_doc;
struct view_ids;

int view_write_thread_state(struct store *s, const struct thread_doc *d, struct jw *w, struct err *e);
/* `"artifactRefs":[…]`: the artifacts that changed last, newest first; turns NULL = of the whole session. */
int view_write_artifact_refs(struct store *s, const char *session_id, const struct view_ids *turns, struct jw *w,
			     struct err *e);

#endif
