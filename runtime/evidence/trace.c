/*
 * Spans and metrics in the JSON of the OpenTelemetry protocol, derived from the log alone.
 *
 * Span ids are derived from the ids of their subjects, so every export of the same events gives the same spans and a
 * child knows its parent's id. Trace ids come from the callers. Where a caller gave none, the trace id is derived from
 * the id of the turn (or task, or scope) and marked (bailiff.trace: derived): it connects only spans of this runtime.
 */

#include "runtime/evidence/pack.h"

#include "runtime/base/clock.h"
#include "runtime/base/mem.h"
#include "runtime/store/store.h"
#include "runtime/view/view.h"
#include "runtime/view/view_cost.h"
#include "runtime/view/view_task.h"

#include <string.h>

static const struct span_row {
	enum event_type type;
	const char *name;
	unsigned view;
	enum id_field id;
	const char *start, *end;
	enum id_field parent[2];
} rows[] = {
#define SPAN(type, name, view, id, start, end, p1, p2) { EVENT_##type, name, view, id, start, end, { p1, p2 } },
#include "runtime/evidence/spans.def"
#undef SPAN
};

enum metric {
#define METRIC(NAME, name, unit) METRIC_##NAME,
#include "runtime/evidence/metrics.def"
#undef METRIC
	METRIC_COUNT
};
static const struct {
	const char *name, *unit;
} metrics[] = {
#define METRIC(NAME, name, unit) { name, unit },
#include "runtime/evidence/metrics.def"
#undef METRIC
};

struct tracing {
	struct survey *survey;
	struct sink *sink;
	uint64_t metric[METRIC_COUNT];
};

/* ---- ids ---- */

/* Derived from a hash, so that the same subject always gets the same id. */
static void derive_id(const char *what, const char *id, size_t n, size_t digits, char *ret)
{
	buf_auto struct buf text = BUF_INIT;
	char hash[HASH_SHA256_TEXT];

	buf_str(&text, what);
	buf_append(&text, id, n);
	hash_sha256_text(text.data, text.len, hash);
	memcpy(ret, hash, digits);
	ret[digits] = '\0';
}

/*
 * OpenTelemetry ids are lowercase hexadecimal of a fixed length. Clients may send anything; other ids are not passed
 * on.
 */
static bool is_hex(const char *s, size_t n, size_t want) { return n == want && strspn(s, "0123456789abcdef") >= want; }

/* The caller's trace id: of the event, or of its turn. */
static bool given_trace(struct survey *s, const struct event_view *ev, char ret[33])
{
	const struct id_text *t = &ev->ids[ID_TRACE];
	char turn[EVIDENCE_ID_MAX], text[EVIDENCE_ID_MAX] = "";

	if (t->text && t->len < sizeof(text))
		memcpy(text, t->text, t->len);
	event_id_copy(ev, ID_TURN, turn, sizeof(turn));
	if (!text[0])
		jval_str(jval_get(survey_doc(s, VIEW_TURN, turn), "traceId"), text, sizeof(text));
	if (!is_hex(text, strlen(text), 32))
		return false;
	memcpy(ret, text, 33);
	return true;
}

/* true: the caller's trace id; false: derived from the turn, else from the task, else from the scope. */
static bool trace_of(struct survey *s, const struct event_view *ev, char ret[33])
{
	const struct id_text *turn = &ev->ids[ID_TURN], *task = &ev->ids[ID_TASK];

	if (given_trace(s, ev, ret))
		return true;
	if (turn->text)
		derive_id("trace:", turn->text, turn->len, 32, ret);
	else if (task->text)
		derive_id("trace:", task->text, task->len, 32, ret);
	else
		derive_id("trace:", s->scope->id, strlen(s->scope->id), 32, ret);
	return false;
}

/* ---- spans ---- */

/* 64-bit integers are strings in the JSON mapping of protocol buffers. */
static void write_nano(struct jw *w, const char *key, uint64_t us)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)us * 1000);
	jw_kstr(w, key, text);
}

static void write_attribute(struct jw *w, const char *key, const char *value, size_t n)
{
	jw_obj(w);
	jw_kstr(w, "key", key);
	jw_kobj(w, "value");
	jw_kstrn(w, "stringValue", value, n);
	jw_obj_end(w);
	jw_obj_end(w);
}

static void write_text_attribute(struct jw *w, const char *key, struct jval v)
{
	buf_auto struct buf text = BUF_INIT;

	if (v.type != JT_STRING)
		return;
	jval_str_buf(v, &text);
	write_attribute(w, key, buf_cstr(&text), text.len);
}

