#ifndef BAILIFF_ENGINE_WORK_STATE_H
#define BAILIFF_ENGINE_WORK_STATE_H

/* State of the module work/, for its own files. */

#include "runtime/base/strmap.h"
#include "runtime/engine/work/subagent_wait.h"

/* The connection of the client that works on an attempt. */
struct task_worker {
	uint64_t connection; /* 0 = disconnected, or not seen since a restart */
	uint64_t gone_us;    /* when it disconnected */
};

struct work_state {
	struct subagent_waits subagents;
	struct strmap task_workers; /* task id → struct task_worker */
	bool waits;                 /* a launch waits for resources, or for a client with whose identity it can run */
	uint64_t job_poll_ns, task_poll_ns; /* time of the next deadline check; UINT64_MAX = never */
};

#endif
