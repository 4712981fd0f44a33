/*
 * A trajectory in the Agent Trajectory Interchange Format, version 1.7. Steps are in the order in which they began;
 * results come from the read models, so that a call and its observation are one step. Steps that the runtime dispatched
 * itself have llm_call_count 0; only a recorded model request gives a step with metrics. The format rejects unknown
 * members, so bailiff's own are inside `extra`.
 */

#include "runtime/evidence/pack.h"

#include "runtime/base/clock.h"
#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/store/store.h"
#include "runtime/view/view.h"
#include "runtime/view/view_cost.h"

#include <string.h>

/* Per message; longer texts are cut. */
#define TEXT_MAX (64u << 10)

struct trajectory {
	struct survey *survey;
	struct sink *sink;
	uint64_t steps;
	struct buf deltas; /* of the open model request */
	char request[EVIDENCE_ID_MAX];
};

static void begin_step(struct trajectory *t, const struct event_view *ev, const char *source)
{
	char at[CLOCK_TEXT_MAX];

	clock_format(ev->real_us, at);
	jw_obj(&t->sink->w);
	jw_kuint(&t->sink->w, "step_id", ++t->steps);
	jw_kstr(&t->sink->w, "timestamp", at);
	jw_kstr(&t->sink->w, "source", source);
}

/* Step ids count from 1 within the file; `extra` has the sequence of the event, which is unique in the store. */
static void end_step(struct trajectory *t, const struct event_view *ev)
{
	static const enum id_field fields[] = { ID_TURN, ID_TASK, ID_RUN, ID_PROCESS, ID_ACTION, ID_TRACE };
	struct jw *w = &t->sink->w;

	jw_kobj(w, "extra");
	jw_kuint(w, "sequence", ev->sequence);
	jw_kstr(w, "event_type", event_info(ev->type)->name);
	survey_write_ids(w, ev, fields, countof(fields));
	jw_obj_end(w);
	jw_obj_end(w);
}

static void write_message(struct jw *w, struct jval v, const char *otherwise)
{
	if (v.type == JT_STRING)
		jw_kraw(w, "message", v.text, v.len);
	else
		jw_kstr(w, "message", otherwise);
}

/* ---- input ---- */

/* The text parts of a turn's input; the preview where there are none. */
static void write_input(struct trajectory *t, struct jval payload)
{
	buf_auto struct buf input = BUF_INIT, text = BUF_INIT;
	struct err e = ERR_INIT;
	char ref[EVIDENCE_ID_MAX];

	if (jval_str(jval_get(payload, "inputRef"), ref, sizeof(ref)) < sizeof(ref) && ref[0])
		(void)store_output_read(background_read_store(t->survey->reader), ref, 0, TEXT_MAX, &input, &e);
	struct jval parts = jval_of(buf_cstr(&input), input.len);
	if (parts.type == JT_OBJECT)
		parts = jval_get(parts, "input");
	for (struct jiter it = jiter_on(parts); jiter_next(&it);)
		if (jval_is_str(jval_get(it.value, "type"), "text")) {
			if (text.len)
				buf_byte(&text, '\n');
			jval_str_buf(jval_get(it.value, "text"), &text);
		}
	if (text.len)
		jw_kstrn(&t->sink->w, "message", text.data, text.len);
	else
		write_message(&t->sink->w, jval_get(payload, "preview"), "(a turn without text)");
}

static void write_turn(struct trajectory *t, const struct event_view *ev)
{
	struct jval payload = event_payload(ev), source = jval_get(payload, "source");

	/*
	 * Turns that the runtime submits itself, for facts or for a process started without a turn, are not a user's
	 * input.
	 */
	if (jval_is_str(source, "system") || jval_is_str(source, "process"))
		return;
	begin_step(t, ev, "user");
	write_input(t, payload);
	end_step(t, ev);
}

/* ---- tool calls and processes ---- */