static uint64_t time_member(struct jval doc, const char *member)
{
	char text[CLOCK_TEXT_MAX];
	uint64_t us = 0;

	if (jval_str(jval_get(doc, member), text, sizeof(text)) < sizeof(text) && text[0])
		(void)clock_parse(text, &us);
	return us;
}

/* The document with the span's times. */
static struct jval span_doc(struct survey *s, const struct span_row *r, const struct event_view *ev)
{
	char id[EVIDENCE_ID_MAX], key[VIEW_ATTEMPT_KEY_MAX];

	if (!r->view)
		return (struct jval){ 0 };
	if (r->view == VIEW_TASK_ATTEMPT) {
		event_id_copy(ev, ID_TASK, id, sizeof(id));
		view_attempt_key(id, jval_uint(jval_get(event_payload(ev), "attempt"), 1), key);
		return survey_doc(s, r->view, key);
	}
	event_id_copy(ev, r->id, id, sizeof(id));
	if (r->view == VIEW_MODEL_REQUEST) {
		char session[EVIDENCE_ID_MAX], request[VIEW_REQUEST_KEY_MAX];

		event_id_copy(ev, ID_SESSION, session, sizeof(session));
		view_model_request_key(session, id, request);
		return survey_doc(s, r->view, request);
	}
	return survey_doc(s, r->view, id);
}

/*
 * There is no span for a client's own tool call, whose id start_process accepts, and for the system turn, to which the
 * holders of session sandboxes belong.
 */
static bool is_known(struct survey *s, const struct event_view *ev, enum id_field field)
{
	char id[EVIDENCE_ID_MAX];

	if (field != ID_TOOL_CALL && field != ID_TURN)
		return true;
	event_id_copy(ev, field, id, sizeof(id));
	if (field == ID_TURN)
		return !jval_is_str(jval_get(survey_doc(s, VIEW_TURN, id), "source"), "system");
	return survey_doc(s, VIEW_TOOL_CALL, id).type != JT_NONE;
}

/*
 * The span's own id is derived from its subject, or from runtime and sequence where the event has no id of its own. The
 * parent is the first of the row's two ids that has a span, else the caller's span from the trace context of the
 * event.
 */
static void write_ids(struct jw *w, struct survey *s, const struct span_row *r, const struct event_view *ev)
{
	const struct id_text *own = r->id < ID_FIELD_COUNT ? &ev->ids[r->id] : NULL, *span = &ev->ids[ID_SPAN];
	char id[33], sequence[32];

	if (own && own->text) {
		derive_id(r->name, own->text, own->len, 16, id);
	} else {
		snprintf(sequence, sizeof(sequence), "%llu", (unsigned long long)ev->sequence);
		derive_id(store_runtime_id(background_read_store(s->reader)), sequence, strlen(sequence), 16, id);
	}
	jw_kstr(w, "spanId", id);
	for (size_t i = 0; i < countof(r->parent); i++) {
		if (r->parent[i] >= ID_FIELD_COUNT || !ev->ids[r->parent[i]].text || !is_known(s, ev, r->parent[i]))
			continue;
		for (size_t k = 0; k < countof(rows); k++)
			if (rows[k].id == r->parent[i]) {
				derive_id(rows[k].name, ev->ids[r->parent[i]].text, ev->ids[r->parent[i]].len, 16, id);
				jw_kstr(w, "parentSpanId", id);
				return;
			}
	}
	if (span->text && is_hex(span->text, span->len, 16))
		jw_kstrn(w, "parentSpanId", span->text, span->len);
}

static void write_attributes(struct jw *w, const struct event_view *ev, struct jval doc, bool traced)
{
	static const enum id_field fields[] = { ID_SESSION,       ID_THREAD,   ID_TURN,      ID_TASK,
						ID_RUN,           ID_PROCESS,  ID_TOOL_CALL, ID_ACTION,
						ID_MODEL_REQUEST, ID_ARTIFACT, ID_EVIDENCE };
	static const struct {
		const char *member, *key;
	} members[] = {
		{ "status", "bailiff.status" },        { "toolName", "gen_ai.tool.name" },
		{ "model", "gen_ai.request.model" },   { "provider", "gen_ai.provider.name" },
		{ "decision", "bailiff.decision" },    { "category", "error.type" },
		{ "hookPoint", "bailiff.hook.point" }, { "change", "bailiff.artifact.change" },
	};
	char sequence[32];

	jw_karr(w, "attributes");
	snprintf(sequence, sizeof(sequence), "%llu", (unsigned long long)ev->sequence);
	write_attribute(w, "bailiff.sequence", sequence, strlen(sequence));
	write_attribute(w, "bailiff.trace", traced ? "caller" : "derived", traced ? 6 : 7);
	for (size_t i = 0; i < countof(fields); i++)
		if (ev->ids[fields[i]].text) {
			char key[64];

			snprintf(key, sizeof(key), "bailiff.%s", id_field_member(fields[i]));
			write_attribute(w, key, ev->ids[fields[i]].text, ev->ids[fields[i]].len);
		}
	for (size_t i = 0; i < countof(members); i++) {
		struct jval v = jval_get(doc, members[i].member);

		write_text_attribute(w, members[i].key, v.type ? v : jval_get(event_payload(ev), members[i].member));
	}
	jw_arr_end(w);
}

