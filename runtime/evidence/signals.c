/*
 * Which signals a scope has. A signal that cannot exist is not_applicable; one that could but does not is listed in
 * knownGaps with a reason. Nothing is joined by guessing: an event without the id that would join it counts as
 * missing_correlation.
 */

#include "runtime/evidence/survey.h"

#include "runtime/base/jw.h"
#include "runtime/base/mem.h"

#include <string.h>

enum applies { ALWAYS, WORK, MODEL, DRIVEN, TASK, RECORDED, TRACE, PAYLOAD };

static const struct signal {
	const char *name;
	enum survey_section section;
	enum applies applies;
	const char *gap;
} signals[] = {
#define SIGNAL(name, section, applies, gap) { #name, SURVEY_##section, applies, gap },
#include "runtime/evidence/signals.def"
#undef SIGNAL
};

static bool signal_applies(const struct survey *s, enum applies a)
{
	switch (a) {
	case ALWAYS: return true;
	case WORK: return s->count[EVENT_PROCESS_STARTED] || s->count[EVENT_TOOL_STARTED];
	case MODEL:
	case PAYLOAD: return s->section[SURVEY_models].count;
	case DRIVEN: return s->driven;
	case TASK: return s->count[EVENT_TASK_CREATED];
	case TRACE: return s->turns;
	case RECORDED: break;
	}
	return false;
}

/* Traces and payloads have rules of their own: the events exist, and the question is what they carry. */
static const char *status_of(const struct survey *s, const struct signal *g)
{
	bool recorded = s->section[g->section].count;

	if (g->applies == TRACE)
		return !s->turns ? "not_applicable" : s->turns_traced == s->turns ? "exported" : "missing_correlation";
	if (g->applies == PAYLOAD)
		return recorded ? "unsupported" : "not_applicable";
	if (g->section == SURVEY_models && recorded && s->models_separate)
		return "missing_correlation";
	if (recorded)
		return "exported";
	return signal_applies(s, g->applies) ? "not_recorded" : "not_applicable";
}

static void write_gap(struct jw *w, const char *name, const char *status, const char *reason)
{
	jw_obj(w);
	jw_kstr(w, "signal", name);
	jw_kstr(w, "status", status);
	jw_kstr(w, "reason", reason);
	jw_obj_end(w);
}

void survey_write_signals(const struct survey *s, struct jw *w)
{
	jw_kobj(w, "signals");
	for (size_t i = 0; i < countof(signals); i++)
		jw_kstr(w, signals[i].name, status_of(s, &signals[i]));
	jw_obj_end(w);
	jw_karr(w, "knownGaps");
	for (size_t i = 0; i < countof(signals); i++) {
		const char *status = status_of(s, &signals[i]);

		if (strcmp(status, "missing_correlation") == 0 && signals[i].section == SURVEY_models)
			write_gap(w, signals[i].name, status, "events of models came without a modelRequestId");
		else if (strcmp(status, "exported") != 0 && strcmp(status, "not_applicable") != 0)
			write_gap(w, signals[i].name, status, signals[i].gap);
	}
	if (!s->whole)
		write_gap(w, "events", "not_recorded",
			  "the beginning has expired: what was derived from it is not here either");
	jw_arr_end(w);
}
