#ifndef BAILIFF_ENGINE_SUBAGENT_PRIVATE_H
#define BAILIFF_ENGINE_SUBAGENT_PRIVATE_H

/* Shared by subagent*.c only. */

#include "runtime/engine/core/core.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/session/session.h"
#include "runtime/engine/work/work_state.h"
#include "runtime/view/view_subagent.h"

#include <jansson.h>

const char *subagent_str(const json_t *params, const char *key);
/* Checks a text parameter: absent, or at most `most` bytes. */
int subagent_text(const json_t *params, const char *key, size_t most, struct err *e);

/* Loads a subagent of the caller's; otherwise ERR_NOT_FOUND. */
int subagent_load(struct engine *g, const char *id, const struct caller *c, struct buf *text, struct subagent_doc *d,
		  struct err *e);
bool subagent_doc_of(struct engine *g, const char *id, struct buf *text, struct subagent_doc *d);

struct scope subagent_scope(const struct subagent_doc *d, const char *process_id, const char *request_id);
void subagent_status_fact(struct engine *g, struct transaction *tx, const struct subagent_doc *d, const char *status,
			  const char *reason, bool resumed, bool closing, const char *process_id,
			  const char *request_id);
void subagent_closed_fact(struct transaction *tx, const struct subagent_doc *d, const char *reason,
			  const char *request_id);

void subagent_launch(struct engine *g, const char *id); /* starts the command of its document */
void subagent_refused(struct engine *g, const char *id, const struct err *e, const char *data, unsigned long len);

#endif
