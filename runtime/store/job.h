#ifndef BAILIFF_STORE_JOB_H
#define BAILIFF_STORE_JOB_H

/*
 * Work that the writer or the worker thread does for the loop thread, and its way back (internal to runtime/store).
 *
 * Every piece of such work begins with a struct completion. When the other thread has finished it posts the
 * completion; store_dispatch then calls `run` on the loop thread, which reports the result and frees the work.
 */

#include "runtime/base/err.h"

#include <stdbool.h>

struct store;

struct completion {
	struct completion *next;
	void (*run)(struct store *s, struct completion *c);
};

/* Any thread: has the loop thread run it. The second one is for callers that hold store->mutex. */
void completion_post(struct store *store, struct completion *c);
void completion_post_locked(struct store *store, struct completion *c);

/*
 * Upkeep. The writer calls `step` between groups until it no longer returns JOB_MORE, so that no commit waits long;
 * the worker calls it once. Afterwards completion.run gets the job, with `err` set if it failed.
 */
enum job_step { JOB_FAILED = -1, JOB_FINISHED = 0, JOB_MORE = 1 };

struct job {
	struct completion completion;
	struct job *next;
	enum job_step (*step)(struct store *s, struct job *j);
	/* May be NULL. Called instead of the next step if the store is closed before that. */
	void (*cancel)(struct store *s, struct job *j);
	bool asleep;      /* writer, with store->mutex: the next step waits for a thread of the job's own */
	bool exclusive;   /* writer: does not run while the worker runs a job */
	bool makes_room;  /* writer: runs even while settling fails */
	bool keeps_files; /* worker: no spool file is removed while it runs */
	bool failed;
	struct err err;
};

struct job_queue {
	struct job *head, **tail;
	bool busy; /* the worker runs the first one */
};

/* Loop thread: appends the job and wakes both threads, or, if `usable` is false, fails the job. */
void job_enqueue(struct store *store, struct job_queue *q, struct job *j, bool usable);
/* With store->mutex held, by the thread that ran the first job of the queue: removes and posts it. */
void job_finish_locked(struct store *store, struct job_queue *q, enum job_step result);
/* Fails all jobs of a queue whose thread has ended. */
void jobs_cancel(struct store *store, struct job_queue *q);

#endif
