/*
 * Calls without a process, which a client executes with a tool of its own or the engine with one of its, are evaluated
 * like commands before they start: by the tool's name and, if that is one of the convention's (Read, Edit, WebFetch,
 * Bash …), by their arguments. A denied call never starts, so its owner never sees a tool.started. A call that needs
 * approval waits in an action, whose continuation holds everything needed to start it.
 */

#include "runtime/engine/call/tool_call.h"

#include "policy/command_text.h"
#include "policy/decision.h"
#include "runtime/base/hash.h"
#include "runtime/base/mem.h"
#include "runtime/base/text.h"
#include "runtime/engine/action/action.h"
#include "runtime/engine/core/core.h"
#include "runtime/engine/core/ref.h"
#include "runtime/engine/core/transaction.h"
#include "runtime/engine/hook/hook.h"
#include "runtime/engine/permission/evaluated_paths.h"
#include "runtime/engine/permission/permission.h"
#include "runtime/engine/policy/policy_lookup.h"
#include "runtime/engine/policy/session_rules.h"
#include "runtime/engine/process/pending_start.h"
#include "runtime/engine/session/turn_read.h"
#include "runtime/engine/session/waiter.h"

#include <limits.h>

#define ARGUMENTS_SHOWN 2048u /* bytes of the arguments in the question to a person */

/* A call that is being evaluated. */
struct tool_evaluation {
	TAILQ_ENTRY(tool_evaluation) link;
	struct tool_use use; /* its strings and its reference to the arguments are owned */
	char turn_id[ID_SIZE], call_id[ID_SIZE],
		action_id[ID_SIZE]; /* action_id: the action in which a person allowed it; "" = not asked */
	enum tool_from from;
	uint64_t timeout_ms, since_ns;
	bool waited;          /* for the workspace's policy files or for hooks */
	bool client;          /* the client executes the call itself */
	struct caller caller; /* of invoke and report */
	engine_reply_fn fn;   /* NULL: no reply is expected */
	void *ctx;
	char binding[HASH_SHA256_TEXT];
	struct policy_decision decision;
	char *decision_json, *command_json, *suggestions_json;
	struct tool_hooks hooks;
	enum permission_mode mode;
	char evaluated[ID_TEXT_MAX]; /* the event of the decision */
	char cwd[PATH_MAX], workspace[PATH_MAX], home[PATH_MAX];
};

/* Also used at shutdown, when hooks of the evaluation may still run: tool_hooks_done detaches them. */
static void evaluation_free(struct engine *engine, struct tool_evaluation *j)
{
	TAILQ_REMOVE(&engine->calls->evaluations, j, link);
	json_decref((json_t *)(uintptr_t)j->use.arguments);
	free((char *)(uintptr_t)j->use.tool);
	free((char *)(uintptr_t)j->use.request_id);
	if (j->fn)
		caller_done(&j->caller);
	free(j->decision_json);
	free(j->command_json);
	free(j->suggestions_json);
	tool_hooks_done(&j->hooks);
	free(j);
}

/* The loop does not start the next part while a call is being evaluated: the decision comes first. */
bool tool_is_evaluating(struct engine *engine, const char *turn_id)
{
	struct tool_evaluation *j;

	TAILQ_FOREACH (j, &engine->calls->evaluations, link)
		if (strcmp(j->turn_id, turn_id) == 0)
			return true;
	return false;
}

void call_init(struct engine *engine)
{
	engine->calls = mem_zalloc(1, sizeof *engine->calls);
	TAILQ_INIT(&engine->calls->evaluations);
	TAILQ_INIT(&engine->calls->waits);
}

void call_done(struct engine *engine)
{
	while (!TAILQ_EMPTY(&engine->calls->evaluations))
		evaluation_free(engine, TAILQ_FIRST(&engine->calls->evaluations));
	strmap_done(&engine->calls->begun);
	strmap_done(&engine->calls->held);
	strmap_done(&engine->calls->hooked);
	strmap_done(&engine->calls->ending);
	free(engine->calls);
}