/* The first bytes of a stream. */
static void append_preview(struct trajectory *t, struct jval ref, struct buf *out)
{
	buf_auto struct buf base64 = BUF_INIT, bytes = BUF_INIT;
	char id[EVIDENCE_ID_MAX];

	if (jval_str(ref, id, sizeof(id)) >= sizeof(id))
		return;
	jval_str_buf(jval_get(survey_doc(t->survey, VIEW_PREVIEW, id), "base64"), &base64);
	if (base64.len && text_base64_decode(base64.data, base64.len, &bytes) == 0)
		buf_append(out, bytes.data, bytes.len);
}

/* The output's first bytes and how the process ended, as one text. */
static void observe_process(struct trajectory *t, const char *process_id, struct buf *out)
{
	buf_auto struct buf refs = BUF_INIT;
	struct jval doc = survey_doc(t->survey, VIEW_PROCESS, process_id), v = jval_get(doc, "outputRefs");
	char status[32] = "", signal[32] = "";
	int64_t code = jval_int(jval_get(doc, "exitCode"), -1);

	jval_str(jval_get(doc, "status"), status, sizeof(status));
	jval_str(jval_get(doc, "signal"), signal, sizeof(signal));
	/* A copy: each preview is another lookup, which invalidates the process document. */
	buf_append(&refs, v.text, v.len);
	for (struct jiter it = jiter_on(jval_of(buf_cstr(&refs), refs.len)); jiter_next(&it);)
		append_preview(t, jval_get(it.value, "outputRef"), out);
	if (out->len && out->data[out->len - 1] != '\n')
		buf_byte(out, '\n');
	buf_printf(out, "[%s", status[0] ? status : "unknown");
	if (code >= 0)
		buf_printf(out, ", exit code %lld", (long long)code);
	if (signal[0])
		buf_printf(out, ", signal %s", signal);
	buf_byte(out, ']');
}

/* The call's preview; for a command without one, the output of its process. */
static void observe_call(struct trajectory *t, struct jval doc, const char *process_id, struct buf *out)
{
	char status[64] = "";

	jval_str(jval_get(doc, "status"), status, sizeof(status));
	jval_str_buf(jval_get(doc, "displayPreview"), out);
	jval_str_buf(jval_get(doc, "message"), out);
	if (!out->len && process_id[0])
		observe_process(t, process_id, out);
	else if (!out->len || strcmp(status, "completed") != 0)
		buf_printf(out, "%s[%s]", out->len ? "\n" : "", status[0] ? status : "unknown");
}

static void write_call(struct trajectory *t, const struct event_view *ev, const char *call_id, const char *name,
		       struct jval arguments, const struct buf *observation, bool command)
{
	struct jw *w = &t->sink->w;

	begin_step(t, ev, "agent");
	jw_kstr(w, "message", "");
	jw_kuint(w, "llm_call_count", 0);
	jw_karr(w, "tool_calls");
	jw_obj(w);
	jw_kstr(w, "tool_call_id", call_id);
	jw_kstr(w, "function_name", name);
	/* `arguments` must be an object: a command line or a plain value is wrapped into one. */
	if (command || arguments.type != JT_OBJECT) {
		jw_kobj(w, "arguments");
		if (arguments.type != JT_NONE)
			jw_kraw(w, command ? "command" : "value", arguments.text, arguments.len);
		jw_obj_end(w);
	} else {
		jw_kraw(w, "arguments", arguments.text, arguments.len);
	}
	jw_obj_end(w);
	jw_arr_end(w);
	jw_kobj(w, "observation");
	jw_karr(w, "results");
	jw_obj(w);
	jw_kstr(w, "source_call_id", call_id);
	jw_kstrn(w, "content", buf_cstr(observation), observation->len);
	jw_obj_end(w);
	jw_arr_end(w);
	jw_obj_end(w);
	end_step(t, ev);
}

