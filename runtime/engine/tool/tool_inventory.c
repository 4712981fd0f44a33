/*
 * The inventory as clients and models see it: each tool with its schema, owner and flags, and what policy says about it
 * in a session, a directory and a mode. That status is for orientation: it is derived from the tool's name, and the
 * decision about a call also depends on its arguments and on hooks.
 */

#include "runtime/engine/tool/tool.h"

#include "policy/decision.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/core/id_list.h"
#include "runtime/engine/policy/policy_lookup.h"
#include "runtime/engine/policy/session_rules.h"
#include "runtime/engine/session/turn_read.h"
#include "runtime/view/view.h"

#include <limits.h>

/* What the tools are evaluated with. */
struct inventory {
	struct engine *engine;
	struct jw *w;
	bool brief;   /* without schemas */
	bool unknown; /* the policy files are being read */
	const struct policy_rules *rules, *session_rules;
	enum permission_mode mode;
	const char *problem; /* the rules cannot be read; or NULL */
	const char *cwd, *workspace, *home;
	uint32_t uid;
};

void tool_flags_json(const struct tool *t, struct jw *w)
{
	jw_obj(w);
	jw_kbool(w, "isReadOnly", t->read_only);
	jw_kbool(w, "isConcurrencySafe", t->concurrent);
	jw_kbool(w, "isDestructive", t->destructive);
	jw_kstr(w, "interruptBehavior", t->interrupt);
	jw_obj_end(w);
}

static bool in_sandbox(const struct tool *t)
{
	return t->runs == TOOL_RUNS_COMMAND || t->runs == TOOL_RUNS_FILES || t->runs == TOOL_RUNS_MCP;
}

/* ---- policy ---- */

/* allowed, sandboxed (allowed, within the turn's sandbox), ask, denied or unavailable; otherwise unknown. */
static const char *policy_status(const struct inventory *v, const struct tool *t, struct policy_decision *d)
{
	const bool command = t->runs == TOOL_RUNS_COMMAND;
	const struct policy_request r = { .uid = v->uid,
					  .cwd = v->cwd,
					  .workspace = v->workspace,
					  .home = v->home,
					  .profile = in_sandbox(t) ? "of the turn" : "of its client",
					  .mode = (int)v->mode,
					  .tool = t->name,
					  .foreign = t->runs == TOOL_RUNS_CLIENT,
					  .rules = v->rules,
					  .session_rules = v->session_rules };

	*d = (struct policy_decision){ 0 };
	if (v->problem || ((t->runs == TOOL_RUNS_FILES || t->runs == TOOL_RUNS_MCP) && !v->engine->o.tool_program)) {
		snprintf(d->reason, sizeof d->reason, "%s",
			 v->problem ? v->problem : "bailiff-tool is not installed next to bailiffd");
		return "unavailable";
	}
	policy_decide(&r, d);
	/* Of commands, modes restrict all but known ones: what is denied otherwise can still be allowed by its text. */
	if (command && d->answer == POLICY_DENY && !d->ruled && v->mode == MODE_PLAN) {
		snprintf(d->reason, sizeof d->reason, "mode plan allows only commands that read");
		return "ask";
	}
	if (tool_ignores_mode(t, (int)v->mode) && !d->ruled)
		return "allowed";
	return d->answer == POLICY_ALLOW ? (in_sandbox(t) ? "sandboxed" : "allowed")
	       : d->answer == POLICY_ASK ? "ask"
					 : "denied";
}

static void write_policy(const struct inventory *v, const struct tool *t)
{
	struct policy_decision d;

	jw_kobj(v->w, "policy");
	jw_kstr(v->w, "sandbox", in_sandbox(t) ? "turn" : "not_applicable");
	jw_kstr(v->w, "status", v->unknown ? "unknown" : policy_status(v, t, &d));
	if (!v->unknown && !v->brief && d.reason[0])
		jw_kstr(v->w, "reason", d.reason);
	jw_obj_end(v->w);
}

/* ---- one tool ---- */

static void write_capabilities(const struct tool *t, struct jw *w)
{
	static const char *const names[] = { [TOOL_RUNS_CLIENT] = "external",
					     [TOOL_RUNS_COMMAND] = "process",
					     [TOOL_RUNS_FILES] = "filesystem",
					     [TOOL_RUNS_ENGINE] = "runtime",
					     [TOOL_RUNS_MCP] = "process" };

	if (t->capabilities) {
		jw_kraw(w, "capabilities", t->capabilities, strlen(t->capabilities));
		return;
	}
	jw_karr(w, "capabilities");
	jw_str(w, names[t->runs]);
	jw_arr_end(w);
}

