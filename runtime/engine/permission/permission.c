/*
 * Decisions about starts, and the ends of processes that never run.
 *
 * permission_evaluate combines the rules and the mode (policy/decision.h), the answers of hooks, an approval that was
 * given for this start, and grants for the session, in this order. Hooks can make the decision stricter and may answer
 * a question that the mode asks; a person may answer every question. Neither overrides a denial. The result is recorded
 * as permission.evaluated, in the same batch as what follows from it.
 *
 * A process that is denied or cancelled has an end like any other: one terminal event, the end of its turn, the facts
 * of its owner. How its owner and its client learn about it depends on how far the start came: before an approval by
 * the reply to the start, after it by the facts only, since that reply was sent when the question was opened.
 */

#include "runtime/engine/permission/permission.h"

#include "policy/command_analysis.h"
#include "policy/command_text.h"
#include "policy/decision.h"
#include "runtime/base/hash.h"
#include "runtime/base/mem.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/hook/hook.h"
#include "runtime/engine/permission/evaluated_paths.h"
#include "runtime/engine/permission/permission_private.h"
#include "runtime/engine/policy/policy_lookup.h"
#include "runtime/engine/policy/sandbox_setup.h"
#include "runtime/engine/policy/session_rules.h"
#include "runtime/engine/process/exec_overrides.h"
#include "runtime/engine/process/process.h"
#include "runtime/view/view_documents.h"

#include <limits.h>

/* The command's home directory, which `~` in its words expands to. */
const char *permission_home(const struct sandbox_setup *f, const struct start_request *r)
{
	for (size_t i = 0; i < r->nenv_set; i++)
		if (strncmp(r->env_set[i], "HOME=", 5) == 0)
			return r->env_set[i] + 5;
	for (const char *s = f->env.data; f->env.len && s < f->env.data + f->env.len; s += strlen(s) + 1)
		if (strncmp(s, "HOME=", 5) == 0)
			return s + 5;
	return NULL;
}

/* Does the request open more than its profile (the named one, or the default) does? */
static bool is_wider(const struct sandbox_request *s)
{
	const struct profile_change *c = &s->change;

	return c->nread || c->nwrite || c->nhosts || (c->network && strcmp(c->network, "none") != 0);
}

/* The same command in the same sandbox was allowed for the rest of the session. */
bool permission_is_granted(struct engine *engine, const char *session_id, const char *binding)
{
	mem_auto char *key = mem_printf("%s/%s", session_id, binding);
	buf_auto struct buf text = BUF_INIT;
	struct err e = ERR_INIT;

	return store_model_get_speculative(engine->o.store, VIEW_SESSION_GRANT, key, &text, &e) == 0;
}

/*
 * The hash that an approval is bound to, computed only once a person has to be asked: most commands are allowed by
 * rules. It includes stdin_text because a tool reads its request from stdin; the plan does not contain it. Nobody
 * approves bailiff's own programs, whose input can be a whole conversation.
 */
static const char *binding_of(struct process *p, const struct start_request *r)
{
	buf_auto struct buf all = BUF_INIT;

	if (p->binding[0])
		return p->binding;
	buf_str(&all, p->plan_hash);
	buf_byte(&all, '\n');
	buf_str(&all, p->sandbox_json);
	buf_byte(&all, '\n');
	if (r->stdin_text && !owner_is_internal(p->owner))
		buf_str(&all, r->stdin_text);
	hash_sha256_text(all.data, all.len, p->binding);
	return p->binding;
}

__attribute__((format(printf, 4, 5))) static void overrule_decision(struct policy_decision *d, enum policy_answer a,
								    enum policy_source s, const char *fmt, ...)
{
	va_list ap;

	d->answer = a;
	d->source = s;
	va_start(ap, fmt);
	(void)vsnprintf(d->reason, sizeof d->reason, fmt, ap);
	va_end(ap);
}

