#ifndef BAILIFF_VIEW_HISTORY_H
#define BAILIFF_VIEW_HISTORY_H

/* Where a thread's past was cut: compactions and rollbacks; and what its work left behind as artifacts. */

#include "runtime/view/view_documents.h"

struct jw;

/* id threadId */
struct history_doc {
	char threadId[VIEW_ID_MAX], sessionId[VIEW_ID_MAX], compaction[VIEW_ID_MAX],
		rollback[VIEW_ID_MAX]; /* open, completed, failed; "" = none */
	char compactionTurnId[VIEW_ID_MAX], targetTurnId[VIEW_ID_MAX];
	uint64_t uid, compactedAt, startedAt, dueUs, rolledBackAt, compactions, rollbacks;
	struct jval trigger, turns, tokensBefore, tokensAfter, summaryRef, preview, keptActions, incidents,
		artifactRefs, evidenceRefs, continuation, failure, boundaries, removedTurns, affected, rollbackReason,
		filesRestored, notRestored;
};
extern const struct view_schema history_schema;

/* id "<sessionId>/<artifactId or path>" */
struct artifact_doc {
	char artifactId[VIEW_ID_MAX], turnId[VIEW_ID_MAX], taskId[VIEW_ID_MAX], processId[VIEW_ID_MAX];
	uint64_t uid, updatedAt, versions;
	struct jval path, change, source, versionId, readRef, previewRef, diffRef, validation, outcome, bytes;
};
extern const struct view_schema artifact_schema;

bool view_turn_rolled_back(struct store *s, const char *thread_id, const char *turn_id);
/* `"history":{…}` of a thread, where there is something to tell. */
int view_write_history(struct store *s, const char *thread_id, struct jw *w, struct err *e);
/* context_boundary_snapshot of a thread, artifact_checkpoint_summary of a session: objects. */
int view_context_boundary(struct store *s, const char *thread_id, struct jw *w, struct err *e);
int view_artifact_summary(struct store *s, const char *session_id, struct jw *w, struct err *e);

#endif