/* ---- facts ---- */

/* permission.evaluated with the decision, the parsed command and what would have allowed the call. */
static void evaluated_fact(struct tool_evaluation *j, const struct turn_doc *t, struct transaction *tx)
{
	const struct json_value decision = json_from_text(j->decision_json);
	struct scope s = turn_scope(t);

	id_make(ID_KIND_EVENT, j->evaluated);
	s.event = j->evaluated;
	s.tool_call = j->call_id;
	s.request = j->use.request_id;
	EMIT(permission_evaluated, tx, s, .envelope.members.permissionDecision = decision,
	     .permissionDecision = decision, .toolName = j->use.tool, .command = json_from_text(j->command_json),
	     .mode = permission_mode_name(j->mode), .suggestion = json_from_text(j->suggestions_json));
}

/* Records a part of a turn that never started; the turn counts it as failed. */
static void never_began(const struct turn_doc *t, const struct tool_use *u, const char *permission, const char *status,
			const char *message, struct transaction *tx)
{
	const struct tool_failure why = { .status = status,
					  .category = "permission",
					  .message = message,
					  .stage = "permission",
					  .tool = u->tool,
					  .arguments_hash = none_if_empty(u->arguments_hash),
					  .permission = none_if_empty(permission) };
	struct tool_call_doc d;

	tool_call_doc_of(t, u, &d);
	d.part = u->part < 0 ? VIEW_ABSENT : (uint64_t)u->part;
	tool_failed_fact(&d, &why, tx);
}

/* ---- the three outcomes ---- */

/* Without a request (the loop, or a person's answer) the engine itself acts. */
static struct transaction *transaction_for(struct engine *engine, const struct tool_evaluation *j)
{
	return j->fn ? transaction_new(engine, &j->caller, j->fn, j->ctx) : transaction_new_internal(engine);
}

/* invoke_tool waits for the end of the call; report_tool_call gets its status at once. */
static void reply_with_call(struct engine *engine, const struct tool_evaluation *j, struct transaction *tx,
			    const char *status, const char *action_id)
{
	if (j->fn && j->from == TOOL_FROM_INVOKE) {
		tx->flags |= STORE_MUST;
		tool_waiter_add(engine, j->call_id, j->timeout_ms, tx);
	} else if (j->fn) {
		jw_kstr(&tx->w, "toolCallId", j->call_id);
		jw_kstr(&tx->w, "status", status);
		jw_kopt(&tx->w, "actionId", action_id);
	}
}

static void begin_call(struct engine *engine, struct tool_evaluation *j, const struct turn_doc *t)
{
	struct transaction *tx = transaction_for(engine, j);

	evaluated_fact(j, t, tx);
	tool_call_begin(tx, t, &j->use, NULL);
	reply_with_call(engine, j, tx, "running", NULL);
	transaction_commit(tx);
}

/* The reply to a denied call, sent once the denial is durable. */
struct denied_call {
	struct engine *engine;
	char call_id[ID_SIZE];
	engine_reply_fn fn;
	void *ctx;
	struct err err;
	struct buf data;
};

/* Runs when the denial is durable, or could not be recorded; then the reply has that error. */
static void on_denied(void *ctx, const struct store_result *r)
{
	struct denied_call *x = ctx;

	tool_call_ended(x->engine, x->call_id);
	if (x->fn)
		x->fn(x->ctx, r->status < 0 ? r->err : &x->err, x->data.data, x->data.len);
	buf_done(&x->data);
	free(x);
}

/*
 * A part of the loop, or a call that a person was asked about, also ends with tool.failed: a turn or a client waits for
 * its end. For other calls the reply says it all.
 */
