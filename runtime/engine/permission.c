#include "runtime/engine/permission.h"

#include "policy/command.h"
#include "policy/decision.h"
#include "policy/understand.h"
#include "runtime/base/hash.h"
#include "runtime/base/mem.h"
#include "runtime/base/path.h"
#include "runtime/engine/confinement.h"
#include "runtime/engine/engine_private.h"
#include "runtime/engine/permission_private.h"
#include "runtime/view/view_shapes.h"

#include <limits.h>

#define TOOL_PATHS_MAX 64u

/* What ~ stands for inside. */
const char *permission_home(const struct confinement *f, const struct start_request *r)
{
	for (size_t i = 0; i < r->nenv_set; i++)
		if (strncmp(r->env_set[i], "HOME=", 5) == 0)
			return r->env_set[i] + 5;
	for (const char *s = f->env.data; f->env.len && s < f->env.data + f->env.len; s += strlen(s) + 1)
		if (strncmp(s, "HOME=", 5) == 0)
			return s + 5;
	return NULL;
}

enum permission_mode permission_mode_of(struct engine *g, const char *session_id)
{
	buf_auto struct buf text = BUF_INIT;
	struct session_doc d;
	struct err e = ERR_INIT;
	int mode = -1;

	if (session_id && *session_id && view_read_ahead(g->o.store, &session_shape, session_id, &text, &d, &e) == 0 && d.permissionMode[0])
		mode = permission_mode_find(d.permissionMode);
	if (mode < 0 && g->rules)
		mode = g->rules->mode;
	return mode < 0 ? MODE_DEFAULT : (enum permission_mode)mode;
}

/* Whether the request opens more than the profile that it names, or that is the default. */
static bool is_wider(const struct sandbox_request *s)
{
	const struct profile_change *c = &s->change;

	return c->nread || c->nwrite || c->nhosts || (c->network && strcmp(c->network, "none") != 0);
}

struct tool_paths {
	struct command_path path[TOOL_PATHS_MAX];
	char *text[TOOL_PATHS_MAX];
	size_t count;
};

static void tool_paths_make(const struct start_request *r, const char *cwd, struct tool_paths *ret)
{
	bool writes = rule_kind_of_tool(r->tool) == RULE_EDIT;
	char clean[PATH_MAX];
	struct err e = ERR_INIT;

	for (size_t i = 0; i < r->ntool_paths && ret->count < TOOL_PATHS_MAX; i++) {
		mem_auto char *whole = r->tool_paths[i][0] == '/' ? mem_strdup(r->tool_paths[i]) : mem_printf("%s/%s", cwd, r->tool_paths[i]);
		bool exact = path_clean(whole, clean, &e) == 0;

		ret->text[ret->count] = mem_strdup(exact ? clean : whole);
		ret->path[ret->count] = (struct command_path){ .path = ret->text[ret->count], .word = r->tool_paths[i], .exact = exact,
			.access = writes ? COMMAND_WRITES : COMMAND_READS };
		ret->count++;
	}
}

/* The same command in the same place was allowed for the rest of the session. */
static bool is_granted(struct engine *g, const char *session_id, const char *binding)
{
	mem_auto char *key = mem_printf("%s/%s", session_id, binding);
	buf_auto struct buf text = BUF_INIT;
	struct err e = ERR_INIT;

	return store_model_get_ahead(g->o.store, VIEW_SESSION_GRANT, key, &text, &e) == 0;
}

static void bind(struct process *p)
{
	buf_auto struct buf all = BUF_INIT;

	buf_printf(&all, "%s\n%s\n", p->plan_hash, p->sandbox_json);
	hash_sha256_text(all.data, all.len, p->binding);
}

__attribute__((format(printf, 4, 5))) static void overrule(struct policy_decision *d, enum policy_answer a, enum policy_source s, const char *fmt, ...)
{
	va_list ap;

	d->answer = a;
	d->source = s;
	va_start(ap, fmt);
	(void)vsnprintf(d->reason, sizeof d->reason, fmt, ap);
	va_end(ap);
}

