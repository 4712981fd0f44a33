#include "supervisor/cli/cli.h"
#include "supervisor/cli/gateway.h"

int cmd_mcp(struct cli *c) { return gateway_become(c, "mcp"); }
