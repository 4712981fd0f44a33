#ifndef BAILIFF_STORE_STORE_H
#define BAILIFF_STORE_STORE_H

/*
 * The event log and everything derived from it.
 *
 * Threads. The loop thread submits batches and reads. The writer thread makes queued batches durable, several at a time
 * as one group; a batch's events get consecutive sequence numbers, and its callback runs on the loop thread
 * (store_dispatch). The worker thread runs long reads: verify, backup, exports.
 *
 * A group passes these steps: the spool files that it cites are synced; each event is projected into the read models by
 * the function given to store_open; then the group is written to the journal, or, together with everything in the
 * journal, to the database (records with their checksum chain, index entries, models, blobs, chunks, idempotency
 * records; LMDB with its default durability). *Committed* means that one of the two has happened; readers see no
 * difference.
 *
 * Full disk or map: batches are rejected with ERR_EXHAUSTED. After any other I/O error the environment is closed and
 * reopened and the last sequence is read again; batches that did not commit are rejected with ERR_UNAVAILABLE.
 * In both cases batches with STORE_MUST, and those submitted before one, wait and are retried (for lack of space the
 * ballast file is released for them). So no batch is committed after one that is rejected, from which it may have been
 * derived (speculative reads). Reads keep working.
 *
 * Layers of this folder; a file calls only files of its own or a lower layer:
 *
 *   4  store                                  open, close, submit, dispatch
 *      verify upkeep                          jobs of the two threads: checks, backup, retention, compaction, rebuild
 *   3  writer worker                          the two threads
 *      durable                                groups into the journal or the database; recovery from the journal
 *      commit store_meta                      write transactions; what the database says about itself
 *   2  read_models speculative query output                   what readers see
 *      batch idempotency_records space store_dirs scratch chunk
 *      reader layer                           a snapshot: a read transaction and the groups not settled yet
 *   1  job                                    queues of work between the threads
 *      damage                                 what reads find damaged
 *      db record group journal docs ring spool lmdb_check         formats, no threads
 *
 * store_private.h defines struct store and says which thread owns which member. journal.c, writer.c and speculative.h
 * explain the three parts that are hardest to get right.
 */

#include "runtime/event/event.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct err;
struct store;
struct store_batch;
struct models;

/*
 * Projects one event into the read models. Must be pure (no clock, no I/O, no randomness), because verify and rebuild
 * repeat it. Runs on the writer thread. Fails only on I/O errors, and then the transaction fails.
 */
typedef int (*store_project_fn)(struct models *m, const struct event_view *ev, struct err *e);

struct store_options {
	const char *dir;          /* directory of the database; may be /proc/self/fd/N */
	const char *spool_dir;    /* directory of the output files (spool.h); likewise */
	uint64_t map_bytes;       /* 0 = 256 GiB; less if the address space is too small (reported in the statistics) */
	uint64_t quota_bytes;     /* for database, journal and spool together; 0 = unlimited */
	uint64_t ballast_bytes;   /* 0 = 4 MiB */
	uint64_t journal_bytes;   /* 0 = 1 MiB, or less with a small quota */
	bool no_journal;          /* commit every group to the database before it is acknowledged */
	uint32_t settle_ms;       /* idle time after which the journal is settled; 0 = 200 */
	uint32_t soon_ms;         /* how long an event that is not urgent may wait for others; 0 = 50 */
	store_project_fn project; /* NULL = no models */
	/* Kinds of models whose newest id is usually the largest, and of which there are many; ascending, ends with 0;
	 * NULL = none. Only affects the space that they take in a new or rebuilt table. */
	const uint8_t *growing_models;
	store_project_fn project_speculative; /* for speculative reads; NULL = none */
	bool read_only;                       /* for verify without a daemon */
	uint64_t (*real_us)(void *ctx);       /* time of events whose draft has none; NULL = the system's clock */
	void *clock;                          /* its argument */
	const char *schema_version;           /* NULL = "lime-profile-0.4.0" */
};

