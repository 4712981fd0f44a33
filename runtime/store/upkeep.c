/*
 * Upkeep: jobs that keep a store small, whole and readable. Retention, compaction and the rebuild of the read models
 * run on the writer thread between groups; a backup runs on the worker thread. All of them call `done` on the loop
 * thread. The upgrade of an older store runs before there are any threads.
 */

#include "runtime/store/upkeep.h"

#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/file_copy.h"
#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/event/event.h"
#include "runtime/store/damage.h"
#include "runtime/store/event_index.h"
#include "runtime/store/expired_files.h"
#include "runtime/store/idempotency_records.h"
#include "runtime/store/read_models.h"
#include "runtime/store/reader.h"
#include "runtime/store/record.h"
#include "runtime/store/store_dirs.h"
#include "runtime/store/store_meta.h"
#include "runtime/store/store_private.h"
#include "runtime/store/worker.h"
#include "runtime/store/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STEP_PUTS 900                /* in one transaction: a commit that waits for it must not wait long */
#define STEP_NS (8ull * 1000 * 1000) /* the same, where the cost of an event varies */

/* ---- retention ---- */

/*
 * Each step is one transaction that projects the oldest events into the `base` table, removes them and their
 * index entries, and moves the floor: models = base + kept log holds at any time.
 */

#define PRUNE_EVENTS 4096 /* STEP_NS ends most steps before that */
#define PRUNE_RECORDS 200 /* idempotency records */

struct prune {
	struct job job;
	uint64_t floor, idem_before_us, removed;
	unsigned step_events; /* fewer if there is hardly space to copy pages */
	unsigned idem_removed;
	struct tip next_floor;
	uint64_t next_removed;
	void (*done)(void *ctx, uint64_t removed, const struct err *e);
	void *ctx;
};

/*
 * Projected before it is removed, into `base`; an index entry that is already missing is no reason to keep the event.
 */
static int remove_event(struct store *store, MDB_txn *txn, struct models *m, struct tip *floor,
			struct record_block *block, struct err *e)
{
	struct event_view ev;
	struct db_key k;
	MDB_val kv;
	int rc;

	if (writer_project_next(store, txn, m, floor, block, &ev, e) != 0)
		return -1;
	if (ev.sequence == block->last) { /* the others of its record are removed already */
		kv = db_key_sequence(&k, block->first);
		rc = mdb_del(txn, store->db.t[DB_EVENTS], &kv, NULL);
		m->puts++;
		if (rc != 0)
			return db_err(e, rc, "remove an event");
	}
	return event_index_remove(&store->db, txn, &ev, &m->puts, e);
}

static int prune_txn(struct store *store, MDB_txn *txn, void *ctx, struct err *e)
{
	struct prune *p = ctx;
	struct models m = { .txn = txn, .dbi = store->db.t[DB_BASE], .pruned = store };
	record_block_auto struct record_block block = RECORD_BLOCK_INIT;
	struct tip floor = { 0 };
	uint64_t end = p->floor < store->settled.sequence ? p->floor : store->settled.sequence; /* the newest stays */
	uint64_t until = clock_mono_ns() + STEP_NS;

	if (db_meta_get(txn, &store->db, META_FLOOR, &floor, sizeof(floor), e) < 0)
		return -1;
	p->next_removed = p->idem_removed = 0;
	for (unsigned i = 0; i < p->step_events && floor.sequence + 1 < end && (i == 0 || clock_mono_ns() < until);
	     i++) {
		if (remove_event(store, txn, &m, &floor, &block, e) != 0)
			return -1;
		p->next_removed++;
	}
	p->next_floor = floor;
	if (p->next_removed)
		return db_meta_put(txn, &store->db, META_FLOOR, &floor, sizeof(floor), e);
	return idempotency_records_prune(txn, &store->db, p->idem_before_us,
					 p->step_events < PRUNE_RECORDS ? p->step_events : PRUNE_RECORDS,
					 &p->idem_removed, e);
}

/* Without space a smaller step may still succeed: removing a few events frees the pages for more. */
static enum job_step prune_step(struct store *store, struct job *j)
{
	struct prune *p = (struct prune *)j;