static void write_tool(void *ctx, const struct tool *t)
{
	const struct inventory *v = ctx;
	const char *schema = tool_client_schema(t);
	struct jw *w = v->w;

	jw_obj(w);
	jw_kstr(w, "name", t->name);
	jw_kstr(w, "toolName", t->name);
	jw_kobj(w, "owner");
	jw_kstr(w, "kind", t->builtin ? "runtime" : "client");
	if (!t->builtin) {
		jw_kuint(w, "uid", t->uid);
		jw_kuint(w, "connection", t->connection);
	}
	jw_obj_end(w);
	jw_kstr(w, "runtimeOwner", t->runtime_owner ? t->runtime_owner : "runtime");
	jw_key(w, "flags");
	tool_flags_json(t, w);
	write_policy(v, t);
	if (!v->brief) {
		jw_kstr(w, "description", t->description);
		jw_kraw(w, "inputSchema", schema, strlen(schema));
		write_capabilities(t, w);
		jw_kstr(w, "status", "available");
		jw_kopt(w, "metadataRef", t->metadata_ref);
		if (t->session_id[0])
			jw_kstr(w, "sessionId", t->session_id);
	}
	jw_obj_end(w);
}

/* ---- the rules in effect ---- */

#define ANY_TIME 1u

struct inventory_place {
	uint64_t since_ns; /* policy files that were read after this time are up to date; ANY_TIME: as last read */
	struct buf env;
	char workspace[PATH_MAX];
	struct err problem;
};

/* 0: *v can judge. 1: the policy files are being read. Problems are part of the result. */
static int find_rules(struct inventory *v, struct inventory_place *at, const char *session_id, int mode)
{
	struct engine *engine = v->engine;

	engine->o.ports->base_env(engine->o.host, v->uid, &at->env);
	v->home = policy_lookup_home(&at->env);
	v->workspace = at->workspace;
	const struct policy_key key = { .uid = v->uid,
					.peer_fd = engine->o.ports->find_peer(engine->o.host, v->uid),
					.workspace = at->workspace,
					.home = v->home,
					.since_ns = at->since_ns };
	const struct git_key place = { .uid = v->uid,
				       .peer_fd = key.peer_fd,
				       .folder = v->cwd,
				       .home = v->home,
				       .since_ns = at->since_ns ? at->since_ns : engine_now(engine) };
	int r = v->cwd ? policy_lookup_workspace(engine, &place, NULL, at->workspace, &at->problem) : 0;
	if (r == 0)
		r = policy_lookup_of(engine, &key, &v->rules, &at->problem);
	v->unknown = r > 0;
	if (r == 0)
		r = session_rules_of(engine, session_id, &v->session_rules, &at->problem);
	v->mode = policy_lookup_mode(v->rules,
				     mode >= 0 ? (enum permission_mode)mode : permission_mode_of(engine, session_id));
	v->problem = r < 0 ? at->problem.message : NULL;
	return r > 0;
}

static void write_inventory(struct inventory *v, const char *session_id, struct jw *w)
{
	v->w = w;
	jw_obj(w);
	jw_kstr(w, "mode", permission_mode_name(v->mode));
	jw_karr(w, "tools");
	tool_each(v->engine, v->uid, session_id, write_tool, v);
	jw_arr_end(w);
	jw_obj_end(w);
}

/* ---- get_tool_inventory ---- */

struct inventory_request {
	struct pending_reply reply;
	char *session_id, *cwd;
	uint64_t since_ns; /* when the files were first asked for; 0 = not yet */
	int mode;
	uint32_t uid;
};

/* Runs again when the policy files have been read. */
static void answer_request(struct engine *engine, void *ctx)
{
	struct inventory_request *q = ctx;
	struct inventory v = { .engine = engine, .cwd = q->cwd, .uid = q->uid };
	q->since_ns = q->since_ns ? q->since_ns : engine_now(engine);
	struct inventory_place at = { .since_ns = q->since_ns };
	buf_auto struct buf out = BUF_INIT;
	struct jw w = jw_on(&out);

	if (!engine->stopping && find_rules(&v, &at, q->session_id, q->mode)) {
		policy_lookup_await(engine, q->uid, at.workspace, answer_request, q);
	} else {
		write_inventory(&v, q->session_id, &w);
		reply_json(&q->reply, out.data, out.len);
		free(q->session_id);
		free(q->cwd);
		free(q);
	}
	buf_done(&at.env);
}