/*
 * Replaces "ask": by the approval that was given, by a grant for the session, or by a denial if the client cannot
 * reach a person.
 */
static void decide_asked(struct process *p, const struct start_request *r, const struct caller *c,
			 struct policy_decision *d)
{
	struct engine *engine = p->engine;
	const char *binding = binding_of(p, r);

	/* Checked before everything else: an approval never applies to anything but what was shown. */
	if (r->approval && strcmp(r->approval->binding, binding) != 0) {
		overrule_decision(
			d, POLICY_DENY, POLICY_BY_PERSON,
			"what would run now is not what was allowed: its place, its sandbox or its environment has "
			"changed");
		d->action_id = r->approval->action_id;
	} else if (r->approval) {
		overrule_decision(d, POLICY_ALLOW, POLICY_BY_PERSON, "a person allowed it");
		d->action_id = r->approval->action_id;
		d->scope = strcmp(r->approval->scope, "session") == 0  ? POLICY_SESSION
			   : strcmp(r->approval->scope, "always") == 0 ? POLICY_ALWAYS
								       : POLICY_ONCE;
	} else if (permission_is_granted(engine, p->session_id, binding)) {
		overrule_decision(d, POLICY_ALLOW, POLICY_BY_PERSON, "a person allowed it for this session");
		d->scope = POLICY_SESSION;
	} else if (c->no_person && !engine->o.ask_alone_ms) {
		mem_auto char *why = mem_strdup(d->reason);
		overrule_decision(d, POLICY_DENY, d->source, "no person can be asked through this client, and %.180s",
				  why);
	}
}

/* The command of an MCP server of a session, as a request of its own. */
struct tool_command {
	const char *argv[3];
	struct command_facts facts;
	struct policy_request request; /* points to the members above */
};

static void tool_command_done(struct tool_command *t) { command_facts_done(&t->facts); }
#define tool_command_auto __attribute__((cleanup(tool_command_done)))

/*
 * The command of an MCP server of a session: rules about its tools are not enough, because an agent chose the command.
 * The stricter decision applies. Returns the request that it is about, `tool` or the one of `command`, because only
 * rules about that one would change it.
 */
static const struct policy_request *decide_command_of_tool(const struct start_request *r,
							   const struct policy_request *tool,
							   const struct analysis_options *how,
							   struct tool_command *command, struct policy_decision *d)
{
	static const enum policy_answer order[] = { POLICY_DENY, POLICY_ASK };
	struct policy_decision own;

	if (!r->tool_command)
		return tool;
	command_analyse_line(r->tool_command, strlen(r->tool_command), how, &command->facts);
	command->argv[0] = "/bin/sh";
	command->argv[1] = "-c";
	command->argv[2] = r->tool_command;
	command->request = *tool;
	command->request.tool = command->request.tool_host = NULL;
	command->request.tool_path = NULL;
	command->request.ntool_paths = 0;
	command->request.argv = command->argv;
	command->request.argc = countof(command->argv);
	command->request.command_line = r->tool_command;
	command->request.facts = &command->facts;
	policy_decide(&command->request, &own);
	for (size_t i = 0; i < countof(order) && d->answer != order[i]; i++)
		if (own.answer == order[i]) {
			*d = own;
			return &command->request;
		}
	return tool;
}

/*
 * Hooks come from the policy itself, so its rules do not apply to them. Only a hook without a sandbox needs the
 * permission of the host's policy.
 */
static void decide_hook(const struct process *p, const struct sandbox_setup *f, struct policy_decision *ret)
{
	const struct hook_run *run = strmap_get(&p->engine->hook->runs, p->owner_id);
	const struct policy_rules *rules = p->engine->rules;

	*ret = (struct policy_decision){ .scope = POLICY_ONCE };
	if (!f->profile.confined && (!rules || !rules->bypass))
		overrule_decision(ret, POLICY_DENY, POLICY_BY_HOST,
				  "a hook without a sandbox is not permitted here: the host's policy does not say "
				  "permissions.allowBypass");
	else
		overrule_decision(ret, POLICY_ALLOW, POLICY_BY_HOOK, "it is one of the policy's hooks");
	ret->hook = run ? &run->reply->ref : NULL;
}

