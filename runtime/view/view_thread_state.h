#ifndef BAILIFF_VIEW_THREAD_STATE_H
#define BAILIFF_VIEW_THREAD_STATE_H

/*
 * The parts of a thread's read model that summarise its turns: how the last one ended, what runs now, under which
 * permissions, what it produced, and what needs attention. Derived on request from the newest turns.
 */

#include <stdbool.h>

struct err;
struct jw;
struct store;
struct thread_doc;
struct turn_doc;
struct view_ids;

/*
 * The status of a turn, finer than its document's while it runs: preparing, streaming, retrying and waiting_resource
 * follow from its model requests, stalled from its phase. Static, or a part of `d`.
 */
const char *view_turn_status(struct store *s, const struct turn_doc *d);
/* The thread's facts may not be current: its turn is stalled. *ret_phase: the status of the turn, if finer; or NULL. */
bool view_thread_is_stale(struct store *s, const struct thread_doc *d, const char **ret_phase);
int view_write_thread_state(struct store *s, const struct thread_doc *d, struct jw *w, struct err *e);
/* `"artifactRefs":[…]`: the artifacts that changed last, newest first; turns NULL = of the whole session. */
int view_write_artifact_refs(struct store *s, const char *session_id, const struct view_ids *turns, struct jw *w,
			     struct err *e);

#endif