/*
 * Creates the directories and a store with a new runtime id if there is none. Fails with ERR_CONFLICT if another
 * process has the store open (with its pid), ERR_UNAVAILABLE if the store has a newer version (it stays untouched),
 * ERR_CORRUPT if pages or the last records are damaged or the database is missing. read_only creates and writes nothing
 * (ERR_NOT_FOUND) and shares the store with other readers.
 */
int store_open(const struct store_options *o, struct store **ret, struct err *e);
/* Checks the structure of <dir>/data.mdb, which is not open, without LMDB. Any thread or process. */
int store_check_backup(int dir_fd, struct err *e);
/*
 * Commits the queued batches; those that cannot be written now are rejected, even with STORE_MUST. Callbacks run.
 * Later batches are rejected at the next store_flush. Owners of callbacks stop the store before they free themselves.
 */
void store_stop(struct store *store);
void store_close(struct store *store); /* stops it first if necessary */

const char *store_runtime_id(const struct store *store);
const struct event_env *store_env(const struct store *store);
bool store_is_new(const struct store *store);             /* created by this store_open */
uint64_t store_last_sequence(const struct store *store);  /* committed and dispatched */
uint64_t store_first_sequence(const struct store *store); /* the first that retention has kept; 1 before that */

/* ---- writing (loop thread) ---- */

struct store_batch *store_batch_new(struct store *store);
void store_batch_free(struct store_batch *b); /* only before it is submitted */
/* Encodes the event now; ERR_INVALID or ERR_EXHAUSTED leaves the batch unchanged. */
int store_batch_event(struct store_batch *b, const struct event_draft *d, struct err *e);
/* Why an event could not be added, or NULL. Callers that want all or nothing check it before they submit. */
const struct err *store_batch_problem(const struct store_batch *b);
/*
 * Before the commit the spool file `fd` (duplicated here) is synced and this range is checksummed in chunks. Each range
 * of an output is given once and in order, with gaps for holes.
 */
void store_batch_spool(struct store_batch *b, const char *output_ref, int fd, uint64_t offset, uint64_t length);
/* Stores the bytes of a small output in the database. */
void store_batch_inline(struct store_batch *b, const char *output_ref, const void *p, size_t n);
/* Stores the result of a request by (uid, key); a later one with the same key replaces it. */
void store_batch_idempotency(struct store_batch *b, uint32_t uid, const char *key, const char *method,
			     const uint8_t body_hash[32], const char *result_json, size_t n);
/* Stores a value that is not a read model (policy hash, …) in the `meta` table; without bytes it is removed. */
void store_batch_meta(struct store_batch *b, const char *key, const void *p, size_t n);

enum {
	STORE_MUST = 1 << 0,    /* never rejected, nor are the batches before it: waits for space or a working disk */
	STORE_NOW = 1 << 1,     /* a client waits for it, whatever the class of its events */
	STORE_SHORTLY = 1 << 2, /* an urgent batch will follow: wait two milliseconds, to share its commit */
};

struct store_result {
	int status; /* 0, or negative with `err` */
	struct err *err;
	uint64_t first_sequence; /* of this batch's events; 0 if it has none */
	uint64_t last_sequence;
};
typedef void (*store_done_fn)(void *ctx, const struct store_result *r);
/* Takes ownership of the batch. The classes of the events decide its urgency. `done` may be NULL. */
void store_submit(struct store *store, struct store_batch *b, unsigned flags, store_done_fn done, void *ctx);

/* A hint: an urgent batch will be submitted in less than a millisecond, so the writer should get ready. */
void store_prepare(struct store *store);

int store_dispatch_fd(const struct store *store); /* readable if store_dispatch has work */
void store_dispatch(struct store *store);         /* runs callbacks, then the listener */
/* Called on the loop thread after commits, with the new last sequence. */
void store_listen(struct store *store, void (*fn)(void *ctx, uint64_t last_sequence), void *ctx);
/*
 * Called on the loop thread, after the read, when a read on any thread has found that stored data does not match its
 * checksum: once for each message.
 */
