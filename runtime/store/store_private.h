#ifndef BAILIFF_STORE_STORE_PRIVATE_H
#define BAILIFF_STORE_STORE_PRIVATE_H

/*
 * struct store (internal to runtime/store), grouped by who may touch what.
 *
 * Two locks. `mutex` guards the queues and the counters and is never held across I/O. `db_lock` guards the environment
 * itself: every reader, on whatever thread, holds it shared for as long as its transaction lives (reader.h); only the
 * writer takes it alone, to close and open the environment again (failed medium, compaction). The writer's own
 * transactions need no lock, as no one else closes.
 */

#include "runtime/store/batch.h"
#include "runtime/store/db.h"
#include "runtime/store/job.h"
#include "runtime/store/journal.h"
#include "runtime/store/layer.h"
#include "runtime/store/reader.h"
#include "runtime/store/record.h"
#include "runtime/store/ring.h"
#include "runtime/store/space.h"
#include "runtime/store/speculative.h"

#include <pthread.h>
#include <stdatomic.h>

struct store {
	/* set at open */
	char *dir;
	char *spool_dir;
	char *schema_version;
	char runtime_id[ID_TEXT_MAX];
	struct event_env env;
	store_project_fn project, project_speculative;
	uint64_t (*real_us)(void *ctx);
	void *clock;
	uint64_t map_bytes, soon_ns, settle_ns;
	uint64_t journal_bytes; /* 0 = none is wanted */
	bool read_only, is_new;
	bool unnamed;     /* writer thread: the database was renamed into place, and that is not durable yet */
	uint32_t version; /* as it was loaded */
	int dir_fd, spool_fd, lock_fd, event_fd;

	/* the loop thread's */
	uint64_t last;
	struct ring ring;
	struct speculative speculative;
	size_t pending; /* batches submitted and not yet dispatched */
	void (*listener)(void *ctx, uint64_t last_sequence);
	void *listener_ctx;
	bool writer_up, worker_up;
	pthread_t writer, worker_thread, loop;
	struct reader snapshot; /* store_snapshot_begin's */
	MDB_dbi snapshot_models;
	unsigned snapshot_depth;

	/* under db_lock */
	pthread_rwlock_t db_lock;
	struct db db;

	/* under mutex */
	pthread_mutex_t mutex;
	pthread_cond_t wake;    /* the writer */
	pthread_cond_t decided; /* store_flush; side thread */
	struct store_batch *queue, **queue_tail;
	size_t undecided, ndeferred;
	uint64_t ready_ns; /* when the queue is due; UINT64_MAX = nothing new in it */
	struct completion *done, **done_tail;
	struct job_queue writer_jobs, worker_jobs;
	bool keep_files; /* the side thread copies spool files */
	bool alone;      /* an exclusive job runs: the side thread waits */
	bool stop, worker_end, flushing;
	struct store_stats stats; /* what is counted as it happens */
	struct layer *layers;     /* acknowledged, not in the database; the newest. The writer alone changes it */
	struct layer *new_layer;  /* the writer's: in the journal, and to be over them when its batches are told of */
	size_t settling;     /* the transaction that puts them there; SIZE_MAX = none that may have been committed */
	size_t models_since; /* `models` are the active ones for transactions from this one on; SIZE_MAX = look it up */
	uint64_t applied;    /* the newest group that the database has */
	uint64_t settle_at_ns; /* when that is due */
	bool settle_asked;     /* somebody waits for it */
	bool batch_announced;  /* a group is about to come */
	bool settle_retry;     /* it failed, and is tried again */
	uint64_t settle_failures;
	struct err settle_error;
	char journal_note[160]; /* why there is none */

	atomic_bool full;
	atomic_bool cancel, closing; /* either: side jobs leave as soon as they can */
	_Atomic uint64_t first;      /* first kept sequence */

	/* the writer's */
	struct tip settled;     /* the newest event of the database */
	uint64_t applied_there; /* META_APPLIED as it was loaded */
	uint64_t ordinal; /* of the newest group, in the journal or the database or, after a failure, in neither */
	struct journal journal;
	uint64_t journal_ns, journal_took_ns; /* when it was written to, and how long that took */
	struct layer *tentative;              /* of a group whose commit is in doubt */
	struct settling *commit_in_doubt;     /* that commit */
	int models;                           /* DB_MODELS_A or DB_MODELS_B; set under the mutex */
	bool spool_suspect;                   /* a sync of a spool file has failed once */
	size_t txn_id;                        /* of the last write transaction that was begun */
	uint64_t retry_ns;                    /* when held batches are tried again; 0 = none are */
	char **unlinks; /* spool files of expired outputs, to be removed when no backup copies them */
	size_t nunlinks;
	struct space space;
};

static inline bool store_cancelled(struct store *store)
{
	return atomic_load(&store->cancel) || atomic_load(&store->closing);
}

#endif
