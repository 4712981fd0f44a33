#include "supervisor/control/export.h"

#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/engine/process/evidence_facts.h"
#include "runtime/store/store.h"
#include "supervisor/control/call.h"

#include <string.h>

struct export
{
	struct call *call; /* NULL once it was dropped (call_watch) */
	struct store *store;
	struct export_scope scope;
	struct evidence_job job;
	uint64_t started_ns;
	char *trial_id, *trial;
	size_t identity; /* index in job.file of the file that names the export */
};

static void export_free(struct export *x)
{
	for (size_t i = 0; i < x->job.nfiles; i++)
		fd_close(&x->job.file[i].fd);
	if (x->call)
		call_watch(x->call, NULL);
	free(x->trial_id);
	free(x->trial);
	free(x);
}

/* Drops the spool files that were written: no event will refer to them. */
static void forget_files(struct export *x)
{
	for (size_t i = 0; i < x->job.nfiles; i++)
		if (x->job.file[i].fd >= 0)
			store_spool_unref(x->store, x->job.file[i].ref);
}

/* On the store's worker thread. It uses only x->job, which the loop does not touch until on_built. */
static int build_files(struct background_read *a, void *ctx, struct err *e)
{
	struct export *x = ctx;

	return evidence_build(a, &x->job, e);
}

static void on_recorded(void *ctx, const struct err *e, const char *json, size_t len)
{
	struct export *x = ctx;
	struct call *c = x->call;

	if (e)
		forget_files(x);
	export_free(x);
	if (c)
		call_engine_reply(c, e, json, len);
}

static const char *optional_id(const char *id) { return id[0] ? id : NULL; }

static void record_export(struct export *x)
{
	struct evidence_part part[EVIDENCE_FILES_MAX];
	const struct evidence_export r = {
		.session_id = x->scope.session_id,
		.thread_id = optional_id(x->scope.thread_id),
		.turn_id = optional_id(x->scope.turn_id),
		.task_id = optional_id(x->scope.task_id),
		.run_id = optional_id(x->scope.run_id),
		.trial_id = x->trial_id,
		.uid = x->scope.uid,
		.through = x->job.scope.through,
		.events = x->job.events,
		.duration_ms = (clock_boot_ns() - x->started_ns) / 1000000,
		.part = part,
		.nparts = x->job.nfiles,
	};

	for (size_t i = 0; i < x->job.nfiles; i++) {
		/* the file that names the export comes first */
		const struct evidence_file *f = &x->job.file[i == 0 ? x->identity : i <= x->identity ? i - 1 : i];

		part[i] = (struct evidence_part){ .member = evidence_kind_member(f->kind),
						  .kind = evidence_kind_name(f->kind),
						  .ref = f->ref,
						  .sha256 = f->sha256,
						  .fd = f->fd,
						  .bytes = f->bytes };
	}
	engine_record_evidence(call_engine(x->call), &r, &x->call->caller, on_recorded, x);
}

/* If the call was dropped in the meantime, the files are removed and nothing is recorded. */
static void on_built(void *ctx, const struct err *e)
{
	struct export *x = ctx;
	struct call *c = x->call;

	if (c && !e) {
		record_export(x);
		return;
	}
	forget_files(x);
	struct err why = e ? *e : ERR_INIT;
	export_free(x);
	if (c) {
		err_wrap(&why, "export");
		call_fail(c, &why);
	}
}

void export_start(struct call *c, const struct export_scope *scope, const enum evidence_kind *kinds, size_t nkinds,
		  const char *trial_id, const char *trial)
{
	static const size_t offsets[ID_FIELD_COUNT] = {
		[ID_SESSION] = offsetof(struct export_scope, session_id),
		[ID_THREAD] = offsetof(struct export_scope, thread_id),
		[ID_TURN] = offsetof(struct export_scope, turn_id),
		[ID_TASK] = offsetof(struct export_scope, task_id),
	};
	struct export *x = mem_zalloc(1, sizeof *x);

	x->call = c;
	x->store = call_store(c);
	x->scope = *scope;
	x->started_ns = clock_boot_ns();
	x->trial_id = trial_id ? mem_strdup(trial_id) : NULL;
	x->trial = trial ? mem_strdup(trial) : NULL;
	x->job.scope.field = scope->field;
	x->job.scope.through = store_last_sequence(x->store);
	memcpy(x->job.scope.id, (const char *)scope + offsets[scope->field], EVIDENCE_ID_MAX);
	memcpy(x->job.scope.session_id, scope->session_id, EVIDENCE_ID_MAX);
	x->job.trial = x->trial;
	for (size_t i = 0; i < nkinds && i < EVIDENCE_FILES_MAX; i++) {
		struct evidence_file *f = &x->job.file[x->job.nfiles++];

		f->kind = kinds[i];
		f->fd = -1;
		id_make(ID_KIND_OUTPUT, f->ref);
	}
	x->identity = trial ? x->job.nfiles - 1 : 0; /* a trial's pack names the others, so it is written last */
	call_watch(c, &x->call);
	store_background_read(x->store, build_files, on_built, x);
}
