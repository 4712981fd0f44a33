#include "supervisor/gateway/mcp/mcp_prompt.h"

#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "supervisor/gateway/common/rpc_message.h"
#include "supervisor/gateway/mcp/mcp_private.h"
#include "supervisor/gateway/mcp/mcp_reply.h"
#include "supervisor/gateway/mcp/mcp_resource.h"
#include "supervisor/gateway/mcp/mcp_tables.h"

#include <string.h>

/* The texts of the prompts in mcp_prompts.def. Arguments are the user's own words and are quoted as such. */

void mcp_prompt_run_tests(struct mcp_call *c)
{
	const char *command = mcp_prompt_argument(c, "command"), *cwd = mcp_prompt_argument(c, "cwd");
	buf_auto struct buf t = BUF_INIT;

	buf_printf(&t, "Make the tests%s%s pass.\n\n", *cwd ? " in " : "", cwd);
	if (*command)
		buf_printf(&t,
			   "1. Run them with exec: `%s`. Give it a yieldMs that fits; if it still runs, use wait.\n",
			   command);
	else
		buf_str(&t, "1. Find out how this project runs its tests (README, Makefile, package.json …) and run "
			    "them with exec.\n");
	buf_str(&t,
		"2. If something fails, read the failing test and the code it is about (read_file) before you change "
		"anything. Output that was left out can "
		"be read with read_output.\n"
		"3. Fix the cause with apply_patch, not the test, unless the test itself is wrong; say which it is.\n"
		"4. Run the tests again, until they pass. If a denial by the sandbox is the cause, do not work around "
		"it: say what was denied and what would allow it.\n"
		"5. Sum up what was wrong and what you changed.");
	mcp_prompt_finish(c, "Run the tests and fix what fails", t.data);
}

void mcp_prompt_try_safely(struct mcp_call *c)
{
	buf_auto struct buf t = BUF_INIT;

	buf_printf(
		&t,
		"Try this command without consequences: `%s`\n\n"
		"1. Run it with exec and cow: true, so that its changes are held back.\n"
		"2. Show what it would change with changes, and judge each change: wanted, harmless, or not wanted.\n"
		"3. Tell me before anything becomes real. Then apply the paths that are wanted and discard the rest.",
		mcp_prompt_argument(c, "command"));
	mcp_prompt_finish(c, "Try a command on a copy", t.data);
}

void mcp_prompt_review_changes(struct mcp_call *c)
{
	buf_auto struct buf t = BUF_INIT;

	buf_printf(&t,
		   "Review what the command %s changed; its changes are held back.\n\n"
		   "1. Call changes with this processId. Read every change as you would review a colleague's.\n"
		   "2. List the changes with a word on each: what it does, and whether it is right, unneeded or "
		   "dangerous (deleted data, secrets, lowered checks).\n"
		   "3. Recommend which paths to apply and which to discard, and wait for my answer before you call "
		   "either.",
		   mcp_prompt_argument(c, "processId"));
	mcp_prompt_finish(c, "Review held-back changes", t.data);
}

/* ---- prompts about one process, with its record ---- */

static void finish_with_process(struct mcp_call *c, const char *description, const char *words, const json_t *process)
{
	mem_auto char *uri = mem_printf("bailiff://process/%s", json_get_text(process, "processId"));
	mem_auto char *dump = json_dumps(process, JSON_INDENT(2) | JSON_ENCODE_ANY);

	mcp_call_finish(c, json_pack("{ss s[{ss s{ss so}} {ss s{ss s{ss ss so}}}]}", "description", description,
				     "messages", "role", "user", "content", "type", "text", "text",
				     rpc_message_text(words, strlen(words)), "role", "user", "content", "type",
				     "resource", "resource", "uri", uri, "mimeType", "application/json", "text",
				     rpc_message_text(dump, strlen(dump))));
}

