/* Benchmark trials and rewards. work.h describes them; benchmark_comparison.c compares two configurations. */

#include "runtime/engine/work/task_private.h"
#include "runtime/view/view.h"
#include "runtime/view/view_evidence.h"

#define REF_MAX 1024u
#define CRITERIA_MAX 100u
#define DETAILS_MAX 16384u

/* ---- shared by all facts of a trial ---- */

/* The trace of a request takes precedence over that of the trial's start. */
static struct scope trial_scope(const struct trial_doc *d, const struct caller *c)
{
	return (struct scope){ .uid = (uint32_t)d->uid,
			       .session = d->sessionId,
			       .thread = d->threadId,
			       .turn = d->turnId,
			       .task = d->taskId,
			       .run = d->runId,
			       .trace = c && c->trace_id ? c->trace_id : d->traceId,
			       .request = c ? c->request_id : NULL };
}

static struct envelope_members_part trial_members(const struct trial_doc *d)
{
	return (struct envelope_members_part){ .benchmark = json_from_jval(d->benchmark),
					       .refs = json_from_jval(d->refs) };
}

/* ---- start_benchmark_trial ---- */

static const char *const ref_params[] = { "datasetRef", "harborJobRef", "harborTrialRef", "taskTomlRef" };

/* The trial's `benchmark` member, and the refs that it has in common with its `refs`. */
static void benchmark_json(const json_t *params, const char *trial_id, struct buf *out, struct buf *refs)
{
	static const char *const members[] = { "datasetId", "datasetVersion", "configurationId", "role",
					       "singleChangedVariable" };
	const char *task = param_str(params, "benchmarkTaskId");
	struct jw w = jw_on(out), r = jw_on(refs);

	jw_obj(&w);
	jw_obj(&r);
	for (size_t i = 0; i < countof(members); i++)
		jw_kopt(&w, members[i], param_str(params, members[i]));
	jw_kstr(&w, "taskId", task ? task : param_str(params, "taskId"));
	jw_kstr(&w, "trialId", trial_id);
	for (size_t i = 0; i < countof(ref_params); i++) {
		jw_kopt(&w, ref_params[i], param_str(params, ref_params[i]));
		jw_kopt(&r, ref_params[i], param_str(params, ref_params[i]));
	}
	jw_obj_end(&w);
	jw_obj_end(&r);
}

/* The run must be the task's current run, and the turn must belong to the same session. */
static int bind_run(struct engine *engine, const json_t *params, const struct caller *c, struct task *t,
		    struct view_turn_brief *turn, struct err *e)
{
	const char *run = param_str(params, "runId"), *turn_id = param_str(params, "turnId"),
		   *thread = param_str(params, "threadId");

	if (task_get(engine, param_str(params, "taskId"), c, t, e) < 0)
		return -1;
	if (strcmp(t->d.currentRunId, run) != 0)
		return err_field(e, "runId", "'%.64s' is not the run that works on task '%.64s' now%s%.64s", run,
				 t->d.taskId, t->d.currentRunId[0] ? ": that is " : "", t->d.currentRunId);
	if (!t->d.attemptOpen)
		return err_set(e, ERR_STATE, "run '%.64s' has ended; a trial is bound to a run before that", run);
	int r = view_turn_brief(engine->o.store, c->uid, turn_id, turn, e);
	if (r)
		return r < 0 ? -1 : err_field(e, "turnId", "'%.64s' is not known", turn_id);
	if (strcmp(turn->session_id, t->d.sessionId) != 0)
		return err_field(e, "turnId", "'%.64s' belongs to another session than the task", turn_id);
	if (thread && strcmp(turn->thread_id, thread) != 0)
		return err_field(e, "threadId", "'%.64s' is not the turn's thread", thread);
	return 0;
}

/* Has this dataset ('d') or configuration ('c') been recorded in the session? */
static bool is_known(struct engine *engine, const char *session, char what, const char *id, const char *version)
{
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;
	char key[VIEW_TRIAL_KEY];

	view_benchmark_key(session, what, id, version, key);
	return store_model_get_speculative(engine->o.store, VIEW_BENCHMARK_KNOWN, key, &out, &e) == 0;
}

