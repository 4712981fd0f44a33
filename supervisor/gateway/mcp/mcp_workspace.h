#ifndef BAILIFF_GATEWAY_MCP_WORKSPACE_H
#define BAILIFF_GATEWAY_MCP_WORKSPACE_H

/* Where and how a client's commands and files are meant: relative to the folder that the gateway was started in, or was
 * told. */

#include "supervisor/gateway/mcp/mcp_call.h"

#include <limits.h>

struct buf;
struct err;

/* The folder: --cwd, else `root` (the client's word, or NULL), else where the gateway was started. */
int mcp_workspace_folder(const struct mcp_session *m, const char *root, char ret[PATH_MAX], struct err *e);
/* Whether work can be done in a folder: it is neither / nor the home nor above that, and can be written. */
bool mcp_workspace_is_tree(const char *folder);
bool mcp_workspace_has_tree(const struct mcp_call *c);
/* Absolute and clean; NULL is the folder itself. */
int mcp_workspace_path(const struct mcp_call *c, const char *given, char ret[PATH_MAX], struct err *e);
/* Whether the path lies in the working tree of that folder, which is returned; where that is none, everything does. */
bool mcp_workspace_is_own(const struct mcp_call *c, const char *path, char ret_tree[PATH_MAX]);
/* Sets "profile": what is given, or what the gateway was told; nothing otherwise. */
void mcp_workspace_profile(const struct mcp_call *c, const char *given, json_t *params);

/*
 * A question to a person: `what` and the thing asked about, which the model wrote, so that it can neither break out of
 * its line nor hide anything (a long one is shown by both ends, and a line says so); from the arguments the names of
 * env, and what stdin or a file is given; where; why the policy asks (`started` is start_process's answer, or what was
 * kept of it); the model's reason.
 */
void mcp_workspace_question(const struct mcp_call *c, const char *what, const char *thing, size_t len,
			    const json_t *started, struct buf *out);

#endif