static void deny_call(struct engine *engine, struct tool_evaluation *j, const struct turn_doc *t)
{
	struct transaction *tx = transaction_new_internal(engine);
	struct denied_call *x = mem_zalloc(1, sizeof *x);
	struct jw w = jw_on(&x->data);

	evaluated_fact(j, t, tx);
	if (j->from == TOOL_FROM_LOOP || j->action_id[0])
		never_began(t, &j->use, j->evaluated, "failed", j->decision.reason, tx);
	x->engine = engine;
	x->fn = j->fn;
	x->ctx = j->ctx;
	memcpy(x->call_id, j->call_id, sizeof x->call_id);
	err_set(&x->err, ERR_PERMISSION, "policy denies it: %s", j->decision.reason);
	jw_kstr(&w, "toolCallId", j->call_id);
	jw_kraw(&w, "permissionDecision", j->decision_json, strlen(j->decision_json));
	transaction_commit_then(tx, STORE_MUST, on_denied, x);
}

/* Everything needed to start the call after an approval (asked_call_read). The arguments are behind `argumentsRef`. */
static void write_continuation(const struct tool_evaluation *j, const char *arguments_ref, struct buf *out)
{
	static const char *const froms[] = {
		[TOOL_FROM_LOOP] = "turn", [TOOL_FROM_INVOKE] = "invoke", [TOOL_FROM_REPORT] = "report"
	};
	struct jw w = jw_on(out);

	jw_obj(&w);
	jw_kstr(&w, "callId", j->call_id);
	jw_kstr(&w, "toolName", j->use.tool);
	jw_kstr(&w, "argumentsRef", arguments_ref);
	jw_kstr(&w, "argumentsHash", j->use.arguments_hash);
	jw_kstr(&w, "binding", j->binding);
	jw_kstr(&w, "permissionRef", j->evaluated);
	jw_kstr(&w, "from", froms[j->from]);
	jw_kint(&w, "part", j->use.part);
	jw_kbool(&w, "client", j->client);
	jw_kuint(&w, "connection", j->use.connection);
	json_value_member(&w, "by", json_requester(&j->use.by));
	if (j->suggestions_json)
		jw_kraw(&w, "always", j->suggestions_json, strlen(j->suggestions_json));
	jw_obj_end(&w);
}

/* Opens an action for the call. */
static void request_approval(struct engine *engine, struct tool_evaluation *j, const struct turn_doc *t)
{
	struct transaction *tx = transaction_for(engine, j);
	const struct ref_owner owner = turn_ref_owner(t, "toolCall", j->call_id, "application/json");
	const bool alone = j->fn && j->caller.no_person;
	mem_auto char *args = j->use.arguments ? json_dumps(j->use.arguments, JSON_COMPACT) : mem_strdup("{}");
	buf_auto struct buf next = BUF_INIT, prompt = BUF_INIT, display = BUF_INIT;
	char ref[ID_TEXT_MAX], action[ID_SIZE];
	struct err e = ERR_INIT;

	evaluated_fact(j, t, tx);
	ref_store(tx, &owner, args, strlen(args), ref);
	write_continuation(j, ref, &next);
	buf_printf(&prompt, "call the tool %s with ", j->use.tool);
	text_ends(args, strlen(args), ARGUMENTS_SHOWN, &prompt);
	buf_printf(&display, "%s ", j->use.tool);
	text_ends(args, strlen(args), ARGUMENTS_SHOWN, &display);
	const struct action_spec spec = {
		.kind = ACTION_KIND_TOOL,
		.uid = (uint32_t)t->uid,
		.session_id = t->sessionId,
		.thread_id = t->threadId,
		.turn_id = t->turnId,
		.task_id = none_if_empty(t->taskId),
		.tool_call_id = j->call_id,
		.request_id = j->use.request_id,
		.action_type = "permission",
		.prompt = buf_cstr(&prompt),
		.display = buf_cstr(&display),
		.policy_json = j->decision_json,
		.continuation_json = next.data,
		.timeout_ms = alone ? engine->o.ask_alone_ms : engine->o.ask_ms,
		.by = j->use.by,
	};
	if (action_open(engine, &spec, tx, action, &e) < 0)
		return transaction_reject(tx, &e);
	struct scope s = turn_scope(t);
	s.action = action;
	s.tool_call = j->call_id;
	EMIT(permission_requested, tx, s, .envelope.status = "waiting_permission", .actionId = action,
	     .interactive = !alone, .toolName = j->use.tool, .binding = j->binding);
	reply_with_call(engine, j, tx, "waiting_permission", action);
	transaction_commit(tx);
}