static void on_denied(struct mcp_call *c, json_t *process, json_t *error)
{
	if (error)
		mcp_call_fail(c, RPC_INVALID_PARAMS, NULL, "processId: %s", json_get_text(error, "message"));
	else
		finish_with_process(
			c, "Explain a denial",
			"Explain why this command was denied or stopped: `violations` lists what its sandbox denied, "
			"`message` has the reason of the policy or a person. For each say what was attempted, which "
			"boundary stopped it, whether the command needed it at all, and the smallest thing that would "
			"allow it (a rule, a write root, a host), with its risk. Do not try to get around it.",
			process);
}

void mcp_prompt_explain_denial(struct mcp_call *c)
{
	mcp_call_get_process(c, mcp_prompt_argument(c, "processId"), on_denied);
}

static void on_debugged(struct mcp_call *c, json_t *process, json_t *error)
{
	if (error)
		mcp_call_fail(c, RPC_INVALID_PARAMS, NULL, "processId: %s", json_get_text(error, "message"));
	else
		finish_with_process(
			c, "Find out why a command failed",
			"Find out why this command failed. Read the end of its output first (read_output with tail, "
			"stderr before stdout), then what lies before. Look at its exit code or signal, its limits, "
			"and "
			"at `violations`: a denial by the sandbox is often the cause of an error that sounds "
			"different. "
			"Name the cause with the line that shows it, and what to do.",
			process);
}

void mcp_prompt_debug_process(struct mcp_call *c)
{
	mcp_call_get_process(c, mcp_prompt_argument(c, "processId"), on_debugged);
}

void mcp_prompt_session_report(struct mcp_call *c)
{
	mcp_prompt_finish(c, "Report on this session",
			  "Report on what was done in this session. Read the resources bailiff://processes and "
			  "bailiff://events, and show in a short table: each command, its "
			  "outcome, what it changed, what was denied and who approved what. Then list what still runs "
			  "(ps) and which changes are held back.");
}

/* ---- completion ---- */

static void on_commands(struct mcp_call *c, json_t *result, json_t *error)
{
	const char *typed = json_get_text(json_object_get(c->params, "argument"), "value");
	json_t *values = json_array(), *p, *seen;
	size_t i, k;

	json_array_foreach (json_object_get(result, "processes"), i, p) {
		const char *line = json_get_text(p, "commandLine");
		bool known = false;

		json_array_foreach (values, k, seen)
			known = known || strcmp(json_string_value(seen), line) == 0;
		if (*line && !known && strncmp(line, typed, strlen(typed)) == 0)
			json_array_append(values, json_object_get(p, "commandLine"));
	}
	mcp_resource_completion(c, values);
}

void mcp_prompt_complete(struct mcp_call *c)
{
	if (strcmp(c->name, "command") == 0) /* commands that ran before */
		mcp_call_query(c, "list_processes",
			       json_pack("{ss si}", "sessionId", gateway_session_id(c->up), "limit", 200), on_commands);
	else
		mcp_resource_complete(c);
}

static const struct mcp_prompt *mcp_prompt_at(const struct mcp_config *config, size_t i)
{
	for (size_t k = 0; k < countof(config->tables) && config->tables[k]; k++) {
		if (i < config->tables[k]->nprompts)
			return &config->tables[k]->prompts[i];
		i -= config->tables[k]->nprompts;
	}
	return NULL;
}

static const struct mcp_prompt *mcp_prompt_find(const struct mcp_config *config, const char *name)
{
	const struct mcp_prompt *p;

	for (size_t i = 0; (p = mcp_prompt_at(config, i)); i++)
		if (strcmp(p->name, name) == 0)
			return p;
	return NULL;
}

static json_t *mcp_prompt_describe(const struct mcp_prompt *p)
{
	return json_pack("{ss ss ss so}", "name", p->name, "title", p->title, "description", p->description,
			 "arguments", json_loads(p->arguments, 0, NULL));
}

static json_t *prompt_row(struct mcp_call *c, size_t i)
{
	const struct mcp_prompt *p = mcp_prompt_at(c->mcp->o.config, i);

	return p ? mcp_prompt_describe(p) : NULL;
}

void mcp_method_prompts_list(struct mcp_call *c) { mcp_reply_page(c, "prompts", prompt_row); }

