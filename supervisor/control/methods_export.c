/*
 * Exports: a background read of the store writes the files, then the engine records them and the call is answered.
 * Evidence packs, replay cases and reviews have a scope that the request names; a benchmark trial's is its turn.
 *
 * The scope ends at the last sequence number when the request arrives (`through`), so the files do not depend on how
 * long the export takes. Until the engine has recorded the files, nothing refers to them: a failed or dropped export
 * removes them.
 */

#include "supervisor/control/methods.h"

#include "runtime/base/buf.h"
#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/fd.h"
#include "runtime/base/mem.h"
#include "runtime/engine/process/evidence_facts.h"
#include "runtime/evidence/evidence.h"
#include "runtime/store/store.h"
#include "runtime/view/view.h"
#include "runtime/view/view_evidence.h"
#include "runtime/view/view_task.h"
#include "supervisor/control/call.h"

#include <string.h>

struct export_scope {
	char session_id[EVIDENCE_ID_MAX], thread_id[EVIDENCE_ID_MAX], turn_id[EVIDENCE_ID_MAX],
		task_id[EVIDENCE_ID_MAX], run_id[EVIDENCE_ID_MAX]; /* "" = none */
	enum id_field field;                                       /* which of them is the scope */
	uint32_t uid;
};

/* ---- an export in progress ---- */

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

/* The call exists: on_built checked that. The engine takes the references to the files; on_recorded drops them if it
 * fails. */
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

/* `trial` (a document, or NULL) is copied. */
static void export_start(struct call *c, const struct export_scope *scope, const enum evidence_kind *kinds,
			 size_t nkinds, const char *trial_id, const char *trial)
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

/* ---- scopes ---- */

/* Fills `ret` for the narrowest id that is given. 1: there is no such document that the caller may see. */
static int read_document(struct call *c, const struct export_scope_members *given, struct export_scope *ret,
			 struct err *e)
{
	struct store *store = call_store(c);
	uint32_t viewer = call_visible_uid(c);
	struct view_session_brief session;
	struct view_thread_brief thread;
	struct view_turn_brief turn;
	buf_auto struct buf text = BUF_INIT;
	struct task_doc task;
	int r;

	switch (ret->field) {
	case ID_TURN:
		r = view_turn_brief(store, viewer, given->turnId, &turn, e);
		if (r)
			return r;
		ret->uid = turn.uid;
		snprintf(ret->session_id, sizeof ret->session_id, "%s", turn.session_id);
		snprintf(ret->thread_id, sizeof ret->thread_id, "%s", turn.thread_id);
		snprintf(ret->turn_id, sizeof ret->turn_id, "%s", given->turnId);
		snprintf(ret->task_id, sizeof ret->task_id, "%s", turn.task_id);
		return 0;
	case ID_TASK:
		r = view_read(store, &task_schema, given->taskId, &text, &task, e);
		if (r || !call_sees(c, (uint32_t)task.uid))
			return r < 0 ? -1 : 1;
		ret->uid = (uint32_t)task.uid;
		snprintf(ret->session_id, sizeof ret->session_id, "%s", task.sessionId);
		snprintf(ret->task_id, sizeof ret->task_id, "%s", given->taskId);
		return 0;
	case ID_THREAD:
		r = view_thread_brief(store, viewer, given->threadId, &thread, e);
		if (r)
			return r;
		ret->uid = thread.uid;
		snprintf(ret->session_id, sizeof ret->session_id, "%s", thread.session_id);
		snprintf(ret->thread_id, sizeof ret->thread_id, "%s", given->threadId);
		return 0;
	default:
		r = view_session_brief(store, viewer, given->sessionId, &session, e);
		if (r)
			return r;
		ret->uid = session.uid;
		snprintf(ret->session_id, sizeof ret->session_id, "%s", given->sessionId);
		return 0;
	}
}

/* The narrowest id applies; a sessionId must match it. */
static int read_scope(struct call *c, const struct export_scope_members *given, struct export_scope *ret, struct err *e)
{
	const char *session = given->sessionId;
	const char *id = given->turnId     ? given->turnId
			 : given->taskId   ? given->taskId
			 : given->threadId ? given->threadId
					   : session;
	enum id_field field = given->turnId     ? ID_TURN
			      : given->taskId   ? ID_TASK
			      : given->threadId ? ID_THREAD
						: ID_SESSION;
	mem_auto char *name = mem_printf("scope.%s", id_field_member(field));

	if (!id)
		return err_field(e, "scope", "expected one of sessionId, threadId, turnId and taskId");
	*ret = (struct export_scope){ .field = field };
	int r = read_document(c, given, ret, e);
	if (r)
		return r < 0 ? -1 : err_not_known(e, name, id);
	if (session && strcmp(session, ret->session_id) != 0)
		return err_field(e, "scope.sessionId", "'%.64s' is not the session of %s '%.64s'", session,
				 id_field_member(field), id);
	return 0;
}