/* The dataset and the configuration are recorded once per session. */
static void start_facts(struct engine *engine, const json_t *params, const struct trial_doc *trial, uint64_t attempt,
			struct transaction *tx)
{
	const struct envelope_members_part members = trial_members(trial);
	const struct scope s = trial_scope(trial, &tx->caller);

	if (!is_known(engine, trial->sessionId, 'd', param_str(params, "datasetId"),
		      param_str(params, "datasetVersion")))
		EMIT(benchmark_dataset_resolved, tx, s, .envelope.members = members,
		     .version = param_str(params, "datasetVersion"),
		     .selectionPolicy = param_json(params, "selectionPolicy"),
		     .frozenAt = param_str(params, "frozenAt"), .ref = param_str(params, "datasetRef"));
	if (!is_known(engine, trial->sessionId, 'c', param_str(params, "configurationId"), NULL))
		EMIT(benchmark_configuration_resolved, tx, s, .envelope.members = members,
		     .role = param_str(params, "role"), .profiles = param_json(params, "profiles"),
		     .singleChangedVariable = param_str(params, "singleChangedVariable"));
	EMIT(benchmark_trial_started, tx, s, .envelope.members = members, .attempt = opt_int(attempt),
	     .timeoutSec = param_json(params, "timeoutSec"), .budget = param_json(params, "budget"),
	     .taskTomlRef = param_str(params, "taskTomlRef"));
}

void engine_start_benchmark_trial(struct engine *engine, const json_t *params, const struct caller *c,
				  engine_reply_fn fn, void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	buf_auto struct buf benchmark = BUF_INIT, refs = BUF_INIT;
	task_auto struct task t = TASK_INIT;
	struct trial_doc trial;
	struct view_turn_brief turn;
	struct err e = ERR_INIT;
	char made[ID_TEXT_MAX], id[ID_SIZE];
	buf_auto struct buf text = BUF_INIT;

	id_make(ID_KIND_EVIDENCE, made);
	snprintf(id, sizeof id, "trial_%s", made + strlen(id_prefix(ID_KIND_EVIDENCE)));
	if (param_str(params, "trialId")) {
		id_copy(id, param_str(params, "trialId"));
		if (view_read_speculative(engine->o.store, &trial_schema, id, &text, &trial, &e) == 0)
			err_at(&e, ERR_CONFLICT, "trialId", "trialId '%.64s' exists already", id);
	}
	for (size_t i = 0; i < countof(ref_params) && !e.code; i++)
		param_text(params, ref_params[i], REF_MAX, &e);
	if (e.code || param_text(params, "singleChangedVariable", REF_MAX, &e) < 0 ||
	    bind_run(engine, params, c, &t, &turn, &e) < 0)
		return transaction_reject(tx, &e);
	jw_kstr(&tx->w, "trialId", id);
	benchmark_json(params, id, &benchmark, &refs);
	view_clear(&trial_schema, &trial);
	id_copy(trial.sessionId, turn.session_id);
	id_copy(trial.threadId, turn.thread_id);
	id_copy(trial.turnId, param_str(params, "turnId"));
	id_copy(trial.taskId, t.d.taskId);
	id_copy(trial.runId, t.d.currentRunId);
	trial.uid = t.d.uid;
	trial.benchmark = jval_of(benchmark.data, benchmark.len);
	trial.refs = jval_of(refs.data, refs.len);
	start_facts(engine, params, &trial, t.d.attemptCount == VIEW_ABSENT ? 1 : t.d.attemptCount, tx);
	jw_kstr(&tx->w, "status", "running");
	jw_kstr(&tx->w, "sessionId", trial.sessionId);
	transaction_commit(tx);
}

/* ---- the end of a trial ---- */