/* ---- the decision ---- */

/* Replaces the answer of the policy; its rule and harm stay in the decision as they were. */
static void overrule_decision(struct tool_evaluation *j, enum policy_answer a, enum policy_source s, const char *why)
{
	j->decision.answer = a;
	j->decision.source = s;
	snprintf(j->decision.reason, sizeof j->decision.reason, "%.*s", POLICY_REASON_MAX - 1, why);
}

/* A call that a person has approved does not run hooks again. True: hooks have to run first. */
static bool ask_hooks(struct engine *engine, struct tool_evaluation *j, const struct policy_rules *rules,
		      const struct turn_doc *t, const struct rules_query *use)
{
	const struct tool_hooks_use u = { .turn = t,
					  .tool = j->use.tool,
					  .call_id = j->call_id,
					  .cwd = j->cwd,
					  .arguments = j->use.arguments,
					  .by = &j->use.by,
					  .mode = (int)j->mode,
					  .hooks = rules ? rules->hooks : NULL,
					  .use = use };

	if (j->action_id[0])
		return false;
	if (tool_hooks_prepare(engine, &j->hooks, HOOK_PRE_TOOL_USE, &u))
		return true;
	policy_decision_hooks(&j->decision, (int)j->mode, &j->hooks.sum[0]);
	j->decision.updated_ref = j->hooks.updated_ref;
	if (j->decision.answer != POLICY_ASK || j->decision.deferred ||
	    permission_is_granted(engine, t->sessionId, j->binding))
		return false;
	if (tool_hooks_prepare(engine, &j->hooks, HOOK_PERMISSION_REQUEST, &u))
		return true;
	policy_decision_hooks(&j->decision, (int)j->mode, &j->hooks.sum[1]);
	return false;
}

/* Replaces "ask": by an earlier approval, or by a denial if the client cannot reach a person. */
static void resolve_ask(struct engine *engine, struct tool_evaluation *j, const char *session_id)
{
	if (j->action_id[0]) {
		overrule_decision(j, POLICY_ALLOW, POLICY_BY_PERSON, "a person allowed it");
		j->decision.action_id = j->action_id;
	} else if (permission_is_granted(engine, session_id, j->binding)) {
		overrule_decision(j, POLICY_ALLOW, POLICY_BY_PERSON, "a person allowed it for this session");
		j->decision.scope = POLICY_SESSION;
	} else if (j->fn && j->caller.no_person && !engine->o.ask_alone_ms) {
		overrule_decision(j, POLICY_DENY, j->decision.source, "no person can be asked through this client");
	}
}

/* What the rules decide about a call, and what that depends on. */
struct evaluated_call {
	const char *line; /* the command line of a shell tool, which rules for commands apply to; NULL = another tool */
	const char *argv[3];
	struct analysis_options how;
	struct command_facts facts;
	struct tool_paths named;
	struct evaluated_paths paths;
	char *host;
	struct err unread; /* code 0: the session's own rules were read */
	struct policy_request request;
};