void engine_tool_inventory(struct engine *engine, const struct inventory_query *r, const struct caller *c,
			   engine_reply_fn fn, void *ctx)
{
	struct view_session_brief session;
	struct err e = ERR_INIT;
	int mode = r->mode ? permission_mode_find(r->mode) : -1;

	if (r->mode && mode < 0)
		err_field(&e, "mode", "'%.40s' is not a mode", r->mode);
	else if (r->session_id && view_session_brief(engine->o.store, c->uid, r->session_id, &session, &e) > 0)
		err_not_known(&e, "sessionId", r->session_id);
	if (e.code)
		return fn(ctx, &e, NULL, 0);
	struct inventory_request *q = mem_zalloc(1, sizeof *q);
	q->session_id = mem_strdup(r->session_id);
	q->cwd = mem_strdup(r->cwd);
	q->mode = mode;
	q->uid = c->uid;
	reply_copy(&q->reply, c, fn, ctx);
	answer_request(engine, q);
}

void engine_tool_inventory_now(struct engine *engine, const char *session_id, const struct caller *c, struct buf *out)
{
	struct inventory v = { .engine = engine, .uid = c->uid };
	struct inventory_place at = { .since_ns = ANY_TIME };
	struct jw w = jw_on(out);

	(void)find_rules(&v, &at, session_id, -1);
	write_inventory(&v, session_id, &w);
	buf_done(&at.env);
}

/* ---- the tools of a model ---- */

struct offer {
	const struct inventory *inventory;
	tool_fn *fn;
	void *ctx;
};

static void offer_tool(void *ctx, const struct tool *t)
{
	const struct offer *o = ctx;
	struct policy_decision d;
	const char *status = o->inventory->unknown ? "unknown" : policy_status(o->inventory, t, &d);

	if (strcmp(status, "denied") != 0 && strcmp(status, "unavailable") != 0)
		o->fn(o->ctx, t);
}

void tool_each_offered(struct engine *engine, uint32_t uid, const char *session_id, tool_fn *fn, void *ctx)
{
	struct inventory v = { .engine = engine, .uid = uid };
	struct inventory_place at = { .since_ns = ANY_TIME };
	struct offer o = { &v, fn, ctx };

	(void)find_rules(&v, &at, session_id, -1);
	tool_each(engine, uid, session_id, offer_tool, &o);
	buf_done(&at.env);
}

/* ---- tool.catalog.resolved ---- */

struct catalog_of {
	struct engine *engine;
	const struct turn_doc *turn;
};

static void write_catalog(struct jw *w, const void *ctx, size_t n)
{
	const struct catalog_of *c = ctx;
	mem_auto char *cwd = jval_strdup(jval_get(c->turn->options, "cwd"));
	struct inventory v = { .engine = c->engine, .w = w, .brief = true, .cwd = cwd, .uid = (uint32_t)c->turn->uid };
	struct inventory_place at = { .since_ns = ANY_TIME };

	(void)find_rules(&v, &at, c->turn->sessionId, -1);
	jw_arr(w);
	tool_each(c->engine, v.uid, c->turn->sessionId, write_tool, &v);
	jw_arr_end(w);
	buf_done(&at.env);
}

void tool_catalog_fact(struct engine *engine, const struct turn_doc *t, struct transaction *tx)
{
	const struct catalog_of catalog = { engine, t };
	char step[ID_TEXT_MAX], call[ID_TEXT_MAX];
	struct scope s = turn_scope(t);

	/* The catalogue is not a call, but its event type requires the ids of a step and a call: generate unused ones.
	 */
	id_make(ID_KIND_STEP, step);
	id_make(ID_KIND_TOOL_CALL, call);
	s.step = step;
	s.tool_call = call;
	EMIT(tool_catalog_resolved, tx, s, .tools = json_from_writer(write_catalog, &catalog, 0));
}

void tool_update_catalogs(struct engine *engine, uint32_t uid, const char *session_id, struct transaction *tx)
{
	view_ids_auto struct view_ids turns = VIEW_IDS_INIT;
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc t;
	struct err e = ERR_INIT;

	id_list_read(engine, VIEW_LIVE_TURN, NULL, ID_LIST_ALL, &turns);
	for (size_t i = 0; i < turns.n; i++)
		if (turn_read(engine, turns.id[i], &text, &t, &e) == 0 && t.catalog &&
		    (uid == TOOL_ANY_UID || t.uid == uid) && (!session_id || strcmp(session_id, t.sessionId) == 0))
			tool_catalog_fact(engine, &t, tx);
}

/* policy.changed is durable. In the system session: of a file, which may apply to any turn. */
static void recatalog(struct engine *engine, const char *session_id)
{
	const bool everywhere = strcmp(session_id, engine->system_session) == 0;
	struct transaction *tx;

	if (engine->stopping)
		return;
	tx = transaction_new_internal(engine);
	tool_update_catalogs(engine, TOOL_ANY_UID, everywhere ? NULL : session_id, tx);
	transaction_commit(tx);
}

void tool_on_policy_changed(struct transaction *tx, const struct scope *s, const struct policy_changed *p)
{
	transaction_after_commit(tx, recatalog, s->session);
}
