/*
 * Requests about policy: dry run, policy in effect, change of mode, reload of the files.
 *
 * A dry run and get_policy depend on the policy files of a workspace, like a start, and wait for them in the same way
 * (pending_start.h): the function runs again from the beginning when they have been read. A dry run creates a process
 * that is never launched and decides about it with the functions of a real start; only hooks are listed instead of run.
 */

#include "runtime/engine/permission/permission.h"

#include "policy/decision.h"
#include "policy/hook_answer.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/permission/permission_private.h"
#include "runtime/engine/policy/policy_lookup.h"
#include "runtime/engine/policy/sandbox_setup.h"
#include "runtime/engine/policy/session_rules.h"
#include "runtime/engine/process/pending_start.h"
#include "runtime/engine/process/process.h"
#include "runtime/engine/session/session.h"
#include "runtime/view/view.h"

/* Rules and notes in the result of get_policy; ruleCount is exact. */
#define RULES_SHOWN 1000u

/* ---- evaluate_permission ---- */

/* Finds the session that the event belongs to; without a session id, the system session. */
static int find_event_session(struct engine *engine, const char *session_id, const struct caller *c,
			      struct transaction *tx, struct process *p, struct err *e)
{
	struct view_session_brief s;
	int found;

	if (!session_id) {
		p->uid = engine->o.owner_uid;
		id_copy(p->session_id, engine->system_session);
		id_copy(p->thread_id, engine->system_thread);
		id_copy(p->turn_id, engine->system_turn);
		return 0;
	}
	found = view_session_brief(engine->o.store, c->uid, session_id, &s, e);
	if (found > 0) {
		err_not_known(e, "sessionId", session_id);
	}
	if (found != 0)
		return -1;
	p->uid = s.uid;
	id_copy(p->session_id, session_id);
	return session_system_turn(engine, tx, s.uid, session_id, p->thread_id, p->turn_id, e);
}

static void evaluated_fact(struct transaction *tx, struct process *p)
{
	const struct json_value decision = json_from_text(p->decision_json);
	const struct scope s = { .uid = p->uid,
				 .session = p->session_id,
				 .thread = p->thread_id,
				 .turn = p->turn_id,
				 .request = tx->caller.request_id };

	EMIT(permission_evaluated, tx, s, .envelope.members.permissionDecision = decision,
	     .permissionDecision = decision, .command = json_from_text(p->evaluated_json),
	     .mode = permission_mode_name((enum permission_mode)p->mode), .dryRun = true,
	     .suggestion = json_from_text(p->suggestions_json));
	jw_kraw(&tx->w, "permissionDecision", p->decision_json, strlen(p->decision_json));
	jw_kraw(&tx->w, "command", p->evaluated_json, strlen(p->evaluated_json));
	if (p->suggestions_json)
		jw_kraw(&tx->w, "suggestion", p->suggestions_json, strlen(p->suggestions_json));
	jw_kraw(&tx->w, "sandboxProfile", p->sandbox_json, strlen(p->sandbox_json));
	jw_kstr(&tx->w, "mode", permission_mode_name((enum permission_mode)p->mode));
	jw_kraw(&tx->w, "hooks", p->hooks_json,
		strlen(p->hooks_json)); /* that would run and could change the decision */
}

static void evaluate_start(struct engine *engine, const struct start_request *r, const struct caller *c,
			   struct pending_start *held, engine_reply_fn fn, void *ctx);

static void evaluate_held(struct engine *engine, struct pending_start *h)
{
	evaluate_start(engine, &h->record.spec.request, &h->caller, h, h->fn, h->ctx);
}

