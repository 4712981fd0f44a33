#ifndef BAILIFF_STORE_STORE_H
#define BAILIFF_STORE_STORE_H

/*
 * The one log, and everything derived from it.
 *
 * Threads: the loop thread submits batches and reads; one writer thread makes them durable, whatever is queued
 * together, as a group. A batch's events get consecutive sequence numbers then, and its callback runs on the loop
 * thread afterwards (store_dispatch).
 *
 * With a group, in this order: the spool files that it cites are synced; each event is folded into the read models by
 * the function given at open; the group is written to the journal, or with all that the journal holds to the database
 * (records with their checksum chain and index entries, models, blobs, chunks, idempotency records; LMDB's default
 * durability). *Committed* means that one of the two has happened: readers see no difference (journal.c, layer.h).
 *
 * Full disk or map: batches without STORE_MUST are refused with ERR_EXHAUSTED; the others wait, are tried again (the
 * ballast file is given up for them), and commit when there is room. Reads go on throughout. Other failures of the
 * medium: the environment is closed, opened again and the last sequence read again; batches that did not commit are
 * refused (ERR_UNAVAILABLE) or, with STORE_MUST, tried again.
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
 * Folds one event into the read models; pure (no clock, no I/O, no randomness). Runs on the writer thread, and again
 * in verify and rebuild. A failure (only of the medium) fails the transaction.
 */
typedef int (*store_project_fn)(struct models *m, const struct event_view *ev, struct err *e);

struct store_options {
	const char *dir;          /* the environment's folder; may be /proc/self/fd/N */
	const char *spool_dir;    /* likewise; where spool.h's files are */
	uint64_t map_bytes;       /* 0 = 256 GiB, smaller where the address space does not allow it (said in stats) */
	uint64_t quota_bytes;     /* of database, journal and spool together; 0 = none */
	uint64_t ballast_bytes;   /* 0 = 4 MiB */
	uint64_t journal_bytes;   /* 0 = 1 MiB, less with a small quota */
	bool no_journal;          /* every group is committed to the database before it is acknowledged */
	uint32_t settle_ms;       /* when nothing has come for so long the journal is put into the database; 0 = 5 */
	uint32_t soon_ms;         /* 0 = 50 */
	store_project_fn project; /* NULL = no models */
	store_project_fn project_speculative; /* the part of it that decisions are made from; runs at store_submit. NULL
						 = none */
	bool read_only;                       /* for verify from outside */
	uint64_t (*real_us)(
		void *ctx);         /* when events happen that do not say so themselves; NULL = the system's clock */
	void *clock;                /* its argument */
	const char *schema_version; /* NULL = "lime-profile-0.4.0" */
};

/*
 * Refuses a store that another process has open (ERR_CONFLICT, with its pid), one of a newer version (ERR_UNAVAILABLE,
 * untouched), and one whose pages or last records are damaged or whose database is missing (ERR_CORRUPT). Makes a new
 * one where there is none (with its runtime id), and the folders; read_only does not (ERR_NOT_FOUND), writes nothing,
 * and shares the store with other readers.
 */
int store_open(const struct store_options *o, struct store **ret, struct err *e);
/*
 * Commits what is queued; batches that cannot be written now, also STORE_MUST ones, get their refusal. Callbacks run.
 * From then on everything submitted is refused at the next store_flush. Owners of callbacks stop the store first, then
 * free themselves.
 */
void store_stop(struct store *store);
void store_close(struct store *store); /* stops it if it was not */

const char *store_runtime_id(const struct store *store);
const struct event_env *store_env(const struct store *store);
bool store_is_new(const struct store *store);             /* made by this open */
uint64_t store_last_sequence(const struct store *store);  /* committed, as the loop thread knows it */
uint64_t store_first_sequence(const struct store *store); /* first kept; 1 in a young store */

/* ---- writing (loop thread) ---- */

struct store_batch *store_batch_new(struct store *store);
void store_batch_free(struct store_batch *b); /* one that was not submitted */
/* Encodes now; ERR_INVALID or ERR_EXHAUSTED leaves the batch as it was. */
int store_batch_event(struct store_batch *b, const struct event_draft *d, struct err *e);
/* Why an event of it could not be added, if one could not: whoever wants all or nothing asks before submitting. */
const struct err *store_batch_problem(const struct store_batch *b);
/*
 * The spool file `fd` (duplicated) is synced and this range of it is checksummed (in chunks) before the commit. Ranges
 * of one output are given once each, in order; gaps are allowed (what lies in a hole is never given).
 */
void store_batch_spool(struct store_batch *b, const char *output_ref, int fd, uint64_t offset, uint64_t length);
/* The bytes of a small output, kept in the database. */
void store_batch_inline(struct store_batch *b, const char *output_ref, const void *p, size_t n);
/* Remembers a result for (uid, key); replaced by a later one of the same key. */
void store_batch_idempotency(struct store_batch *b, uint32_t uid, const char *key, const char *method,
			     const uint8_t body_hash[32], const char *result_json, size_t n);