static void evaluated_call_make(struct engine *engine, const struct tool_evaluation *j,
				const struct policy_rules *rules, const char *session_id, struct evaluated_call *ret)
{
	const char *line = rule_kind_of_tool(j->use.tool) == RULE_BASH
				   ? json_string_value(json_object_get(j->use.arguments, "command"))
				   : NULL;
	const struct policy_rules *session = NULL;

	*ret = (struct evaluated_call){ .line = line,
					.argv = { "/bin/sh", "-c", line },
					.how = { .cwd = j->cwd[0] ? j->cwd : "/",
						 .workspace = none_if_empty(j->workspace),
						 .home = none_if_empty(j->home) },
					.host = tool_host_of(j->use.arguments),
					.unread = ERR_INIT };
	if (line)
		command_analyse_line(line, strlen(line), &ret->how, &ret->facts);
	tool_paths_of(j->use.tool, j->use.arguments, &ret->named);
	evaluated_paths_of_call(j->use.tool, &ret->named, j->cwd, &ret->paths);
	(void)session_rules_of(engine, session_id, &session, &ret->unread);
	ret->request = (struct policy_request){
		.uid = j->use.by.uid,
		.argv = ret->argv,
		.argc = line ? countof(ret->argv) : 0,
		.command_line = line,
		.cwd = ret->how.cwd,
		.workspace = j->workspace,
		.home = ret->how.home,
		.profile = "of its client",
		.mode = (int)j->mode,
		.facts = line ? &ret->facts : NULL,
		.tool = line ? NULL : j->use.tool,
		.tool_path = ret->paths.path,
		.ntool_paths = ret->paths.count,
		.tool_host = ret->host,
		.foreign = true,
		.rules = rules,
		.session_rules = session,
	};
}

static void evaluated_call_done(struct evaluated_call *k)
{
	evaluated_paths_done(&k->paths);
	tool_paths_done(&k->named);
	command_facts_done(&k->facts);
	free(k->host);
}

/* What the rules do not know: whether they are complete, and which tool it is. */
static void adjust_decision(struct engine *engine, struct tool_evaluation *j, const struct turn_doc *t,
			    const struct evaluated_call *k)
{
	struct tool tool;
	const bool known = tool_find(engine, j->use.tool, (struct tool_scope){ (uint32_t)t->uid, t->sessionId }, &tool);

	if (known && tool.destructive)
		j->decision.destructive = true;
	/* Only rules and hooks restrict the engine's own tools: a mode has nothing to protect from them. */
	if (known && tool_ignores_mode(&tool, (int)j->mode) && !j->decision.ruled)
		overrule_decision(j, POLICY_ALLOW, POLICY_BY_CLASSIFIER,
				  tool.builtin == TOOL_WRITE_STDIN ? "it is input for a command that was permitted"
								   : "it has no effect outside of bailiff");
	/* The session's own rules cannot be read, and one of them might deny the call. */
	if (k->unread.code)
		overrule_decision(j, POLICY_DENY, POLICY_BY_RULE, k->unread.message);
	if (k->named.too_many)
		overrule_decision(j, POLICY_DENY, POLICY_BY_RULE,
				  "it names too many files for one decision; split it into several calls");
}

/* Keeps the decision, and what explains it, as JSON. */
static void record_decision(struct tool_evaluation *j, const struct evaluated_call *k)
{
	struct buf out = BUF_INIT;

	if (j->decision.answer != POLICY_ALLOW) {
		permission_suggestions_json(&k->request, &j->decision, &out);
		j->suggestions_json = buf_take(&out);
	}
	policy_decision_json(&j->decision, &out);
	j->decision_json = buf_take(&out);
	if (k->line) {
		command_json(k->argv, countof(k->argv), &k->facts, &out);
		j->command_json = buf_take(&out);
	}
}

/* True: hooks have to run first. */
static bool decide_call(struct engine *engine, struct tool_evaluation *j, const struct policy_rules *rules,
			const struct turn_doc *turn)
{
	__attribute__((cleanup(evaluated_call_done))) struct evaluated_call k;

	j->mode = policy_lookup_mode(rules, permission_mode_of(engine, turn->sessionId));
	evaluated_call_make(engine, j, rules, turn->sessionId, &k);
	policy_decide(&k.request, &j->decision);
	adjust_decision(engine, j, turn, &k);
	const struct rules_query use = { .facts = k.request.facts,
					 .tool = k.request.tool,
					 .path = k.paths.path,
					 .npaths = k.paths.count,
					 .bases = {
						 .cwd = k.how.cwd, .workspace = k.how.workspace, .home = k.how.home } };
	if (ask_hooks(engine, j, rules, turn, &use))
		return true;
	if (j->decision.answer == POLICY_ASK)
		resolve_ask(engine, j, turn->sessionId);
	record_decision(j, &k);
	return false;
}