static void evaluate_request(struct transaction *tx, const struct start_request *r, struct sandbox_setup *f,
			     const struct policy_rules *rules, struct err *e)
{
	const char *const shell[] = { "/bin/sh", "-c", r->command_line };
	struct buf json = BUF_INIT;
	char id[ID_TEXT_MAX];

	id_make(ID_KIND_PROCESS, id);
	struct process *p = process_new(tx->engine, id);
	p->dry = true;
	if (find_event_session(tx->engine, r->session_id, &tx->caller, tx, p, e) == 0 &&
	    permission_confine(p, r, &tx->caller, rules, f, e) >= 0) {
		struct jw w = jw_on(&json);

		p->by = requester_of(&tx->caller);
		p->command_line = mem_strdup(r->command_line);
		p->cwd = mem_strdup(f->workspace.cwd);
		p->profile = mem_strdup(f->profile.name);
		p->home = mem_strdup(permission_home(f, r));
		p->limits = r->limits;
		sandbox_setup_profile_json(f, &p->limits, &w);
		p->sandbox_json = buf_take(&json);
		permission_evaluate(p, r, f, r->command_line ? shell : r->argv,
				    r->command_line ? countof(shell) : r->argc, rules, &tx->caller);
		evaluated_fact(tx, p);
	}
	process_free(p);
}

static void evaluate_start(struct engine *engine, const struct start_request *r, const struct caller *c,
			   struct pending_start *held, engine_reply_fn fn, void *ctx)
{
	sandbox_setup_auto struct sandbox_setup f = { 0 };
	const struct policy_rules *rules = NULL;
	struct err e = ERR_INIT;
	int found = sandbox_setup_make(engine, &r->sandbox, c, &f, &e);

	if (found == 0)
		found = policy_lookup_rules(engine, &f, &r->sandbox, c, held ? held->since_ns : 0, &rules, &e);
	if (found > 0 && !held)
		held = pending_start_new(engine, r, c, fn, ctx, &e);
	if (found > 0 && held && !engine->stopping) {
		pending_start_wait(engine, &f, &r->sandbox, held, evaluate_held);
		return;
	}
	if (found > 0 && !e.code)
		err_set(&e, ERR_UNAVAILABLE, "the daemon is stopping");
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	if (!e.code)
		evaluate_request(tx, r, &f, rules, &e);
	if (e.code)
		transaction_reject(tx, &e);
	else
		transaction_commit(tx);
	pending_start_free(held);
}

void engine_evaluate_permission(struct engine *engine, const struct start_request *r, const struct caller *c,
				engine_reply_fn fn, void *ctx)
{
	evaluate_start(engine, r, c, NULL, fn, ctx);
}

/* ---- get_policy ---- */

/* `own`: the session's rules. */
static void rules_json(const struct policy_rules *s, const struct policy_rules *own, struct jw *w)
{
	jw_karr(w, "rules");
	for (size_t i = 0; i < own->count; i++)
		policy_rule_json(&own->rule[i], w);
	for (size_t i = 0; i < s->count && i < RULES_SHOWN; i++)
		policy_rule_json(&s->rule[i], w);
	jw_arr_end(w);
	jw_kuint(w, "ruleCount", s->count + own->count);
	jw_karr(w, "hooks");
	for (size_t i = 0; s->hooks && i < s->hooks->count; i++) {
		struct hook_ref ref;

		hook_ref_of(s->hooks->hook[i], &ref);
		hook_ref_json(&ref, w);
		hook_ref_done(&ref);
	}
	jw_arr_end(w);
	jw_karr(w, "notes");
	if (s->sessions_tighten && own->allows)
		jw_str(w, "what the session's rules allow does not count: the policy says \"sessionAllow\": false");
	for (size_t i = 0; i < own->nnotes; i++)
		jw_str(w, own->note[i]);
	for (size_t i = 0; i < s->nnotes && i < RULES_SHOWN; i++)
		jw_str(w, s->note[i]);
	for (size_t i = 0; s->hooks && i < s->hooks->nnotes && i < RULES_SHOWN; i++)
		jw_str(w, s->hooks->note[i]);
	jw_arr_end(w);
}

static void sources_json(const struct policy_rules *s, const struct policy_rules *own, struct jw *w)
{
	jw_karr(w, "sources");
	for (size_t i = 0; i < s->nfiles; i++) {
		enum rule_layer layer = RULE_OF_WORKSPACE; /* the default: there may be several workspace files */

		for (int k = 0; k < RULE_LAYERS; k++)
			if (s->file[k] == s->files[i])
				layer = (enum rule_layer)k;
		jw_obj(w);
		jw_kstr(w, "layer", rule_layer_name(layer));
		jw_kstr(w, "file", s->files[i]);
		jw_obj_end(w);
	}
	if (own->count) {
		jw_obj(w);
		jw_kstr(w, "layer", rule_layer_name(RULE_OF_SESSION));
		jw_kstr(w, "sessionId", own->files[0]);
		jw_obj_end(w);
	}
	jw_arr_end(w);
}

