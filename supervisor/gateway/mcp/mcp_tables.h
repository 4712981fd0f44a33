#ifndef BAILIFF_MCP_TABLES_H
#define BAILIFF_MCP_TABLES_H

/*
 * What a gateway offers: tools, resources and prompts. The product's rows (mcp_tools.def and others) are the first set;
 * a program may add one of its own before it starts its gateways, as the gateway of the conformance tests does. The
 * tables list handlers and so lie above them: code below gets them from struct mcp_config.
 */

#include "supervisor/gateway/mcp/mcp_prompt.h"
#include "supervisor/gateway/mcp/mcp_resource.h"
#include "supervisor/gateway/mcp/mcp_tool.h"

struct mcp_tables {
	const struct mcp_tool *tools;
	const struct mcp_resource *resources;
	const struct mcp_prompt *prompts;
	size_t ntools, nresources, nprompts;
};

/* Every later mcp_config_init adds these rows to the product's. At most one set; static. */
void mcp_tables_add(const struct mcp_tables *extra);

#endif