/* ---- methods ---- */

/* The additional files, on top of the one that the method is for. */
static int read_include(const json_t *list, enum evidence_kind kinds[EVIDENCE_FILES_MAX], size_t *n, struct err *e)
{
	static const struct {
		const char *word;
		enum evidence_kind kind;
	} words[] = {
		{ "trajectory", EVIDENCE_TRAJECTORY },
		{ "trace", EVIDENCE_TRACE },
		{ "transcript", EVIDENCE_TRANSCRIPT },
		{ "manifest", EVIDENCE_MANIFEST },
	};
	const json_t *v;
	size_t i, k;

	json_array_foreach (list, i, v) {
		const char *word = json_string_value(v);

		for (k = 0; k < countof(words) && (!word || strcmp(word, words[k].word) != 0); k++)
			;
		if (k == countof(words))
			return err_field(e, "include",
					 "'%.40s' is not one of trajectory, trace, transcript and manifest",
					 word ? word : "");
		bool known = false;
		for (size_t j = 0; j < *n; j++)
			known = known || kinds[j] == words[k].kind;
		if (!known)
			kinds[(*n)++] = words[k].kind;
	}
	return 0;
}

static int export_kind(struct call *c, enum evidence_kind kind, const struct export_scope_members *given,
		       const json_t *include, struct err *e)
{
	enum evidence_kind kinds[EVIDENCE_FILES_MAX] = { kind };
	struct export_scope scope;
	size_t n = 1;

	if (read_scope(c, given, &scope, e) < 0 || read_include(include, kinds, &n, e) < 0)
		return -1;
	export_start(c, &scope, kinds, n, NULL, NULL);
	return CALL_PENDING;
}

int method_export_evidence(struct call *c, const struct export_evidence_params *p, struct buf *out, struct err *e)
{
	return export_kind(c, EVIDENCE_PACK, &p->scope, p->include, e);
}

int method_export_replay(struct call *c, const struct export_replay_params *p, struct buf *out, struct err *e)
{
	return export_kind(c, EVIDENCE_REPLAY, &p->scope, p->include, e);
}

int method_export_review(struct call *c, const struct export_review_params *p, struct buf *out, struct err *e)
{
	return export_kind(c, EVIDENCE_REVIEW, &p->scope, p->include, e);
}

/* The scope of a trial is its turn. Its pack refers to the other files. */
int method_export_benchmark_trial(struct call *c, const struct export_benchmark_trial_params *p, struct buf *out,
				  struct err *e)
{
	static const enum evidence_kind kinds[] = { EVIDENCE_TRAJECTORY, EVIDENCE_TRANSCRIPT, EVIDENCE_MANIFEST,
						    EVIDENCE_TRIAL };
	struct export_scope scope = { .field = ID_TURN };
	buf_auto struct buf text = BUF_INIT, trial = BUF_INIT;
	struct trial_doc d;
	int r = view_read(call_store(c), &trial_schema, p->trialId, &text, &d, e);

	if (r || !call_sees(c, (uint32_t)d.uid))
		return r < 0 ? -1 : err_not_known(e, "trialId", p->trialId);
	scope.uid = (uint32_t)d.uid;
	memcpy(scope.session_id, d.sessionId, sizeof scope.session_id);
	memcpy(scope.thread_id, d.threadId, sizeof scope.thread_id);
	memcpy(scope.turn_id, d.turnId, sizeof scope.turn_id);
	memcpy(scope.task_id, d.taskId, sizeof scope.task_id);
	memcpy(scope.run_id, d.runId, sizeof scope.run_id);
	/* The target of the last export is not exported: the same trial gives the same pack. */
	d.packRef[0] = d.trajectoryRef[0] = '\0';
	view_encode(&trial_schema, &d, &trial);
	export_start(c, &scope, kinds, countof(kinds), p->trialId, buf_cstr(&trial));
	return CALL_PENDING;
}
