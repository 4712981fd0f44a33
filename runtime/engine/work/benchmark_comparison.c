/*
 * Compares two configurations on a dataset. The trials must be comparable: the same version of the dataset, measured
 * by the same verifier with the same criteria. The conclusion is the caller's and is recorded as given.
 */

#include "runtime/engine/work/task_private.h"
#include "runtime/view/view.h"
#include "runtime/view/view_cost.h"
#include "runtime/view/view_evidence.h"

#define TRIALS_MAX 2000u

/* The trials of one configuration, with sums for the means. */
struct trial_group {
	struct comparing *whole;
	const char *configuration;
	size_t count; /* trials that have ended */
	unsigned running, rewarded, timeouts, failed, complete, priced;
	double reward, duration, cost;
};

struct comparing {
	struct engine *engine;
	const char *version; /* requested, or NULL */
	char seen_version[ID_SIZE], session[ID_SIZE];
	struct buf measure; /* verifier and criteria common to all trials */
	bool measured;
	uint32_t uid;
	struct strmap baseline_ok; /* tasks of the baseline → did every trial complete it? */
	unsigned regressions;
	struct err *e;
};

/* All trials must have been measured like the first. */
static int check_measure(struct comparing *w, const struct trial_doc *d)
{
	buf_auto struct buf own = BUF_INIT;

	/* A trial without a reward was not measured, so there is nothing to compare. */
	if (d->reward.type != JT_NUMBER)
		return 0;
	buf_append(&own, d->verifier.text, d->verifier.len);
	buf_byte(&own, ' ');
	buf_append(&own, d->criteria.text, d->criteria.len);
	if (!w->measured) {
		buf_append(&w->measure, own.data, own.len);
		w->measured = true;
	}
	if (own.len != w->measure.len || memcmp(own.data, w->measure.data, own.len) != 0)
		return err_set(w->e, ERR_STATE,
			       "trial '%.64s' was measured by another verifier, or by other criteria (%.80s), than the "
			       "first (%.80s): such rewards "
			       "cannot be compared",
			       d->trialId, buf_cstr(&own), buf_cstr(&w->measure));
	return 0;
}

/* Fails if the trial cannot be compared with those before it. The baseline is added before the candidate. */
static int add_trial(struct trial_group *s, const struct trial_doc *d, bool baseline)
{
	static char yes, no; /* values of baseline_ok */
	struct comparing *w = s->whole;
	buf_auto struct buf text = BUF_INIT;
	char number[40] = "", key[VIEW_COST_KEY];
	struct cost_doc cost;
	struct err e = ERR_INIT;
	bool failed = strcmp(d->status, "failed") == 0 ||
		      (d->failureCategory.type == JT_STRING && !jval_is_str(d->failureCategory, "none"));

	if (w->seen_version[0] && strcmp(w->seen_version, d->datasetVersion) != 0)
		return err_set(w->e, ERR_STATE,
			       "trials of the versions '%.64s' and '%.64s' of the dataset cannot be compared; "
			       "datasetVersion selects one",
			       w->seen_version, d->datasetVersion);
	memcpy(w->seen_version, d->datasetVersion, sizeof w->seen_version);
	if (check_measure(w, d) < 0)
		return -1;
	memcpy(w->session, d->sessionId, sizeof w->session);
	w->uid = (uint32_t)d->uid;
	if (d->reward.type == JT_NUMBER && d->reward.len < sizeof number) {
		memcpy(number, d->reward.text, d->reward.len);
		s->reward += strtod(number, NULL);
		s->rewarded++;
	}
	s->timeouts += d->timedOut;
	s->failed += failed;
	s->complete += d->reward.type == JT_NUMBER && d->packRef[0];
	s->duration += (double)(d->endedAt - d->startedAt) / 1000;
	cost_key(COST_OF_TURN, d->turnId, 0, 0, key);
	if (view_read_speculative(w->engine->o.store, &cost_schema, key, &text, &cost, &e) == 0 &&
	    cost.microUsd != VIEW_ABSENT) {
		s->priced++;
		s->cost += (double)cost.microUsd / 1e6;
	}
	/*
	 * A regression: a task that every trial of the baseline completed and a trial of the candidate did not. The
	 * baseline is collected first.
	 */
	void *known = strmap_get(&w->baseline_ok, d->benchmarkTaskId);
	if (baseline)
		(void)strmap_put(&w->baseline_ok, d->benchmarkTaskId, failed || known == &no ? &no : &yes);
	else if (failed && known == &yes)
		w->regressions++;
	return 0;
}

