#ifndef BAILIFF_MCP_OPTIONS_H
#define BAILIFF_MCP_OPTIONS_H

struct err;
struct mcp_config;

/* The options that `bailiff mcp` and the HTTP gateway share: --cwd, --profile, --session, --structured,
 * --conformance-fixtures. argv must stay. */
int mcp_options_parse(int argc, char **argv, struct mcp_config *ret, struct err *e);

#endif