void store_on_damage(struct store *store, void (*fn)(void *ctx, const char *message), void *ctx);
size_t store_damage(struct store *store); /* the number of these messages since the start, or the last rebuild */
/* Blocks until all queued batches are committed or rejected, and dispatched, except for STORE_MUST batches that wait
 * for space or a working disk. */
void store_flush(struct store *store);
size_t store_queued(const struct store *store);  /* batches not dispatched yet, for backpressure */
bool store_full(const struct store *store);      /* batches without STORE_MUST are rejected at present */
bool store_disk_full(const struct store *store); /* … because of the disk, and not of the quota */

/*
 * Whether an event with this id was submitted and is not dispatched yet. store_events does not list it, but documents,
 * which are read as committed, may already show its effect.
 */
bool store_undispatched(const struct store *store, enum id_field field, const char *id);

/* ---- reading (loop thread) ---- */

struct store_query {
	uint64_t after;  /* sequence > after */
	uint64_t before; /* sequence < before; 0 = no bound */
	int index;       /* −1 = all events; else an indexed enum id_field, and only events with `id` there */
	const char *id;
	bool kept; /* begin with the first event that is kept, if retention has removed what follows `after` */
};
/*
 * Calls fn for each event in order until it returns false; recent events come from memory. ERR_EXPIRED if `after`+1 is
 * below the first kept sequence (the message names it) and `kept` is not set; ERR_CORRUPT if a record does not match
 * its checksum (fn is not called for it).
 */
int store_events(struct store *store, const struct store_query *q, bool (*fn)(void *ctx, const struct event_view *ev),
		 void *ctx, struct err *e);

/* 0 found, 1 not found. The value is appended to the buffer. */
int store_idempotency_get(struct store *store, uint32_t uid, const char *key, char method[64], uint8_t body_hash[32],
			  struct buf *result, struct err *e);
int store_meta_get(struct store *store, const char *key, struct buf *out, struct err *e);

/* ---- read models: small JSON documents by kind and id (runtime/view defines the kinds) ---- */

/* For projections. Data from models_get is valid until the next call on m. 0 found, 1 not found. */
int models_get(struct models *m, uint8_t kind, const char *id, size_t id_len, const char **ret, size_t *ret_len,
	       struct err *e);
int models_put(struct models *m, uint8_t kind, const char *id, size_t id_len, const char *json, size_t len,
	       struct err *e);
int models_del(struct models *m, uint8_t kind, const char *id, size_t id_len, struct err *e);
/* No document is left that names an expired output: retention, and nothing else, removes what the store knows of it. */
int models_forget_output(struct models *m, const char *output_ref, struct err *e);

/*
 * A document as a struct. Events change the same documents again and again: models that can keep structs encode a
 * document only when its text is read or written to the table, and a later event gets the struct instead of a text
 * that has to be decoded.
 */
struct model_form {
	size_t size; /* of the struct */
	void (*encode)(const struct model_form *form, const void *doc, struct buf *out);
};
/* As models_get. *ret_kept is the struct if the models keep one of this form; otherwise it is NULL, and *ret is the
 * text. */
int models_get_struct(struct models *m, const struct model_form *form, uint8_t kind, const char *id, size_t id_len,
		      const void **ret_kept, const char **ret, size_t *ret_len, struct err *e);
/*
 * Space for the struct, to be filled in before the next call; every text that it points to must be passed through
 * models_keep. NULL: these models take texts only.
 */
void *models_put_struct(struct models *m, const struct model_form *form, uint8_t kind, const char *id, size_t id_len);
const char *models_keep(struct models *m, const char *text, size_t len); /* the same text, or a copy that lasts */

