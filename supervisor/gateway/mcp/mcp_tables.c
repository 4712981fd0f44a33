#include "supervisor/gateway/mcp/mcp_tables.h"

#include "runtime/base/err.h"
#include "runtime/base/mem.h"
#include "supervisor/gateway/common/gateway_program.h"
#include "supervisor/gateway/mcp/mcp_session.h"

#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>

#define HUMAN_MS 1000u /* minimum time to see a question, read it and press a key */

#define MCP_TEXT(text) text
#define MCP_ONLY(...) #__VA_ARGS__
#define LOOP_TEXT(text)
#define LOOP_ONLY(...)

static const struct mcp_tool tools[] = {
#define MCP_TOOL(name, title, description, hints, task, input, output, call) \
	{ name, title, description, hints, task, input, output, call },
#define SHARED_TOOL(NAME, name, runs, hints, description, input, mcp, title, task, output, call) \
	MCP_TOOL(mcp, title, description, hints, task, input, output, call)
#include "runtime/engine/tool/tools.def"
};

static const struct mcp_resource resources[] = {
#define MCP_RESOURCE(uri, name, title, description, mime, read) \
	{ uri, name, title, description, mime, read, NULL, false },
#define MCP_TEMPLATE(uri, name, title, description, mime, read, complete) \
	{ uri, name, title, description, mime, read, complete, true },
#include "supervisor/gateway/mcp/mcp_resources.def"
#undef MCP_RESOURCE
#undef MCP_TEMPLATE
};

static const struct mcp_prompt prompts[] = {
#define MCP_PROMPT(name, title, description, arguments, get, complete) \
	{ name, title, description, arguments, get, complete },
#include "supervisor/gateway/mcp/mcp_prompts.def"
#undef MCP_PROMPT
};

static const struct mcp_tables product = {
	.tools = tools,
	.ntools = countof(tools),
	.resources = resources,
	.nresources = countof(resources),
	.prompts = prompts,
	.nprompts = countof(prompts),
};
/* Set once by main() of the program that adds rows, before any session exists; not changed afterwards. */
static const struct mcp_tables *added;

void mcp_tables_add(const struct mcp_tables *extra) { added = extra; }

/* Overrides a timeout, for tests and impatient clients. Values that are not a number of milliseconds are ignored. */
static unsigned env_ms(const char *name)
{
	const char *v = getenv(name);
	char *end;
	unsigned long ms = v ? strtoul(v, &end, 10) : 0;

	return v && *v && !*end && ms <= 24ul * 3600 * 1000 ? (unsigned)ms : 0;
}

void mcp_config_init(struct mcp_config *c)
{
	*c = (struct mcp_config){
		.tables = { &product, added },
		.heartbeat_ms = env_ms("BAILIFF_MCP_HEARTBEAT_MS"),
		.ask_ms = env_ms("BAILIFF_MCP_ASK_MS"),
		.quick_ms = env_ms("BAILIFF_MCP_QUICK_MS"),
		.human_ms = getenv("BAILIFF_MCP_HUMAN_MS") ? env_ms("BAILIFF_MCP_HUMAN_MS") : HUMAN_MS,
	};
	if (getrandom(c->key, sizeof(c->key), 0) != sizeof(c->key))
		abort();
}

/* ---- options ---- */

int mcp_options_read(const struct gateway_options *o, struct mcp_config *ret, struct err *e)
{
	struct stat st;

	ret->cwd = gateway_option(o, "cwd");
	ret->profile = gateway_option(o, "profile");
	ret->session_id = gateway_option(o, "session");
	ret->structured = gateway_option(o, "structured") != NULL;
	if (ret->cwd && (stat(ret->cwd, &st) < 0 || !S_ISDIR(st.st_mode)))
		return err_set(e, ERR_INVALID, "--cwd: '%.200s' is not a directory", ret->cwd);
	return 0;
}
