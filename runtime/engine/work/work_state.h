#ifndef BAILIFF_ENGINE_WORK_STATE_H
#define BAILIFF_ENGINE_WORK_STATE_H

/* State of the module work/, for its own files. */

#include "runtime/base/strmap.h"
#include "runtime/engine/work/subagent_wait.h"

/* The connection on which a client's attempt hangs. */
struct task_worker {
	uint64_t connection; /* 0 = gone, or not seen since a restart */
	uint64_t gone_us;    /* since when */
};

struct work_state {
	struct subagent_waits subagents;
	struct strmap task_workers; /* task id → struct task_worker: on which connection a client's attempt hangs */
	bool waits;                 /* something could not be launched for want of room, or of a client to run it for */
	uint64_t job_poll_ns, task_poll_ns; /* when deadlines are to be checked next; UINT64_MAX = never */
};

#endif
