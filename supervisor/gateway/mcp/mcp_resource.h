#ifndef BAILIFF_MCP_RESOURCE_H
#define BAILIFF_MCP_RESOURCE_H

/*
 * Resources: a table, mcp_resources.def, of those with a fixed URI and of templates.
 *
 *   MCP_RESOURCE(uri, name, title, description, mime type, read)
 *   MCP_TEMPLATE(uri template, name, title, description, mime type, read, complete)
 *
 * A template's {variables} match one path segment each, or, written {+variable}, everything that is left; they come
 * unescaped in call->vars. `read` ends the call with {contents: [{uri, mimeType, text | blob}]}, or with
 * mcp_resource_missing. `complete` (may be NULL) gets call->name = the variable and call->params.argument.value = what
 * was typed, and ends the call with mcp_resource_completion.
 *
 * What resources/list shows beyond the fixed ones (processes, their outputs) comes from mcp_resource_list_more, page by
 * page: it is called for a cursor that is NULL (the first page: add to the array what belongs there) or one it gave
 * itself, and ends the call by mcp_resource_listed.
 */

#include "supervisor/gateway/mcp/mcp_call.h"

#include <stddef.h>

struct mcp_config;

struct mcp_resource {
	const char *uri; /* or the template */
	const char *name, *title, *description, *mime;
	mcp_call_fn read, complete;
	bool is_template;
};

#define MCP_RESOURCE(uri, name, title, description, mime, read) void read(struct mcp_call *c);
#define MCP_TEMPLATE(uri, name, title, description, mime, read, complete) void read(struct mcp_call *c);
#include "supervisor/gateway/mcp/mcp_resources.def"
#undef MCP_RESOURCE
#undef MCP_TEMPLATE
void mcp_resource_complete(struct mcp_call *c); /* processId and stream, wherever they are variables */

const struct mcp_resource *mcp_resource_at(const struct mcp_config *config, size_t i);
/* The row that a URI belongs to; *ret_vars: an object for a template's variables, else NULL. */
const struct mcp_resource *mcp_resource_find(const struct mcp_config *config, const char *uri, json_t **ret_vars);
/* Whether uri is an instance of the template; *ret_vars as above. */
bool mcp_resource_match(const char *uri_template, const char *uri, json_t **ret_vars);
json_t *mcp_resource_describe(const struct mcp_resource *r);

void mcp_resource_missing(struct mcp_call *c);
/* `page` (an array of resources) is taken over; next_cursor NULL: that was all. */
void mcp_resource_listed(struct mcp_call *c, json_t *page, const char *next_cursor);
/* `values`: an array of strings, taken over; the first 100 are sent. */
void mcp_resource_completion(struct mcp_call *c, json_t *values);

/* In mcp_resource_list.c: */
/* An event of the session came: mcp_session_resource_updated for each URI that it changes. */
void mcp_resource_event(struct mcp_session *m, struct jval event);

#endif
