#ifndef BAILIFF_MCP_FIXTURES_H
#define BAILIFF_MCP_FIXTURES_H

/* Canned tools, resources and prompts that the conformance suite calls by name; only with --conformance-fixtures. */

#include "supervisor/gateway/mcp/mcp_prompt.h"
#include "supervisor/gateway/mcp/mcp_resource.h"
#include "supervisor/gateway/mcp/mcp_tool.h"

/* Row i, or NULL. */
const struct mcp_tool *mcp_fixtures_tool(size_t i);
const struct mcp_resource *mcp_fixtures_resource(size_t i);
const struct mcp_prompt *mcp_fixtures_prompt(size_t i);

/* In mcp_fixtures_ask.c: those that ask the client. */
void fixture_sampling(struct mcp_call *c);
void fixture_missing(struct mcp_call *c);
void fixture_elicit(struct mcp_call *c);
void fixture_round(struct mcp_call *c);
void fixture_rounds(struct mcp_call *c);
void fixture_capabilities(struct mcp_call *c);

#endif
