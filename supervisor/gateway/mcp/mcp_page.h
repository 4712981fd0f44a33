#ifndef BAILIFF_MCP_PAGE_H
#define BAILIFF_MCP_PAGE_H

/* Pages of the lists that are tables. A cursor is opaque to clients; an unknown one is an error. */

#include "supervisor/gateway/mcp/mcp_call.h"

#include <stddef.h>

#define MCP_PAGE 50u

/* Row i as JSON, or NULL when there are no more. */
typedef json_t *(*mcp_page_row_fn)(struct mcp_call *c, size_t i);
/* Ends the call with {member: […], nextCursor?}. */
void mcp_page_finish(struct mcp_call *c, const char *member, mcp_page_row_fn row);

#endif