/*
 * Between store_snapshot_begin and store_snapshot_end (which nest) the loop thread reads documents as they were
 * committed at one moment: a reply composed of several documents is consistent, and each read is cheaper. Speculative
 * reads are not affected.
 */
void store_snapshot_begin(struct store *store);
void store_snapshot_end(struct store **s); /* for cleanup; ignores NULL */
#define store_snapshot_auto __attribute__((cleanup(store_snapshot_end)))

/* For readers. */
int store_model_get(struct store *store, uint8_t kind, const char *id, struct buf *out,
		    struct err *e); /* 0 found, 1 not found, −1 */
/* In id order: ids > after (with `descending`: < after) that start with `prefix`. NULL = no bound, no prefix. */
int store_model_scan(struct store *store, uint8_t kind, const char *prefix, const char *after, bool descending,
		     bool (*fn)(void *ctx, const char *id, size_t id_len, const char *json, size_t len), void *ctx,
		     struct err *e);

/*
 * Speculative reads include every submitted batch that is not rejected, so that a decision takes earlier decisions into
 * account before they are durable. They differ from the above only in models that `project_speculative` writes. In id
 * order; fn must not submit.
 */
int store_model_get_speculative(struct store *store, uint8_t kind, const char *id, struct buf *out, struct err *e);
/* The same without encoding: if the store keeps a struct of this form, `take` gets it, and *out stays empty. */
struct model_reader {
	const struct model_form *form;
	void (*take)(void *ctx, const void *kept); /* valid only during the call */
	void *ctx;
};
int store_model_read_speculative(struct store *store, const struct model_reader *by, uint8_t kind, const char *id,
				 struct buf *out, struct err *e);
int store_model_scan_speculative(struct store *store, uint8_t kind, const char *prefix,
				 bool (*fn)(void *ctx, const char *id, size_t id_len, const char *json, size_t len),
				 void *ctx, struct err *e);

/* ---- output bytes ---- */

/*
 * Appends a range of an output, inline or from its spool file, each chunk checked; at most 1 MiB in one call. Short at
 * the end of the durable bytes and at a hole. ERR_CORRUPT, ERR_EXPIRED; nothing is appended then. Any thread.
 */
int store_output_read(struct store *store, const char *output_ref, uint64_t offset, size_t length, struct buf *out,
		      struct err *e);
/* A read-only descriptor of a spool file; −1 with ERR_NOT_FOUND if the output has none. Its bytes are not checked. */
int store_output_open(struct store *store, const char *output_ref, struct err *e);
/* Appends a whole output; ERR_EXHAUSTED if it has more than `most` bytes. */
int store_output_whole(struct store *store, const char *output_ref, size_t most, struct buf *out, struct err *e);

/* ---- upkeep ---- */

struct store_stats {
	uint64_t events, first_sequence, last_sequence, commits, batches, refused, db_bytes, map_bytes, spool_bytes,
		spool_files, quota_bytes, models, idem_records, max_commit_us, sync_us_total, settles, journal_bytes,
		journal_groups;
	bool full;
	char note[160]; /* what an administrator should know: a smaller map than configured, a missing ballast … */
};
int store_stats_get(struct store *store, struct store_stats *ret, struct err *e);

struct store_problem {
	uint64_t sequence; /* 0 = not about a single event */
	char what[240];
};
struct store_verdict {
	bool ok;
	uint64_t events, first_sequence, last_sequence;
	size_t nproblems; /* also counts those that do not fit into the array */
	struct store_problem problems[16];
};
/*
 * Checks checksums and chain of every record, index entries, spool chunks and sizes, and compares the models with a
 * fresh projection of the log. Runs on the worker thread over one snapshot.
 */
void store_verify(struct store *store, void (*done)(void *ctx, const struct store_verdict *v, const struct err *e),
		  void *ctx);
/* Computes all models again from the log. Runs on the writer thread, between groups. */
void store_rebuild(struct store *store, void (*done)(void *ctx, const struct store_verdict *v, const struct err *e),
		   void *ctx);