/* A model-independent durable setting (policy hash, …): `meta` table. */
void store_batch_meta(struct store_batch *b, const char *key, const void *p, size_t n);

enum {
	STORE_MUST = 1 << 0,    /* never refused: waits for room */
	STORE_NOW = 1 << 1,     /* somebody waits for it, whatever its events say */
	STORE_SHORTLY = 1 << 2, /* something is about to follow that somebody waits for: give it two milliseconds, to
				   share a commit */
};

struct store_result {
	int status; /* 0, or negative with `err` */
	struct err *err;
	uint64_t first_sequence; /* of this batch's events; 0 when it has none */
	uint64_t last_sequence;
};
typedef void (*store_done_fn)(void *ctx, const struct store_result *r);
/* Takes the batch. Urgency follows the events' classes. `done` may be NULL. */
void store_submit(struct store *store, struct store_batch *b, unsigned flags, store_done_fn done, void *ctx);

/* A batch that somebody waits for will be submitted in less than a millisecond: the writer makes ready for it. Nothing
 * is promised. */
void store_prepare(struct store *store);

int store_dispatch_fd(const struct store *store); /* readable when store_dispatch has work */
void store_dispatch(struct store *store);         /* runs callbacks, then the listener */
/* Called on the loop thread after commits, with the new last sequence. */
void store_listen(struct store *store, void (*fn)(void *ctx, uint64_t last_sequence), void *ctx);
/* Blocks until everything queued is decided and dispatched, but for STORE_MUST batches that wait for room or the
 * medium. */
void store_flush(struct store *store);
size_t store_queued(const struct store *store); /* batches not yet decided, for backpressure */
bool store_full(const struct store *store);     /* writes without STORE_MUST are refused at present */

/* ---- reading (loop thread; never held across a socket write) ---- */

struct store_query {
	uint64_t after;  /* sequence > after */
	uint64_t before; /* sequence < before; 0 = no bound */
	int index;       /* −1, or an indexed enum id_field: only events with that id */
	const char *id;
};
/*
 * Calls fn for each event in order until it returns false or the end; recent ones come from memory. Returns 0;
 * ERR_EXPIRED if `after`+1 lies below the first kept sequence (message says which that is); ERR_CORRUPT if a record
 * does not match its checksum (nothing of it is passed on).
 */
int store_events(struct store *store, const struct store_query *q, bool (*fn)(void *ctx, const struct event_view *ev),
		 void *ctx, struct err *e);

/* 0 found, 1 not there. The value is appended to out. */
int store_idempotency_get(struct store *store, uint32_t uid, const char *key, char method[64], uint8_t body_hash[32],
			  struct buf *result, struct err *e);
int store_meta_get(struct store *store, const char *key, struct buf *out, struct err *e);

/* ---- read models: small JSON documents by kind and id (kinds are runtime/view's) ---- */

/* For folds. Data from models_get is valid until the next call on m. 0 found, 1 not there. */
int models_get(struct models *m, uint8_t kind, const char *id, size_t id_len, const char **ret, size_t *ret_len,
	       struct err *e);
int models_put(struct models *m, uint8_t kind, const char *id, size_t id_len, const char *json, size_t len,
	       struct err *e);
int models_del(struct models *m, uint8_t kind, const char *id, size_t id_len, struct err *e);

/*
 * From store_snapshot_begin to store_snapshot_end, which nest, the loop thread reads documents as they were committed
 * at one moment: what is put together from several agrees with itself, and each of them costs less. What is reckoned
 * ahead is always read as it is.
 */
void store_snapshot_begin(struct store *store);
void store_snapshot_end(struct store **s); /* for cleanup; of NULL: nothing */
#define store_snapshot_auto __attribute__((cleanup(store_snapshot_end)))

/* For readers. */
int store_model_get(struct store *store, uint8_t kind, const char *id, struct buf *out,
		    struct err *e); /* 0 / 1 not there / −1 */
/* In id order, ids > after (or, with `descending`, < after; after NULL = from that end) and starting with `prefix` (or
 * NULL). */
int store_model_scan(struct store *store, uint8_t kind, const char *prefix, const char *after, bool descending,
		     bool (*fn)(void *ctx, const char *id, size_t id_len, const char *json, size_t len), void *ctx,
		     struct err *e);

/*
 * The same with every submitted batch reckoned in that is not decided yet: what decisions are made from. Only models
 * that `project_speculative` folds differ. In id order; fn may not submit.
 */
int store_model_get_speculative(struct store *store, uint8_t kind, const char *id, struct buf *out, struct err *e);
int store_model_scan_speculative(struct store *store, uint8_t kind, const char *prefix,
				 bool (*fn)(void *ctx, const char *id, size_t id_len, const char *json, size_t len),
				 void *ctx, struct err *e);

/* ---- output bytes ---- */

/* A range of an output: inline or from its spool file, each chunk checked. Short at the end of what is durable.
 * ERR_CORRUPT, ERR_EXPIRED. */
int store_output_read(struct store *store, const char *output_ref, uint64_t offset, size_t length, struct buf *out,
		      struct err *e);