/* What people said before, and whether anybody can be asked now. */
static void decide_asked(struct process *p, const struct start_request *r, const struct caller *c, struct policy_decision *d)
{
	struct engine *g = p->engine;

	if (r->approval && strcmp(r->approval->binding, p->binding) != 0) {
		overrule(d, POLICY_DENY, POLICY_BY_PERSON, "what would run now is not what was allowed: its place, its sandbox or its environment has changed");
		d->action_id = r->approval->action_id;
	} else if (r->approval) {
		overrule(d, POLICY_ALLOW, POLICY_BY_PERSON, "a person allowed it");
		d->action_id = r->approval->action_id;
		d->scope = strcmp(r->approval->scope, "session") == 0 ? POLICY_SESSION : strcmp(r->approval->scope, "always") == 0 ? POLICY_ALWAYS : POLICY_ONCE;
	} else if (is_granted(g, p->session_id, p->binding)) {
		overrule(d, POLICY_ALLOW, POLICY_BY_PERSON, "a person allowed it for this session");
		d->scope = POLICY_SESSION;
	} else if (c->no_person && !g->o.ask_alone_ms) {
		mem_auto char *why = mem_strdup(d->reason);
		overrule(d, POLICY_DENY, d->source, "nobody can be asked through this client, and %.180s", why);
	}
}

void permission_judge(struct process *p, const struct start_request *r, const struct confinement *f, const char *const *argv, size_t argc,
		      const struct caller *c)
{
	const struct understand_options how = {
		.cwd = p->cwd, .workspace = f->workspace.path[0] ? f->workspace.path : p->cwd, .home = p->home, .env = r->env_set, .nenv = r->nenv_set,
	};
	command_facts_auto struct command_facts facts = { 0 };
	struct tool_paths *paths = mem_zalloc(1, sizeof *paths);
	struct policy_decision decision;
	struct buf text = BUF_INIT;

	bind(p);
	if (p->command_line)
		command_understand_line(p->command_line, strlen(p->command_line), &how, &facts);
	else
		command_understand_argv(argv, argc, &how, &facts);
	if (r->tool)
		tool_paths_make(r, p->cwd, paths);
	p->mode = permission_mode_of(p->engine, p->session_id);
	const struct policy_request request = {
		.uid = p->uid, .argv = argv, .argc = argc, .command_line = p->command_line, .cwd = p->cwd, .workspace = how.workspace, .home = how.home,
		.profile = p->profile, .unconfined = !f->profile.confined, .wider = is_wider(&r->sandbox), .mode = p->mode,
		.justification = p->justification, .facts = &facts, .tool = r->tool, .tool_path = paths->path, .ntool_paths = paths->count,
		.rules = p->engine->rules,
	};
	policy_decide(&request, &decision);
	if (decision.answer == POLICY_ASK || (r->approval && decision.answer == POLICY_ALLOW))
		decide_asked(p, r, c, &decision);
	if (r->approval)
		snprintf(p->action_id, sizeof p->action_id, "%s", r->approval->action_id);
	p->answer = decision.answer;
	p->reason = mem_strdup(decision.reason);
	policy_decision_json(&decision, &text);
	p->decision_json = buf_take(&text);
	command_json(argv, argc, &facts, &text);
	p->judged_json = buf_take(&text);
	for (size_t i = 0; i < paths->count; i++)
		free(paths->text[i]);
	free(paths);
}

int permission_fact(const struct process *p, struct store_batch *b)
{
	struct fact f;

	fact_open_process(&f, EVENT_PERMISSION_EVALUATED, p);
	jw_kraw(&f.w, "permissionDecision", p->decision_json, strlen(p->decision_json));
	jw_kraw(&f.w, "command", p->judged_json, strlen(p->judged_json));
	jw_kopt(&f.w, "justification", p->justification);
	jw_kstr(&f.w, "mode", permission_mode_name((enum permission_mode)p->mode));
	struct jw m = jw_on(&f.members);
	jw_kraw(&m, "permissionDecision", p->decision_json, strlen(p->decision_json));
	return fact_close(&f, b);
}

/* ---- a process that never runs ---- */

