#include "supervisor/cli/cli.h"
#include "supervisor/cli/exec_gateway.h"

int cmd_serve(struct cli *c) { return exec_gateway(c, "serve"); }
