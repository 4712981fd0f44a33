#ifndef BAILIFF_ENGINE_HISTORY_PRIVATE_H
#define BAILIFF_ENGINE_HISTORY_PRIVATE_H

/* Shared by compaction.c and history.c. */

#include "runtime/base/text.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/turn/history.h"
#include "runtime/engine/turn/turn_state.h"
#include "runtime/view/view_documents.h"
#include "runtime/view/view_history.h"

struct transaction;

/* The thread of a request, and the turn that its facts belong to: the newest one, or the session's system turn. */
struct history_scope {
	uint32_t uid;
	char session_id[ID_SIZE], thread_id[ID_SIZE], active_turn[ID_SIZE];
	char fact_thread[ID_SIZE], fact_turn[ID_SIZE];
	bool makes_turn; /* fact_turn is a system turn that does not exist yet */
};
int history_scope_of(struct engine *g, const json_t *params, const struct caller *c, struct history_scope *ret,
		     struct err *e);
int history_turn_fact(struct engine *g, struct transaction *tx, const struct history_scope *s);

struct history_turns {
	char (*ids)[ID_SIZE]; /* oldest first */
	size_t count, room;
};
/* All turns of a thread except the runtime's own. */
void history_turns_of(struct engine *g, const char *thread_id, struct history_turns *ret);
void history_turns_done(struct history_turns *t);

void compaction_failed_fact(struct transaction *tx, const struct history_scope *s, const char *reason, bool retryable,
			    const char *request_id);

#endif
