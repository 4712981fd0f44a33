#ifndef BAILIFF_TOOL_MCP_READER_H
#define BAILIFF_TOOL_MCP_READER_H

/*
 * What an MCP server writes: JSON-RPC messages, one per line. The server is not trusted. A line is limited, and what is
 * kept of a message is only searched for here, not validated: the caller parses it again.
 */

#include "runtime/base/buf.h"
#include "runtime/base/jscan.h"

struct err;

#define MCP_LINE_MAX (4u << 20)

struct mcp_reader {
	struct buf bytes; /* that are not returned yet */
	size_t searched;  /* of them: no end of a line in these */
	size_t taken;     /* length of the line returned last, with its end */
};

enum mcp_kind { MCP_NONE, MCP_RESPONSE, MCP_REQUEST, MCP_NOTIFICATION };

struct mcp_message {
	enum mcp_kind kind;
	struct jval id, method, result, error; /* valid until the next call with this reader */
};

void mcp_reader_feed(struct mcp_reader *r, const void *p, size_t n);
/* 1 = a message, 0 = more bytes are needed, −1 = a line is too long or no JSON-RPC message. Skips empty lines. */
int mcp_reader_next(struct mcp_reader *r, struct mcp_message *ret, struct err *e);
void mcp_reader_done(struct mcp_reader *r);

#endif
