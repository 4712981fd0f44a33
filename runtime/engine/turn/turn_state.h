#ifndef BAILIFF_ENGINE_TURN_STATE_H
#define BAILIFF_ENGINE_TURN_STATE_H

/* State of the module turn/, for its own files. */

#include "runtime/base/strmap.h"

#include <stdbool.h>
#include <sys/queue.h>

struct turn_state {
	TAILQ_HEAD(, rollback) rollbacks; /* in progress (history.c) */
	bool history_found;               /* open histories were found after a restart and not checked yet */
	struct strmap stops;              /* turn id → struct stopping: waits for hooks before its end */
	struct strmap prompts; /* thread id → struct hook_prompt: a turn that waits for hooks before its start */
};

#endif
