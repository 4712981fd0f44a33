#ifndef BAILIFF_MCP_TABLES_H
#define BAILIFF_MCP_TABLES_H

/*
 * The tools, resources and prompts of a gateway. The first set are the product's rows (tools.def and others); a
 * program may add a second one before it starts its gateways, as the gateway of the conformance tests does. The tables
 * refer to handlers and are therefore above them; lower modules get them from struct mcp_config.
 */

#include "supervisor/gateway/mcp/mcp_prompt.h"
#include "supervisor/gateway/mcp/mcp_resource.h"
#include "supervisor/gateway/mcp/mcp_tool.h"

struct err;
struct gateway_options;
struct mcp_config;

struct mcp_tables {
	const struct mcp_tool *tools;
	const struct mcp_resource *resources;
	const struct mcp_prompt *prompts;
	size_t ntools, nresources, nprompts;
};

/* Adds these rows to the product's in every later mcp_config_init. At most one set; static. */
void mcp_tables_add(const struct mcp_tables *extra);

/* ---- options ---- */

/* The options that `bailiff mcp` and `bailiff serve` share: --cwd, --profile, --session, --structured. Strings of *ret
 * point into argv. */
int mcp_options_read(const struct gateway_options *o, struct mcp_config *ret, struct err *e);

#endif