static void policy_json(struct engine *engine, const struct policy_rules *rules, const char *session_id,
			const struct caller *c, const char *problem, struct buf *out)
{
	static const struct policy_rules none = { .mode = -1, .workspace_mode = -1 };
	const struct policy_rules *s = rules ? rules : &none, *own = NULL;
	struct err unread = ERR_INIT;
	enum permission_mode wanted = permission_mode_of(engine, session_id), mode = policy_lookup_mode(s, wanted),
			     usual = permission_mode_of(engine, NULL);
	struct jw w = jw_on(out);

	if (session_rules_of(engine, session_id, &own, &unread) < 0 && !problem[0])
		problem = unread.message;
	own = own ? own : &none;
	jw_obj(&w);
	jw_kstr(&w, "mode", permission_mode_name(mode));
	jw_kstr(&w, "modeMeans", permission_mode_text(mode));
	jw_kstr(&w, "modeSource",
		mode != wanted  ? "workspace"
		: mode != usual ? "session"
		: s->mode < 0   ? "default"
				: rule_layer_name(s->mode_layer));
	jw_kbool(&w, "bypassPermitted", s->bypass);
	jw_kbool(&w, "strict", s->strict);
	jw_kbool(&w, "interactive", !c->no_person);
	sources_json(s, own, &w);
	if (problem[0])
		jw_kstr(&w, "problem", problem);
	rules_json(s, own, &w);
	jw_obj_end(&w);
}

static void show_policy(struct engine *engine, const struct start_request *r, const struct caller *c,
			struct pending_start *held, engine_reply_fn fn, void *ctx);

static void show_held(struct engine *engine, struct pending_start *h)
{
	show_policy(engine, &h->record.spec.request, &h->caller, h, h->fn, h->ctx);
}

/* 1: waits for the policy files of the workspace. */
static int place_rules(struct engine *engine, const struct start_request *r, const struct caller *c,
		       struct pending_start *held, engine_reply_fn fn, void *ctx, const struct policy_rules **ret,
		       struct err *e)
{
	sandbox_setup_auto struct sandbox_setup f = { 0 };
	const struct sandbox_request nowhere = { 0 };

	*ret = engine->rules;
	if (engine->policy_problem[0] || engine->stopping)
		return 0;
	/* A directory that cannot be a workspace has no policy of its own. */
	int found = sandbox_setup_make(engine, &r->sandbox, c, &f, e);
	if (found < 0) {
		*e = ERR_INIT;
		found = sandbox_setup_make(engine, &nowhere, c, &f, e);
	}
	if (found == 0)
		found = policy_lookup_rules(engine, &f, &r->sandbox, c, held ? held->since_ns : 0, ret, e);
	if (found <= 0)
		return found;
	held = held ? held : pending_start_new(engine, r, c, fn, ctx, e);
	if (!held)
		return -1;
	pending_start_wait(engine, &f, &r->sandbox, held, show_held);
	return 1;
}

static void show_policy(struct engine *engine, const struct start_request *r, const struct caller *c,
			struct pending_start *held, engine_reply_fn fn, void *ctx)
{
	buf_auto struct buf out = BUF_INIT;
	const struct policy_rules *rules;
	struct err e = ERR_INIT;
	int found = place_rules(engine, r, c, held, fn, ctx, &rules, &e);

	if (found > 0)
		return;
	/* An invalid policy file in the workspace is part of the answer here, not a failure of the request. */
	if (found < 0 && e.code != ERR_PERMISSION) {
		fn(ctx, &e, NULL, 0);
	} else {
		policy_json(engine, rules, r->session_id, c, found < 0 ? e.message : engine->policy_problem, &out);
		fn(ctx, NULL, out.data, out.len);
	}
	pending_start_free(held);
}

