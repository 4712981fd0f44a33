#include "supervisor/cli/cli.h"
#include "supervisor/cli/gateway.h"

int cmd_codex_exec_server(struct cli *c) { return gateway_become(c, "codex-exec-server"); }
