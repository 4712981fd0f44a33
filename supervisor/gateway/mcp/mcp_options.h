#ifndef BAILIFF_MCP_OPTIONS_H
#define BAILIFF_MCP_OPTIONS_H

struct err;
struct gateway_options;
struct mcp_config;

/* The options that `bailiff mcp` and `bailiff serve` share: --cwd, --profile, --session, --structured. Strings of *ret
 * point into argv. */
int mcp_options_read(const struct gateway_options *o, struct mcp_config *ret, struct err *e);

#endif
