#ifndef BAILIFF_GATEWAY_MCP_WORKSPACE_H
#define BAILIFF_GATEWAY_MCP_WORKSPACE_H

/*
 * Resolves a client's directories and paths, relative to the gateway's directory or to the one configured or reported
 * by the client.
 */

#include "supervisor/gateway/mcp/mcp_call.h"

#include <limits.h>

struct buf;
struct err;

/* The base directory: --cwd, else `root` (reported by the client, or NULL), else the gateway's working directory. */
int mcp_workspace_folder(const struct mcp_session *m, const char *root, char ret[PATH_MAX], struct err *e);
/* An absolute, clean path; NULL means the base directory. */
int mcp_workspace_path(const struct mcp_call *c, const char *given, char ret[PATH_MAX], struct err *e);
/*
 * The path is inside the workspace of the base directory, which is returned. If there is no workspace, every path is.
 */
bool mcp_workspace_is_own(const struct mcp_call *c, const char *path, char ret_tree[PATH_MAX]);
/* Sets "profile" to `given` or the gateway's profile, if there is one. */
void mcp_workspace_profile(const struct mcp_call *c, const char *given, json_t *params);

/*
 * Writes a question to a person: `what` and the thing asked about; the names in env, and the contents for stdin or a
 * file, from the arguments; the directory; why policy asks (`started` is start_process's reply, or the part that was
 * kept); and the model's reason. The model wrote the thing, so it can neither break out of its line nor hide anything:
 * a long one is shown by head and tail, and a line says so.
 */
void mcp_workspace_question(const struct mcp_call *c, const char *what, const char *thing, size_t len,
			    const json_t *started, struct buf *out);

/* ---- the client's roots ---- */

/*
 * The client's working directory, as it reports it (MCP roots). A client over HTTP has no directory that we know, and
 * one on stdio may have been started in the home directory. Its first root is then the directory for commands that name
 * none. --cwd, set by the user, has precedence. The roots come from the client, never from the model.
 *
 * A legacy client is asked by the first call that needs a directory, and again after it reports changed roots. A modern
 * client is asked by each such call, in a round of input.
 */

/* Asks the client if necessary, then calls `then`. */
void mcp_roots_then(struct mcp_call *c, mcp_call_fn then);
/* The client reported that its roots have changed. */
void mcp_roots_forget(struct mcp_session *m);

#endif