	expired_files_remove(store); /* an output whose file is gone can be forgotten (models_forget_output) */
	if (writer_txn(store, prune_txn, p, &j->err) != 0) {
		if (j->err.code != ERR_EXHAUSTED || p->step_events == 1)
			return JOB_FAILED;
		p->step_events /= 8;
		if (p->step_events == 0)
			p->step_events = 1;
		j->err = ERR_INIT;
		return JOB_MORE;
	}
	p->removed += p->next_removed;
	atomic_store(&store->first, p->next_floor.sequence + 1);
	if (p->next_removed || p->idem_removed)
		return JOB_MORE;
	return JOB_FINISHED;
}

static void prune_run(struct store *store, struct completion *c)
{
	struct prune *p = (struct prune *)c;

	if (p->done)
		p->done(p->ctx, p->removed, p->job.failed ? &p->job.err : NULL);
	free(p);
}

void store_prune(struct store *store, uint64_t floor, uint64_t idem_before_us,
		 void (*done)(void *ctx, uint64_t removed, const struct err *e), void *ctx)
{
	struct prune *p = mem_zalloc(1, sizeof(*p));

	p->job.completion.run = prune_run;
	p->job.step = prune_step;
	p->job.makes_room = true;
	p->floor = floor;
	p->idem_before_us = idem_before_us;
	p->step_events = PRUNE_EVENTS;
	p->done = done;
	p->ctx = ctx;
	writer_submit(store, &p->job);
}

/* ---- compaction ---- */

/*
 * A thread writes and syncs a compacted copy next to the database. Meanwhile groups stay in the journal and above the
 * database, which does not change (`held`), so nobody waits for the copy. If they become too many the writer settles
 * them, and the copy is made again. The writer then renames it over the original while that is closed. A crash before
 * the rename leaves the old database (and a copy that the next open removes), a crash after it the new one. No commit
 * happens in between, nor before the new name is durable: if the directory cannot be synced, every group tries that
 * first (durable.c).
 */

#define COPIES_MAX 3

struct compact {
	struct job job;
	struct store *store;
	pthread_t copier;
	bool copying;     /* the thread exists */
	bool copied;      /* its result, set before it wakes the writer */
	struct err error; /* the same */
	size_t txn_id;    /* of the newest transaction in the copy */
	unsigned copies;
	uint64_t before, after;
	void (*done)(void *ctx, uint64_t before, uint64_t after, const struct err *e);
	void *ctx;
};

static uint64_t file_size(int dir_fd, const char *name)
{
	struct stat st;

	return fstatat(dir_fd, name, &st, 0) == 0 ? (uint64_t)st.st_size : 0;
}

/* Writes a copy without free pages to a new file, and syncs it, which LMDB does not do. */
static int copy_database(MDB_env *env, int dir_fd, const char *name, int flags, struct err *e)
{
	fd_auto int fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_CLOEXEC | flags, 0600);
	int rc;

	if (fd < 0)
		return err_sys(e, errno, "create %s", name);
	rc = mdb_env_copyfd2(env, fd, MDB_CP_COMPACT);
	if (rc != 0)
		return db_err(e, rc, "copy the database");
	return fsync(fd) == 0 && fsync(dir_fd) == 0 ? 0 : err_sys(e, errno, "sync the copy");
}

static int replace_database(struct store *store, struct err *e)
{
	if (renameat(store->dir_fd, STORE_DIRS_DATA_NEW, store->dir_fd, STORE_DIRS_DATA) != 0)
		return err_sys(e, errno, "put the compacted database in place");
	return 0;
}

static size_t last_txn_id(const struct store *store)
{
	MDB_envinfo info;

	return mdb_env_info(store->db.env, &info) == 0 ? info.me_last_txnid : SIZE_MAX;
}

/* The copying thread. A reader keeps the environment open. */
static void *copy_main(void *arg)
{
	struct compact *c = arg;
	struct store *store = c->store;
	reader_auto struct reader r = READER_INIT;

	c->copied = reader_begin(store, &r, &c->error) == 0 &&
		    copy_database(r.db->env, store->dir_fd, STORE_DIRS_DATA_NEW, O_TRUNC | O_NOFOLLOW, &c->error) == 0;
	reader_end(&r);
	pthread_mutex_lock(&store->mutex);
	c->job.asleep = false;
	pthread_cond_signal(&store->wake);
	pthread_mutex_unlock(&store->mutex);
	return NULL;
}

static enum job_step start_copy(struct store *store, struct compact *c)
{
	int rc;