/* Sums and counts of one span. */
static void add_metrics(struct tracing *t, const struct event_view *ev, struct jval doc, uint64_t us)
{
	static const struct {
		enum event_type type;
		enum metric count, time;
	} sums[] = {
		{ EVENT_TURN_SUBMITTED, METRIC_INTERACTIONS, METRIC_INTERACTION_US },
		{ EVENT_TASK_ATTEMPT_STARTED, METRIC_TASK_RUNS, METRIC_TASK_US },
		{ EVENT_MODEL_REQUESTED, METRIC_MODELS, METRIC_MODEL_US },
		{ EVENT_TOOL_STARTED, METRIC_TOOLS, METRIC_TOOL_US },
		{ EVENT_PROCESS_STARTED, METRIC_PROCESSES, METRIC_PROCESS_US },
		{ EVENT_HOOK_COMPLETED, METRIC_HOOKS, METRIC_HOOK_US },
		{ EVENT_HOOK_FAILED, METRIC_HOOKS, METRIC_HOOK_US },
		{ EVENT_ACTION_REQUIRED, METRIC_ASKED, METRIC_ASKED_US },
		{ EVENT_ARTIFACT_CHANGED, METRIC_ARTIFACTS, METRIC_COUNT },
		{ EVENT_EVIDENCE_CHANGED, METRIC_EXPORTS, METRIC_EXPORT_US },
	};

	for (size_t i = 0; i < countof(sums); i++)
		if (sums[i].type == ev->type) {
			t->metric[sums[i].count]++;
			if (sums[i].time < METRIC_COUNT)
				t->metric[sums[i].time] += us;
		}
	if (ev->type == EVENT_TURN_SUBMITTED) {
		uint64_t from = time_member(doc, "submittedAt"), to = time_member(doc, "startedAt");
		t->metric[METRIC_QUEUE_US] += to > from ? to - from : 0;
	}
	if (ev->type == EVENT_MODEL_REQUESTED) {
		t->metric[METRIC_TTFT_US] += 1000 * jval_uint(jval_get(doc, "timeToFirstTokenMs"), 0);
		t->metric[METRIC_INPUT] += jval_uint(jval_path(doc, "usage.inputTokens"), 0);
		t->metric[METRIC_OUTPUT] += jval_uint(jval_path(doc, "usage.outputTokens"), 0);
		t->metric[METRIC_CACHED] += jval_uint(jval_path(doc, "usage.cachedTokens"), 0);
	}
}

static void write_span(struct tracing *t, const struct span_row *r, const struct event_view *ev)
{
	buf_auto struct buf copy = BUF_INIT;
	struct jval doc = span_doc(t->survey, r, ev), v;
	struct jw *w = &t->sink->w;
	uint64_t start, end;
	char trace[33];

	/* A copy: trace_of and write_ids look up other documents, which invalidates this one. */
	if (doc.type)
		buf_append(&copy, doc.text, doc.len);
	doc = jval_of(buf_cstr(&copy), copy.len);
	end = r->view ? time_member(doc, r->end) : ev->real_us;
	start = r->view ? time_member(doc, r->start)
			: ev->real_us - 1000 * jval_uint(jval_get(event_payload(ev), "durationMs"), 0);
	/* Without a document, or without the time in it, the span starts with its event. */
	if (!start)
		start = ev->real_us;
	bool traced = trace_of(t->survey, ev, trace);
	t->metric[METRIC_UNTRACED] += !traced;
	jw_obj(w);
	jw_kstr(w, "traceId", trace);
	write_ids(w, t->survey, r, ev);
	jw_kstr(w, "name", r->name);
	jw_kuint(w, "kind", 1);
	write_nano(w, "startTimeUnixNano", start);
	/*
	 * A span that has not ended has no end time. The wall clock may have been set back meanwhile, hence the lower
	 * bound.
	 */
	if (end)
		write_nano(w, "endTimeUnixNano", end < start ? start : end);
	write_attributes(w, ev, doc, traced);
	v = jval_get(doc, "status");
	jw_kobj(w, "status");
	/*
	 * STATUS_CODE_OK and STATUS_CODE_ERROR; unset for open subjects, answered actions, and events without a
	 * document.
	 */
	if (jval_is_str(v, "completed"))
		jw_kuint(w, "code", 1);
	else if (end && v.type == JT_STRING && !jval_is_str(v, "resolved"))
		jw_kuint(w, "code", 2);
	jw_obj_end(w);
	jw_obj_end(w);
	add_metrics(t, ev, doc, end > start ? end - start : 0);
}

