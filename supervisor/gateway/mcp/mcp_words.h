#ifndef BAILIFF_MCP_WORDS_H
#define BAILIFF_MCP_WORDS_H

/*
 * What the daemon says of a request, in the words of the tools: a model knows their arguments and names, not the
 * parameters and methods of the control socket that they become.
 */

#include <jansson.h>

/* An error's message; to be freed. */
char *mcp_words_message(const json_t *error);
/* What to do about it; NULL if there is nothing that a model could. */
const char *mcp_words_advice(const json_t *error);

#endif
