#include "runtime/evidence/survey.h"

#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/store/store.h"

#include <string.h>

/* Bytes that are collected in memory. Outcomes past the bound are still in the events of a pack. */
#define OUTCOMES_MAX (256u << 10)

static const struct {
	const char *name, *prefixes;
} sections[] = {
#define SECTION(name, prefixes) { #name, prefixes },
#include "runtime/evidence/sections.def"
#undef SECTION
};

const char *survey_section_name(enum survey_section section) { return sections[section].name; }

bool survey_type_matches(enum event_type type, const char *prefixes)
{
	const char *name = event_info(type)->name;

	for (const char *p = prefixes; *p; p += strspn(p, " ")) {
		size_t n = strcspn(p, " ");

		if (strncmp(name, p, n) == 0)
			return true;
		p += n;
	}
	return false;
}

/* Here, and not in evidence.c, because the files that it calls need the names. */
static const struct {
	const char *name, *member;
} evidence_kinds[] = {
#define EVIDENCE_KIND(KIND, name, member, write, sealed) { name, member },
#include "runtime/evidence/evidence_kinds.def"
#undef EVIDENCE_KIND
};

const char *evidence_kind_name(enum evidence_kind k) { return evidence_kinds[k].name; }

const char *evidence_kind_member(enum evidence_kind k) { return evidence_kinds[k].member; }

/* ---- collecting ---- */

/* Keeps the first SURVEY_IDS distinct ids; `more` is set if there are others. */
static void ids_add(struct survey_ids *s, const struct id_text *id)
{
	if (!id->text || id->len >= EVIDENCE_ID_MAX)
		return;
	for (size_t i = 0; i < s->count; i++)
		if (strlen(s->id[i]) == id->len && memcmp(s->id[i], id->text, id->len) == 0)
			return;
	if (s->count == SURVEY_IDS) {
		s->more = true;
		return;
	}
	memcpy(s->id[s->count], id->text, id->len);
	s->id[s->count++][id->len] = '\0';
}

/* Events that an export itself writes. */
static bool is_about_export(const struct event_view *ev)
{
	if (ev->type == EVENT_EVIDENCE_CHANGED)
		return !event_from_client(ev);
	return ev->type == EVENT_OUTPUT_SPILLED && jval_is_str(jval_get(event_payload(ev), "stream"), "evidence");
}

/* Whether a scope of this kind starts with this event. */
static bool is_first_event(enum id_field f, enum event_type t)
{
	switch (f) {
	case ID_SESSION: return t == EVENT_SESSION_CREATED;
	case ID_THREAD: /* session.created names its first thread */
		return t == EVENT_SESSION_CREATED || t == EVENT_THREAD_STARTED;
	case ID_TURN: return t == EVENT_TURN_SUBMITTED;
	default: return t == EVENT_TASK_CREATED;
	}
}

/* Outcomes are collected here because pack and review show them, up to a bound. */
static void add_outcomes(struct survey *s, const struct event_view *ev)
{
	char evidence[EVIDENCE_ID_MAX];

	event_id_copy(ev, ID_EVIDENCE, evidence, sizeof(evidence));
	for (struct jiter it = jiter_on(jval_get(event_payload(ev), "verificationOutcomes")); jiter_next(&it);) {
		if (s->outcomes.len > OUTCOMES_MAX)
			return;
		struct jw w = jw_on(&s->outcomes);
		if (s->outcomes.len)
			buf_byte(&s->outcomes, ',');
		jw_obj(&w);
		jw_kuint(&w, "sequence", ev->sequence);
		jw_kopt(&w, "evidenceId", evidence[0] ? evidence : NULL);
		jw_kraw(&w, "outcome", it.value.text, it.value.len);
		jw_obj_end(&w);
	}
}

/* Packs do not contain uids per event: ranges of sequences with the same owner are enough to project them again. */
static void add_owner(struct survey *s, const struct event_view *ev)
{
	if (s->owner.count && s->owner.range[s->owner.count - 1].uid == ev->uid)
		return;
	if (s->owner.count == s->owner.cap) {
		s->owner.cap = s->owner.cap ? 2 * s->owner.cap : 16;
		s->owner.range = mem_realloc(s->owner.range, s->owner.cap * sizeof(*s->owner.range));
	}
	s->owner.range[s->owner.count++] = (struct survey_owner){ ev->sequence, ev->uid };
}

