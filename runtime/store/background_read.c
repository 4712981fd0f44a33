/* Long reads on the worker thread, and the spool files that they write (store.h, "long reading"). */

#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/store/query.h"
#include "runtime/store/scratch.h"
#include "runtime/store/spool.h"
#include "runtime/store/store_dirs.h"
#include "runtime/store/store_private.h"
#include "runtime/store/worker.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct background_read {
	struct job job;
	struct store *store;
	struct scratch scratch;
	background_read_fn work;
	void (*done)(void *ctx, const struct err *e);
	void *ctx;
};

static enum job_step background_read_step(struct store *store, struct job *j)
{
	struct background_read *a = (struct background_read *)j;
	int rc = a->work(a, a->ctx, &j->err);

	scratch_done(&a->scratch);
	return rc < 0 ? JOB_FAILED : JOB_FINISHED;
}

static void background_read_run(struct store *store, struct completion *c)
{
	struct background_read *a = (struct background_read *)c;

	a->done(a->ctx, a->job.failed ? &a->job.err : NULL);
	free(a);
}

void store_background_read(struct store *store, background_read_fn work, void (*done)(void *ctx, const struct err *e),
			   void *ctx)
{
	struct background_read *a = mem_zalloc(1, sizeof(*a));

	a->job.completion.run = background_read_run;
	a->job.step = background_read_step;
	a->store = store;
	a->scratch = SCRATCH_INIT;
	a->work = work;
	a->done = done;
	a->ctx = ctx;
	worker_submit(store, &a->job);
}

struct store *background_read_store(struct background_read *a) { return a->store; }

uint64_t background_read_first(struct background_read *a) { return atomic_load(&a->store->first); }

int background_read_stopped(struct background_read *a, struct err *e)
{
	return store_cancelled(a->store) ? err_set(e, ERR_UNAVAILABLE, "the store is being closed") : 0;
}

int background_read_events(struct background_read *a, const struct store_query *q,
			   bool (*fn)(void *ctx, const struct event_view *ev), void *ctx, struct err *e)
{
	return query_committed(a->store, q, fn, ctx, e);
}

static int open_scratch(struct background_read *a, struct err *e)
{
	return a->scratch.env ? 0 : scratch_open(a->store, &a->scratch, e);
}

int background_read_project(struct background_read *a, const struct event_view *ev, struct err *e)
{
	if (open_scratch(a, e) != 0 || a->store->project(&a->scratch.models, ev, e) != 0)
		return -1;
	return scratch_yield(&a->scratch, e);
}

int background_read_model(struct background_read *a, uint8_t kind, const char *id, const char **ret, size_t *ret_len,
			  struct err *e)
{
	if (open_scratch(a, e) != 0)
		return -1;
	return models_get(&a->scratch.models, kind, id, strlen(id), ret, ret_len, e);
}

int background_read_models(struct background_read *a, uint8_t kind,
			   bool (*fn)(void *ctx, const char *id, size_t id_len, const char *json, size_t len),
			   void *ctx, struct err *e)
{
	MDB_val kv = { .mv_size = 1, .mv_data = &kind }, v;
	db_cursor_auto MDB_cursor *cur = NULL;
	int rc;

	if (open_scratch(a, e) != 0)
		return -1;
	rc = mdb_cursor_open(a->scratch.models.txn, a->scratch.models.dbi, &cur);
	if (rc != 0)
		return db_err(e, rc, "read temporary models");
	for (rc = mdb_cursor_get(cur, &kv, &v, MDB_SET_RANGE); rc == 0; rc = mdb_cursor_get(cur, &kv, &v, MDB_NEXT)) {
		const void *json;
		size_t len;

		if (kv.mv_size < 2 || *(const uint8_t *)kv.mv_data != kind)
			break;
		if (db_seal_open(&kv, &v, &json, &len, e) != 0)
			return -1;
		if (!fn(ctx, (const char *)kv.mv_data + 1, kv.mv_size - 1, json, len))
			break;
	}
	return rc == 0 || rc == MDB_NOTFOUND ? 0 : db_err(e, rc, "read temporary models");
}

static void temporary_name(const char *output_ref, char ret[BATCH_REF_MAX])
{
	snprintf(ret, BATCH_REF_MAX, STORE_DIRS_NEW_SPOOL "%s", output_ref);
}

int background_read_spool(struct background_read *a, const char *output_ref, int *ret_fd, struct err *e)
{
	struct spool_file f = SPOOL_FILE_INIT;
	char name[BATCH_REF_MAX];

	temporary_name(output_ref, name);
	if (spool_open(a->store->spool_fd, name, 0, &f, e) != 0)
		return -1;
	*ret_fd = f.fd;
	return 0;
}

int store_spool_ref(struct store *store, const char *output_ref, struct err *e)
{
	char name[BATCH_REF_MAX];

	temporary_name(output_ref, name);
	if (linkat(store->spool_fd, name, store->spool_fd, output_ref, 0) == 0)
		return 0;
	/* Some file systems have no links; there a crash before the commit leaves a file that no event cites. */
	if ((errno != EPERM && errno != EOPNOTSUPP && errno != EMLINK) ||
	    renameat(store->spool_fd, name, store->spool_fd, output_ref) != 0)
		return err_sys(e, errno, "name the spool file '%s'", output_ref);
	return 0;
}

void store_spool_committed(struct store *store, const char *output_ref)
{
	char name[BATCH_REF_MAX];

	temporary_name(output_ref, name);
	(void)spool_unlink(store->spool_fd, name);
}

void store_spool_unref(struct store *store, const char *output_ref)
{
	char name[BATCH_REF_MAX];

	temporary_name(output_ref, name);
	(void)spool_unlink(store->spool_fd, name);
	(void)spool_unlink(store->spool_fd, output_ref);
}