	c->before = file_size(store->dir_fd, STORE_DIRS_DATA);
	c->txn_id = last_txn_id(store);
	c->copies++;
	pthread_mutex_lock(&store->mutex);
	c->job.asleep = true;
	pthread_mutex_unlock(&store->mutex);
	rc = pthread_create(&c->copier, NULL, copy_main, c);
	if (rc != 0) {
		c->job.asleep = false;
		err_sys(&c->job.err, rc, "start a thread that copies the database");
		return JOB_FAILED;
	}
	c->copying = store->held = true;
	return JOB_MORE;
}

static void end_copy(struct store *store, struct compact *c)
{
	if (c->copying)
		pthread_join(c->copier, NULL);
	c->copying = store->held = false;
}

static void compact_cancel(struct store *store, struct job *j)
{
	end_copy(store, (struct compact *)j);
	unlinkat(store->dir_fd, STORE_DIRS_DATA_NEW, 0);
}

/* Puts the copy in place. The old file goes with its last close, which can take long. */
static int use_copy(struct store *store, struct compact *c, struct err *e)
{
	int old = openat(store->dir_fd, STORE_DIRS_DATA, O_PATH | O_CLOEXEC | O_NOFOLLOW);
	int rc = writer_reopen(store, replace_database, e);

	expired_files_close(old);
	if (rc != 0)
		return -1;
	/* Until the name is durable a power failure could bring the old file back, so nothing may be acknowledged in
	 * the new one. */
	store->unnamed = true;
	if (store_dirs_sync_name(store, e) != 0)
		return -1;
	c->after = file_size(store->dir_fd, STORE_DIRS_DATA);
	return 0;
}

static enum job_step compact_step(struct store *store, struct job *j)
{
	struct compact *c = (struct compact *)j;
	bool copying = c->copying, current;

	end_copy(store, c);
	if (!store->db.env && writer_reopen(store, NULL, &j->err) != 0)
		return JOB_FAILED;
	if (!copying)
		return start_copy(store, c);
	current = last_txn_id(store) == c->txn_id;
	if (c->copied && current && use_copy(store, c, &j->err) == 0)
		return JOB_FINISHED;
	unlinkat(store->dir_fd, STORE_DIRS_DATA_NEW, 0);
	if (c->copied && !current && c->copies < COPIES_MAX)
		return JOB_MORE;
	if (!c->copied)
		j->err = c->error;
	else if (!current)
		err_set(&j->err, ERR_UNAVAILABLE,
			"there were too many events while the database was copied: compact it when fewer commands run");
	return JOB_FAILED;
}

static void compact_run(struct store *store, struct completion *completion)
{
	struct compact *c = (struct compact *)completion;

	if (c->done)
		c->done(c->ctx, c->before, c->after, c->job.failed ? &c->job.err : NULL);
	free(c);
}

void store_compact(struct store *store, void (*done)(void *ctx, uint64_t before, uint64_t after, const struct err *e),
		   void *ctx)
{
	struct compact *c = mem_zalloc(1, sizeof(*c));

	c->job.completion.run = compact_run;
	c->job.step = compact_step;
	c->job.cancel = compact_cancel;
	c->job.exclusive = true;
	c->store = store;
	c->done = done;
	c->ctx = ctx;
	writer_submit(store, &c->job);
}

/* ---- rebuild ---- */

/*
 * Computes the read models again while the store is in use: projects the log into the inactive table of models, in
 * transactions of bounded size. The one that reaches the end of the log also makes that table the active one; a crash
 * before that leaves the old models.
 */

#define REBUILD_EVENTS 2000
#define REBUILD_BYTES (4u << 20) /* of documents; they are kept in memory until the transaction ends */

enum phase { PHASE_CLEAR, PHASE_BASE, PHASE_LOG, PHASE_DONE };

struct rebuild {
	struct job job;
	enum phase phase, next_phase;
	int target;                          /* the table that is filled */
	struct db_key base_at, next_base_at; /* last copied entry of the `base` table */
	struct tip at, next_at;              /* last projected event */
	struct store_verdict verdict;
	void (*done)(void *ctx, const struct store_verdict *v, const struct err *e);
	void *ctx;
};