static void write_tool(struct trajectory *t, const struct event_view *ev)
{
	buf_auto struct buf observation = BUF_INIT, doc = BUF_INIT;
	char id[EVIDENCE_ID_MAX], process[EVIDENCE_ID_MAX] = "", name[EVIDENCE_ID_MAX] = "tool";

	event_id_copy(ev, ID_TOOL_CALL, id, sizeof(id));
	struct jval found = survey_doc(t->survey, VIEW_TOOL_CALL, id);
	buf_append(&doc, found.text, found.len);
	found = jval_of(buf_cstr(&doc), doc.len);
	jval_str(jval_get(found, "processId"), process, sizeof(process));
	jval_str(jval_get(found, "toolName"), name, sizeof(name));
	observe_call(t, found, process, &observation);
	write_call(t, ev, id, name, jval_get(found, "safeArgs"), &observation, false);
}

static void write_process(struct trajectory *t, const struct event_view *ev)
{
	buf_auto struct buf observation = BUF_INIT;
	char id[EVIDENCE_ID_MAX];

	if (ev->ids[ID_TOOL_CALL].text)
		return; /* already part of its tool call's step */
	event_id_copy(ev, ID_PROCESS, id, sizeof(id));
	observe_process(t, id, &observation);
	write_call(t, ev, id, "process", jval_get(event_payload(ev), "command"), &observation, true);
}

/* ---- models ---- */

/* Deltas of one request are joined; those of another request replace them. */
static void append_delta(struct trajectory *t, const struct event_view *ev)
{
	char id[EVIDENCE_ID_MAX];

	event_id_copy(ev, ID_MODEL_REQUEST, id, sizeof(id));
	if (strcmp(id, t->request) != 0) {
		buf_reset(&t->deltas);
		memcpy(t->request, id, sizeof(id));
	}
	if (t->deltas.len < TEXT_MAX)
		jval_str_buf(jval_get(event_payload(ev), "text"), &t->deltas);
}

/* Written at the end of a request, when its text and its token counts are known. */
static void write_model(struct trajectory *t, const struct event_view *ev)
{
	static const struct {
		const char *ours, *theirs;
	} tokens[] = {
		{ "inputTokens", "prompt_tokens" },
		{ "outputTokens", "completion_tokens" },
		{ "cachedTokens", "cached_tokens" },
	};
	struct jval usage = jval_get(event_payload(ev), "usage");
	struct jw *w = &t->sink->w;
	char id[EVIDENCE_ID_MAX], session[EVIDENCE_ID_MAX], key[VIEW_REQUEST_KEY_MAX];

	event_id_copy(ev, ID_MODEL_REQUEST, id, sizeof(id));
	event_id_copy(ev, ID_SESSION, session, sizeof(session));
	view_model_request_key(session, id, key);
	struct jval model = jval_get(survey_doc(t->survey, VIEW_MODEL_REQUEST, key), "model");
	begin_step(t, ev, "agent");
	jw_kstrn(w, "message", buf_cstr(&t->deltas), strcmp(id, t->request) == 0 ? t->deltas.len : 0);
	if (model.type == JT_STRING)
		jw_kraw(w, "model_name", model.text, model.len);
	jw_kuint(w, "llm_call_count", 1);
	jw_kobj(w, "metrics");
	for (size_t i = 0; i < countof(tokens); i++) {
		struct jval v = jval_get(usage, tokens[i].ours);

		if (v.type == JT_NUMBER)
			jw_kraw(w, tokens[i].theirs, v.text, v.len);
	}
	jw_obj_end(w);
	end_step(t, ev);
	buf_reset(&t->deltas);
}

/* ---- the rest ---- */

static void write_system(struct trajectory *t, const struct event_view *ev, const char *member, const char *otherwise)
{
	begin_step(t, ev, "system");
	write_message(&t->sink->w, jval_get(event_payload(ev), member), otherwise);
	end_step(t, ev);
}