/*
 * An operator has registered the model; its program reaches that provider and nothing else. The instruction files are
 * read in the sandbox of the turn.
 */
static void decide_loop(enum owner_kind owner, struct policy_decision *ret)
{
	*ret = (struct policy_decision){ .scope = POLICY_ONCE };
	overrule_decision(ret, POLICY_ALLOW, POLICY_BY_HOST,
			  owner == OWNER_MODEL ? "it calls a model that an operator has registered"
					       : "it reads the instruction files of the workspace");
}

/* The sandbox itself was checked against policy when it was set up; each command in it is decided on its own. */
static void decide_holder(struct policy_decision *ret)
{
	*ret = (struct policy_decision){ .scope = POLICY_ONCE };
	overrule_decision(ret, POLICY_ALLOW, POLICY_BY_SANDBOX,
			  "it only holds a sandbox: each command in it is decided");
}

/* False: the rules decide. */
static bool decide_without_rules(const struct process *p, const struct start_request *r, const struct sandbox_setup *f,
				 struct policy_decision *ret)
{
	if (p->owner == OWNER_HOOK)
		decide_hook(p, f, ret);
	else if (owner_is_internal(p->owner))
		decide_loop(p->owner, ret);
	else if (r->holder)
		decide_holder(ret);
	else
		return false;
	return true;
}

static void record_decision(struct process *p, const struct policy_decision *d, const char *const *argv, size_t argc,
			    const struct command_facts *facts)
{
	struct buf text = BUF_INIT;

	p->answer = d->answer;
	p->reason = mem_strdup(d->reason);
	policy_decision_json(d, &text);
	p->decision_json = buf_take(&text);
	command_json(argv, argc, facts, &text);
	p->evaluated_json = buf_take(&text);
}

/* True: hooks have to run before the decision can be made. False: their answers, if any, are part of the decision. */
static bool ask_hooks(const struct hook_evaluation *j, struct policy_decision *d)
{
	const struct start_hooked *hooked = j->request->hooked;
	struct process *p = j->process;

	/* Hooks are programs with effects of their own, so a dry run only lists them. */
	if (p->dry) {
		struct buf list = BUF_INIT;
		struct jw w = jw_on(&list);

		hook_list_json(j, &w);
		p->hooks_json = buf_take(&list);
		if (d->answer == POLICY_ALLOW && hook_would_be_skipped(j))
			overrule_decision(
				d, POLICY_ASK, POLICY_BY_HOOK,
				"a hook of the workspace would have to check it, and those do not run in mode "
				"untrusted unless trusted");
		return false;
	}
	p->hooks_after = !owner_is_internal(p->owner) && !p->holder &&
			 (hooks_are_at(j->hooks, HOOK_POST_TOOL_USE) || hooks_are_at(j->hooks, HOOK_POST_TOOL_FAILURE));
	/* Answers that were given stay valid, even if the policy files that named the hooks have changed since. */
	if ((!j->hooks && !hooked) || owner_is_internal(p->owner) || p->holder || j->request->approval)
		return false;
	p->hooks_begin = hooks_are_at(j->hooks, HOOK_SESSION_START);
	if (!hooked && hook_wanted(j, HOOK_PRE_TOOL_USE))
		return true;
	if (hooked && hooked->before)
		policy_decision_hooks(d, p->mode, hooked->before);
	d->updated_ref = hooked ? hooked->updated_ref : NULL;
	if (d->answer != POLICY_ASK || d->deferred ||
	    permission_is_granted(p->engine, p->session_id, binding_of(p, j->request)))
		return false;
	/* Second stage: a person would have to be asked, and hooks may answer instead. */
	if (!hooked || !hooked->instead)
		return hook_wanted(j, HOOK_PERMISSION_REQUEST);
	policy_decision_hooks(d, p->mode, hooked->instead);
	p->answered_by_hook = d->answer != POLICY_ASK;
	return false;
}

