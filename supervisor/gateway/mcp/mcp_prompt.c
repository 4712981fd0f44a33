#include "supervisor/gateway/mcp/mcp_prompt.h"

#include "runtime/base/err.h"
#include "runtime/base/json_get.h"
#include "runtime/base/mem.h"
#include "supervisor/gateway/common/rpc_message.h"
#include "supervisor/gateway/mcp/mcp_page.h"
#include "supervisor/gateway/mcp/mcp_private.h"
#include "supervisor/gateway/mcp/mcp_resource.h"
#include "supervisor/gateway/mcp/mcp_tables.h"

#include <string.h>

const struct mcp_prompt *mcp_prompt_at(const struct mcp_config *config, size_t i)
{
	for (size_t k = 0; k < countof(config->tables) && config->tables[k]; k++) {
		if (i < config->tables[k]->nprompts)
			return &config->tables[k]->prompts[i];
		i -= config->tables[k]->nprompts;
	}
	return NULL;
}

const struct mcp_prompt *mcp_prompt_find(const struct mcp_config *config, const char *name)
{
	const struct mcp_prompt *p;

	for (size_t i = 0; (p = mcp_prompt_at(config, i)); i++)
		if (strcmp(p->name, name) == 0)
			return p;
	return NULL;
}

json_t *mcp_prompt_describe(const struct mcp_prompt *p)
{
	return json_pack("{ss ss ss so}", "name", p->name, "title", p->title, "description", p->description,
			 "arguments", json_loads(p->arguments, 0, NULL));
}

static json_t *prompt_row(struct mcp_call *c, size_t i)
{
	const struct mcp_prompt *p = mcp_prompt_at(c->mcp->o.config, i);

	return p ? mcp_prompt_describe(p) : NULL;
}

void mcp_method_prompts_list(struct mcp_call *c) { mcp_page_finish(c, "prompts", prompt_row); }

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

	if (!p) {
		mcp_call_fail(c, RPC_INVALID_PARAMS, NULL, "name: there is no prompt %.100s",
			      name ? name : "without a name");
		return;
	}
	if (arguments && !json_is_object(arguments)) {
		mcp_call_fail(c, RPC_INVALID_PARAMS, NULL, "arguments: expected an object");
		return;
	}
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