void engine_show_policy(struct engine *engine, const char *session_id, const char *cwd, const struct caller *c,
			engine_reply_fn fn, void *ctx)
{
	static const char *const nothing[] = { "true" };
	const struct start_request r = {
		.argv = nothing, .argc = 1, .session_id = session_id, .sandbox = { .cwd = cwd }
	};
	struct view_session_brief brief;
	struct err e = ERR_INIT;
	int found = session_id ? view_session_brief(engine->o.store, c->uid, session_id, &brief, &e) : 0;

	if (found > 0)
		err_not_known(&e, "sessionId", session_id);
	if (found != 0)
		fn(ctx, &e, NULL, 0);
	else
		show_policy(engine, &r, c, NULL, fn, ctx);
}

/* ---- set_permission_mode ---- */

/*
 * A session may choose its mode within what the host permits: bypass only if the host allows it, and never a mode that
 * is less strict than one that the host has set.
 */
static int check_mode(const struct engine *engine, int mode, const char *name, struct err *e)
{
	buf_auto struct buf names = BUF_INIT;

	if (mode < 0) {
		permission_mode_names(&names);
		return err_field(e, "mode", "'%.40s' is not a mode; expected one of %s", name, buf_cstr(&names));
	}
	if (mode == MODE_BYPASS && (!engine->rules || !engine->rules->bypass)) {
		err_set(e, ERR_PERMISSION, "the host's policy does not permit mode bypass (permissions.allowBypass)");
		return -1;
	}
	if (engine->rules && engine->rules->mode >= 0 && engine->rules->mode_layer == RULE_OF_HOST &&
	    mode != engine->rules->mode &&
	    permission_mode_join((enum permission_mode)engine->rules->mode, (enum permission_mode)mode) !=
		    (enum permission_mode)mode) {
		err_set(e, ERR_PERMISSION,
			"the host's policy sets mode %s; a session may only be stricter: plan always is",
			permission_mode_name((enum permission_mode)engine->rules->mode));
		return -1;
	}
	return 0;
}

void engine_set_permission_mode(struct engine *engine, const char *session_id, const char *name, const struct caller *c,
				engine_reply_fn fn, void *ctx)
{
	struct transaction *tx = transaction_new(engine, c, fn, ctx);
	const struct requester by = requester_of(c);
	int mode = permission_mode_find(name);
	struct view_session_brief s;
	struct err e = ERR_INIT;
	int found = view_session_brief(engine->o.store, c->uid, session_id, &s, &e);

	if (found > 0)
		err_not_known(&e, "sessionId", session_id);
	if (found != 0 || check_mode(engine, mode, name, &e) < 0) {
		transaction_reject(tx, &e);
		return;
	}
	buf_auto struct buf summary = BUF_INIT;
	buf_printf(&summary, "mode %s: %s", permission_mode_name((enum permission_mode)mode),
		   permission_mode_text((enum permission_mode)mode));
	const struct scope scope = {
		.uid = s.uid, .session = session_id, .thread = s.first_thread, .request = c->request_id
	};
	EMIT(policy_changed, tx, scope, .layer = "session", .mode = permission_mode_name((enum permission_mode)mode),
	     .summary = buf_cstr(&summary), .by = json_requester(&by));
	jw_kstr(&tx->w, "sessionId", session_id);
	jw_kstr(&tx->w, "mode", permission_mode_name((enum permission_mode)mode));
	transaction_commit(tx);
}

/* ---- reload_policy ---- */

#define RELOAD_MS 10000u

struct reload_waiter {
	TAILQ_ENTRY(reload_waiter) link;
	struct engine *engine;
	struct pending_reply reply;
	uint64_t since; /* the last sequence number at the time of the request */
	uint64_t deadline_ns;
	uint32_t token; /* of the request to the guard */
	size_t rules, notes;
	struct err problem; /* code 0: the files were loaded */
};

void engine_reload_policy(struct engine *engine, const struct caller *c, engine_reply_fn fn, void *ctx)
{
	struct reload_waiter *w;
	struct err e = ERR_INIT;

	if (!engine->o.ports->want_reload) {
		err_set(&e, ERR_UNAVAILABLE, "the policy files cannot be asked for here");
		fn(ctx, &e, NULL, 0);
		return;
	}
	w = mem_zalloc(1, sizeof *w);
	w->engine = engine;
	w->since = store_last_sequence(engine->o.store);
	w->deadline_ns = engine_now(engine) + RELOAD_MS * 1000000ull;
	engine_wake(engine, w->deadline_ns);
	reply_copy(&w->reply, c, fn, ctx);
	TAILQ_INSERT_TAIL(&engine->permissions->reloads, w, link);
	policy_reloading(engine, c);
	w->token = engine->o.ports->want_reload(engine->o.host);
}

