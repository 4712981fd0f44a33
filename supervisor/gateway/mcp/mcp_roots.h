#ifndef BAILIFF_MCP_ROOTS_H
#define BAILIFF_MCP_ROOTS_H

/*
 * The client's working directory, as it reports it (MCP roots). A client over HTTP has no directory that we know, and
 * one on stdio may have been started in the home directory. Its first root is then the directory for commands that name
 * none. --cwd, set by the user, has precedence. The roots come from the client, never from the model.
 *
 * A legacy client is asked by the first call that needs a directory, and again after it reports changed roots. A modern
 * client is asked by each such call, in a round of input.
 */

#include "supervisor/gateway/mcp/mcp_call.h"

/* Asks the client if necessary, then calls `then`. */
void mcp_roots_then(struct mcp_call *c, mcp_call_fn then);
/* The client reported that its roots have changed. */
void mcp_roots_forget(struct mcp_session *m);

#endif
