#include "supervisor/gateway/mcp/mcp_page.h"

#include "supervisor/gateway/common/rpc_message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CURSOR "row-"

/* −1: not a valid cursor. */
static long parse_cursor(const json_t *cursor)
{
	const char *text = json_string_value(cursor);
	char *end;

	if (!cursor)
		return 0;
	if (!text || strncmp(text, CURSOR, strlen(CURSOR)) != 0 || text[strlen(CURSOR)] < '0' ||
	    text[strlen(CURSOR)] > '9')
		return -1;
	long at = strtol(text + strlen(CURSOR), &end, 10);
	return *end || at > 1000000 ? -1 : at;
}

void mcp_page_finish(struct mcp_call *c, const char *member, mcp_page_row_fn row)
{
	long at = parse_cursor(json_object_get(c->params, "cursor"));
	json_t *rows = json_array(), *result, *one = NULL;
	char next[32];

	if (at >= 0)
		for (size_t n = 0; n < MCP_PAGE && (one = row(c, (size_t)at)); n++, at++)
			json_array_append_new(rows, one);
	if (at < 0) {
		json_decref(rows);
		mcp_call_fail(c, RPC_INVALID_PARAMS, NULL, "cursor: is not one that was given");
		return;
	}
	result = json_pack("{so}", member, rows);
	one = one ? row(c, (size_t)at) : NULL;
	if (one) {
		snprintf(next, sizeof(next), CURSOR "%ld", at);
		json_object_set_new(result, "nextCursor", json_string(next));
		json_decref(one);
	}
	mcp_call_finish(c, result);
}
