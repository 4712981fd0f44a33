/* A review: a template for a person, with the events that belong to each question. The runtime itself makes no
 * judgement. */

#include "runtime/evidence/pack.h"

#include "runtime/base/clock.h"
#include "runtime/base/mem.h"

static const struct question {
	const char *id, *text;
	enum survey_section section[4];
	size_t nsections;
} questions[] = {
	{ "intent", "Does what was done answer what was asked for?", { SURVEY_turns, SURVEY_tasks }, 2 },
	{ "permissions",
	  "Was each decision right, made by an authorised person, and no wider than needed?",
	  { SURVEY_permissions, SURVEY_actions, SURVEY_policy },
	  3 },
	{ "confinement",
	  "Was every command confined as intended, and what did its sandbox refuse?",
	  { SURVEY_sandbox, SURVEY_processes },
	  2 },
	{ "tools", "Did tool calls fail, and was that dealt with?", { SURVEY_tools, SURVEY_hooks }, 2 },
	{ "results",
	  "Are the artifacts what they should be, and who verified them?",
	  { SURVEY_artifacts, SURVEY_verification },
	  2 },
	{ "spending", "Were models, costs and limits in order?", { SURVEY_routing, SURVEY_costs, SURVEY_limits }, 3 },
	{ "continuity",
	  "Did a restart, a compaction or a rollback lose anything?",
	  { SURVEY_history, SURVEY_context, SURVEY_incidents },
	  3 },
};

/* Events that a reviewer needs: decisions, enforcement, failures and changes of state. */
static const char audited[] = "permission. action. sandbox. hook. policy. evidence. runtime. artifact. routing. quota. "
			      "rate_limit. history. context.compaction. process.failed process.terminated tool.failed "
			      "turn.failed task.failed task.blocked task.lost task.timed_out task.attempt.failed";

/* One line per audited event. A decision is nested in its payload; other events have these members at the top. */
static int write_ref(void *ctx, const struct event_view *ev, struct err *e)
{
	static const char *const payload[] = { "message",  "reason", "decision",  "outcome", "code",
					       "category", "kind",   "operation", "path" };
	static const enum id_field fields[] = { ID_TURN,   ID_TASK,     ID_PROCESS, ID_TOOL_CALL,
						ID_ACTION, ID_ARTIFACT, ID_EVIDENCE };
	struct sink *k = ctx;
	struct jw *w = &k->w;
	char at[CLOCK_TEXT_MAX];

	if (!survey_type_matches(ev->type, audited))
		return 0;
	struct jval id = event_member(ev, "eventId"), decision = jval_get(event_payload(ev), "permissionDecision");
	clock_format(ev->real_us, at);
	jw_obj(w);
	jw_kuint(w, "sequence", ev->sequence);
	jw_kraw(w, "eventId", id.text, id.len);
	jw_kstr(w, "type", event_info(ev->type)->name);
	jw_kstr(w, "timestamp", at);
	survey_write_ids(w, ev, fields, countof(fields));
	jw_kobj(w, "says");
	survey_copy(w, decision.type == JT_OBJECT ? decision : event_payload(ev), payload, countof(payload));
	jw_obj_end(w);
	jw_obj_end(w);
	return sink_yield(k, e);
}

int review_write(struct survey *s, const struct evidence_job *job, struct sink *k, struct err *e)
{
	survey_write_head(s, EVIDENCE_REVIEW, &k->w);
	jw_kobj(&k->w, "template");
	jw_kstr(&k->w, "reviewer", "");
	jw_kstr(&k->w, "verdict", "open");
	jw_karr(&k->w, "questions");
	for (const struct question *q = questions; q < questions + countof(questions); q++) {
		size_t facts = 0; /* a question without events does not apply */

		jw_obj(&k->w);
		jw_kstr(&k->w, "id", q->id);
		jw_kstr(&k->w, "question", q->text);
		jw_karr(&k->w, "auditFamilies");
		for (size_t i = 0; i < q->nsections; i++) {
			jw_str(&k->w, survey_section_name(q->section[i]));
			facts += s->section[q->section[i]].count;
		}
		jw_arr_end(&k->w);
		jw_kuint(&k->w, "facts", facts);
		jw_kstr(&k->w, "status", facts ? "open" : "not_applicable");
		jw_kstr(&k->w, "answer", "");
		jw_obj_end(&k->w);
	}
	jw_arr_end(&k->w);
	/* Filled in by the reviewer. */
	jw_karr(&k->w, "findings");
	jw_arr_end(&k->w);
	jw_obj_end(&k->w);
	jw_karr(&k->w, "auditRefs");
	if (survey_each(s, write_ref, k, e) < 0)
		return -1;
	jw_arr_end(&k->w);
	if (pack_write_tool_calls(s, k, e) < 0)
		return -1;
	pack_write_findings(s, &k->w);
	return 0;
}
