/* Encodes facts: every fact of the engine becomes a draft with ids, payload and envelope here. */

#include "runtime/engine/core/core.h"

#include "runtime/base/log.h"
#include "runtime/base/mem.h"
#include "runtime/event/payload.h"

#include <assert.h>

#define BODY_USUAL 1000 /* initial buffer size; most payloads are shorter and need no second allocation */

int fact_emit(struct transaction *tx, const struct scope *s, enum event_type type, const struct envelope *payload)
{
	buf_auto struct buf body = BUF_INIT, members = BUF_INIT;
	struct jw w = jw_on(&body), m = jw_on(&members);
	struct event_draft draft = { .type = type,
				     .uid = s->uid,
				     .event_id = s->event,
				     .status = payload->status,
				     .status_reason = payload->status_reason,
				     .phase = payload->phase,
				     .real_us = payload->real_us };
	struct err e = ERR_INIT;

	for (int f = 0; f < ID_FIELD_COUNT; f++)
		draft.ids[f] = none_if_empty(s->ids[f]);
	buf_reserve(&body, BODY_USUAL);
	jw_obj(&w);
	draft.payload_fits = payload_write(&w, type, payload);
	jw_obj_end(&w);
	draft.payload = body.data;
	draft.payload_len = body.len;
	assert(!draft.payload_fits || payload_check(event_info(type), body.data, body.len, &e) == 0);
	draft.members_fit = payload_write_envelope(&m, &payload->members);
	draft.members = members.data;
	draft.members_len = members.len;
	if (transaction_add_event(tx, &draft, &e) < 0) {
		log_error("write %s: %s (field %s)", event_info(type)->name, e.message, e.field);
		return -1;
	}
	for (const struct fact_reaction *r = tx->engine->modules->on_fact; r->on_fact; r++)
		if (r->type == type)
			r->on_fact(tx, s, payload);
	return 0;
}

const char *role_name(enum engine_role r)
{
	static const char *const names[] = {
		[ROLE_OBSERVER] = "observer", [ROLE_AGENT] = "agent", [ROLE_OPERATOR] = "operator"
	};

	return names[r];
}

static void write_tree(struct jw *w, const void *tree, size_t n)
{
	mem_auto char *text = json_dumps(tree, JSON_COMPACT | JSON_ENCODE_ANY | JSON_SORT_KEYS);

	jw_raw(w, text, strlen(text));
}

struct json_value json_from_tree(const json_t *v)
{
	return v && !json_is_null(v) ? json_from_writer(write_tree, v, 0) : JSON_NONE;
}

static void write_ids(struct jw *w, const void *ids, size_t n)
{
	const char(*at)[ID_SIZE] = ids;

	jw_arr(w);
	for (size_t i = 0; i < n; i++)
		jw_str(w, at[i]);
	jw_arr_end(w);
}

struct json_value json_from_ids(const char (*ids)[ID_SIZE], size_t n) { return json_from_writer(write_ids, ids, n); }

static void write_requester(struct jw *w, const void *requester, size_t n)
{
	const struct requester *by = requester;

	jw_obj(w);
	jw_kuint(w, "uid", by->uid);
	if (by->pid > 0)
		jw_kint(w, "pid", by->pid);
	jw_kstr(w, "role", role_name(by->role));
	jw_obj_end(w);
}

struct json_value json_requester(const struct requester *by) { return json_from_writer(write_requester, by, 0); }

static void write_limits(struct jw *w, const void *limits, size_t n)
{
	const struct process_limits *l = limits;
	const struct {
		const char *name;
		uint64_t value;
	} rows[] = {
		{ "wallMs", l->wall_ms },       { "idleMs", l->idle_ms },       { "cpuMs", l->cpu_ms },
		{ "openFiles", l->open_files }, { "fileBytes", l->file_bytes }, { "outputBytes", l->output_bytes },
	};

	jw_obj(w);
	for (size_t i = 0; i < countof(rows); i++)
		if (rows[i].value != LIMIT_NONE)
			jw_kuint(w, rows[i].name, rows[i].value);
	plan_limits_write(&l->tree, w);
	if (l->tmp_bytes && l->tmp_bytes != LIMIT_NONE)
		jw_kuint(w, "tmpBytes", l->tmp_bytes);
	jw_obj_end(w);
}

struct json_value json_limits(const struct process_limits *l) { return json_from_writer(write_limits, l, 0); }

void fact_snapshot(struct transaction *tx, const struct scope *of)
{
	bool task = none_if_empty(of->task) != NULL;
	const struct scope s = { .uid = of->uid, .session = of->session, .thread = of->thread, .task = of->task };

	EMIT(snapshot_updated, tx, s, .kind = task ? "task_snapshot" : "thread_read_model",
	     .atSequence = store_last_sequence(tx->engine->o.store));
}