static int copy_base(struct rebuild *b, struct store *store, MDB_txn *txn, struct err *e)
{
	MDB_val kv = db_key_val(&b->base_at), v;
	struct db_key last = b->base_at;
	db_cursor_auto MDB_cursor *cur = NULL;
	unsigned n = 0;
	int rc = mdb_cursor_open(txn, store->db.t[DB_BASE], &cur);

	if (rc != 0)
		return db_err(e, rc, "read the base models");
	rc = mdb_cursor_get(cur, &kv, &v, last.len ? MDB_SET_RANGE : MDB_FIRST);
	if (rc == 0 && last.len && kv.mv_size == last.len && memcmp(kv.mv_data, last.bytes, last.len) == 0)
		rc = mdb_cursor_get(cur, &kv, &v, MDB_NEXT);
	for (; rc == 0 && n < STEP_PUTS; rc = mdb_cursor_get(cur, &kv, &v, MDB_NEXT), n++) {
		rc = mdb_put(txn, store->db.t[b->target], &kv, &v, 0);
		if (rc != 0)
			break;
		db_key_reset(&last);
		db_key_add(&last, kv.mv_data, kv.mv_size);
	}
	if (rc != 0 && rc != MDB_NOTFOUND)
		return db_err(e, rc, "copy the base models");
	b->next_base_at = last;
	if (rc == MDB_NOTFOUND)
		b->next_phase = PHASE_LOG;
	return 0;
}

static int project_log(struct rebuild *b, struct store *store, MDB_txn *txn, struct err *e)
{
	struct docs docs = { 0 }; /* each document is written once, however many of the events change it */
	struct models m = { .txn = txn, .dbi = store->db.t[b->target], .docs = &docs };
	record_block_auto struct record_block block = RECORD_BLOCK_INIT;
	uint8_t which = b->target == DB_MODELS_B;
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < REBUILD_EVENTS && docs.count < STEP_PUTS && m.bytes < REBUILD_BYTES &&
			     b->next_at.sequence < store->settled.sequence;
	     i++) {
		struct event_view ev;

		rc = writer_project_next(store, txn, &m, &b->next_at, &block, &ev, e);
	}
	if (rc == 0)
		rc = models_write_back(&m, e);
	docs_done(&docs);
	if (rc != 0)
		return -1;
	if (b->next_at.sequence < store->settled.sequence)
		return 0;
	b->next_phase = PHASE_DONE;
	return db_meta_put(txn, &store->db, META_MODELS, &which, sizeof(which), e);
}

/*
 * The position goes to next_*, because the transaction may fail or be repeated; rebuild_step takes it over after the
 * commit. PHASE_CLEAR starts over if it is repeated.
 */
static int rebuild_txn(struct store *store, MDB_txn *txn, void *ctx, struct err *e)
{
	struct rebuild *b = ctx;
	int rc;

	b->next_phase = b->phase;
	b->next_base_at = b->base_at;
	b->next_at = b->at;
	switch (b->phase) {
	case PHASE_CLEAR:
		if (db_meta_get(txn, &store->db, META_FLOOR, &b->at, sizeof(b->at), e) < 0)
			return -1;
		b->target = store->models == DB_MODELS_A ? DB_MODELS_B : DB_MODELS_A;
		b->verdict.first_sequence = b->at.sequence + 1;
		b->next_at = b->at;
		rc = mdb_drop(txn, store->db.t[b->target], 0);
		b->next_phase = PHASE_BASE;
		return rc == 0 ? models_put_fences(txn, store->db.t[b->target], store->growing_models, e)
			       : db_err(e, rc, "clear the models");
	case PHASE_BASE: return copy_base(b, store, txn, e);
	default: return project_log(b, store, txn, e);
	}
}

/* Runs until the new table has caught up; groups that are settled meanwhile go to the old one and to the log. */
static enum job_step rebuild_step(struct store *store, struct job *j)
{
	struct rebuild *b = (struct rebuild *)j;

	/* Meanwhile readers look the active table up. */
	pthread_mutex_lock(&store->mutex);
	store->models_since = SIZE_MAX;
	pthread_mutex_unlock(&store->mutex);
	if (writer_txn(store, rebuild_txn, b, &j->err) != 0)
		return JOB_FAILED;
	b->phase = b->next_phase;
	b->at = b->next_at;
	b->base_at = b->next_base_at;
	if (b->phase != PHASE_DONE)
		return JOB_MORE;
	pthread_mutex_lock(&store->mutex);
	store->models = b->target;
	store->models_since = store->txn_id;
	pthread_mutex_unlock(&store->mutex);
	b->verdict.ok = true;
	b->verdict.last_sequence = b->at.sequence;
	b->verdict.events = b->at.sequence + 1 - b->verdict.first_sequence;
	return JOB_FINISHED;
}

