#ifndef BAILIFF_VIEW_SHAPES_H
#define BAILIFF_VIEW_SHAPES_H

/* The documents as structs. What each member means stands beside its field table in view_<kind>.c. */

#include "runtime/view/view_codec.h"

#define VIEW_FIELD(type, structure, member) { #member, type, offsetof(struct structure, member) }

struct runtime_doc {
	char systemSessionId[VIEW_ID_MAX];
	uint64_t reconstructions, reconstructedAt, alive, exited, lost;
	struct jval bootId, aborted, degraded;
};
extern const struct view_shape runtime_shape;
#define VIEW_RUNTIME_ID "runtime"

struct session_doc {
	char sessionId[VIEW_ID_MAX], kind[VIEW_ID_MAX], firstThreadId[VIEW_ID_MAX], systemTurnId[VIEW_ID_MAX];
	uint64_t uid, createdAt, updatedAt;
	struct jval title, workspaceId, scope, createdBy;
};
extern const struct view_shape session_shape;

struct thread_doc {
	char threadId[VIEW_ID_MAX], sessionId[VIEW_ID_MAX], status[VIEW_ID_MAX], phase[VIEW_ID_MAX], activeTurnId[VIEW_ID_MAX];
	uint64_t uid, createdAt, updatedAt;
	struct jval reason, origin, parentThreadId;
};
extern const struct view_shape thread_shape;
const char *view_thread_status(const char *status); /* of the small enum */

struct turn_doc {
	char turnId[VIEW_ID_MAX], sessionId[VIEW_ID_MAX], threadId[VIEW_ID_MAX], status[VIEW_ID_MAX], taskId[VIEW_ID_MAX],
		runId[VIEW_ID_MAX], attemptId[VIEW_ID_MAX], toolCallId[VIEW_ID_MAX];
	uint64_t uid, submittedAt, startedAt, completedAt;
	struct jval statusReason, source, driver, preview, outcome, category, message, retryable, outputRefs, permissionDecision,
		sandboxProfile;
};
extern const struct view_shape turn_shape;

struct process_doc {
	char processId[VIEW_ID_MAX], status[VIEW_ID_MAX], statusReason[VIEW_ID_MAX], sessionId[VIEW_ID_MAX],
		threadId[VIEW_ID_MAX], turnId[VIEW_ID_MAX], taskId[VIEW_ID_MAX], toolCallId[VIEW_ID_MAX];
	uint64_t uid, startedAt, endedAt, endSequence;
	bool stdinClosed;
	struct jval command, commandTruncated, commandRef, commandLine, cwd, tty, pid, startTime, bootId, startedBootNs, planHash,
		sandboxProfile, limits, keepTree, onDisconnect, outputRefs, exitCode, signal, durationMs, usage, category, stage,
		errnoName, message, limit, requestedBy, treeEmpty, leftBehind, cow, benignRefusals, network;
	struct jval stdinMode, stderrMode; /* members "stdin" and "stderr": C's own names are macros */
};
extern const struct view_shape process_shape;
static inline bool process_doc_ended(const struct process_doc *d)
{
	return d->endedAt != 0;
}
/* The key of an ended process in VIEW_ENDED_PROCESS. */
#define VIEW_ENDED_KEY_MAX 24
void view_ended_owner(uint64_t end_sequence, char ret[VIEW_ENDED_KEY_MAX]);

/* The newest different ones, each with its sum. */
struct violation_doc {
	uint64_t violationCount;
	struct jval violations;
};
extern const struct view_shape violation_shape;

struct output_doc {
	char outputRef[VIEW_ID_MAX], processId[VIEW_ID_MAX], sessionId[VIEW_ID_MAX], stream[VIEW_ID_MAX];
	uint64_t uid, bytes, omittedBytes, omittedFrom, omittedTo, expiredAt;
	bool truncated, spilled, ended, expired;
	struct jval mediaType, encoding;
};
extern const struct view_shape output_shape;

struct preview_doc {
	struct jval base64; /* the stream's first bytes, exactly */
};
extern const struct view_shape preview_shape;
#define VIEW_PREVIEW_BYTES 2048u

#endif
