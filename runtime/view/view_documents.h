#ifndef BAILIFF_VIEW_DOCUMENTS_H
#define BAILIFF_VIEW_DOCUMENTS_H

/* The documents as structs. What each member means stands beside its field table in view_<kind>.c. */

#include "runtime/view/view_codec.h"

#define VIEW_FIELD(type, structure, member)                       \
	{                                                         \
#member, type, offsetof(struct structure, member) \
	}

struct runtime_doc {
	char systemSessionId[VIEW_ID_MAX];
	uint64_t reconstructions, reconstructedAt, alive, exited, lost;
	struct jval bootId, aborted, degraded;
};
extern const struct view_schema runtime_schema;
#define VIEW_RUNTIME_ID "runtime"

struct session_doc {
	char sessionId[VIEW_ID_MAX], kind[VIEW_ID_MAX], firstThreadId[VIEW_ID_MAX], systemTurnId[VIEW_ID_MAX],
		permissionMode[VIEW_ID_MAX];
	uint64_t uid, createdAt, updatedAt, turns, tracedTurns;
	struct jval title, workspaceId, scope, createdBy, pinnedThreadIds, archived, hookContextRefs, permissions;
};
extern const struct view_schema session_schema;

struct thread_doc {
	char threadId[VIEW_ID_MAX], sessionId[VIEW_ID_MAX], status[VIEW_ID_MAX], phase[VIEW_ID_MAX],
		activeTurnId[VIEW_ID_MAX];
	uint64_t uid, createdAt, updatedAt, turnNumber;
	struct jval reason, origin, parentThreadId;
};
extern const struct view_schema thread_schema;
const char *view_thread_status(const char *status); /* of the small enum */
/* Counts one more turn of the event's thread: the turn's place in it, from 1. 1 when the event names no thread. */
int view_thread_next_turn(struct models *m, const struct event_view *ev, uint64_t *ret, struct err *e);

struct turn_doc {
	char turnId[VIEW_ID_MAX], sessionId[VIEW_ID_MAX], threadId[VIEW_ID_MAX], status[VIEW_ID_MAX],
		taskId[VIEW_ID_MAX], runId[VIEW_ID_MAX], attemptId[VIEW_ID_MAX], toolCallId[VIEW_ID_MAX],
		inputRef[VIEW_ID_MAX], inputHash[VIEW_ID_MAX], phase[VIEW_ID_MAX], traceId[VIEW_ID_MAX],
		failedCallId[VIEW_ID_MAX];
	uint64_t uid, number, submittedAt, startedAt, completedAt, parts, partsStarted, partsEnded, partsFailed,
		openCalls, openActions;
	bool catalog, stopBlocked;
	struct jval statusReason, source, driver, preview, outcome, category, message, retryable, outputRefs,
		permissionDecision, sandboxProfile, options, metadata, requestedBy, executionEnvironment, ending, usage;
};
extern const struct view_schema turn_schema;
static inline bool turn_doc_ended(const struct turn_doc *d) { return d->completedAt != 0; }
/* The member of VIEW_THREAD_TURN that stands for this turn: its place in the thread, then its id. */
#define VIEW_TURN_MEMBER_MAX (VIEW_ID_MAX + 24)
void view_turn_member(const struct turn_doc *d, char ret[VIEW_TURN_MEMBER_MAX]);

struct hook_doc {
	char processId[VIEW_ID_MAX], hookPoint[VIEW_ID_MAX], waits[VIEW_ID_MAX], ownerKind[VIEW_ID_MAX],
		subjectId[VIEW_ID_MAX], toolCallId[VIEW_ID_MAX], taskId[VIEW_ID_MAX], traceId[VIEW_ID_MAX],
		sessionId[VIEW_ID_MAX], threadId[VIEW_ID_MAX], turnId[VIEW_ID_MAX];
	uint64_t uid, startedAt;
	bool failsClosed, ownsTurn;
	struct jval handlerRef, handler, layer;
};
extern const struct view_schema hook_schema;

/* The turns that wait for their thread, in order. */
struct queue_doc {
	char threadId[VIEW_ID_MAX], sessionId[VIEW_ID_MAX], resumeState[VIEW_ID_MAX];
	uint64_t uid, updatedAt;
	struct jval order, policy;
};
extern const struct view_schema queue_schema;