/* A session that does not exist yet has neither a mode nor rules of its own. */
static bool is_new_session(const struct process *p, const struct start_request *r)
{
	return p->makes_session && !r->hooked && !r->approval;
}

/*
 * Whether rules about files decide about a tool: it must then open the very paths that they were matched against,
 * without following links (supervisor/tool/tool_links.c). Rules of the session that cannot be read may be such rules.
 */
static bool judges_files(const struct process *p, const struct start_request *r, const struct policy_rules *rules)
{
	const enum rule_kind kind = r->tool ? rule_kind_of_tool(r->tool) : RULE_TOOL;
	const struct policy_rules *session = NULL;
	struct err e = ERR_INIT;

	if (!r->ntool_paths || (kind != RULE_READ && kind != RULE_EDIT))
		return false;
	return policy_rules_name_files(rules) ||
	       (!is_new_session(p, r) &&
		(session_rules_of(p->engine, p->session_id, &session, &e) < 0 || policy_rules_name_files(session)));
}

/*
 * Mode plan changes nothing. Whether a command only reads is derived from its words, but programs have more options
 * than any table can list. Therefore the sandbox denies all writes, whatever the request asks for. A copy-on-write
 * run needs no change: its writes do not reach the host.
 */
int permission_confine(struct process *p, const struct start_request *r, const struct caller *c,
		       const struct policy_rules *rules, struct sandbox_setup *f, struct err *e)
{
	struct sandbox_request tame = r->sandbox;

	p->refuses_links = judges_files(p, r, rules);
	p->mode = policy_lookup_mode(rules, permission_mode_of(p->engine, is_new_session(p, r) ? NULL : p->session_id));
	if (owner_is_internal((enum owner_kind)r->owner) || f->profile.cow || !f->profile.confined ||
	    p->mode != MODE_PLAN)
		return 0;
	tame.reads_only = true;
	sandbox_setup_done(f);
	return sandbox_setup_make(p->engine, &tame, c, f, e) < 0 ? -1 : 1;
}

/* Records the environment variables that the decision depends on, for its event. */
static void record_exec_env(struct process *p, const struct exec_overrides *env)
{
	struct buf text = BUF_INIT;

	if (!env->nshown)
		return;
	exec_overrides_text(env, &text);
	free(p->exec_overrides);
	p->exec_overrides = buf_take(&text);
}

/* Records the rules that would have avoided the question or the denial. */
static void record_suggestions(struct process *p, const struct policy_request *r, const struct policy_decision *d)
{
	struct buf text = BUF_INIT;

	if (d->answer != POLICY_ASK && d->answer != POLICY_DENY)
		return;
	permission_suggestions_json(r, d, &text);
	p->suggestions_json = buf_take(&text);
}

/* The analysis belongs to the cache, or is `own`. */
static struct command_facts analyse_start(const struct process *p, const char *const *argv, size_t argc,
					  const struct analysis_options *how, struct command_facts *own)
{
	const struct command_facts *known = analysis_cache_get(&p->engine->permissions->analyses, p->command_line, argv,
							       argc, how);

	if (known)
		return *known;
	if (p->command_line)
		command_analyse_line(p->command_line, strlen(p->command_line), how, own);
	else
		command_analyse_argv(argv, argc, how, own);
	return *own;
}

static struct analysis_options analysis_of(const struct process *p, const struct sandbox_setup *f,
					   const struct exec_overrides *env)
{
	return (struct analysis_options){
		.cwd = p->cwd,
		.workspace = f->workspace.path[0] ? f->workspace.path : p->cwd,
		.home = p->home,
		.env = env->evaluated,
		.nenv = env->nevaluated,
		.writable = env->writable,
		.nwritable = env->nwritable,
		.terminal = process_has_tty(p),
	};
}

