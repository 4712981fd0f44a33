#include "supervisor/cli/cli.h"
#include "supervisor/cli/exec_gateway.h"

int cmd_mcp(struct cli *c) { return exec_gateway(c, "mcp"); }
