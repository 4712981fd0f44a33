#ifndef BAILIFF_VIEW_EVIDENCE_H
#define BAILIFF_VIEW_EVIDENCE_H

/*
 * The documents of exports, verifications and benchmark trials. The content of an export is an output of the store;
 * here are its refs, its hash and what verifiers reported about it.
 */

#include "runtime/view/view_documents.h"

struct jw;

#define VIEW_CONTENT_KEY (ID_SIZE + 72)

/* "<uid>/<datasetId>/<configurationId>/<trialId>"; trial NULL: the prefix of all. */
#define VIEW_TRIAL_KEY (4 * ID_SIZE)
void view_trial_key(uint32_t uid, const char *dataset, const char *configuration, const char *trial,
		    char ret[VIEW_TRIAL_KEY]);
/* What a session has recorded: "<sessionId>/d/<dataset>@<version>" and "<sessionId>/c/<configuration>"; and its
 * trials, "…/t/<trialId>". */
void view_benchmark_key(const char *session, char what, const char *id, const char *version, char ret[VIEW_TRIAL_KEY]);

/* `"evidenceRefs":[…]` of a session, thread, turn or task, and `"verificationOutcomes":[…]`, in an object that is open.
 */
int view_write_evidence(struct store *s, const char *owner_id, bool outcomes, struct jw *w, struct err *e);
/* One JSON object each, for get_snapshot. */
int view_evidence_summary(struct store *s, const char *session_id, struct jw *w, struct err *e);
int view_benchmark_summary(struct store *s, const char *session_id, struct jw *w, struct err *e);

#endif
