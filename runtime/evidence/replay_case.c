/*
 * A replay case: everything needed to run the same work again and to grade the result. Small inputs are included;
 * observations become assertions, with instructions for the grader.
 */

#include "runtime/evidence/pack.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/store/store.h"
#include "runtime/view/view.h"

#include <string.h>

/* Larger inputs are named by ref and hash only. */
#define INPUT_MAX (64u << 10)

static void write_event_ids(struct jw *w, const struct event_view *ev)
{
	static const enum id_field fields[] = { ID_THREAD, ID_TURN, ID_TASK };

	jw_kuint(w, "sequence", ev->sequence);
	survey_write_ids(w, ev, fields, countof(fields));
}

/* The input itself, if it is small and still kept. */
static void write_content(struct survey *s, struct jw *w, struct jval payload)
{
	buf_auto struct buf text = BUF_INIT;
	struct err e = ERR_INIT;
	char ref[EVIDENCE_ID_MAX];

	if (jval_str(jval_get(payload, "inputRef"), ref, sizeof(ref)) >= sizeof(ref) || !ref[0] ||
	    jval_uint(jval_get(payload, "inputBytes"), INPUT_MAX + 1) > INPUT_MAX)
		return;
	/* An input that has expired is no error: its hash is in the case, and the grader may have the text. */
	if (store_output_read(background_read_store(s->reader), ref, 0, INPUT_MAX, &text, &e) < 0 || !text.len)
		return;
	struct jval v = jval_of(text.data, text.len);
	if (v.type == JT_OBJECT && v.len == text.len)
		v = jval_get(v, "input"); /* the options are a member of their own */
	if (v.type == JT_ARRAY)
		jw_kraw(w, "content", v.text, v.len);
}

struct event_walk {
	struct survey *survey;
	struct sink *sink;
};

static int write_input(void *ctx, const struct event_view *ev, struct err *e)
{
	static const char *const members[] = { "source",  "inputRef", "inputBytes", "inputHash",
					       "preview", "parts",    "options",    "metadata" };
	struct event_walk *k = ctx;
	struct jval payload = event_payload(ev);

	if (ev->type != EVENT_TURN_SUBMITTED || jval_is_str(jval_get(payload, "source"), "system"))
		return 0;
	jw_obj(&k->sink->w);
	write_event_ids(&k->sink->w, ev);
	survey_copy(&k->sink->w, payload, members, countof(members));
	write_content(k->survey, &k->sink->w, payload);
	jw_obj_end(&k->sink->w);
	return sink_yield(k->sink, e);
}

static int write_context(void *ctx, const struct event_view *ev, struct err *e)
{
	static const char *const members[] = { "refs", "omissions", "missing" };
	struct event_walk *k = ctx;

	if (ev->type != EVENT_CONTEXT_RESOLVED)
		return 0;
	jw_obj(&k->sink->w);
	write_event_ids(&k->sink->w, ev);
	survey_copy(&k->sink->w, event_payload(ev), members, countof(members));
	jw_obj_end(&k->sink->w);
	return sink_yield(k->sink, e);
}

/* ---- assertions ---- */

struct assertion {
	unsigned view;
	const char *kind, *id_member;
	const char *members[4]; /* what must be equal, as observed */
};

/* Only members that a second run can reproduce: no times, ids, refs or sizes. */
static const struct assertion assertions[] = {
	{ VIEW_TURN, "turn_ends", "turnId", { "status", "outcome" } },
	{ VIEW_TOOL_CALL, "tool_call_ends", "toolCallId", { "toolName", "status", "exitCode" } },
	{ VIEW_PROCESS, "process_ends", "processId", { "status", "exitCode", "signal" } },
	{ VIEW_TASK, "task_is", "taskId", { "status" } },
	{ VIEW_ACTION, "action_is_answered", "actionId", { "actionType", "decision" } },
	{ VIEW_ARTIFACT, "artifact_is", "artifactId", { "path", "change" } },
};

struct assertion_writer {
	const struct assertion *a;
	struct sink *sink;
};

static int write_assertion(void *ctx, const char *id, size_t id_len, struct jval doc, struct err *e)
{
	struct assertion_writer *k = ctx;
	struct jw *w = &k->sink->w;

	/* The system turn never ends, so nothing can be asserted about it. */
	if (k->a->view == VIEW_TURN && jval_is_str(jval_get(doc, "source"), "system"))
		return 0;
	jw_obj(w);
	jw_kstr(w, "kind", k->a->kind);
	jw_kobj(w, "subject");
	survey_copy(w, doc, &k->a->id_member, 1);
	jw_obj_end(w);
	jw_kobj(w, "equals");
	for (size_t i = 0; i < countof(k->a->members) && k->a->members[i]; i++)
		survey_copy(w, doc, &k->a->members[i], 1);
	jw_obj_end(w);
	jw_obj_end(w);
	return sink_yield(k->sink, e);
}

static int write_assertions(struct survey *s, struct sink *k, struct err *e)
{
	jw_karr(&k->w, "assertions");
	for (size_t i = 0; i < countof(assertions); i++) {
		struct assertion_writer writer = { .a = &assertions[i], .sink = k };

		if (survey_docs(s, assertions[i].view, write_assertion, &writer, e) < 0)
			return -1;
	}
	jw_arr_end(&k->w);
	return 0;
}

static const char *const instructions[] = {
	"Submit the inputs in order, with their options, to a fresh session whose workspace is in the state that the "
	"context refs name.",
	"Ids differ between runs: match subjects by their order within a kind, and by toolName or path where there is "
	"one.",
	"Each assertion holds if every member of `equals` is the same; times, ids and refs are never compared.",
	"A signal that knownGaps lists cannot be graded: leave it out instead of counting it as failed.",
	"Report {assertion, held, observed} for each; the verdict belongs to the requester of the grading.",
};

int replay_case_write(struct survey *s, const struct evidence_job *job, struct sink *k, struct err *e)
{
	struct event_walk walk = { .survey = s, .sink = k };

	survey_write_head(s, EVIDENCE_REPLAY, &k->w);
	jw_karr(&k->w, "inputs");
	if (survey_each(s, write_input, &walk, e) < 0)
		return -1;
	jw_arr_end(&k->w);
	jw_karr(&k->w, "contextRefs");
	if (survey_each(s, write_context, &walk, e) < 0)
		return -1;
	jw_arr_end(&k->w);
	if (pack_write_tool_calls(s, k, e) < 0 || write_assertions(s, k, e) < 0)
		return -1;
	jw_kstrv(&k->w, "graderInstructions", instructions, countof(instructions));
	if (pack_write_log(s, k, e) < 0)
		return -1;
	survey_write_signals(s, &k->w);
	return 0;
}
