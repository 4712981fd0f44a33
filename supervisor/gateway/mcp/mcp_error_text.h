#ifndef BAILIFF_GATEWAY_MCP_ERROR_TEXT_H
#define BAILIFF_GATEWAY_MCP_ERROR_TEXT_H

/*
 * What the daemon says of a request, in the words of the tools: a model knows their arguments and names, not the
 * parameters and methods of the control socket that they become.
 */

#include <jansson.h>

/* An error's message; to be freed. */
char *mcp_error_text_message(const json_t *error);
/* What to do about it; NULL if there is nothing that a model could. */
const char *mcp_error_text_advice(const json_t *error);

#endif
