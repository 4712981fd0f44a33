#ifndef BAILIFF_ENGINE_EVIDENCE_FACTS_H
#define BAILIFF_ENGINE_EVIDENCE_FACTS_H

/*
 * Exports as facts. Who has written the files (runtime/evidence) hands them over here: their bytes become outputs and
 * evidence.changed tells of them, in one commit. Bytes that the session has already are not kept twice: the earlier ref
 * is told.
 */

#include "runtime/engine/core/engine.h"

struct evidence_part {
	const char *member;       /* "packRef" */
	const char *kind;         /* "evidence_pack" */
	const char *ref, *sha256; /* of the spool file */
	int fd;
	uint64_t bytes;
};

struct evidence_export {
	const char *session_id, *thread_id, *turn_id, *task_id, *run_id; /* the scope's; NULL = none */
	const char *trial_id;                                            /* or NULL */
	uint32_t uid;                                                    /* the session's */
	uint64_t through, events, duration_ms;
	const struct evidence_part *part; /* the first gives the export its identity */
	size_t nparts;
};

/* Result {evidenceId, kind, packRef, sha256, bytes, events, throughSequence, files:[…], sequence}. */
void engine_record_evidence(struct engine *g, const struct evidence_export *x, const struct caller *c,
			    engine_reply_fn fn, void *ctx);

#endif