/* What the decision about a start depends on. `request` points into it. */
struct evaluated_start {
	struct exec_overrides env;
	struct analysis_options how;
	struct command_facts own, facts;
	struct evaluated_paths paths;
	struct err unread; /* code 0: the session's own rules were read */
	struct policy_request request;
};

static void evaluated_start_make(struct process *p, const struct start_request *r, const struct sandbox_setup *f,
				 const char *const *argv, size_t argc, const struct policy_rules *rules,
				 struct evaluated_start *ret)
{
	const struct policy_rules *session = NULL;

	*ret = (struct evaluated_start){ .unread = ERR_INIT };
	exec_overrides_make(p->engine, p->by.uid, r, f, &ret->env);
	ret->how = analysis_of(p, f, &ret->env);
	ret->facts = analyse_start(p, argv, argc, &ret->how, &ret->own);
	ret->facts.env = ret->env.shown;
	ret->facts.nenv = ret->env.nshown;
	if (r->tool)
		evaluated_paths_of_start(r, p->cwd, &ret->paths);
	if (!is_new_session(p, r))
		(void)session_rules_of(p->engine, p->session_id, &session, &ret->unread);
	ret->request = (struct policy_request){
		.uid = p->uid,
		.argv = argv,
		.argc = argc,
		.command_line = p->command_line,
		.cwd = p->cwd,
		.workspace = ret->how.workspace,
		.home = p->home,
		.profile = p->profile,
		.unconfined = !f->profile.confined,
		.wider = is_wider(&r->sandbox),
		.mode = p->mode,
		.justification = p->justification,
		.facts = r->tool && r->tool_runner ? NULL : &ret->facts,
		.tool = r->tool,
		.tool_path = ret->paths.path,
		.ntool_paths = ret->paths.count,
		.tool_host = r->tool_host,
		.foreign = r->tool_runner != NULL,
		.rules = rules,
		.session_rules = session,
	};
}

static void evaluated_start_done(struct evaluated_start *s)
{
	evaluated_paths_done(&s->paths);
	command_facts_done(&s->own);
	exec_overrides_done(&s->env);
}

bool permission_evaluate(struct process *p, const struct start_request *r, const struct sandbox_setup *f,
			 const char *const *argv, size_t argc, const struct policy_rules *rules, const struct caller *c)
{
	__attribute__((cleanup(evaluated_start_done))) struct evaluated_start s;
	tool_command_auto struct tool_command command = { 0 };
	struct policy_decision decision;

	evaluated_start_make(p, r, f, argv, argc, rules, &s);
	record_exec_env(p, &s.env);
	const struct rules_query use = { .facts = &s.facts,
					 .tool = r->tool,
					 .path = s.paths.path,
					 .npaths = s.paths.count,
					 .bases = { .cwd = p->cwd, .workspace = s.how.workspace, .home = p->home } };
	const struct rules_query command_use = { .facts = &command.facts, .bases = use.bases };
	const struct hook_evaluation judging = { .process = p,
						 .request = r,
						 .hooks = rules ? rules->hooks : NULL,
						 .use = &use,
						 .command_use = &command_use };
	const struct policy_request *decided = &s.request;
	if (!decide_without_rules(p, r, f, &decision)) {
		policy_decide(&s.request, &decision);
		decided = decide_command_of_tool(r, &s.request, &s.how, &command, &decision);
	}
	/* One of the session's own rules might deny this. */
	if (s.unread.code && !owner_is_internal(p->owner))
		overrule_decision(&decision, POLICY_DENY, POLICY_BY_RULE, "%s", s.unread.message);
	if (ask_hooks(&judging, &decision))
		return true;
	if (decision.answer == POLICY_ASK || (r->approval && decision.answer == POLICY_ALLOW))
		decide_asked(p, r, c, &decision);
	if (r->approval)
		id_copy(p->action_id, r->approval->action_id);
	record_suggestions(p, decided, &decision);
	record_decision(p, &decision, argv, argc, &s.facts);
	return false;
}

