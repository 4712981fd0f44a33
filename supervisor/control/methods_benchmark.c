#include "supervisor/control/methods.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/engine/work/benchmark.h"
#include "runtime/view/view_evidence.h"
#include "supervisor/control/export.h"

/* The engine checks requests that change a trial. */
void method_start_benchmark_trial(struct call *c, const struct start_benchmark_trial_params *p)
{
	engine_start_benchmark_trial(call_engine(c), c->params, &c->caller, call_engine_reply, c);
}

void method_record_benchmark_reward(struct call *c, const struct record_benchmark_reward_params *p)
{
	engine_record_benchmark_reward(call_engine(c), c->params, &c->caller, call_engine_reply, c);
}

void method_compare_benchmark_runs(struct call *c, const struct compare_benchmark_runs_params *p)
{
	engine_compare_benchmark_runs(call_engine(c), c->params, &c->caller, call_engine_reply, c);
}

/* The scope of a trial is its turn. Its pack refers to the other files. */
void method_export_benchmark_trial(struct call *c, const struct export_benchmark_trial_params *p)
{
	static const enum evidence_kind kinds[] = { EVIDENCE_TRAJECTORY, EVIDENCE_TRANSCRIPT, EVIDENCE_MANIFEST,
						    EVIDENCE_TRIAL };
	const char *id = p->trialId;
	struct export_scope scope = { .field = ID_TURN };
	buf_auto struct buf text = BUF_INIT;
	struct err e = ERR_INIT;
	struct trial_doc d;
	int r = view_read(call_store(c), &trial_schema, id, &text, &d, &e);

	if (r > 0 || (r == 0 && !call_sees(c, (uint32_t)d.uid))) {
		err_set(&e, ERR_NOT_FOUND, "trialId '%.64s' is not known", id);
		snprintf(e.field, sizeof e.field, "trialId");
		r = -1;
	}
	if (r < 0) {
		call_fail(c, &e);
		return;
	}
	scope.uid = (uint32_t)d.uid;
	memcpy(scope.session_id, d.sessionId, sizeof scope.session_id);
	memcpy(scope.thread_id, d.threadId, sizeof scope.thread_id);
	memcpy(scope.turn_id, d.turnId, sizeof scope.turn_id);
	memcpy(scope.task_id, d.taskId, sizeof scope.task_id);
	memcpy(scope.run_id, d.runId, sizeof scope.run_id);
	/* The target of the last export is not exported: the same trial gives the same pack. */
	d.packRef[0] = d.trajectoryRef[0] = '\0';
	buf_auto struct buf trial = BUF_INIT;
	view_encode(&trial_schema, &d, &trial);
	export_start(c, &scope, kinds, countof(kinds), id, buf_cstr(&trial));
}