/* Called once per event, in order: the first one decides whether the scope is complete. */
static void count_event(struct survey *s, const struct event_view *ev)
{
	unsigned at = 0; /* the first section with a matching prefix; SURVEY_SECTIONS: none */

	while (at < SURVEY_SECTIONS && !survey_type_matches(ev->type, sections[at].prefixes))
		at++;
	add_owner(s, ev);
	if (!s->events) {
		s->first = ev->sequence;
		s->first_us = ev->real_us;
		s->whole = is_first_event(s->scope->field, ev->type);
	}
	s->events++;
	s->last = ev->sequence;
	s->last_us = ev->real_us;
	s->count[ev->type]++;
	ids_add(&s->thread, &ev->ids[ID_THREAD]);
	ids_add(&s->turn, &ev->ids[ID_TURN]);
	ids_add(&s->task, &ev->ids[ID_TASK]);
	ids_add(&s->run, &ev->ids[ID_RUN]);
	ids_add(&s->trace, &ev->ids[ID_TRACE]);
	ids_add(&s->evidence, &ev->ids[ID_EVIDENCE]);
	if (ev->type == EVENT_TURN_SUBMITTED && !jval_is_str(jval_get(event_payload(ev), "source"), "system")) {
		s->turns++;
		s->turns_traced += ev->ids[ID_TRACE].text != NULL;
	}
	s->denied += (ev->type == EVENT_PERMISSION_EVALUATED &&
		      jval_is_str(jval_path(event_payload(ev), "permissionDecision.decision"), "deny")) ||
		     (ev->type == EVENT_PERMISSION_RESOLVED &&
		      jval_is_str(jval_get(event_payload(ev), "outcome"), "denied"));
	s->driven += ev->type == EVENT_TURN_STARTED && jval_is_str(jval_get(event_payload(ev), "driver"), "client");
	/* Model events are reported by clients. Without a request id they cannot be joined with costs and steps. */
	s->models_separate += at == SURVEY_models && !ev->ids[ID_MODEL_REQUEST].text;
	if (ev->type == EVENT_EVIDENCE_CHANGED)
		add_outcomes(s, ev);
	if (at == SURVEY_SECTIONS)
		return;
	if (s->section[at].count == s->section[at].cap) {
		s->section[at].cap = s->section[at].cap ? 2 * s->section[at].cap : 16;
		s->section[at].sequence = mem_realloc(s->section[at].sequence, s->section[at].cap * sizeof(uint64_t));
	}
	s->section[at].sequence[s->section[at].count++] = ev->sequence;
}

struct pass {
	struct survey *survey;
	survey_event_fn fn;
	void *ctx;
	struct err *e;
	bool all, failed;
};

static bool on_event(void *ctx, const struct event_view *ev)
{
	struct pass *p = ctx;

	if (!p->all && is_about_export(ev))
		return true;
	/* Checked for each event: an export of a long session must not delay the shutdown of the daemon. */
	p->failed = background_read_stopped(p->survey->reader, p->e) < 0 || p->fn(p->ctx, ev, p->e) < 0;
	return !p->failed;
}

/* Bounded by scope.through: events that are committed while the export runs are not part of it. */
static int survey_pass(struct survey *s, bool all, survey_event_fn fn, void *ctx, struct err *e)
{
	struct pass p = { .survey = s, .fn = fn, .ctx = ctx, .e = e, .all = all };
	const struct store_query q = {
		.after = background_read_first(s->reader) - 1,
		.before = s->scope->through + 1,
		.index = (int)s->scope->field,
		.id = s->scope->id,
	};

	if (background_read_events(s->reader, &q, on_event, &p, e) < 0)
		return -1;
	return p.failed ? -1 : 0;
}

int survey_each(struct survey *s, survey_event_fn fn, void *ctx, struct err *e)
{
	return survey_pass(s, false, fn, ctx, e);
}

int survey_each_of_all(struct survey *s, survey_event_fn fn, void *ctx, struct err *e)
{
	return survey_pass(s, true, fn, ctx, e);
}

/* The first pass: counts the event and projects it into the fresh read models. */
static int survey_event(void *ctx, const struct event_view *ev, struct err *e)
{
	struct survey *s = ctx;

	count_event(s, ev);
	return background_read_project(s->reader, ev, e);
}

int survey_make(struct survey *s, struct background_read *a, const struct evidence_scope *scope, struct err *e)
{
	*s = (struct survey){ .reader = a, .scope = scope };
	return survey_each(s, survey_event, s, e);
}

void survey_done(struct survey *s)
{
	for (unsigned i = 0; i < SURVEY_SECTIONS; i++)
		free(s->section[i].sequence);
	free(s->owner.range);
	buf_done(&s->outcomes);
}

/* ---- fresh read models ---- */

/* A read that fails counts as a missing document. */
struct jval survey_doc(struct survey *s, unsigned kind, const char *id)
{
	struct err e = ERR_INIT;
	const char *json;
	size_t len;

	if (!*id || background_read_model(s->reader, (uint8_t)kind, id, &json, &len, &e) != 0)
		return (struct jval){ 0 };
	return jval_of(json, len);
}

