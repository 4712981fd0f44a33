#ifndef BAILIFF_MCP_PAGE_H
#define BAILIFF_MCP_PAGE_H

/* Pagination of lists that come from tables. Cursors are opaque to clients; an unknown one is an error. */

#include "supervisor/gateway/mcp/mcp_call.h"

#include <stddef.h>

#define MCP_PAGE 50u

/* Row i as JSON; NULL after the last one. */
typedef json_t *(*mcp_page_row_fn)(struct mcp_call *c, size_t i);
/* Ends the call with {member: […], nextCursor?}. */
void mcp_page_finish(struct mcp_call *c, const char *member, mcp_page_row_fn row);

#endif
