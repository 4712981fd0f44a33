#ifndef BAILIFF_GATEWAY_MCP_REPLY_H
#define BAILIFF_GATEWAY_MCP_REPLY_H

/*
 * How calls are answered: texts and errors for a model (the functions that mcp_call.h declares), and lists in pages.
 *
 * The daemon's errors are expressed in terms of the tools: a model knows the tools' names and arguments, not the
 * methods and parameters of the control socket.
 */

#include "supervisor/gateway/mcp/mcp_call.h"

#include <jansson.h>
#include <stddef.h>

/* The error's message, on the heap. */
char *mcp_reply_error_text(const json_t *error);
/* Advice for the model; NULL if it can do nothing. */
const char *mcp_reply_advice(const json_t *error);

/* Pagination of lists that come from tables. Cursors are opaque to clients; an unknown one is an error. */

#define MCP_PAGE 50u

/* Row i as JSON; NULL after the last one. */
typedef json_t *(*mcp_reply_row_fn)(struct mcp_call *c, size_t i);
/* Ends the call with {member: […], nextCursor?}. */
void mcp_reply_page(struct mcp_call *c, const char *member, mcp_reply_row_fn row);

#endif
