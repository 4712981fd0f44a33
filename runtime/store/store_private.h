#ifndef BAILIFF_STORE_STORE_PRIVATE_H
#define BAILIFF_STORE_STORE_PRIVATE_H

/*
 * struct store (internal to runtime/store), grouped by the thread or lock that owns each member.
 *
 * There are two locks. `mutex` guards the queues and the counters and is never held across I/O. `db_lock` guards the
 * environment: every reader, on any thread, holds it shared while its transaction lives (reader.h). Only the writer
 * takes it exclusively, to close and reopen the environment (I/O error, compaction). The writer's own transactions need
 * no lock, because no other thread closes the environment.
 */

#include "runtime/base/strmap.h"
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
	const uint8_t *growing_models;
	uint64_t (*real_us)(void *ctx);
	void *clock;
	uint64_t map_bytes, soon_ns, settle_ns;
	uint64_t journal_bytes; /* 0 = no journal */
	bool read_only, is_new;
	bool unnamed;     /* writer: the database was renamed into place, but the name is not durable yet */
	uint32_t version; /* as loaded, before an upgrade */
	int dir_fd, spool_fd, lock_fd, event_fd;

	/* owned by the loop thread */
	uint64_t last;
	struct ring ring;
	struct speculative speculative;
	size_t pending; /* batches submitted and not yet dispatched */
	void (*listener)(void *ctx, uint64_t last_sequence);
	void *listener_ctx;
	void (*on_damage)(void *ctx, const char *message);
	void *on_damage_ctx;
	bool writer_up, worker_up;
	pthread_t writer, worker_thread, loop;
	struct reader snapshot; /* between store_snapshot_begin and _end */
	MDB_dbi snapshot_models;
	unsigned snapshot_depth;

	/* guarded by db_lock */
	pthread_rwlock_t db_lock;
	struct db db;

	/* guarded by mutex */
	pthread_mutex_t mutex;
	pthread_cond_t wake;    /* wakes the writer */
	pthread_cond_t decided; /* wakes store_flush and the worker */
	struct store_batch *queue, **queue_tail;
	size_t undecided, ndeferred;
	uint64_t ready_ns; /* when the queue is due; UINT64_MAX = only deferred batches in it */
	struct completion *done, **done_tail;
	struct {
		struct completion completion;
		bool posted;
		bool again; /* then write what is left at once */
		struct err why;
	} triage; /* the writer could not write: the loop thread rejects batches (writer_triage_locked) */
	struct job_queue writer_jobs, worker_jobs;
	struct strmap findings; /* messages of damage.c */
	bool keep_files;        /* the worker copies spool files: remove none */
	bool alone;             /* the writer runs an exclusive job: the worker waits */
	bool stop, worker_end, flushing;
	struct store_stats stats; /* the counters; the rest is computed by store_stats_get */
	struct layer *layers;    /* the newest group that is acknowledged but not settled; only the writer changes it */
	struct layer *new_layer; /* writer: in the journal; becomes `layers` when its batches are completed */
	size_t settling;     /* id of the transaction that settles `layers`; SIZE_MAX = none can have been committed */
	size_t models_since; /* first transaction id for which `models` is right; SIZE_MAX = read META_MODELS */
	uint64_t applied;    /* ordinal of the newest group in the database */
	uint64_t settle_at_ns; /* when settling is due */
	bool settle_asked;     /* a thread waits in durable_wait */
	bool batch_announced;  /* store_prepare was called */
	bool settle_retry;     /* settling failed with settle_error and is retried */
	uint64_t settle_failures;
	struct err settle_error;
	char journal_note[160]; /* why there is no journal */

	atomic_bool full, disk_full;    /* disk_full: for that reason */
	atomic_bool cancel, closing;    /* either: worker jobs return as soon as possible */
	_Atomic uint64_t first;         /* sequence of the first event that retention has kept */
	_Atomic uint64_t settled_until; /* settled.sequence, for the loop thread */

	/* owned by the writer thread */
	struct tip settled;     /* newest event in the database */
	uint64_t applied_there; /* META_APPLIED as last loaded */
	uint64_t ordinal; /* of the newest group: in the journal, in the database or, after a failure, in neither */
	struct journal journal;
	_Atomic uint64_t journal_ns, journal_took_ns; /* when the last write ended, and how long it took */
	struct layer *tentative;                      /* group whose commit may or may not have happened */
	struct settling *commit_in_doubt;             /* its commit */
	int models;                                   /* DB_MODELS_A or DB_MODELS_B; set under the mutex */
	char *chunk_buffer; /* CHUNK_MAX bytes; NULL until output is spilled. Kept: mapping it costs as much as a
			       checksum */
	bool spool_suspect; /* the sync of a spool file has failed once (chunk.c) */
	bool held;          /* the database is being copied: settle only what the journal cannot take (upkeep.c) */
	size_t txn_id;      /* of the last write transaction */
	uint64_t retry_ns;  /* when deferred batches are retried; 0 = there are none */
	char **unlinks;     /* spool files of expired outputs, to be removed when no backup runs */
	size_t nunlinks;
	struct space space;
};

static inline bool store_cancelled(struct store *store)
{
	return atomic_load(&store->cancel) || atomic_load(&store->closing);
}

#endif