static int on_event(void *ctx, const struct event_view *ev, struct err *e)
{
	struct trajectory *t = ctx;

	switch (ev->type) {
	case EVENT_TURN_SUBMITTED: write_turn(t, ev); break;
	case EVENT_TOOL_STARTED: write_tool(t, ev); break;
	case EVENT_PROCESS_STARTED: write_process(t, ev); break;
	case EVENT_MODEL_DELTA: append_delta(t, ev); break;
	case EVENT_MODEL_COMPLETED: write_model(t, ev); break;
	case EVENT_MODEL_FAILED: write_system(t, ev, "message", "the model request failed"); break;
	case EVENT_ACTION_REQUIRED: write_system(t, ev, "prompt", "a person is asked"); break;
	case EVENT_ACTION_RESOLVED: write_system(t, ev, "decision", "answered"); break;
	case EVENT_CONTEXT_COMPACTION_COMPLETED: write_system(t, ev, "preview", "the context was compacted"); break;
	case EVENT_TURN_FAILED:
	case EVENT_TASK_FAILED: write_system(t, ev, "message", event_info(ev->type)->name); break;
	case EVENT_TURN_COMPLETED: write_system(t, ev, "summary", "the turn is completed"); break;
	default: return 0;
	}
	return sink_yield(t->sink, e);
}

static void write_metrics(struct trajectory *t)
{
	static const struct {
		enum id_field field;
		enum cost_of of;
	} scopes[] = {
		{ ID_SESSION, COST_OF_SESSION },
		{ ID_THREAD, COST_OF_THREAD },
		{ ID_TURN, COST_OF_TURN },
		{ ID_TASK, COST_OF_TASK },
	};
	struct jw *w = &t->sink->w;
	char key[VIEW_COST_KEY];
	struct jval cost = { 0 };

	for (size_t i = 0; i < countof(scopes); i++)
		if (scopes[i].field == t->survey->scope->field) {
			cost_key(scopes[i].of, t->survey->scope->id, 0, 0, key);
			cost = survey_doc(t->survey, VIEW_COST, key);
		}
	jw_kobj(w, "final_metrics");
	jw_kuint(w, "total_prompt_tokens", jval_uint(jval_get(cost, "inputTokens"), 0));
	jw_kuint(w, "total_completion_tokens", jval_uint(jval_get(cost, "outputTokens"), 0));
	jw_kuint(w, "total_cached_tokens", jval_uint(jval_get(cost, "cachedTokens"), 0));
	if (cost.type == JT_OBJECT) {
		jw_key(w, "total_cost_usd");
		jw_real(w, (double)jval_uint(jval_get(cost, "microUsd"), 0) / 1e6);
	}
	jw_kuint(w, "total_steps", t->steps);
	jw_kobj(w, "extra");
	jw_kuint(w, "events", t->survey->events);
	jw_obj_end(w);
	jw_obj_end(w);
}

int trajectory_write(struct survey *s, const struct evidence_job *job, struct sink *k, struct err *e)
{
	struct trajectory t = { .survey = s, .sink = k };
	char at[CLOCK_TEXT_MAX];
	int r;

	jw_kstr(&k->w, "schema_version", "ATIF-v1.7");
	jw_kstr(&k->w, "session_id", s->scope->session_id);
	jw_kstr(&k->w, "trajectory_id", s->scope->id);
	jw_kobj(&k->w, "agent");
	jw_kstr(&k->w, "name", "bailiff");
	jw_kstr(&k->w, "version", BAILIFF_VERSION);
	jw_obj_end(&k->w);
	jw_karr(&k->w, "steps");
	r = survey_each(s, on_event, &t, e);
	buf_done(&t.deltas);
	if (r < 0)
		return -1;
	if (!t.steps) { /* the format requires one */
		clock_format(s->first_us, at);
		jw_obj(&k->w);
		jw_kuint(&k->w, "step_id", ++t.steps);
		jw_kstr(&k->w, "timestamp", at);
		jw_kstr(&k->w, "source", "system");
		jw_kstr(&k->w, "message", "nothing was asked or done in this scope");
		jw_obj_end(&k->w);
	}
	jw_arr_end(&k->w);
	write_metrics(&t);
	jw_kobj(&k->w, "extra");
	survey_write_correlation(s, &k->w);
	jw_obj_end(&k->w);
	return 0;
}