/*
 * Writes a copy with spool, which opens as a store, to a directory that must not exist yet: created under a temporary
 * name, synced, then renamed. dir NULL: to STORE_STAGED_BACKUP in the store's directory, from where a caller with other
 * privileges fetches it; an earlier one is replaced.
 */
#define STORE_STAGED_BACKUP "backup"
void store_backup(struct store *store, const char *dir, void (*done)(void *ctx, const struct err *e), void *ctx);
/* Writes a compacted copy of the database next to it and renames it over the original. */
void store_compact(struct store *store, void (*done)(void *ctx, uint64_t before, uint64_t after, const struct err *e),
		   void *ctx);
/*
 * Retention: removes events with sequence < floor, but never the newest, and keeps the models as of the floor (`base`
 * table), so that verify can still prove models = base + kept log. Also removes idempotency records older than
 * idem_before_us.
 */
void store_prune(struct store *store, uint64_t floor, uint64_t idem_before_us,
		 void (*done)(void *ctx, uint64_t removed, const struct err *e), void *ctx);
/* The first event that is not older than real_us (last + 1 if all are). */
int store_sequence_at(struct store *store, uint64_t real_us, uint64_t *ret, struct err *e);
/*
 * Removes an output's bytes (file, inline, chunks); the caller adds output.expired. With STORE_MUST this also works in
 * a full store, where it is needed.
 */
void store_batch_expire_output(struct store_batch *b, const char *output_ref);

/* ---- long reading ---- */

/*
 * `work` runs on the worker thread, in parallel with commits and one after another with verify and backup; `done` runs
 * on the loop thread, with the error if it failed. The work may read events up to a committed sequence, project them
 * into temporary models of its own, read outputs, and write spool files, which become outputs when a batch cites them.
 */
struct background_read;
typedef int (*background_read_fn)(struct background_read *a, void *ctx, struct err *e);
void store_background_read(struct store *store, background_read_fn work, void (*done)(void *ctx, const struct err *e),
			   void *ctx);
/* Only for `work`. */
struct store *background_read_store(struct background_read *a);
uint64_t background_read_first(struct background_read *a);             /* store_first_sequence, for this thread */
int background_read_stopped(struct background_read *a, struct err *e); /* −1: return, the store is being closed */
/* q has both bounds; `before` is at most one past the last sequence that was committed at the submission. */
int background_read_events(struct background_read *a, const struct store_query *q,
			   bool (*fn)(void *ctx, const struct event_view *ev), void *ctx, struct err *e);
int background_read_project(struct background_read *a, const struct event_view *ev, struct err *e);
/* As models_get; valid until the next projection. */
int background_read_model(struct background_read *a, uint8_t kind, const char *id, const char **ret, size_t *ret_len,
			  struct err *e);
int background_read_models(struct background_read *a, uint8_t kind,
			   bool (*fn)(void *ctx, const char *id, size_t id_len, const char *json, size_t len),
			   void *ctx, struct err *e);
/*
 * Creates a spool file (close it) under a temporary name, which the next store_open removes after a crash. Before a
 * batch cites the file, store_spool_ref gives it its real name; after the commit store_spool_committed removes the
 * temporary one. store_spool_unref removes the file instead, at any time before the commit.
 */
int background_read_spool(struct background_read *a, const char *output_ref, int *ret_fd, struct err *e);
int store_spool_ref(struct store *store, const char *output_ref, struct err *e);
void store_spool_committed(struct store *store, const char *output_ref);
void store_spool_unref(struct store *store, const char *output_ref);

/* Read models in memory only, to project events that come from a file. */
struct models *memory_models_new(void);
void memory_models_free(struct models *m);
/* Calls fn for the documents of a kind in id order until it returns false. */
void memory_models_each(struct models *m, uint8_t kind,
			bool (*fn)(void *ctx, const char *id, size_t id_len, const char *json, size_t len), void *ctx);

#endif
