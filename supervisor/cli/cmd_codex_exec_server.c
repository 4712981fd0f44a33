#include "supervisor/cli/cli.h"
#include "supervisor/cli/exec_gateway.h"

int cmd_codex_exec_server(struct cli *c) { return exec_gateway(c, "codex-exec-server"); }