/* Nothing is started while there is no policy at all. */
static const char *what_applies(const struct engine *engine)
{
	return engine->policy_problem[0] ? "no process is started until one is" : "the previous one stays in effect";
}

/* Without an answer of the guard the next load would count as this client's. */
uint64_t permission_reload_tick(struct engine *engine, uint64_t now)
{
	struct reload_waiter *w;
	struct err e = ERR_INIT;

	err_set(&e, ERR_UNAVAILABLE, "the policy was not loaded; %s: the files were not opened within %u s",
		what_applies(engine), RELOAD_MS / 1000);
	while ((w = TAILQ_FIRST(&engine->permissions->reloads)) && now >= w->deadline_ns) {
		TAILQ_REMOVE(&engine->permissions->reloads, w, link);
		if (TAILQ_EMPTY(&engine->permissions->reloads)) /* else it is that of the newest */
			policy_reloading(engine, NULL);
		reply_err(&w->reply, &e, NULL, 0);
		free(w);
	}
	return w ? w->deadline_ns : UINT64_MAX;
}

/* Committed after policy.changed, so a client that has the reply also finds that event in the log. */
static void on_load_durable(void *ctx, const struct store_result *r)
{
	struct reload_waiter *w = ctx;
	struct engine *engine = w->engine;
	buf_auto struct buf out = BUF_INIT;
	struct jw j = jw_on(&out);

	if (r->status < 0 || w->problem.code) {
		reply_err(&w->reply, r->status < 0 ? r->err : &w->problem, NULL, 0);
	} else {
		jw_obj(&j);
		jw_kstr(&j, "status", "loaded");
		jw_kuint(&j, "rules", w->rules);
		jw_kuint(&j, "notes", w->notes);
		jw_kuint(&j, "sequence",
			 policy_sequence(engine) > w->since ? policy_sequence(engine)
							    : store_last_sequence(engine->o.store));
		jw_obj_end(&j);
		reply_json(&w->reply, out.data, out.len);
	}
	free(w);
}

void engine_policy_loaded(struct engine *engine, uint32_t token, const char *problem)
{
	struct reload_waiter *w;

	/* Files that were opened before a request may lack what the client wrote: it waits for the next load. */
	while ((w = TAILQ_FIRST(&engine->permissions->reloads)) && (int32_t)(token - w->token) >= 0) {
		struct transaction *tx = transaction_new_internal(engine);

		TAILQ_REMOVE(&engine->permissions->reloads, w, link);
		w->rules = engine->rules ? engine->rules->count : 0;
		w->notes = engine->rules ? engine->rules->nnotes : 0;
		if (problem)
			err_set(&w->problem, ERR_INVALID, "the policy was not loaded; %s: %s", what_applies(engine),
				problem);
		/* The value does not matter: the commit is a barrier behind the policy.changed events of this load. */
		transaction_set_meta(tx, "policy.asked", problem ? "not_loaded" : "loaded", problem ? 10 : 6);
		transaction_commit_then(tx, STORE_MUST | STORE_NOW, on_load_durable, w);
	}
	if (!w)
		policy_reloading(engine, NULL);
}

void permission_done(struct engine *engine)
{
	struct reload_waiter *w;

	permission_persist_done(engine);
	while ((w = TAILQ_FIRST(&engine->permissions->reloads))) {
		TAILQ_REMOVE(&engine->permissions->reloads, w, link);
		reply_done(&w->reply);
		free(w);
	}
	strmap_done(&engine->permissions->held);
	analysis_cache_done(&engine->permissions->analyses);
	free(engine->permissions);
}

void permission_init(struct engine *engine)
{
	engine->permissions = mem_zalloc(1, sizeof *engine->permissions);
	TAILQ_INIT(&engine->permissions->persisting);
	TAILQ_INIT(&engine->permissions->reloads);
}
