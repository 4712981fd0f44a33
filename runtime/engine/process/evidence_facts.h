#ifndef BAILIFF_ENGINE_EVIDENCE_FACTS_H
#define BAILIFF_ENGINE_EVIDENCE_FACTS_H

/*
 * Facts about exports. runtime/evidence writes the files and passes them here: their bytes become outputs and
 * evidence.changed names them, in one commit. Content that the session already has is not stored again; the event then
 * names the earlier ref.
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
	const char *session_id, *thread_id, *turn_id, *task_id, *run_id; /* the exported scope; NULL = none */
	const char *trial_id;                                            /* or NULL */
	uint32_t uid;                                                    /* owner of the session */
	uint64_t through, events, duration_ms;
	const struct evidence_part *part; /* the content of the first one identifies the export */
	size_t nparts;
};

/* Result {evidenceId, kind, packRef, sha256, bytes, events, throughSequence, files:[…], sequence}. */
void engine_record_evidence(struct engine *engine, const struct evidence_export *x, const struct caller *c,
			    engine_reply_fn fn, void *ctx);

#endif