/* Policy files that cannot be read might deny the call: denies it without hooks or a question. */
static void deny_unread(struct tool_evaluation *j, const char *why)
{
	struct buf out = BUF_INIT;

	j->decision = (struct policy_decision){ .scope = POLICY_ONCE };
	overrule_decision(j, POLICY_DENY, POLICY_BY_MODE, why);
	policy_decision_json(&j->decision, &out);
	j->decision_json = buf_take(&out);
}

/* ---- the evaluation ---- */

/*
 * Finds the directories that the call is evaluated in, and what an approval is bound to: the tool, the directory and
 * the arguments, as hooks have rewritten them.
 */
static int prepare_evaluation(struct engine *engine, struct tool_evaluation *j, const struct turn_doc *t, struct err *e)
{
	json_auto_t *where = turn_part_merged(NULL, t, NULL);
	const char *cwd = json_string_value(json_object_get(where, "cwd"));
	const char *given = json_string_value(json_object_get(json_object_get(where, "sandbox"), "workspace"));
	json_t *rewritten = tool_hooks_rewritten(&j->hooks, j->use.tool, j->use.arguments);
	buf_auto struct buf env = BUF_INIT, bound = BUF_INIT;

	engine->o.ports->base_env(engine->o.host, j->use.by.uid, &env);
	snprintf(j->home, sizeof j->home, "%s", policy_lookup_home(&env));
	snprintf(j->cwd, sizeof j->cwd, "%s", cwd ? cwd : "");
	j->workspace[0] = '\0';
	if (rewritten) {
		json_decref((json_t *)(uintptr_t)j->use.arguments);
		j->use.arguments = rewritten;
	}
	mem_auto char *args = j->use.arguments ? json_dumps(j->use.arguments, JSON_COMPACT | JSON_SORT_KEYS)
					       : mem_strdup("{}");
	buf_printf(&bound, "tool %s\n%s\n%s\n", j->use.tool, j->cwd, args);
	hash_sha256_text(bound.data, bound.len, j->binding);
	const struct git_key at = {
		.uid = j->use.by.uid, .peer_fd = -1, .folder = cwd, .home = j->home, .since_ns = j->since_ns
	};
	return cwd ? policy_lookup_workspace(engine, &at, given, j->workspace, e) : 0;
}

/*
 * Runs again from the start after each wait (for policy files, for hooks), since the turn, the rules and the arguments
 * may have changed meanwhile. Frees the evaluation at its end.
 */
static void evaluate_call(struct engine *engine, void *ctx)
{
	struct tool_evaluation *j = ctx;
	const struct policy_rules *rules = engine->rules;
	buf_auto struct buf text = BUF_INIT;
	struct turn_doc t;
	struct err e = ERR_INIT;
	int found = turn_read(engine, j->turn_id, &text, &t, &e);

	if (found == 0 && !engine->stopping && !turn_doc_ended(&t)) {
		j->since_ns = j->since_ns ? j->since_ns : engine_now(engine);
		found = prepare_evaluation(engine, j, &t, &e);
		const struct policy_key at = { .uid = (uint32_t)t.uid,
					       .peer_fd = engine->o.ports->find_peer(engine->o.host, (uint32_t)t.uid),
					       .workspace = j->workspace,
					       .home = j->home,
					       .since_ns = j->since_ns };
		if (found == 0)
			found = policy_lookup_of(engine, &at, &rules, &e);
		if (found > 0) {
			j->waited = true;
			policy_lookup_await(engine, at.uid, j->workspace, evaluate_call, j);
			return;
		}
		if (found < 0) {
			deny_unread(j, e.message);
		} else if (decide_call(engine, j, rules, &t)) {
			j->waited = true;
			tool_hooks_run(&j->hooks, evaluate_call, j);
			return;
		}
		(j->decision.answer == POLICY_ALLOW ? begin_call
		 : j->decision.answer == POLICY_ASK ? request_approval
						    : deny_call)(engine, j, &t);
	} else if (j->fn) {
		err_set(&e, ERR_UNAVAILABLE, engine->stopping ? "the daemon is stopping" : "turn '%s' has ended",
			j->turn_id);
		j->fn(j->ctx, &e, NULL, 0);
	}
	char turn_id[ID_SIZE];
	bool step = j->waited && j->from == TOOL_FROM_LOOP;
	id_copy(turn_id, j->turn_id);
	evaluation_free(engine, j);
	if (step)
		modules_due(engine, DUE_TURN_STEP, turn_id);
}