struct tool_call_doc {
	char toolCallId[VIEW_ID_MAX], status[VIEW_ID_MAX], sessionId[VIEW_ID_MAX], threadId[VIEW_ID_MAX],
		turnId[VIEW_ID_MAX], stepId[VIEW_ID_MAX], processId[VIEW_ID_MAX], taskId[VIEW_ID_MAX],
		toolName[VIEW_ID_MAX], runner[VIEW_ID_MAX], inputRef[VIEW_ID_MAX], updatedInputRef[VIEW_ID_MAX],
		traceId[VIEW_ID_MAX];
	uint64_t uid, startedAt, endedAt, part, connection;
	struct jval statusReason, owner, flags, policy, safeArgs, argumentsHash, requestedBy, rawOutputRef,
		structuredContentRef, displayPreview, artifactRefs, permissionRef, sandboxRef, hookRefs,
		hookContextRefs, hookReason, updatedOutputRef, category, message, retryable, advice, errorRef, exitCode;
};
extern const struct view_schema tool_call_schema;

/* Something that waits for a person. */
struct action_doc {
	char actionId[VIEW_ID_MAX], actionType[VIEW_ID_MAX], status[VIEW_ID_MAX], kind[VIEW_ID_MAX],
		sessionId[VIEW_ID_MAX], threadId[VIEW_ID_MAX], turnId[VIEW_ID_MAX], stepId[VIEW_ID_MAX],
		taskId[VIEW_ID_MAX], processId[VIEW_ID_MAX], toolCallId[VIEW_ID_MAX], decision[VIEW_ID_MAX],
		source[VIEW_ID_MAX], defaultDecision[VIEW_ID_MAX];
	uint64_t uid, createdAt, resolvedAt, expiresAt;
	struct jval prompt, schema, decisions, scope, policy, requestedBy, continuation, resolver, note, response,
		resolvedScope;
};
extern const struct view_schema action_schema;
const char *view_action_waiting(struct jval type);     /* the status of who waits for an action of this type */
void view_timed_owner(uint64_t real_us, char ret[24]); /* the key of an open action in VIEW_TIMED_ACTION */

/* A step of a turn: what was said, done, asked or made, in order of its id. */
struct step_doc {
	char stepId[VIEW_ID_MAX], kind[VIEW_ID_MAX], status[VIEW_ID_MAX], toolCallId[VIEW_ID_MAX],
		processId[VIEW_ID_MAX], actionId[VIEW_ID_MAX], artifactId[VIEW_ID_MAX], modelRequestId[VIEW_ID_MAX];
	uint64_t startedAt, endedAt;
	struct jval title;
};
extern const struct view_schema step_schema;

struct process_doc {
	char processId[VIEW_ID_MAX], status[VIEW_ID_MAX], statusReason[VIEW_ID_MAX], sessionId[VIEW_ID_MAX],
		threadId[VIEW_ID_MAX], turnId[VIEW_ID_MAX], taskId[VIEW_ID_MAX], toolCallId[VIEW_ID_MAX],
		actionId[VIEW_ID_MAX], traceId[VIEW_ID_MAX], runId[VIEW_ID_MAX], attemptId[VIEW_ID_MAX],
		stepId[VIEW_ID_MAX], jobId[VIEW_ID_MAX], jobItemId[VIEW_ID_MAX], subagentId[VIEW_ID_MAX];
	uint64_t uid, startedAt, endedAt, endSequence;
	bool stdinClosed;
	struct jval command, commandTruncated, commandRef, commandLine, cwd, tty, pid, startTime, bootId, startedBootNs,
		planHash, sandboxProfile, limits, keepTree, commandExited, onDisconnect, outputRefs, exitCode, signal,
		durationMs, usage, category, stage, errnoName, message, limit, requestedBy, treeEmpty, leftBehind, cow,
		benignRefusals, network, autorun, attempt, ownsTurn, owner;
	struct jval stdinMode, stderrMode; /* members "stdin" and "stderr": C's own names are macros */
};
extern const struct view_schema process_schema;
static inline bool process_doc_ended(const struct process_doc *d) { return d->endedAt != 0; }
/* The key of an ended process in VIEW_ENDED_PROCESS. */
#define VIEW_ENDED_KEY_MAX 24
void view_ended_owner(uint64_t end_sequence, char ret[VIEW_ENDED_KEY_MAX]);

/* The newest different ones, each with its sum. */
struct violation_doc {
	uint64_t violationCount;
	struct jval violations;
};
extern const struct view_schema violation_schema;

struct output_doc {
	char outputRef[VIEW_ID_MAX], processId[VIEW_ID_MAX], sessionId[VIEW_ID_MAX], stream[VIEW_ID_MAX];
	uint64_t uid, bytes, omittedBytes, omittedFrom, omittedTo, expiredAt;
	bool truncated, spilled, ended, expired;
	struct jval mediaType, encoding;
};
extern const struct view_schema output_schema;

struct preview_doc {
	struct jval base64; /* the stream's first bytes, exactly */
};
extern const struct view_schema preview_schema;
#define VIEW_PREVIEW_BYTES 2048u

#endif
