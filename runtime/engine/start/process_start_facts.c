/* What is written down of a start before its gate opens, and the answer to who asked for it. */

#include "runtime/engine/core/engine_private.h"

#include "runtime/engine/hook/hook.h"
#include "runtime/engine/permission/permission.h"

static const char *layer_state(const struct process *p, uint32_t layer)
{
	if (!(p->plan_layers & layer))
		return "not_requested";
	return p->layers & layer ? "enforced" : "unavailable";
}

static int sandbox_fact(const struct process *p, struct store_batch *b)
{
	struct fact f;

	fact_open_process(&f, EVENT_SANDBOX_APPLIED, p);
	jw_kraw(&f.w, "sandboxProfile", p->sandbox_json, strlen(p->sandbox_json));
	jw_kobj(&f.w, "layers");
	for (unsigned i = 0; profile_layer_name(i); i++)
		jw_kstr(&f.w, profile_layer_name(i), layer_state(p, 1u << i));
	jw_obj_end(&f.w);
	jw_kstr(&f.w, "violations", p->engine->o.violations ? "enforced" : "unavailable");
	jw_kstr(&f.w, "planHash", p->plan_hash);
	struct jw m = jw_on(&f.members);
	jw_kraw(&m, "sandboxProfile", p->sandbox_json, strlen(p->sandbox_json));
	return fact_close(&f, b);
}

void process_tty_json(const struct process *p, struct jw *w)
{
	if (!process_has_tty(p)) {
		jw_bool(w, false);
		return;
	}
	jw_obj(w);
	jw_kuint(w, "rows", p->tty_rows);
	jw_kuint(w, "cols", p->tty_cols);
	jw_obj_end(w);
}

static int started_fact(const struct process *p, struct store_batch *b)
{
	struct fact f;

	fact_open_process(&f, EVENT_PROCESS_STARTED, p);
	f.draft.status = "running";
	f.draft.real_us = p->started_real_us;
	process_command_members(p, &f.w);
	jw_kstr(&f.w, "cwd", p->cwd);
	jw_key(&f.w, "tty");
	process_tty_json(p, &f.w);
	jw_kint(&f.w, "pid", p->pid);
	jw_kuint(&f.w, "startTime", p->start_time);
	jw_kstr(&f.w, "bootId", p->engine->boot_id);
	jw_kuint(&f.w, "startedBootNs", p->started_boot_ns);
	jw_kuint(&f.w, "attempt", p->attempt);
	jw_kstr(&f.w, "planHash", p->plan_hash);
	jw_kstr(&f.w, "profile", p->profile);
	if (p->plan_kind & PLAN_COW)
		jw_kbool(&f.w, "cow", true);
	jw_kstr(&f.w, "stdin", process_has_tty(p) ? "tty" : p->stdin_pipe ? "pipe" : "none");
	jw_kstr(&f.w, "stderr", process_has_tty(p) ? "tty" : p->stderr_merge ? "merge" : "separate");
	jw_kbool(&f.w, "keepTree", p->keep_tree);
	jw_kstr(&f.w, "onDisconnect", p->end_with_client ? "terminate" : "keep");
	jw_kbool(&f.w, "ownsTurn", p->owns_turn);
	if (p->owner) {
		jw_kobj(&f.w, "owner");
		jw_kstr(&f.w, "kind", owner_kind_name(p->owner));
		jw_kstr(&f.w, "id", p->owner_id);
		jw_obj_end(&f.w);
	}
	fact_limits(&f.w, "limits", &p->limits);
	jw_key(&f.w, "outputRefs");
	process_stream_names(p, &f.w);
	return fact_close(&f, b);
}

/* Requested layers that this machine lacks; left out when there are none. */
static void missing_layers(const struct process *p, struct jw *w)
{
	uint32_t missing = p->plan_layers & ~p->layers;

	if (!missing)
		return;
	jw_karr(w, "missingLayers");
	for (unsigned i = 0; profile_layer_name(i); i++)
		if (missing & 1u << i)
			jw_str(w, profile_layer_name(i));
	jw_arr_end(w);
}

/* The answer to start_process. */
static void start_result(const struct process *p, uint64_t sequence, struct buf *out)
{
	struct jw w = jw_on(out);

	jw_obj(&w);
	jw_kstr(&w, "processId", p->id);
	jw_kstr(&w, "status", "running");
	jw_kstr(&w, "sessionId", p->session_id);
	jw_kstr(&w, "threadId", p->thread_id);
	jw_kstr(&w, "turnId", p->turn_id);
	jw_kstr(&w, "decision", "allow");
	jw_kstr(&w, "sandboxProfile", p->profile);
	if (p->plan_kind & PLAN_COW)
		jw_kbool(&w, "cow", true);
	if (process_cwd_is_private(p))
		jw_kbool(&w, "cwdIsPrivate", true);
	missing_layers(p, &w);
	jw_kint(&w, "pid", p->pid);
	jw_key(&w, "outputRefs");
	process_stream_names(p, &w);
	if (sequence)
		jw_kuint(&w, "sequence", sequence);
	jw_obj_end(&w);
}

static void on_start_decided(void *ctx, const struct store_result *r)
{
	struct process *p = ctx;

	if (r->status < 0) {
		struct err e = *r->err;
		err_wrap(&e, "record the start");
		reply_err(&p->start, &e, NULL, 0);
		const enum owner_kind owner = p->owner;
		char owner_id[ID_ROOM];
		struct engine *g = p->engine;
		memcpy(owner_id, p->owner_id, sizeof owner_id);
		process_handle_event(p, PROCESS_EV_REFUSED);
		if (owner)
			process_owners[owner]->refused(g, owner_id, &e, NULL, 0);
		return;
	}
	p->ended_sequence = r->last_sequence;
	if (p->makes_session && p->hooks_begin)
		hook_session_started(p->engine, p->session_id, p->uid, &p->by, p->cwd, NULL);
	process_handle_event(p, PROCESS_EV_COMMITTED);
}

void process_prepare_facts(struct process *p)
{
	p->facts = store_batch_new(p->engine->o.store);
	if (!p->resumed)
		session_facts(p, p->facts);
	permission_fact(p, p->facts);
}

static struct store_batch *take_facts(struct process *p)
{
	struct store_batch *b = p->facts;

	p->facts = NULL;
	return b;
}

void process_submit_start(struct process *p)
{
	struct store_batch *b = take_facts(p);
	buf_auto struct buf result = BUF_INIT;

	p->started_boot_ns = p->last_output_ns = engine_now(p->engine);
	p->started_real_us = p->engine->o.ports->real_us(p->engine->o.host);
	if (p->command_ref)
		store_batch_inline(b, p->command_ref, p->command_full.data, p->command_full.len);
	sandbox_fact(p, b);
	started_fact(p, b);
	if (p->owner && process_owners[p->owner]->started)
		process_owners[p->owner]->started(p, b);
	if (p->given_input)
		process_given_facts(p, b);
	free(p->given_input);
	p->given_input = NULL;
	start_result(p, 0, &result);
	reply_store(&p->start, b, result.data, result.len);
	store_submit(p->engine->o.store, b, 0, on_start_decided, p);
}

void process_answer_start(struct process *p)
{
	buf_auto struct buf result = BUF_INIT;

	if (!p->start.fn)
		return;
	start_result(p, p->ended_sequence, &result);
	reply_json(&p->start, result.data, result.len);
}

/* It could not even be cloned: the attempt is a fact all the same. process_end.c writes its end. */
void process_submit_unstarted(struct process *p) { store_submit(p->engine->o.store, take_facts(p), 0, NULL, NULL); }
