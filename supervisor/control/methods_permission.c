/* Questions to people (actions) and the policy that decides when one is asked. */

#include "supervisor/control/methods.h"

#include "policy/hooks.h"
#include "policy/model_list.h"
#include "policy/policy_text.h"
#include "policy/profiles.h"
#include "policy/rules.h"
#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "runtime/engine/call/tool_call.h"
#include "runtime/engine/process/start_spec.h"
#include "runtime/view/view.h"
#include "supervisor/host/config.h"

#include <string.h>

#define TYPE_MAX 64u
#define NOTE_MAX 4096u
#define JSON_MAX 16384u
#define CHECKED_MAX (1u << 20)

/* ---- actions ---- */

int method_request_action(struct call *c, const struct request_action_params *p, struct buf *out, struct err *e)
{
	mem_auto char *schema = param_json_text("schema", p->schema, JSON_MAX, e);
	mem_auto char *decisions = param_json_text("decisions", p->decisions, TYPE_MAX * 16, e);
	const struct action_request r = {
		.turn_id = p->turnId,
		.task_id = p->taskId,
		.action_type = p->actionType,
		.prompt = p->prompt,
		.schema_json = schema,
		.decisions_json = decisions,
		.default_decision = p->defaultDecision,
		.timeout_ms = p->timeoutMs.value,
	};

	if (e->code || param_length("actionType", p->actionType, 1, TYPE_MAX, e) < 0 ||
	    param_length("defaultDecision", p->defaultDecision, 0, TYPE_MAX, e) < 0)
		return -1;
	engine_request_action(call_engine(c), &r, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

/* The configuration's `approvers` limits which users may decide for others and for themselves. */
static int check_approver(const struct call *c, const char *what, struct err *e)
{
	return call_may_approve(c)
		       ? 0
		       : err_set(e, ERR_NOT_ALLOWED, "uid %u may not %s here (approvers)", c->caller.uid, what);
}

static int answer_action(struct call *c, const struct action_answer *r, struct err *e)
{
	if (check_approver(c, "answer actions", e) < 0 || param_length("note", r->note, 0, NOTE_MAX, e) < 0)
		return -1;
	engine_respond_action(call_engine(c), r, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

int method_respond_action(struct call *c, const struct respond_action_params *p, struct buf *out, struct err *e)
{
	mem_auto char *payload = param_json_text("payload", p->payload, JSON_MAX, e);
	const struct action_answer r = {
		.action_id = p->actionId,
		.decision = p->decision,
		.scope = p->scope,
		.note = p->note,
		.response_json = payload,
	};

	return e->code ? -1 : answer_action(c, &r, e);
}

/* A host application that decides instead of a person: `source` records that. */
int method_resolve_permission(struct call *c, const struct resolve_permission_params *p, struct buf *out, struct err *e)
{
	const struct action_answer r = {
		.action_id = p->actionId,
		.decision = p->decision,
		.scope = p->scope,
		.note = p->note,
		.source = "host",
	};

	return answer_action(c, &r, e);
}

int method_list_actions(struct call *c, const struct list_actions_params *p, struct buf *out, struct err *e)
{
	const struct view_action_query q = {
		.status = p->status,
		.session_id = p->sessionId,
		.thread_id = p->threadId,
		.turn_id = p->turnId,
		.task_id = p->taskId,
		.limit = param_page_limit(p->limit, 100),
		.cursor = p->cursor,
	};

	return view_actions(call_store(c), call_visible_uid(c), &q, out, e);
}

/* ---- policy ---- */

/*
 * evaluate_permission must decide as the real request would, so both use the same path: the arguments become a start
 * request, and the engine evaluates that without running it.
 */

/* A tool's call, as the start that it would become. Sets *ret_command when that is a command. */
static json_t *as_start(const struct call *c, const struct evaluate_permission_params *p, bool *ret_command)
{
	json_t *all = json_copy(c->params), *args = p->arguments;
	json_t *command = json_object_get(args, "command");
	const char *tool = p->toolName;
	const bool shell = tool && strcmp(tool, "shell") == 0;

	json_object_del(all, "toolName");
	json_object_del(all, "arguments");
	*ret_command = !tool || shell || (rule_kind_of_tool(tool) == RULE_BASH && json_is_string(command));
	if (tool && *ret_command && json_is_string(command))
		json_object_set(all, "commandLine", command);
	else if (shell)
		json_object_update(all, args);
	else if (tool)
		json_object_set_new(all, "command", json_pack("[s]", tool));
	return all;
}

int method_evaluate_permission(struct call *c, const struct evaluate_permission_params *p, struct buf *out,
			       struct err *e)
{
	const char *tool = p->toolName;
	bool command;
	json_auto_t *start = as_start(c, p, &command);
	mem_auto char *host = tool_host_of(p->arguments);
	start_spec_auto struct start_spec s = { 0 };
	struct tool_paths paths = { 0 };
	int r = CALL_PENDING;

	if (param_length("toolName", tool, 1, 200, e) < 0 || start_spec_of(call_engine(c), start, &s, e) < 0)
		return -1;
	if (tool && tool_evaluated_first(call_engine(c), tool, (struct tool_scope){ c->caller.uid, p->sessionId }))
		s.request.tool_runner = "client";
	if (!command) {
		tool_paths_of(tool, p->arguments, &paths);
		s.request.tool = tool;
		s.request.tool_host = host;
		s.request.tool_paths = (const char *const *)paths.path;
		s.request.ntool_paths = paths.count;
	}
	if (paths.too_many)
		r = err_field(e, "arguments", "name more than %u files; split the call", TOOL_PATHS_MAX);
	else
		engine_evaluate_permission(call_engine(c), &s.request, &c->caller, call_engine_reply, c);
	tool_paths_done(&paths);
	return r;
}

int method_get_policy(struct call *c, const struct get_policy_params *p, struct buf *out, struct err *e)
{
	engine_show_policy(call_engine(c), p->sessionId, p->cwd, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

int method_set_permission_mode(struct call *c, const struct set_permission_mode_params *p, struct buf *out,
			       struct err *e)
{
	if (check_approver(c, "change modes", e) < 0)
		return -1;
	engine_set_permission_mode(call_engine(c), p->sessionId, p->mode, &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

int method_reload_policy(struct call *c, const struct reload_policy_params *p, struct buf *out, struct err *e)
{
	if (call_require_full_view(c, e) < 0)
		return -1;
	engine_reload_policy(call_engine(c), &c->caller, call_engine_reply, c);
	return CALL_PENDING;
}

/* A file for a session: `permissions` and `prefixRules` of it, and nothing else. */
static int check_session_file(const char *name, const char *text, size_t n, struct policy_rules *ret, struct err *e)
{
	json_auto_t *v = policy_text_load(name, text, n, CHECKED_MAX, e), *rules = NULL;
	json_t *given = json_object_get(v, "permissions"), *item;
	const char *key;

	if (!v)
		return -1;
	if (given && !json_is_object(given))
		return err_field(e, "permissions", "%.200s: permissions: must be an object", name);
	json_object_foreach (v, key, item)
		if (strcmp(key, "permissions") != 0 && strcmp(key, "prefixRules") != 0)
			return err_field(
				e, key,
				"%.200s: %.60s: is not for sessions, which have permissions and prefixRules only", name,
				key);
	json_object_foreach (given, key, item)
		if (strcmp(key, "deny") != 0 && strcmp(key, "ask") != 0 && strcmp(key, "allow") != 0)
			return err_field(
				e, key,
				"%.200s: permissions.%.60s: is not for sessions, which have deny, ask and allow there",
				name, key);
	rules = given ? json_copy(given) : json_object();
	if (json_object_get(v, "prefixRules"))
		json_object_set(rules, "prefixRules", json_object_get(v, "prefixRules"));
	return policy_rules_session(ret, name, rules, e) < 0 ? err_wrap(e, "%.200s", name) : 0;
}

/* An invalid file is a result, not an error of the request: `ok` is false and `problem` has the message. */
int method_check_policy(struct call *c, const struct check_policy_params *p, struct buf *out, struct err *e)
{
	const char *text = p->text, *name = p->file ? p->file : "policy.json", *layer = p->layer ? p->layer : "user";
	enum rule_layer of = strcmp(layer, "user") == 0   ? RULE_OF_USER
			     : strcmp(layer, "host") == 0 ? RULE_OF_HOST
							  : RULE_OF_WORKSPACE;
	struct policy_rules rules = RULES_INIT;
	struct policy_profiles profiles = { 0 };
	struct model_list models = { 0 };
	struct policy_hooks hooks = { 0 };
	struct err found = ERR_INIT;
	struct jw w = jw_on(out);
	size_t n = strlen(text);

	if (param_length("text", text, 0, CHECKED_MAX, e) < 0)
		return -1;
	if (strcmp(layer, "session") == 0)
		(void)check_session_file(name, text, n, &rules, &found);
	else if (policy_rules_parse(&rules, of, name, text, n, &found) == 0 &&
		 policy_hooks_parse(&hooks, of, name, text, n, &found) == 0 &&
		 policy_profiles_parse(&profiles, name, text, n, &found) == 0)
		(void)model_list_parse(&models, name, text, n, &found);
	jw_obj(&w);
	jw_kbool(&w, "ok", !found.code);
	jw_kopt(&w, "problem", found.code ? found.message : NULL);
	jw_kuint(&w, "rules", rules.count);
	jw_kuint(&w, "hooks", hooks.count);
	jw_karr(&w, "notes");
	for (size_t i = 0; i < rules.nnotes; i++)
		jw_str(&w, rules.note[i]);
	for (size_t i = 0; i < hooks.nnotes; i++)
		jw_str(&w, hooks.note[i]);
	jw_arr_end(&w);
	jw_obj_end(&w);
	policy_rules_done(&rules);
	policy_profiles_done(&profiles);
	model_list_done(&models);
	policy_hooks_done(&hooks);
	return CALL_REPLY;
}