/* Checks that all arguments are strings, are known, and that required ones are present. */
static int check_arguments(const struct mcp_prompt *p, const json_t *given, struct err *e)
{
	json_auto_t *arguments = json_loads(p->arguments, 0, NULL);
	size_t i;
	const json_t *one;
	const char *name;

	json_array_foreach (arguments, i, one) {
		const char *key = json_get_string(one, "name");
		const json_t *v = json_object_get(given, key);
		bool required = json_get_flag(one, "required");

		if (v ? !json_is_string(v) : required)
			return err_set(e, ERR_INVALID, "arguments.%s: %s a string", key,
				       required ? "is required," : "expected");
	}
	json_object_foreach ((json_t *)given, name, one) {
		bool found = false;
		const json_t *argument;

		json_array_foreach (arguments, i, argument)
			found |= strcmp(json_get_string(argument, "name"), name) == 0;
		if (!found)
			return err_set(e, ERR_INVALID, "arguments.%.60s: this prompt has no such argument", name);
	}
	return 0;
}

void mcp_method_prompts_get(struct mcp_call *c)
{
	const char *name = json_get_string(c->params, "name");
	json_t *arguments = json_object_get(c->params, "arguments");
	const struct mcp_prompt *p = name ? mcp_prompt_find(c->mcp->o.config, name) : NULL;
	struct err e = ERR_INIT;

	if (!p)
		return mcp_call_fail(c, RPC_INVALID_PARAMS, NULL, "name: there is no prompt %.100s",
				     name ? name : "without a name");
	if (arguments && !json_is_object(arguments))
		return mcp_call_fail(c, RPC_INVALID_PARAMS, NULL, "arguments: expected an object");
	c->name = p->name;
	c->arguments = arguments ? json_incref(arguments) : json_object();
	if (check_arguments(p, c->arguments, &e) < 0)
		mcp_call_fail(c, RPC_INVALID_PARAMS, NULL, "%s", e.message);
	else
		p->get(c);
}

void mcp_prompt_finish(struct mcp_call *c, const char *description, const char *text)
{
	json_t *message = json_pack("{ss s{ss so}}", "role", "user", "content", "type", "text", "text",
				    rpc_message_text(text, strlen(text)));

	mcp_call_finish(c, json_pack("{ss s[o]}", "description", description, "messages", message));
}

const char *mcp_prompt_argument(const struct mcp_call *c, const char *name)
{
	const char *v = json_get_string(c->arguments, name);

	return v ? v : "";
}

/* ---- completion of arguments of prompts and resource templates ---- */

static mcp_call_fn find_completer(struct mcp_call *c, const json_t *ref, bool *ret_known)
{
	const char *type = json_get_string(ref, "type");
	const struct mcp_config *config = c->mcp->o.config;

	*ret_known = false;
	if (type && strcmp(type, "ref/prompt") == 0) {
		const char *name = json_get_string(ref, "name");
		const struct mcp_prompt *p = name ? mcp_prompt_find(config, name) : NULL;

		*ret_known = p != NULL;
		return p ? p->complete : NULL;
	}
	const char *uri = type && strcmp(type, "ref/resource") == 0 ? json_get_string(ref, "uri") : NULL;
	const struct mcp_resource *r;
	for (size_t i = 0; uri && (r = mcp_resource_at(config, i)); i++)
		if (strcmp(r->uri, uri) == 0) {
			*ret_known = true;
			return r->complete;
		}
	return NULL;
}

void mcp_method_complete(struct mcp_call *c)
{
	const json_t *argument = json_object_get(c->params, "argument"), *name = json_object_get(argument, "name");
	bool known;
	mcp_call_fn complete = find_completer(c, json_object_get(c->params, "ref"), &known);

	if (!json_is_string(name) || !json_is_string(json_object_get(argument, "value")))
		mcp_call_fail(c, RPC_INVALID_PARAMS, NULL,
			      "argument: expected an object with the strings name and value");
	else if (!known)
		mcp_call_fail(c, RPC_INVALID_PARAMS, NULL, "ref: there is no such prompt or resource template");
	else if (complete) {
		c->name = json_string_value(name);
		complete(c);
	} else {
		mcp_resource_completion(c, json_array());
	}
}
