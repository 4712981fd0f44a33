#ifndef BAILIFF_GATEWAY_MCP_ERROR_TEXT_H
#define BAILIFF_GATEWAY_MCP_ERROR_TEXT_H

/*
 * The daemon's errors in terms of the tools: a model knows the tools' names and arguments, not the methods and
 * parameters of the control socket.
 */

#include <jansson.h>

/* An error's message; to be freed. */
char *mcp_error_text_message(const json_t *error);
/* What to do about it; NULL if a model can do nothing. */
const char *mcp_error_text_advice(const json_t *error);

#endif
