#ifndef BAILIFF_MCP_REQUEST_H
#define BAILIFF_MCP_REQUEST_H

#include "supervisor/gateway/mcp/mcp_session.h"

struct rpc_message;

/* Creates and runs a call for a request, or rejects it. */
void mcp_request(struct mcp_session *m, const struct rpc_message *msg, void *stream, enum mcp_hint hint);

#endif
