#ifndef BAILIFF_GATEWAY_MCP_ERROR_TEXT_H
#define BAILIFF_GATEWAY_MCP_ERROR_TEXT_H

/*
 * The daemon's errors in terms of the tools: a model knows the tools' names and arguments, not the methods and
 * parameters of the control socket.
 */

#include <jansson.h>

/* The error's message, on the heap. */
char *mcp_error_text_message(const json_t *error);
/* Advice for the model; NULL if it can do nothing. */
const char *mcp_error_text_advice(const json_t *error);

#endif