int permission_fact(const struct process *p, struct transaction *tx)
{
	const struct json_value decision = json_from_written(p->decision_json);
	int rc = EMIT(permission_evaluated, tx, process_scope(p), .envelope.members.permissionDecision = decision,
		      .permissionDecision = decision, .command = json_from_written(p->evaluated_json),
		      .justification = p->justification, .mode = permission_mode_name((enum permission_mode)p->mode),
		      .internal = owner_is_internal(p->owner), .suggestion = json_from_written(p->suggestions_json));

	if (p->answered_by_hook)
		EMIT(permission_resolved, tx, process_scope(p),
		     .outcome = p->answer == POLICY_ALLOW ? "allowed" : "denied", .source = "hook",
		     .scope = json_from_string("once"), .binding = p->binding, .note = p->reason);
	return rc;
}

/* ---- a process that never runs ---- */

/* Writes the end of a process that never started. */
static void write_no_end(struct jw *w, const void *process, size_t n)
{
	jw_kuint(w, "durationMs", 0);
	jw_key(w, "outputs");
	process_outputs_json(process, w);
}

void permission_end_facts(struct process *p, const struct permission_end *how, struct transaction *tx)
{
	const struct process_outcome o = {
		.exit_code = -1, .status = how->status, .category = how->category, .message = how->message
	};

	p->ended_as = how->terminated ? "terminated" : how->status;
	const struct envelope envelope = { .status = p->ended_as, .status_reason = how->message };
	/* A process that waited for a person was described by permission.requested. */
	bool describes = p->command_json && !p->resumed;
	if (how->terminated)
		EMIT(process_terminated, tx, process_scope(p), .envelope = envelope, .reason = how->message,
		     .cause = "user", .requestedBy = json_requester(&p->end_by), .treeEmpty = true,
		     .status = "terminated", .end = json_from_writer(write_no_end, p, 0));
	else
		EMIT(process_failed, tx, process_scope(p), .envelope = envelope, .category = how->category,
		     .stage = "permission", .message = how->message, .status = how->status,
		     .what = describes ? json_command_line(p) : JSON_NONE, .cwd = describes ? p->cwd : NULL,
		     .profile = describes ? p->profile : NULL);
	process_session_end_facts(p, tx, how->status, how->category, how->message);
	if (p->owner && how->tell_owner)
		process_owner(p->engine, p->owner)->ended(p, &o, tx);
}

static void make_denial(const struct process *p, struct err *e, struct buf *data)
{
	struct jw w = jw_on(data);

	err_set(e, ERR_PERMISSION, "policy denies it: %s", p->reason);
	jw_kstr(&w, "processId", p->id);
	jw_kstr(&w, "sessionId", p->session_id);
	jw_kraw(&w, "permissionDecision", p->decision_json, strlen(p->decision_json));
}

/*
 * Frees a process that never ran and notifies its owner. If it waited for hooks it held its thread, so the next turn
 * may start.
 */
static void finish_unstarted(struct process *p, const struct err *e, const char *data, size_t len)
{
	struct engine *engine = p->engine;
	const enum owner_kind owner = p->owner;
	const bool hooked = p->hooked;
	struct process_over over = { .owns_turn = p->owns_turn };
	char owner_id[ID_SIZE];

	/* Copied, because the process is freed before its owner is notified. */
	memcpy(owner_id, p->owner_id, sizeof owner_id);
	memcpy(over.thread_id, p->thread_id, ID_SIZE);
	memcpy(over.turn_id, p->turn_id, ID_SIZE);
	if (hooked)
		process_answer_waiters(p);
	process_free(p);
	if (owner)
		process_owner(engine, owner)->refused(engine, owner_id, e, data, len);
	if (hooked) /* the owner already has the denial */
		process_over(engine, &over);
}

