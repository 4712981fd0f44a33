/*
 * Scope `always`: an answer becomes a rule in the user's own policy file, where it is visible and can be removed. The
 * rules were computed when the question was asked (policy/rule_suggestions.h) and are part of the action. The host
 * writes them first, with the identity of the approver. Then the action is resolved, and its event names file and
 * line. If the runtime dies in between, the action is still open; repeating the answer finds the rule already there.
 */

#include "runtime/engine/permission/permission.h"

#include "policy/decision.h"
#include "policy/rule_suggestions.h"
#include "runtime/base/mem.h"
#include "runtime/engine/action/action.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/permission/permission_private.h"
#include "runtime/engine/process/pending_start.h"

struct always {
	TAILQ_ENTRY(always) link;
	char action_id[ID_SIZE];
	struct caller caller;
	char *decision, *note, *response_json, *source, *rules_json;
	engine_reply_fn fn;
	void *ctx;
};

/* ---- rules that could be written ---- */

static void list_json(const struct rule_suggestions *l, const char *key, struct jw *w)
{
	if (l->count)
		jw_kstrv(w, key, (const char *const *)l->rule, l->count);
}

void permission_suggestions_json(const struct policy_request *r, const struct policy_decision *d, struct buf *out)
{
	rule_suggestions_auto struct rule_suggestions allow = { 0 }, deny = { 0 };
	struct jw w = jw_on(out);

	if (d->source == POLICY_BY_HOOK)
		snprintf(allow.why, sizeof allow.why, "a hook says so, which no rule that allows overrules");
	else
		rule_suggestions_make(r, RULE_ALLOW, &allow);
	jw_obj(&w);
	list_json(&allow, "allow", &w);
	if (allow.why[0])
		jw_kstr(&w, "why", allow.why);
	if (d->answer == POLICY_ASK) {
		rule_suggestions_make(r, RULE_DENY, &deny);
		list_json(&deny, "deny", &w);
		if (deny.why[0])
			jw_kstr(&w, "whyNotDeny", deny.why);
	}
	jw_obj_end(&w);
}

/* ---- an answer that becomes a rule ---- */

static void always_free(struct always *a)
{
	caller_done(&a->caller);
	free(a->decision);
	free(a->note);
	free(a->response_json);
	free(a->source);
	free(a->rules_json);
	free(a);
}

bool permission_is_persisting(struct engine *engine, const char *action_id)
{
	struct always *a;

	TAILQ_FOREACH (a, &engine->permissions->persisting, link)
		if (strcmp(a->action_id, action_id) == 0)
			return true;
	return false;
}

static int reject_always(struct err *e, const char *fmt, const char *what)
{
	char why[300];

	snprintf(why, sizeof why, fmt, what);
	err_set(e, ERR_UNAVAILABLE, "it cannot be kept as a rule: %s; answer once, or for the session", why);
	snprintf(e->field, sizeof e->field, "scope");
	return -1;
}

static int check_always(struct engine *engine, const struct action_doc *d, const struct caller *c, struct jval rules,
			bool allow, struct err *e)
{
	struct jval always = jval_get(d->continuation, "always");
	char why[240] = "";

	jval_str(jval_get(always, allow ? "why" : "whyNotDeny"), why, sizeof why);
	if (strcmp(d->kind, "permission") != 0 && strcmp(d->kind, "tool") != 0)
		return reject_always(e, "%s", "a rule does not say what may be opened");
	if (!engine->o.ports->write_rule)
		return reject_always(e, "%s", "policy files cannot be written here");
	/* Only the user whose policy file it is may change it, not even root on the user's behalf. */
	if (c->uid != d->uid)
		return reject_always(e, "%s", "it would be a rule of another user's policy");
	if (rules.type != JT_ARRAY)
		return reject_always(e, "%s", why[0] ? why : "no exact rule exists for it");
	return 0;
}

int permission_persist(struct engine *engine, const struct action_doc *d, const struct action_answer *r, bool allow,
		       const struct caller *c, engine_reply_fn fn, void *ctx, struct err *e)
{
	const char *list = allow ? "allow" : "deny", *texts[RULE_SUGGESTIONS_MAX];
	struct jval rules = jval_path(jval_get(d->continuation, "always"), list);
	size_t n = 0;

	if (check_always(engine, d, c, rules, allow, e) < 0)
		return -1;
	for (struct jiter it = jiter_on(rules); jiter_next(&it) && n < RULE_SUGGESTIONS_MAX;)
		texts[n++] = jval_strdup(it.value);
	const struct port_rule rule = {
		.uid = c->uid, .peer_fd = c->peer_fd, .list = list, .rule = texts, .count = n, .id = d->actionId
	};
	int rc = engine->o.ports->write_rule(engine->o.host, &rule, e);
	for (size_t i = 0; i < n; i++)
		free((void *)(uintptr_t)texts[i]);
	if (rc < 0)
		return -1;
	struct always *a = mem_zalloc(1, sizeof *a);
	id_copy(a->action_id, d->actionId);
	caller_copy(&a->caller, c);
	a->decision = mem_strdup(r->decision);
	a->note = mem_strdup(r->note);
	a->response_json = mem_strdup(r->response_json);
	a->source = mem_strdup(r->source);
	a->rules_json = mem_strndup(rules.text, rules.len);
	a->fn = fn;
	a->ctx = ctx;
	/* While it is in this list, other answers to the action are rejected (permission_is_persisting). */
	TAILQ_INSERT_TAIL(&engine->permissions->persisting, a, link);
	return 0;
}

void engine_on_rule_written(struct engine *engine, const char *id, const char *file, unsigned line, const struct err *e)
{
	struct always *a;

	TAILQ_FOREACH (a, &engine->permissions->persisting, link)
		if (strcmp(a->action_id, id) == 0)
			break;
	if (!a)
		return;
	TAILQ_REMOVE(&engine->permissions->persisting, a, link);
	/* The action stays open, so the person can answer with another scope. */
	if (e) {
		struct err why = ERR_INIT;

		reject_always(&why, "%.280s", e->message);
		a->fn(a->ctx, &why, NULL, 0);
	} else {
		const struct action_answer r = { .action_id = a->action_id,
						 .decision = a->decision,
						 .scope = "always",
						 .note = a->note,
						 .response_json = a->response_json,
						 .source = a->source,
						 .kept_rules = a->rules_json,
						 .kept_file = file,
						 .kept_line = line };

		engine_respond_action(engine, &r, &a->caller, a->fn, a->ctx);
	}
	always_free(a);
}

void permission_persist_done(struct engine *engine)
{
	struct always *a;

	while ((a = TAILQ_FIRST(&engine->permissions->persisting))) {
		TAILQ_REMOVE(&engine->permissions->persisting, a, link);
		always_free(a);
	}
}