/* All of one that has at most `most` bytes, however long a range may be at a time; a longer one is ERR_EXHAUSTED. */
int store_output_whole(struct store *store, const char *output_ref, size_t most, struct buf *out, struct err *e);

/* ---- upkeep ---- */

struct store_stats {
	uint64_t events, first_sequence, last_sequence, commits, batches, refused, db_bytes, map_bytes, spool_bytes,
		spool_files, quota_bytes, models, idem_records, max_commit_us, sync_us_total, settles, journal_bytes,
		journal_groups;
	bool full;
	char note[160]; /* a smaller map than asked for, a missing ballast … */
};
int store_stats_get(struct store *store, struct store_stats *ret, struct err *e);

struct store_problem {
	uint64_t sequence; /* 0 = not about one event */
	char what[240];
};
struct store_verdict {
	bool ok;
	uint64_t events, first_sequence, last_sequence;
	size_t nproblems; /* all of them, also those past the array */
	struct store_problem problems[16];
};
/*
 * Checksums and chain of every record, index entries, spool chunks and sizes, and the models against a fresh fold. Runs
 * on a thread of its own over a consistent read transaction; `done` on the loop thread through store_dispatch.
 */
void store_verify(struct store *store, void (*done)(void *ctx, const struct store_verdict *v, const struct err *e),
		  void *ctx);
/* Drops all models and folds the log again; same threading. */
void store_rebuild(struct store *store, void (*done)(void *ctx, const struct store_verdict *v, const struct err *e),
		   void *ctx);
/*
 * A copy that opens as a store, with spool, into a folder that must not exist yet: made under a temporary name, synced
 * (files and folder), renamed. dir NULL: into STORE_STAGED_BACKUP in the store's own folder, for a caller that may
 * write where the store's process may not; an earlier one that nobody took is replaced. `compact` writes a compacted
 * database beside the live one and swaps it in.
 */
#define STORE_STAGED_BACKUP "backup"
void store_backup(struct store *store, const char *dir, void (*done)(void *ctx, const struct err *e), void *ctx);
void store_compact(struct store *store, void (*done)(void *ctx, uint64_t before, uint64_t after, const struct err *e),
		   void *ctx);
/*
 * Retention: removes events with sequence < floor (never the newest), keeping a snapshot of the models at the floor
 * (`base` table), so that verify still proves models = snapshot + kept log. Idempotency records older than
 * idem_before_us go too.
 */
void store_prune(struct store *store, uint64_t floor, uint64_t idem_before_us,
		 void (*done)(void *ctx, uint64_t removed, const struct err *e), void *ctx);
/* First sequence whose event is not older than real_us (last + 1 if all are). */
int store_sequence_at(struct store *store, uint64_t real_us, uint64_t *ret, struct err *e);
/*
 * Removes an output's bytes (file, inline, chunks); the caller writes output.expired. With STORE_MUST it also works in
 * a full store, which is when it is needed.
 */
void store_batch_expire_output(struct store_batch *b, const char *output_ref);

/* ---- long reading ---- */

/*
 * `work` runs on the store's side thread, beside commits, one after another with verify and backup; `done` on the loop
 * thread, with what failed. The work may read events up to a committed sequence, fold them into models of its own
 * (which are thrown away afterwards), read outputs, and write spool files, which become outputs when a batch cites
 * them.
 */
struct background_read;
typedef int (*background_read_fn)(struct background_read *a, void *ctx, struct err *e);
void store_background_read(struct store *store, background_read_fn work, void (*done)(void *ctx, const struct err *e),
			   void *ctx);
/* For the work only. */
struct store *background_read_store(struct background_read *a);
uint64_t background_read_first(struct background_read *a);             /* the first kept sequence */
int background_read_stopped(struct background_read *a, struct err *e); /* −1: leave, as the store is being closed */
/* q has both bounds, and `before` is at most one past what was committed when the work was given. */
int background_read_events(struct background_read *a, const struct store_query *q,
			   bool (*fn)(void *ctx, const struct event_view *ev), void *ctx, struct err *e);
int background_read_project(struct background_read *a, const struct event_view *ev, struct err *e);
/* As models_get; valid until the next fold. */
int background_read_model(struct background_read *a, uint8_t kind, const char *id, const char **ret, size_t *ret_len,
			  struct err *e);
int background_read_models(struct background_read *a, uint8_t kind,
			   bool (*fn)(void *ctx, const char *id, size_t id_len, const char *json, size_t len),
			   void *ctx, struct err *e);
/*
 * Makes a spool file (close it) under a name of its own: what a crash leaves of it goes with the next open. Whoever
 * cites it in a batch gives it its real name first (keep), and says when that is committed (kept); or it is forgotten,
 * kept or not.
 */
int background_read_spool(struct background_read *a, const char *output_ref, int *ret_fd, struct err *e);
int store_spool_ref(struct store *store, const char *output_ref, struct err *e);
void store_spool_committed(struct store *store, const char *output_ref);
void store_spool_unref(struct store *store, const char *output_ref);

#endif
