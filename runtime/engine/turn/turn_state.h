#ifndef BAILIFF_ENGINE_TURN_STATE_H
#define BAILIFF_ENGINE_TURN_STATE_H

/* State of the module turn/, for its own files. */

#include "runtime/base/strmap.h"

#include <stdbool.h>
#include <sys/queue.h>

struct turn_state {
	TAILQ_HEAD(, rollback) rollbacks; /* under way (history.c) */
	bool history_found;               /* after a restart, and not checked yet */
	struct strmap stops;              /* turn id → struct stopping: hooks look at how it would end */
	struct strmap prompts; /* thread id → struct hook_prompt: hooks look at a turn that would begin there */
};

#endif
