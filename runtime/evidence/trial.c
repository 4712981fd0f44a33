/*
 * The pack of a benchmark trial: dataset, task, configuration, the run, its outcome and the verifier's result. Rewards
 * are copied as reported. The other files of the export, which come before it in the job, are named by their hashes
 * ("sha256:…"), so that the pack is always the same; the export's result and evidence.changed map hashes to refs.
 */

#include "runtime/evidence/pack.h"

#include "runtime/base/mem.h"
#include "runtime/store/store.h"
#include "runtime/view/view.h"
#include "runtime/view/view_cost.h"

#include <string.h>

/* A file of this export that is already written. */
static const struct evidence_file *find_file(const struct evidence_job *job, enum evidence_kind kind)
{
	for (size_t i = 0; i < job->nfiles; i++)
		if (job->file[i].kind == kind && job->file[i].sha256[0])
			return &job->file[i];
	return NULL;
}

static void write_hash(struct jw *w, const char *key, const struct evidence_file *f)
{
	char text[HASH_SHA256_TEXT + 8];

	if (!f)
		return;
	snprintf(text, sizeof(text), "sha256:%s", f->sha256);
	jw_kstr(w, key, text);
}

static void write_refs(const struct evidence_job *job, struct jval trial, struct jw *w)
{
	static const enum evidence_kind kinds[] = { EVIDENCE_TRAJECTORY, EVIDENCE_TRANSCRIPT, EVIDENCE_MANIFEST };

	jw_kobj(w, "refs");
	for (size_t i = 0; i < countof(kinds); i++)
		write_hash(w, evidence_kind_member(kinds[i]), find_file(job, kinds[i]));
	for (struct jiter it = jiter_on(jval_get(trial, "refs")); jiter_next(&it);) {
		char key[64];

		if (jval_str(it.key, key, sizeof(key)) < sizeof(key))
			jw_kraw(w, key, it.value.text, it.value.len);
	}
	jw_obj_end(w);
}

/*
 * The ids that the trial recorded at its start, not those found in the events: a trial is one turn, which may name
 * others.
 */
static void write_correlation(const struct survey *s, struct jval trial, struct jw *w)
{
	static const char *const ids[] = { "sessionId", "threadId", "turnId", "taskId", "runId", "traceId" };

	jw_kobj(w, "runtimeCorrelation");
	jw_kstr(w, "runtimeId", store_runtime_id(background_read_store(s->reader)));
	survey_copy(w, trial, ids, countof(ids));
	jw_obj_end(w);
}

/* Members are omitted where nothing was reported: a missing reward is not a reward of 0. */
static void write_metrics(struct survey *s, struct jval trial, bool complete, struct jw *w)
{
	char key[VIEW_COST_KEY], start[40] = "", end[40] = "";
	struct jval duration = jval_get(trial, "durationMs"), reward = jval_get(trial, "reward");

	/* The scope of a trial is always its turn (methods_export.c), so this is the cost of the whole trial. */
	cost_key(COST_OF_TURN, s->scope->id, 0, 0, key);
	struct jval cost = survey_doc(s, VIEW_COST, key);
	jval_str(jval_get(trial, "startedAt"), start, sizeof(start));
	jval_str(jval_get(trial, "endedAt"), end, sizeof(end));
	jw_kobj(w, "metrics");
	if (reward.type == JT_NUMBER)
		jw_kraw(w, "reward", reward.text, reward.len);
	if (duration.type == JT_NUMBER)
		jw_kraw(w, "durationMs", duration.text, duration.len);
	jw_kbool(w, "timeout", jval_bool(jval_get(trial, "timedOut"), false));
	jw_kuint(w, "deniedSideEffectCount", s->denied);
	jw_kbool(w, "evidenceComplete", complete);
	if (cost.type == JT_OBJECT) {
		jw_kuint(w, "tokens",
			 jval_uint(jval_get(cost, "inputTokens"), 0) + jval_uint(jval_get(cost, "outputTokens"), 0));
		jw_key(w, "costUsd");
		jw_real(w, (double)jval_uint(jval_get(cost, "microUsd"), 0) / 1e6);
	}
	jw_kuint(w, "artifactCount", s->count[EVENT_ARTIFACT_CHANGED]);
	jw_obj_end(w);
}

static void write_category(struct jw *w, struct jval trial)
{
	struct jval v = jval_get(trial, "failureCategory");

	if (v.type == JT_STRING)
		jw_kraw(w, "failureCategory", v.text, v.len);
	else
		jw_kstr(w, "failureCategory", "none");
}

/* The status is not measured: the writer produces every required member, so a file that exists has them. */
static void write_trajectory(const struct evidence_job *job, struct jw *w)
{
	static const char *const required[] = { "schema_version",  "session_id",         "agent",
						"steps[].step_id", "steps[].tool_calls", "steps[].observation",
						"final_metrics" };
	const struct evidence_file *f = find_file(job, EVIDENCE_TRAJECTORY);

	jw_kobj(w, "trajectory");
	jw_kstr(w, "schema", "ATIF-v1.7");
	write_hash(w, "ref", f);
	jw_kstr(w, "exportStatus", f ? "exported" : "failed");
	jw_kobj(w, "requiredFieldStatus");
	for (size_t i = 0; i < countof(required); i++)
		jw_kbool(w, required[i], f != NULL);
	jw_obj_end(w);
	jw_obj_end(w);
}

static void write_reward(struct jval trial, struct jw *w)
{
	static const char *const members[] = { "criteria", "details", "verifier", "verifierStatus" };
	struct jval value = jval_get(trial, "reward");

	jw_kobj(w, "reward");
	if (value.type == JT_NUMBER)
		jw_kraw(w, "value", value.text, value.len);
	survey_copy(w, trial, members, countof(members));
	write_category(w, trial);
	jw_obj_end(w);
}

int trial_write(struct survey *s, const struct evidence_job *job, struct sink *k, struct err *e)
{
	struct jval trial = jval_of(job->trial, strlen(job->trial)), benchmark = jval_get(trial, "benchmark");
	bool rewarded = jval_get(trial, "reward").type == JT_NUMBER,
	     ended = jval_get(trial, "endedAt").type == JT_STRING;
	bool files = find_file(job, EVIDENCE_TRAJECTORY) && find_file(job, EVIDENCE_MANIFEST);
	struct jw *w = &k->w;

	jw_kstr(w, "schemaVersion", store_env(background_read_store(s->reader))->schema_version);
	jw_kstr(w, "packKind", evidence_kind_name(EVIDENCE_TRIAL));
	jw_kuint(w, "packVersion", 1);
	jw_kraw(w, "benchmark", benchmark.text, benchmark.len);
	write_correlation(s, trial, w);
	write_refs(job, trial, w);
	write_metrics(s, trial, rewarded && ended && files && s->whole, w);
	jw_kobj(w, "decisionInputs");
	write_category(w, trial);
	jw_kbool(w, "artifactManifestPresent", find_file(job, EVIDENCE_MANIFEST) != NULL);
	jw_kbool(w, "trajectoryAtifCompatible", find_file(job, EVIDENCE_TRAJECTORY) != NULL);
	jw_kbool(w, "rewardRecorded", rewarded);
	jw_kbool(w, "trialEnded", ended);
	jw_obj_end(w);
	write_trajectory(job, w);
	write_reward(trial, w);
	survey_write_signals(s, w);
	return 0;
}
