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
#include "supervisor/control/control.h"
#include "supervisor/host/config.h"

#include <string.h>

#define NOTE_MAX 4096u
#define CHECKED_MAX (1u << 20)

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

void method_evaluate_permission(struct call *c, const struct evaluate_permission_params *p)
{
	const char *tool = p->toolName;
	bool command;
	json_auto_t *start = as_start(c, p, &command);
	mem_auto char *host = tool_host_of(p->arguments);
	start_spec_auto struct start_spec s = { 0 };
	struct tool_paths paths = { 0 };
	struct err e = ERR_INIT;

	if (tool && (!tool[0] || strlen(tool) > 200))
		err_field(&e, "toolName", "must have 1 to 200 bytes");
	if (e.code || start_spec_of(call_engine(c), start, &s, &e) < 0) {
		call_fail(c, &e);
		return;
	}
	if (tool && tool_is_client_run(tool, NULL))
		s.request.tool_runner = "client";
	if (!command) {
		tool_paths_of(tool, p->arguments, &paths);
		s.request.tool = tool;
		s.request.tool_host = host;
		s.request.tool_paths = (const char *const *)paths.path;
		s.request.ntool_paths = paths.count;
	}
	if (paths.too_many) {
		err_field(&e, "arguments", "name more than %u files; make it several", TOOL_PATHS_MAX);
		call_fail(c, &e);
	} else {
		engine_evaluate_permission(call_engine(c), &s.request, &c->caller, call_engine_reply, c);
	}
	tool_paths_done(&paths);
}

void method_resolve_permission(struct call *c, const struct resolve_permission_params *p)
{
	const struct action_answer r = {
		.action_id = p->actionId,
		.decision = p->decision,
		.scope = p->scope,
		.note = p->note,
		.source = "host",
	};
	struct err e = ERR_INIT;

	if (!config_may_approve(call_config(c), c->caller.uid, c->caller.gid))
		err_set(&e, ERR_NOT_ALLOWED, "uid %u may not answer actions here (approvers)", c->caller.uid);
	else if (r.note && strlen(r.note) > NOTE_MAX)
		err_field(&e, "note", "must have at most %u bytes", NOTE_MAX);
	if (e.code)
		call_fail(c, &e);
	else
		engine_respond_action(call_engine(c), &r, &c->caller, call_engine_reply, c);
}

void method_get_policy(struct call *c, const struct get_policy_params *p)
{
	engine_show_policy(call_engine(c), p->sessionId, p->cwd, &c->caller, call_engine_reply, c);
}

void method_set_permission_mode(struct call *c, const struct set_permission_mode_params *p)
{
	struct err e = ERR_INIT;

	if (!config_may_approve(call_config(c), c->caller.uid, c->caller.gid)) {
		err_set(&e, ERR_NOT_ALLOWED, "uid %u may not change modes here (approvers)", c->caller.uid);
		call_fail(c, &e);
		return;
	}
	engine_set_permission_mode(call_engine(c), p->sessionId, p->mode, &c->caller, call_engine_reply, c);
}

void method_reload_policy(struct call *c, const struct reload_policy_params *p)
{
	if (call_require_full_view(c))
		return;
	engine_reload_policy(call_engine(c), &c->caller, call_engine_reply, c);
}

static void check_result(const struct policy_rules *rules, const struct policy_hooks *hooks, const struct err *e,
			 struct buf *out)
{
	struct jw w = jw_on(out);

	jw_obj(&w);
	jw_kbool(&w, "ok", !e->code);
	if (e->code)
		jw_kstr(&w, "problem", e->message);
	jw_kuint(&w, "rules", rules->count);
	jw_kuint(&w, "hooks", hooks->count);
	jw_karr(&w, "notes");
	for (size_t i = 0; i < rules->nnotes; i++)
		jw_str(&w, rules->note[i]);
	for (size_t i = 0; i < hooks->nnotes; i++)
		jw_str(&w, hooks->note[i]);
	jw_arr_end(&w);
	jw_obj_end(&w);
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

void method_check_policy(struct call *c, const struct check_policy_params *p)
{
	const char *text = p->text, *name = p->file, *layer = p->layer;
	enum rule_layer of = !layer || strcmp(layer, "user") == 0 ? RULE_OF_USER
			     : strcmp(layer, "host") == 0         ? RULE_OF_HOST
								  : RULE_OF_WORKSPACE;
	struct policy_rules rules = RULES_INIT;
	struct policy_profiles profiles = { 0 };
	struct model_list models = { 0 };
	struct policy_hooks hooks = { 0 };
	buf_auto struct buf out = BUF_INIT;
	struct err e = ERR_INIT;
	size_t n = strlen(text);

	name = name ? name : "policy.json";
	if (n > CHECKED_MAX) {
		err_field(&e, "text", "must have at most %u bytes", CHECKED_MAX);
		call_fail(c, &e);
		return;
	}
	if (layer && strcmp(layer, "session") == 0)
		(void)check_session_file(name, text, n, &rules, &e);
	else if (policy_rules_parse(&rules, of, name, text, n, &e) == 0 &&
		 policy_hooks_parse(&hooks, of, name, text, n, &e) == 0 &&
		 policy_profiles_parse(&profiles, name, text, n, &e) == 0)
		(void)model_list_parse(&models, name, text, n, &e);
	check_result(&rules, &hooks, &e, &out);
	policy_rules_done(&rules);
	policy_profiles_done(&profiles);
	model_list_done(&models);
	policy_hooks_done(&hooks);
	call_reply(c, out.data, out.len);
}