void permission_end_facts(struct process *p, const struct permission_end *how, struct store_batch *b)
{
	const struct process_outcome o = { .exit_code = -1, .status = how->status, .category = how->category, .message = how->message };
	struct fact f;

	fact_open_process(&f, how->terminated ? EVENT_PROCESS_TERMINATED : EVENT_PROCESS_FAILED, p);
	f.draft.status = how->terminated ? "terminated" : how->status;
	f.draft.status_reason = how->message;
	if (how->terminated) {
		jw_kstr(&f.w, "reason", how->message);
		jw_kstr(&f.w, "cause", "user");
		fact_requester(&f.w, "requestedBy", &p->end_by);
		jw_kbool(&f.w, "treeEmpty", true);
		jw_kstr(&f.w, "status", "terminated");
		jw_kuint(&f.w, "durationMs", 0);
		jw_key(&f.w, "outputs");
		process_outputs_json(p, &f.w);
	} else {
		jw_kstr(&f.w, "category", how->category);
		jw_kstr(&f.w, "stage", "permission");
		jw_kstr(&f.w, "message", how->message);
		jw_kstr(&f.w, "status", how->status);
		if (p->command_json && !p->resumed) {
			process_command_members(p, &f.w);
			jw_kstr(&f.w, "cwd", p->cwd);
			jw_kstr(&f.w, "profile", p->profile);
		}
	}
	fact_close(&f, b);
	session_end_facts(p, b, how->status, how->category, how->message);
	if (p->owner && how->tell_owner)
		process_owners[p->owner]->ended(p, &o, b);
}

static void denial(const struct process *p, struct err *e, struct buf *data)
{
	struct jw w = jw_on(data);

	err_set(e, ERR_PERMISSION, "policy denies it: %s", p->reason);
	jw_kstr(&w, "processId", p->id);
	jw_kstr(&w, "sessionId", p->session_id);
	jw_kraw(&w, "permissionDecision", p->decision_json, strlen(p->decision_json));
}

static void on_denied(void *ctx, const struct store_result *r)
{
	struct process *p = ctx;
	struct engine *g = p->engine;
	buf_auto struct buf data = BUF_INIT;
	struct err e = ERR_INIT;

	if (r->status < 0)
		e = *r->err;
	else
		denial(p, &e, &data);
	reply_err(&p->start, &e, data.data, data.len);
	if (p->resumed) {
		process_answer_waiters(p);
		process_finished(p);
		return;
	}
	const enum owner_kind owner = p->owner;
	char owner_id[ID_ROOM];
	memcpy(owner_id, p->owner_id, sizeof owner_id);
	process_free(p);
	if (owner)
		process_owners[owner]->refused(g, owner_id, &e, data.data, data.len);
}

void permission_deny(struct process *p)
{
	const struct permission_end how = { .status = "failed", .category = "permission", .message = p->reason, .tell_owner = p->resumed };
	struct store_batch *b = store_batch_new(p->engine->o.store);
	buf_auto struct buf data = BUF_INIT, record = BUF_INIT;
	struct err e = ERR_INIT;

	p->state = PROCESS_ENDING;
	if (!p->resumed)
		session_facts(p, b);
	permission_fact(p, b);
	if (p->command_ref && !p->resumed)
		store_batch_inline(b, p->command_ref, p->command_full.data, p->command_full.len);
	permission_end_facts(p, &how, b);
	denial(p, &e, &data);
	reply_error_record(&e, data.data, data.len, &record);
	reply_remember(&p->start, b, record.data, record.len);
	store_submit(p->engine->o.store, b, 0, on_denied, p);
}

static void on_failed(void *ctx, const struct store_result *r)
{
	struct process *p = ctx;

	process_answer_waiters(p);
	process_finished(p);
}

void permission_fail(struct process *p, const struct err *e)
{
	const struct permission_end how = { .status = "failed", .category = e->code == ERR_PERMISSION ? "permission" : e->code == ERR_SANDBOX ? "sandbox" :
		"transport", .message = e->message, .tell_owner = true };
	struct store_batch *b;

	if (!p)
		return;
	b = store_batch_new(p->engine->o.store);
	p->state = PROCESS_ENDING;
	p->resumed = true;
	permission_end_facts(p, &how, b);
	store_submit(p->engine->o.store, b, STORE_MUST, on_failed, p);
}