/* Copies what the request owns: the evaluation may outlive it. */
static struct tool_evaluation *evaluation_new(struct engine *engine, const char *turn_id, const struct tool_use *u,
					      enum tool_from from)
{
	struct tool_evaluation *j = mem_zalloc(1, sizeof *j);

	j->use = *u;
	j->use.tool = mem_strdup(u->tool);
	j->use.request_id = mem_strdup(u->request_id);
	j->use.arguments = json_incref((json_t *)(uintptr_t)u->arguments);
	j->client = u->runner != NULL;
	j->use.runner = u->runner ? "client" : NULL;
	if (!u->arguments_hash[0])
		tool_arguments_hash(u->arguments, j->use.arguments_hash);
	j->from = from;
	id_copy(j->turn_id, turn_id);
	if (u->call_id)
		id_copy(j->call_id, u->call_id);
	else
		id_make(ID_KIND_TOOL_CALL, j->call_id);
	j->use.call_id = j->call_id;
	TAILQ_INSERT_TAIL(&engine->calls->evaluations, j, link);
	return j;
}

void tool_check_permission(struct engine *engine, const char *turn_id, const struct tool_use *u, enum tool_from from,
			   uint64_t timeout_ms, const struct caller *c, engine_reply_fn fn, void *ctx)
{
	struct tool_evaluation *j = evaluation_new(engine, turn_id, u, from);

	j->timeout_ms = timeout_ms;
	j->fn = fn;
	j->ctx = ctx;
	if (fn)
		caller_copy(&j->caller, c);
	evaluate_call(engine, j);
}

int tool_not_begun(struct engine *engine, const char *turn_id, const char *call_id, char ret_hash[HASH_SHA256_TEXT],
		   char ret_tool[ID_SIZE])
{
	buf_auto struct buf text = BUF_INIT;
	const struct tool_evaluation *j;
	struct action_doc a;

	TAILQ_FOREACH (j, &engine->calls->evaluations, link)
		if (strcmp(j->call_id, call_id) == 0) {
			memcpy(ret_hash, j->use.arguments_hash, HASH_SHA256_TEXT);
			id_copy(ret_tool, j->use.tool);
			return 1;
		}
	if (!action_of_call(engine, ACTION_KIND_TOOL, turn_id, call_id, &text, &a))
		return 0;
	jval_str(jval_get(a.continuation, "argumentsHash"), ret_hash, HASH_SHA256_TEXT);
	jval_str(jval_get(a.continuation, "toolName"), ret_tool, ID_SIZE);
	return 2;
}

/* ---- a person's answer ---- */

/* A call that waits for a person, from the continuation of its action. */
struct asked_call {
	struct tool_use use; /* refers to the following members */
	char tool[ID_SIZE], call_id[ID_SIZE];
	json_t *arguments; /* NULL: they cannot be read */
	enum tool_from from;
};

static void asked_call_done(struct asked_call *k) { json_decref(k->arguments); }

#define asked_call_auto __attribute__((cleanup(asked_call_done)))

