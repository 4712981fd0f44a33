#ifndef TESTS_CONFORMANCE_MCP_FIXTURES_H
#define TESTS_CONFORMANCE_MCP_FIXTURES_H

/* Canned tools, resources and prompts that MCP's conformance suite calls by name. */

#include "supervisor/gateway/mcp/mcp_tables.h"

extern const struct mcp_tables mcp_fixtures;

/* In mcp_fixtures_ask.c: those that ask the client. */
void fixture_sampling(struct mcp_call *c);
void fixture_missing(struct mcp_call *c);
void fixture_elicit(struct mcp_call *c);
void fixture_round(struct mcp_call *c);
void fixture_rounds(struct mcp_call *c);
void fixture_capabilities(struct mcp_call *c);

#endif
