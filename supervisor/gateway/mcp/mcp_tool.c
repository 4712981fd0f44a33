#include "supervisor/gateway/mcp/mcp_tool.h"

#include "runtime/base/err.h"
#include "runtime/base/json_schema.h"
#include "runtime/base/mem.h"
#include "supervisor/gateway/common/rpc_message.h"
#include "supervisor/gateway/mcp/mcp_private.h"
#include "supervisor/gateway/mcp/mcp_reply.h"
#include "supervisor/gateway/mcp/mcp_tables.h"
#include "supervisor/gateway/mcp/mcp_task.h"
#include "supervisor/gateway/mcp/mcp_version.h"
#include "supervisor/gateway/mcp/mcp_workspace.h"

#include <string.h>

/* Row i of the tools of a session, or NULL. */
static const struct mcp_tool *mcp_tool_at(const struct mcp_config *config, size_t i)
{
	for (size_t k = 0; k < countof(config->tables) && config->tables[k]; k++) {
		if (i < config->tables[k]->ntools)
			return &config->tables[k]->tools[i];
		i -= config->tables[k]->ntools;
	}
	return NULL;
}

const struct mcp_tool *mcp_tool_find(const struct mcp_config *config, const char *name)
{
	const struct mcp_tool *t;

	for (size_t i = 0; (t = mcp_tool_at(config, i)); i++)
		if (strcmp(t->name, name) == 0)
			return t;
	return NULL;
}

static void set_hint(json_t *of, const char *key, bool value) { json_object_set_new(of, key, json_boolean(value)); }

/* The row of tools/list for a client of this era and version; `structured`: with the output schema. */
static json_t *mcp_tool_describe(const struct mcp_tool *t, enum mcp_era era, const char *version, bool structured)
{
	json_t *d = json_pack("{ss ss so}", "name", t->name, "description", t->description, "inputSchema",
			      json_loads(t->input, 0, NULL));

	if (mcp_version_at_least(version, "2025-03-26")) {
		json_t *a = json_object(); /* defaults are omitted, except for the two that matter for safety */

		if (!mcp_version_at_least(version, "2025-06-18")) /* later versions have it next to the name */
			json_object_set_new(a, "title", json_string(t->title));
		set_hint(a, "readOnlyHint", t->hints & TOOL_READS);
		if (!(t->hints & TOOL_READS)) {
			set_hint(a, "destructiveHint", t->hints & TOOL_DESTROYS);
			if (t->hints & TOOL_REPEATABLE)
				set_hint(a, "idempotentHint", true);
		}
		if (!(t->hints & TOOL_OPEN_WORLD))
			set_hint(a, "openWorldHint", false);
		json_object_set_new(d, "annotations", a);
	}
	if (mcp_version_at_least(version, "2025-06-18")) {
		json_object_set_new(d, "title", json_string(t->title));
		if (t->output && structured)
			json_object_set_new(d, "outputSchema", json_loads(t->output, 0, NULL));
	}
	if (era == MCP_LEGACY && mcp_version_at_least(version, "2025-11-25") && t->task != MCP_TASK_NO)
		json_object_set_new(
			d, "execution",
			json_pack("{ss}", "taskSupport",
				  t->task == MCP_TASK_MUST || t->task == MCP_TASK_OWN ? "required" : "optional"));
	return d;
}

static json_t *tool_row(struct mcp_call *c, size_t i)
{
	const struct mcp_tool *t = mcp_tool_at(c->mcp->o.config, i);

	return t ? mcp_tool_describe(t, c->priv->era, c->priv->version, c->mcp->o.config->structured) : NULL;
}

void mcp_method_tools_list(struct mcp_call *c) { mcp_reply_page(c, "tools", tool_row); }

static void run_tool(struct mcp_call *c) { mcp_task_run(c, mcp_tool_find(c->mcp->o.config, c->name)); }

/*
 * Invalid arguments are a tool error, which the model reads and can correct. An unknown tool is a protocol error: the
 * client should not have offered it.
 */
void mcp_method_tools_call(struct mcp_call *c)
{
	const json_t *name = json_object_get(c->params, "name");
	json_t *given = json_object_get(c->params, "arguments"), *arguments = json_is_null(given) ? NULL : given;
	const struct mcp_tool *t = json_is_string(name) ? mcp_tool_find(c->mcp->o.config, json_string_value(name))
							: NULL;
	struct err e = ERR_INIT;

	if (!json_is_string(name))
		return mcp_call_fail(c, RPC_INVALID_PARAMS, NULL, "name: expected a string");
	if (!t)
		return mcp_call_fail(c, RPC_INVALID_PARAMS, NULL, "name: there is no tool %.100s",
				     json_string_value(name));
	if (arguments && !json_is_object(arguments))
		return mcp_call_fail(c, RPC_INVALID_PARAMS, NULL, "arguments: expected an object");
	c->name = t->name;
	c->arguments = arguments ? json_incref(arguments) : json_object();
	json_auto_t *schema = json_loads(t->input, 0, NULL);
	if (json_schema_check(schema, c->arguments, &e) < 0)
		return mcp_call_tool_error(c, "%s: %s", e.field[0] ? e.field : "arguments", e.message);
	json_schema_normalise_integers(schema, c->arguments);
	if (t->hints & TOOL_IN_FOLDER)
		mcp_roots_then(c, run_tool);
	else
		run_tool(c);
}