static void rebuild_run(struct store *store, struct completion *c)
{
	struct rebuild *b = (struct rebuild *)c;

	if (!b->job.failed)
		damage_forget(store);
	if (b->done)
		b->done(b->ctx, &b->verdict, b->job.failed ? &b->job.err : NULL);
	free(b);
}

void store_rebuild(struct store *store, void (*done)(void *ctx, const struct store_verdict *v, const struct err *e),
		   void *ctx)
{
	struct rebuild *b = mem_zalloc(1, sizeof(*b));

	b->job.completion.run = rebuild_run;
	b->job.step = rebuild_step;
	b->done = done;
	b->ctx = ctx;
	writer_submit(store, &b->job);
}

/* ---- backup ---- */

/*
 * A backup is a directory with `store` and `spool` in it, like a home. The database is copied before the spool files:
 * they only grow, and none is removed meanwhile, so every byte that the copied database cites is in the copied files.
 */

struct backup {
	struct job job;
	char *dir;
	void (*done)(void *ctx, const struct err *e);
	void *ctx;
};

static bool is_cancelled(void *ctx) { return store_cancelled(ctx); }

static int make_directory(int parent, const char *name, struct err *e)
{
	int fd = mkdirat(parent, name, 0700) == 0 ? openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	return fd >= 0 ? fd : err_sys(e, errno, "create '%s'", name);
}

static int copy_all(struct store *store, int tmp_fd, struct err *e)
{
	const struct file_copy_options o = { .cancelled = is_cancelled, .ctx = store };
	fd_auto int store_fd = make_directory(tmp_fd, "store", e);
	fd_auto int spool_fd = store_fd >= 0 ? make_directory(tmp_fd, "spool", e) : -1;
	reader_auto struct reader r = READER_INIT;

	if (spool_fd < 0 || reader_begin(store, &r, e) != 0) /* which keeps the environment open */
		return -1;
	if (copy_database(r.db->env, store_fd, STORE_DIRS_DATA, O_EXCL, e) != 0)
		return -1;
	reader_end(&r);
	if (file_copy_all(store->spool_fd, spool_fd, &o, e) != 0)
		return err_wrap(e, "copy the spool");
	return fsync(tmp_fd) == 0 ? 0 : err_sys(e, errno, "sync the directories of the copy");
}

/* The caller moves a staged backup out of the store's directory. One that was left there is replaced. */
static int open_staging(struct store *store, struct err *e)
{
	fd_auto int old = openat(store->dir_fd, STORE_STAGED_BACKUP, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	if (old >= 0) {
		store_dirs_remove(old, "store");
		store_dirs_remove(old, "spool");
		if (unlinkat(store->dir_fd, STORE_STAGED_BACKUP, AT_REMOVEDIR) != 0)
			return err_sys(e, errno, "remove the previous staged backup");
	}
	int fd = fcntl(store->dir_fd, F_DUPFD_CLOEXEC, 0);
	return fd >= 0 ? fd : err_sys(e, errno, "open the store's directory");
}

/* Splits "a/b" into an open directory and a name. */
static int open_parent(const char *path, const char **ret_name, struct err *e)
{
	const char *slash = strrchr(path, '/');
	mem_auto char *parent = slash ? mem_strndup(path, slash == path ? 1 : (size_t)(slash - path)) : mem_strdup(".");
	const char *name = slash ? slash + 1 : path;
	int fd;

	if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strlen(name) > 200)
		return err_field(e, "dir", "'%s' does not name a new directory", path);
	fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, errno, "open '%s'", parent);
	*ret_name = name;
	return fd;
}