static void on_denied(void *ctx, const struct store_result *r)
{
	struct process *p = ctx;
	buf_auto struct buf data = BUF_INIT;
	struct err e = ERR_INIT;

	if (r->status < 0)
		e = *r->err;
	else
		make_denial(p, &e, &data);
	reply_err(&p->start, &e, data.data, data.len);
	/* The reply to the start was sent with the question; waiters and the owner get the end of the process. */
	if (p->resumed) {
		process_answer_waiters(p);
		process_finished(p);
		return;
	}
	finish_unstarted(p, &e, data.data, data.len);
}

void permission_deny(struct process *p)
{
	const struct permission_end how = {
		.status = "failed", .category = "permission", .message = p->reason, .tell_owner = p->resumed
	};
	struct transaction *tx = transaction_new_internal(p->engine);
	buf_auto struct buf data = BUF_INIT, record = BUF_INIT;
	struct err e = ERR_INIT;

	p->state = PROCESS_ENDING;
	if (!p->resumed)
		process_session_facts(p, tx);
	permission_fact(p, tx);
	if (p->command_ref && !p->resumed)
		transaction_add_output(tx, p->command_ref, p->command_full.data, p->command_full.len);
	permission_end_facts(p, &how, tx);
	make_denial(p, &e, &data);
	reply_error_record(&e, data.data, data.len, &record);
	transaction_store_reply(tx, &p->start, record.data, record.len);
	/* STORE_MUST: a process that waited would still do so according to the log. */
	transaction_commit_then(tx, p->hooked || p->resumed ? STORE_MUST : 0, on_denied, p);
}

static void on_failed(void *ctx, const struct store_result *r)
{
	struct process *p = ctx;

	process_answer_waiters(p);
	process_finished(p);
}

static void on_hooked_failed(void *ctx, const struct store_result *r)
{
	struct process *p = ctx;
	struct err e = *p->failure;

	reply_err(&p->start, &e, NULL, 0);
	finish_unstarted(p, &e, NULL, 0);
}

/*
 * Ends a waiting process before its start. If it waited for hooks, its start has not been replied to yet, so the reply
 * carries the error, and the owner gets it that way.
 */
static void end_waiting(struct process *p, struct permission_end *how, const struct err *e)
{
	struct transaction *tx = transaction_new_internal(p->engine);
	buf_auto struct buf record = BUF_INIT;

	how->tell_owner = !p->hooked || p->resumed;
	p->state = PROCESS_ENDING;
	if (how->tell_owner)
		p->resumed = true;
	else
		p->failure = mem_dup(e, sizeof *e);
	permission_end_facts(p, how, tx);
	if (!how->tell_owner) {
		reply_error_record(e, NULL, 0, &record);
		transaction_store_reply(tx, &p->start, record.data, record.len);
	}
	/* STORE_MUST: without this end the process would still wait according to the log. */
	transaction_commit_then(tx, STORE_MUST, how->tell_owner ? on_failed : on_hooked_failed, p);
}

void permission_fail(struct process *p, const struct err *e)
{
	struct permission_end how = { .status = "failed",
				      .category = e->code == ERR_PERMISSION ? "permission"
						  : e->code == ERR_SANDBOX  ? "sandbox"
									    : "transport",
				      .message = e->message };

	if (p && p->state != PROCESS_ENDING) /* else another path has already ended it */
		end_waiting(p, &how, e);
}

void permission_drop(struct process *p, const char *reason)
{
	struct permission_end how = {
		.status = "cancelled", .category = "cancelled", .message = reason, .terminated = true
	};
	struct err e = ERR_INIT;

	err_set(&e, ERR_UNAVAILABLE, "it was ended while %s: %.200s",
		p->resumed ? "the policy of its workspace was read" : "hooks checked it", reason);
	end_waiting(p, &how, &e);
}
