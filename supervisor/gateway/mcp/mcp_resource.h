#ifndef BAILIFF_MCP_RESOURCE_H
#define BAILIFF_MCP_RESOURCE_H

/*
 * Resources: a table, mcp_resources.def, of resources with a fixed URI and of templates.
 *
 *   MCP_RESOURCE(uri, name, title, description, mime type, read)
 *   MCP_TEMPLATE(uri template, name, title, description, mime type, read, complete)
 *
 * A template's {variable} matches one path segment, {+variable} the rest of the URI; call->vars has the unescaped
 * values. `read` ends the call with {contents: [{uri, mimeType, text | blob}]}, or with mcp_resource_missing.
 * `complete` (may be NULL) gets the variable in call->name and the text typed so far in call->params.argument.value,
 * and ends the call with mcp_resource_completion.
 *
 * resources/list (mcp_resource_list.c) shows the fixed resources on its first page, then processes and their outputs,
 * page by page.
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
void mcp_resource_complete(struct mcp_call *c); /* completes the variables processId and stream */

const struct mcp_resource *mcp_resource_at(const struct mcp_config *config, size_t i);
/* The URI matches the template; *ret_vars as above. */
bool mcp_resource_match(const char *uri_template, const char *uri, json_t **ret_vars);

/* Takes ownership of `values`, an array of strings; the first 100 are sent. */
void mcp_resource_completion(struct mcp_call *c, json_t *values);

/* Calls mcp_session_resource_updated for each URI that an event changes (mcp_resource_list.c). */
void mcp_resource_event(struct mcp_session *m, struct jval event);

#endif