/* The system turn carries facts of the runtime and is not an interaction. */
static int on_event(void *ctx, const struct event_view *ev, struct err *e)
{
	struct tracing *t = ctx;

	if (ev->type == EVENT_TURN_SUBMITTED && jval_is_str(jval_get(event_payload(ev), "source"), "system"))
		return 0;
	t->metric[METRIC_RETRIES] += ev->type == EVENT_TASK_RETRYING;
	t->metric[METRIC_LIMITS] += ev->type == EVENT_RATE_LIMIT_HIT || ev->type == EVENT_QUOTA_BLOCKED;
	if (ev->type == EVENT_COST_RECORDED)
		t->metric[METRIC_COST] += jval_uint(jval_get(event_payload(ev), "microUsd"), 0);
	for (size_t i = 0; i < countof(rows); i++)
		if (rows[i].type == ev->type)
			write_span(t, &rows[i], ev);
	return sink_yield(t->sink, e);
}

/* ---- the file ---- */

static void write_resource(struct survey *s, struct jw *w)
{
	const char *id = store_runtime_id(background_read_store(s->reader));

	jw_kobj(w, "resource");
	jw_karr(w, "attributes");
	write_attribute(w, "service.name", "bailiff", 7);
	write_attribute(w, "service.version", BAILIFF_VERSION, strlen(BAILIFF_VERSION));
	write_attribute(w, "service.instance.id", id, strlen(id));
	jw_arr_end(w);
	jw_obj_end(w);
}

static void write_scope(struct jw *w)
{
	jw_kobj(w, "scope");
	jw_kstr(w, "name", "bailiff");
	jw_kstr(w, "version", BAILIFF_VERSION);
	jw_obj_end(w);
}

static void write_metrics(struct tracing *t, struct jw *w)
{
	char text[32];

	jw_karr(w, "metrics");
	for (unsigned i = 0; i < METRIC_COUNT; i++) {
		jw_obj(w);
		jw_kstr(w, "name", metrics[i].name);
		jw_kstr(w, "unit", metrics[i].unit);
		jw_kobj(w, "sum");
		/* AGGREGATION_TEMPORALITY_CUMULATIVE: totals since the first event of the scope. */
		jw_kuint(w, "aggregationTemporality", 2);
		jw_kbool(w, "isMonotonic", true);
		jw_karr(w, "dataPoints");
		jw_obj(w);
		write_nano(w, "startTimeUnixNano", t->survey->first_us);
		write_nano(w, "timeUnixNano", t->survey->last_us);
		snprintf(text, sizeof(text), "%llu", (unsigned long long)t->metric[i]);
		jw_kstr(w, "asInt", text);
		jw_obj_end(w);
		jw_arr_end(w);
		jw_obj_end(w);
		jw_obj_end(w);
	}
	jw_arr_end(w);
}

int trace_write(struct survey *s, const struct evidence_job *job, struct sink *k, struct err *e)
{
	struct tracing t = { .survey = s, .sink = k };
	struct jw *w = &k->w;

	jw_karr(w, "resourceSpans");
	jw_obj(w);
	write_resource(s, w);
	jw_karr(w, "scopeSpans");
	jw_obj(w);
	write_scope(w);
	jw_karr(w, "spans");
	/*
	 * Exports are spans, too, so their events are included here. A later trace of the same scope therefore differs.
	 */
	if (survey_each_of_all(s, on_event, &t, e) < 0)
		return -1;
	jw_arr_end(w);
	jw_obj_end(w);
	jw_arr_end(w);
	jw_obj_end(w);
	jw_arr_end(w);
	jw_karr(w, "resourceMetrics");
	jw_obj(w);
	write_resource(s, w);
	jw_karr(w, "scopeMetrics");
	jw_obj(w);
	write_scope(w);
	write_metrics(&t, w);
	jw_obj_end(w);
	jw_arr_end(w);
	jw_obj_end(w);
	jw_arr_end(w);
	return 0;
}