static int collect_trials(struct comparing *w, struct trial_group *s, const char *dataset, uint32_t uid, bool baseline)
{
	char prefix[VIEW_TRIAL_KEY];
	view_ids_auto struct view_ids ids = VIEW_IDS_INIT;

	s->whole = w;
	view_trial_key(uid, dataset, s->configuration, NULL, prefix);
	/* The key ends with a slash, which view_ids adds to an owner. */
	prefix[strlen(prefix) - 1] = 0;
	if (view_ids_speculative(w->engine->o.store, VIEW_CONFIGURATION_TRIAL, prefix, TRIALS_MAX, &ids, w->e) < 0)
		return -1;
	/* The comparison is rejected rather than made on a part of the trials. */
	if (ids.n == TRIALS_MAX)
		return err_set(w->e, ERR_EXHAUSTED, "more than %u trials of configuration '%.64s'", TRIALS_MAX - 1,
			       s->configuration);
	for (size_t i = 0; i < ids.n; i++) {
		buf_auto struct buf text = BUF_INIT;
		struct trial_doc d;
		int r = view_read_speculative(w->engine->o.store, &trial_schema, ids.id[i], &text, &d, w->e);

		if (r < 0)
			return -1;
		if (r > 0 || (w->version && strcmp(w->version, d.datasetVersion) != 0))
			continue;
		if (!d.endedAt) {
			s->running++;
			continue;
		}
		s->count++;
		if (add_trial(s, &d, baseline) < 0)
			return -1;
	}
	if (!s->count)
		return err_field(w->e, baseline ? "baseline" : "candidate",
				 "configuration '%.64s' has no ended trial of dataset '%.64s'", s->configuration,
				 dataset);
	return 0;
}

static void write_real(struct jw *w, const char *key, double v)
{
	jw_key(w, key);
	jw_real(w, v);
}

static void trial_group_json(struct jw *w, const char *key, const struct trial_group *s)
{
	jw_kobj(w, key);
	jw_kstr(w, "configurationId", s->configuration);
	jw_kuint(w, "trials", s->count);
	jw_kuint(w, "running", s->running);
	jw_kuint(w, "rewarded", s->rewarded);
	jw_kuint(w, "timeouts", s->timeouts);
	jw_kuint(w, "failed", s->failed);
	if (s->rewarded)
		write_real(w, "meanReward", s->reward / s->rewarded);
	write_real(w, "meanDurationMs", s->duration / (double)s->count);
	if (s->priced)
		write_real(w, "meanCostUsd", s->cost / s->priced);
	jw_obj_end(w);
}

/* Deltas are candidate minus baseline. A mean is left out if no trial has the value. */
static void comparison_json(const struct comparing *c, const struct trial_group *b, const struct trial_group *n,
			    const char *decision, struct buf *out)
{
	struct jw w = jw_on(out);

	jw_obj(&w);
	jw_kstr(&w, "baseline", b->configuration);
	jw_kstr(&w, "candidate", n->configuration);
	jw_kstr(&w, "datasetVersion", c->seen_version);
	if (b->rewarded && n->rewarded)
		write_real(&w, "meanRewardDelta", n->reward / n->rewarded - b->reward / b->rewarded);
	write_real(&w, "timeoutRateDelta",
		   (double)n->timeouts / (double)n->count - (double)b->timeouts / (double)b->count);
	write_real(&w, "meanDurationMsDelta", n->duration / (double)n->count - b->duration / (double)b->count);
	if (b->priced && n->priced)
		write_real(&w, "meanCostUsdDelta", n->cost / n->priced - b->cost / b->priced);
	write_real(&w, "evidenceCompletenessRate", (double)(b->complete + n->complete) / (double)(b->count + n->count));
	jw_kuint(&w, "p0QcGateRegressionCount", c->regressions);
	jw_kopt(&w, "decision", decision);
	trial_group_json(&w, "baselineTrials", b);
	trial_group_json(&w, "candidateTrials", n);
	jw_obj_end(&w);
}

void engine_compare_benchmark_runs(struct engine *engine, const json_t *params, const struct caller *c,
				   engine_reply_fn fn, void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	const char *dataset = param_str(params, "datasetId");
	struct err e = ERR_INIT;
	struct comparing w = { .engine = engine, .version = param_str(params, "datasetVersion"), .e = &e };
	struct trial_group baseline = { .configuration = param_str(params, "baseline") },
			   candidate = { .configuration = param_str(params, "candidate") };
	buf_auto struct buf json = BUF_INIT;

	if (strcmp(baseline.configuration, candidate.configuration) == 0)
		err_field(&e, "candidate", "is the baseline itself");
	else if (param_text(params, "decision", 256, &e) == 0 &&
		 collect_trials(&w, &baseline, dataset, c->uid, true) == 0 &&
		 collect_trials(&w, &candidate, dataset, c->uid, false) == 0)
		comparison_json(&w, &baseline, &candidate, param_str(params, "decision"), &json);
	if (e.code) {
		transaction_reject(tx, &e);
	} else {
		struct jval v = jval_of(json.data, json.len);
		mem_auto char *decided = jval_strdup(jval_get(v, "decision"));
		const struct scope s = {
			.uid = w.uid, .session = w.session, .request = c->request_id, .trace = c->trace_id
		};

		EMIT(benchmark_comparison_completed, tx, s,
		     .envelope.members = { .benchmark = JSON_OBJECT(benchmark_run, .datasetId = dataset,
								    .datasetVersion = w.seen_version,
								    .configurationId = candidate.configuration,
								    .role = "candidate"),
					   .comparison = json_from_buf(&json),
					   .refs = json_from_text("{}") },
		     .completeness = json_from_jval(jval_get(v, "evidenceCompletenessRate")),
		     .p0Regressions = opt_int(w.regressions), .decision = decided);
		jw_kraw(&tx->w, "comparison", json.data, json.len);
		transaction_commit(tx);
	}
	strmap_done(&w.baseline_ok);
	buf_done(&w.measure);
}