/* Copies to a temporary name and renames, so that a directory with the final name is complete. */
static int backup_to(struct store *store, const char *dir, struct err *e)
{
	const char *name = STORE_STAGED_BACKUP;
	fd_auto int parent = dir ? open_parent(dir, &name, e) : open_staging(store, e);
	fd_auto int tmp_fd = -1;
	char tmp[256];
	int rc = -1;

	if (parent < 0)
		return -1;
	if (faccessat(parent, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return err_field(e, "dir", "'%s' already exists", dir);
	snprintf(tmp, sizeof(tmp), ".%s.%d", name, (int)getpid());
	tmp_fd = make_directory(parent, tmp, e);
	if (tmp_fd < 0)
		return -1;
	if (copy_all(store, tmp_fd, e) == 0) {
		if (renameat2(parent, tmp, parent, name, RENAME_NOREPLACE) != 0 || fsync(parent) != 0)
			err_sys(e, errno, "put the copy in place");
		else
			rc = 0;
	}
	if (rc != 0) {
		store_dirs_remove(tmp_fd, "store");
		store_dirs_remove(tmp_fd, "spool");
		unlinkat(parent, tmp, AT_REMOVEDIR);
	}
	return rc;
}

static enum job_step backup_step(struct store *store, struct job *j)
{
	struct backup *b = (struct backup *)j;

	if (backup_to(store, b->dir, &j->err) == 0)
		return JOB_FINISHED;
	err_wrap(&j->err, "back up to '%s'", b->dir ? b->dir : STORE_STAGED_BACKUP);
	return JOB_FAILED;
}

static void backup_run(struct store *store, struct completion *c)
{
	struct backup *b = (struct backup *)c;

	if (b->done)
		b->done(b->ctx, b->job.failed ? &b->job.err : NULL);
	free(b->dir);
	free(b);
}

void store_backup(struct store *store, const char *dir, void (*done)(void *ctx, const struct err *e), void *ctx)
{
	struct backup *b = mem_zalloc(1, sizeof(*b));

	b->job.completion.run = backup_run;
	b->job.step = backup_step;
	b->job.keeps_files = true;
	b->dir = mem_strdup(dir);
	b->done = done;
	b->ctx = ctx;
	worker_submit(store, &b->job);
}

/* ---- upgrade ---- */

/*
 * Version 3 may have groups that are only in the journal, version 4 events and documents that are compressed, version 5
 * events that are compressed together: programs of earlier versions must reject such a store. What is stored already
 * stays as it is, except for the index, which is another one since version 4: the table is emptied and filled again
 * from the log, in transactions of bounded size. The last one writes the version, so an interrupted upgrade starts
 * over.
 */

#define INDEX_VERSION 4u /* the first with the current index */
#define EVENTS_A_TXN 150 /* each with several index entries */

int upkeep_upgrade(struct store *store, uint32_t version, struct err *e)
{
	const uint32_t current = STORE_VERSION;
	bool emptied = version >= INDEX_VERSION;
	uint64_t next = emptied ? store->settled.sequence + 1 : atomic_load(&store->first);
	record_block_auto struct record_block block = RECORD_BLOCK_INIT;

	if (version == current)
		return 0;
	if (store->read_only)
		return err_set(e, ERR_UNAVAILABLE,
			       "the store has version %u; start bailiffd on it once to upgrade it to version %u",
			       version, current);
	log_info("store: upgrading from version %u to version %u", version, current);
	do {
		MDB_txn *txn;
		int rc = mdb_txn_begin(store->db.env, NULL, 0, &txn);

		if (rc != 0)
			return db_err(e, rc, "begin a transaction");
		if (!emptied && (rc = mdb_drop(txn, store->db.t[DB_INDEX], 0)) != 0)
			db_err(e, rc, "empty the index");
		for (unsigned i = 0; rc == 0 && i < EVENTS_A_TXN && next <= store->settled.sequence; i++, next++) {
			struct err why = ERR_INIT;
			struct event_view ev;

			/* a store with a damaged record still opens; `bailiff store verify` reports it */
			if (record_load(txn, &store->db, next, &block, &why) == 0 &&
			    record_event(&block, next, &ev, &why) == 0)
				rc = event_index_put(&store->db, txn, &ev, e);
			else if (why.code == ERR_CORRUPT)
				log_error("store: event %llu has no index entries: %s", (unsigned long long)next,
					  why.message);
			else {
				*e = why;
				rc = -1;
			}
		}
		if (rc == 0 && next > store->settled.sequence)
			rc = db_meta_put(txn, &store->db, META_VERSION, &current, sizeof(current), e);
		if (rc != 0) {
			mdb_txn_abort(txn);
			return err_wrap(e, "upgrade the store to version %u", current);
		}
		rc = mdb_txn_commit(txn);
		if (rc != 0)
			return db_err(e, rc, "commit");
		emptied = true;
	} while (next <= store->settled.sequence);
	return 0;
}
