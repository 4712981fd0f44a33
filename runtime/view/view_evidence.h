#ifndef BAILIFF_VIEW_EVIDENCE_H
#define BAILIFF_VIEW_EVIDENCE_H

/* The documents of exports and verifications (view_evidence.c), and of benchmark trials (view_benchmark.c). */

#include "runtime/view/view_codec.h"

struct jw;

struct evidence_doc {
	char evidenceId[VIEW_ID_MAX], kind[VIEW_ID_MAX], sessionId[VIEW_ID_MAX], threadId[VIEW_ID_MAX],
		turnId[VIEW_ID_MAX], taskId[VIEW_ID_MAX], traceId[VIEW_ID_MAX];
	uint64_t uid, createdAt, updatedAt, exports;
	bool fromClient;
	struct jval packRef, replayRef, reviewRef, traceRef, trajectoryRef, runtimeTranscriptRef, artifactManifestRef,
		sha256, bytes, events, throughSequence, verificationOutcomes, producer;
};
extern const struct view_schema evidence_schema;

/* Where bytes with this hash are kept, for the session: "<sessionId>/<sha256>". */
struct evidence_content_doc {
	char evidenceId[VIEW_ID_MAX], ref[VIEW_ID_MAX];
};
extern const struct view_schema evidence_content_schema;
#define VIEW_CONTENT_KEY (VIEW_ID_MAX + 72)

struct trial_doc {
	char trialId[VIEW_ID_MAX], status[VIEW_ID_MAX], datasetId[VIEW_ID_MAX], datasetVersion[VIEW_ID_MAX],
		configurationId[VIEW_ID_MAX], role[VIEW_ID_MAX], benchmarkTaskId[VIEW_ID_MAX], sessionId[VIEW_ID_MAX],
		threadId[VIEW_ID_MAX], turnId[VIEW_ID_MAX], taskId[VIEW_ID_MAX], runId[VIEW_ID_MAX],
		traceId[VIEW_ID_MAX], packRef[VIEW_ID_MAX], trajectoryRef[VIEW_ID_MAX];
	uint64_t uid, startedAt, endedAt, rewards;
	bool timedOut;
	struct jval benchmark, refs, timeoutSec, durationMs, failureCategory, stage, reward, criteria, details,
		verifier, verifierStatus;
};
extern const struct view_schema trial_schema;
/* "<uid>/<datasetId>/<configurationId>/<trialId>"; trial NULL: the prefix of all. */
#define VIEW_TRIAL_KEY (4 * VIEW_ID_MAX)
void view_trial_key(uint32_t uid, const char *dataset, const char *configuration, const char *trial,
		    char ret[VIEW_TRIAL_KEY]);
/* What a session has told already: "<sessionId>/d/<dataset>@<version>" and "<sessionId>/c/<configuration>"; and its
 * trials, "…/t/<trialId>". */
void view_benchmark_key(const char *session, char what, const char *id, const char *version, char ret[VIEW_TRIAL_KEY]);

struct comparison_doc {
	char sessionId[VIEW_ID_MAX];
	uint64_t comparedAt;
	struct jval benchmark, comparison;
};
extern const struct view_schema comparison_schema;

/* `"evidenceRefs":[…]` of a session, thread, turn or task, and `"verificationOutcomes":[…]`, in an object that is open.
 */
int view_write_evidence(struct store *s, const char *owner_id, bool outcomes, struct jw *w, struct err *e);
/* One JSON object each, for get_snapshot. */
int view_evidence_summary(struct store *s, const char *session_id, struct jw *w, struct err *e);
int view_benchmark_summary(struct store *s, const char *session_id, struct jw *w, struct err *e);

#endif