static void asked_call_read(struct engine *engine, const struct action_doc *a, struct asked_call *ret)
{
	struct jval c = a->continuation, by = jval_get(c, "by");
	buf_auto struct buf text = BUF_INIT;
	char ref[ID_SIZE] = "";
	struct err e = ERR_INIT;

	jval_str(jval_get(c, "toolName"), ret->tool, ID_SIZE);
	jval_str(jval_get(c, "callId"), ret->call_id, ID_SIZE);
	jval_str(jval_get(c, "argumentsRef"), ref, sizeof ref);
	ret->arguments = store_output_whole(engine->o.store, ref, TOOL_ARGS_MAX, &text, &e) == 0
				 ? json_loadb(buf_cstr(&text), text.len, 0, NULL)
				 : NULL;
	ret->from = jval_is_str(jval_get(c, "from"), "turn") ? TOOL_FROM_LOOP : TOOL_FROM_INVOKE;
	ret->use = (struct tool_use){ .tool = ret->tool,
				      .call_id = ret->call_id,
				      .arguments = ret->arguments,
				      .part = (int)jval_int(jval_get(c, "part"), -1),
				      .runner = jval_bool(jval_get(c, "client"), false) ? "client" : NULL,
				      .connection = jval_uint(jval_get(c, "connection"), 0),
				      .by = { .uid = (uint32_t)jval_uint(jval_get(by, "uid"), a->uid),
					      .pid = (int32_t)jval_int(jval_get(by, "pid"), 0),
					      .role = jval_is_str(jval_get(by, "role"), "operator") ? ROLE_OPERATOR
												    : ROLE_AGENT } };
	jval_str(jval_get(c, "argumentsHash"), ret->use.arguments_hash, sizeof ret->use.arguments_hash);
}

static void tool_resolved(struct engine *engine, const struct action_outcome *o, struct transaction *tx)
{
	const bool answered = strcmp(o->status, "cancelled") != 0 && strcmp(o->status, "timed_out") != 0;
	const char *status = answered ? "failed" : o->status;
	asked_call_auto struct asked_call call = { 0 };
	char permission[ID_SIZE];
	buf_auto struct buf text = BUF_INIT, message = BUF_INIT;
	struct turn_doc t;
	struct err e = ERR_INIT;

	permission_resolved(engine, o, tx);
	if (o->allowed || turn_read(engine, o->action->turnId, &text, &t, &e) != 0)
		return;
	asked_call_read(engine, o->action, &call);
	buf_printf(&message, "%s%s%.200s",
		   strcmp(status, "timed_out") == 0   ? "approval timed out"
		   : strcmp(status, "cancelled") == 0 ? "it was ended before it was approved"
						      : "it was denied",
		   o->note ? ": " : "", o->note ? o->note : "");
	jval_str(jval_get(o->action->continuation, "permissionRef"), permission, sizeof permission);
	never_began(&t, &call.use, permission, status, message.data, tx);
}

/* The answer is durable. An approved call is evaluated once more: a rule may deny it by now. */
static void tool_over(struct engine *engine, const char *action_id)
{
	asked_call_auto struct asked_call call = { 0 };
	buf_auto struct buf text = BUF_INIT;
	struct action_doc a;
	struct err e = ERR_INIT;

	if (action_read(engine, action_id, &text, &a, &e) != 0)
		return;
	asked_call_read(engine, &a, &call);
	if (strncmp(a.decision, "allow", 5) == 0 && strcmp(a.status, "resolved") == 0 && call.arguments) {
		struct tool_evaluation *j = evaluation_new(engine, a.turnId, &call.use, call.from);

		id_copy(j->action_id, action_id);
		evaluate_call(engine, j);
	} else {
		tool_waiters_answer(engine, call.call_id);
	}
}

const struct action_kind_ops tool_action_ops = { .persist = permission_persist,
						 .is_persisting = permission_is_persisting,
						 .resolved = tool_resolved,
						 .over = tool_over };