struct doc_walk {
	survey_doc_fn fn;
	void *ctx;
	struct err *e;
	bool failed;
};

static bool on_doc(void *ctx, const char *id, size_t id_len, const char *json, size_t len)
{
	struct doc_walk *w = ctx;

	w->failed = w->fn(w->ctx, id, id_len, jval_of(json, len), w->e) < 0;
	return !w->failed;
}

int survey_docs(struct survey *s, unsigned kind, survey_doc_fn fn, void *ctx, struct err *e)
{
	struct doc_walk w = { .fn = fn, .ctx = ctx, .e = e };

	return background_read_models(s->reader, (uint8_t)kind, on_doc, &w, e) < 0 || w.failed ? -1 : 0;
}

void survey_write_ids(struct jw *w, const struct event_view *ev, const enum id_field *fields, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (ev->ids[fields[i]].text)
			jw_kstrn(w, id_field_member(fields[i]), ev->ids[fields[i]].text, ev->ids[fields[i]].len);
}

void survey_copy(struct jw *w, struct jval doc, const char *const *members, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct jval v = jval_get(doc, members[i]);

		if (v.type != JT_NONE)
			jw_kraw(w, members[i], v.text, v.len);
	}
}

/* ---- the first members of each file ---- */

/* One id as `one`; several as the list `many`, which may be truncated. */
static void write_ids(struct jw *w, const char *one, const char *many, const struct survey_ids *s)
{
	if (s->count == 1 && !s->more) {
		jw_kstr(w, one, s->id[0]);
		return;
	}
	if (!s->count)
		return;
	jw_karr(w, many);
	for (size_t i = 0; i < s->count; i++)
		jw_str(w, s->id[i]);
	jw_arr_end(w);
}

void survey_write_correlation(const struct survey *s, struct jw *w)
{
	jw_kobj(w, "runtimeCorrelation");
	jw_kstr(w, "runtimeId", store_runtime_id(background_read_store(s->reader)));
	jw_kstr(w, "sessionId", s->scope->session_id);
	write_ids(w, "threadId", "threadIds", &s->thread);
	write_ids(w, "turnId", "turnIds", &s->turn);
	write_ids(w, "taskId", "taskIds", &s->task);
	write_ids(w, "runId", "runIds", &s->run);
	write_ids(w, "traceId", "traceIds", &s->trace);
	jw_kbool(w, "truncated", s->thread.more || s->turn.more || s->task.more || s->run.more || s->trace.more);
	jw_obj_end(w);
}

static void write_time(struct jw *w, const char *key, uint64_t us)
{
	char text[CLOCK_TEXT_MAX];

	if (!us)
		return;
	clock_format(us, text);
	jw_kstr(w, key, text);
}

static void write_summary(const struct survey *s, struct jw *w)
{
	jw_kobj(w, "runtimeSummary");
	jw_kuint(w, "events", s->events);
	jw_kuint(w, "firstSequence", s->first);
	jw_kuint(w, "lastSequence", s->last);
	write_time(w, "firstAt", s->first_us);
	write_time(w, "lastAt", s->last_us);
	jw_kbool(w, "complete", s->whole);
	jw_kobj(w, "eventCounts");
	for (unsigned i = 0; i < EVENT_TYPE_COUNT; i++)
		if (s->count[i])
			jw_kuint(w, event_info((enum event_type)i)->name, s->count[i]);
	jw_obj_end(w);
	jw_obj_end(w);
}

void survey_write_head(struct survey *s, enum evidence_kind kind, struct jw *w)
{
	jw_kstr(w, "schemaVersion", store_env(background_read_store(s->reader))->schema_version);
	jw_kstr(w, "packKind", evidence_kind_name(kind));
	jw_kuint(w, "packVersion", 1);
	jw_kobj(w, "scope");
	jw_kstr(w, id_field_member(s->scope->field), s->scope->id);
	jw_obj_end(w);
	survey_write_correlation(s, w);
	write_summary(s, w);
}

/* ---- signals ---- */

/*
 * Which signals a scope has. A signal that cannot exist is not_applicable; one that could but does not is listed in
 * knownGaps with a reason. Nothing is joined by guessing: an event without the id that would join it counts as
 * missing_correlation.
 */
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
			write_gap(w, signals[i].name, status, "model events were reported without a modelRequestId");
		else if (strcmp(status, "exported") != 0 && strcmp(status, "not_applicable") != 0)
			write_gap(w, signals[i].name, status, signals[i].gap);
	}
	if (!s->whole)
		write_gap(w, "events", "not_recorded",
			  "the beginning was removed by retention, and so is what was derived from it");
	jw_arr_end(w);
}