/* `stage` tells whether the run or its verifier failed. A trial that has ended before has its duration already. */
static void failed_fact(struct engine *engine, struct transaction *tx, const struct trial_doc *d,
			const struct run_end *end, const char *stage, const struct caller *c)
{
	bool open = d->startedAt && !d->endedAt;

	EMIT(benchmark_trial_failed, tx, trial_scope(d, c),
	     .envelope = { .status = end->status, .status_reason = end->message, .members = trial_members(d) },
	     .failureCategory = end->category, .stage = stage, .message = end->message,
	     .durationMs = opt_int_if(open, (engine_real(engine) - d->startedAt) / 1000));
}

void benchmark_run_ended(struct engine *engine, struct transaction *tx, const char *run_id, const struct run_end *end)
{
	view_ids_auto struct view_ids open = VIEW_IDS_INIT;
	struct err e = ERR_INIT;

	id_list_read(engine, VIEW_RUN_TRIAL, run_id, ID_LIST_ALL, &open);
	for (size_t i = 0; i < open.n; i++) {
		buf_auto struct buf text = BUF_INIT;
		struct trial_doc d;

		if (view_read_speculative(engine->o.store, &trial_schema, open.id[i], &text, &d, &e) != 0)
			continue;
		if (end->status) {
			failed_fact(engine, tx, &d, end, "run", NULL);
			continue;
		}
		EMIT(benchmark_trial_completed, tx, trial_scope(&d, NULL),
		     .envelope = { .status = "completed", .members = trial_members(&d) },
		     .durationMs = opt_int((engine_real(engine) - d.startedAt) / 1000));
	}
}

/* ---- record_benchmark_reward ---- */

void engine_record_benchmark_reward(struct engine *engine, const json_t *params, const struct caller *c,
				    engine_reply_fn fn, void *ctx)
{
	const char *category = param_str(params, "failureCategory"), *status = param_str(params, "verifierStatus"),
		   *id = param_str(params, "trialId");
	const bool broken = status && strcmp(status, "error") == 0;
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	buf_auto struct buf text = BUF_INIT;
	struct trial_doc trial;
	struct err e = ERR_INIT;
	int r = view_read_speculative(engine->o.store, &trial_schema, id, &text, &trial, &e);

	if (r > 0 || (r == 0 && c->uid != 0 && c->uid != trial.uid))
		err_not_known(&e, "trialId", id);
	/* A verifier that failed has no reward; every other report needs one. */
	else if (!json_object_get(params, "reward") && !broken)
		err_field(&e, "reward", "is missing; only a verifier that failed (verifierStatus error) has none");
	else if (json_array_size(json_object_get(params, "criteria")) > CRITERIA_MAX)
		err_field(&e, "criteria", "must have at most %u words", CRITERIA_MAX);
	if (r < 0 || e.code || param_small(params, "details", DETAILS_MAX, &e) < 0 ||
	    param_text(params, "failureCategory", ID_GIVEN_MAX, &e) < 0 ||
	    param_text(params, "verifier", REF_MAX, &e) < 0)
		return transaction_reject(tx, &e);
	if (!category)
		category = broken ? "verifier" : "none";
	struct envelope_members_part members = trial_members(&trial);
	members.reward = JSON_OBJECT(reward, .value = param_json(params, "reward"),
				     .criteria = param_json(params, "criteria"), .failureCategory = category);
	EMIT(benchmark_reward_recorded, tx, trial_scope(&trial, c), .envelope.members = members,
	     .reward = param_json(params, "reward"), .criteria = param_json(params, "criteria"),
	     .details = param_json(params, "details"), .verifier = param_str(params, "verifier"),
	     .verifierStatus = status ? status : "completed", .failureCategory = category);
	/* The trial ended with its run, before the verifier did; the verifier's failure changes its outcome. */
	if (broken && trial.endedAt && strcmp(trial.status, "failed") != 0) {
		const struct run_end end = { .status = "failed",
					     .category = category,
					     .message = "the verifier failed" };
		failed_fact(engine, tx, &trial, &end, "verifier", c);
	}
	jw_kstr(&tx->w, "trialId", trial.trialId);
	jw_kstr(&tx->w, "status", broken && trial.endedAt ? "failed" : trial.status);
	transaction_commit(tx);
}
