#ifndef BAILIFF_CONTROL_EXPORT_H
#define BAILIFF_CONTROL_EXPORT_H

/*
 * An export in progress: a background read of the store writes the files, then the engine records them and the call is
 * answered.
 */

#include "runtime/evidence/evidence.h"
#include "supervisor/control/control.h"

struct export_scope {
	char session_id[EVIDENCE_ID_MAX], thread_id[EVIDENCE_ID_MAX], turn_id[EVIDENCE_ID_MAX],
		task_id[EVIDENCE_ID_MAX], run_id[EVIDENCE_ID_MAX]; /* "" = none */
	enum id_field field;                                       /* which of them is the scope */
	uint32_t uid;
};

/* `trial` (a document, or NULL) is copied. */
void export_start(struct call *c, const struct export_scope *scope, const enum evidence_kind *kinds, size_t nkinds,
		  const char *trial_id, const char *trial);

#endif
