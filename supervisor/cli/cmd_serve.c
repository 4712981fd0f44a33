#include "supervisor/cli/cli.h"
#include "supervisor/cli/gateway.h"

int cmd_serve(struct cli *c) { return gateway_become(c, "serve"); }
