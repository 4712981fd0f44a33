#ifndef BAILIFF_MCP_ROOTS_H
#define BAILIFF_MCP_ROOTS_H

/*
 * Where the client works, as it says itself (MCP roots). A client over HTTP has no folder of its own that we would
 * know, and one on stdio may have been started in the home: their first root is then the folder in which commands run
 * that name none. --cwd is the user's word and counts more. It is the client that is asked, never the model.
 *
 * A legacy client is asked by the first call that needs a folder, and again when it says that its roots have changed. A
 * modern one is asked by each such call, in a round of input.
 */

#include "supervisor/gateway/mcp/mcp_call.h"

/* Asks if useful, then calls `then`. */
void mcp_roots_then(struct mcp_call *c, mcp_call_fn then);
/* The client has reported that they changed. */
void mcp_roots_forget(struct mcp_session *m);

#endif
