#ifndef BAILIFF_ENGINE_SESSION_STATE_H
#define BAILIFF_ENGINE_SESSION_STATE_H

/* State of the module session/, private to its files. Nothing in it is recorded. */

#include "runtime/base/strmap.h"

#include <sys/queue.h>

struct session_state {
	struct strmap claims;         /* thread id → struct claim (session.c) */
	struct strmap turn_owners;    /* turn id → struct turn_owner: the client that drives it */
	TAILQ_HEAD(, waiter) waiters; /* requests that wait for the end of turns and tool calls */
	bool requests_searched;       /* for model requests that an earlier runtime left open … */
	bool requests_found;          /* … and there may be some */
};

#endif
