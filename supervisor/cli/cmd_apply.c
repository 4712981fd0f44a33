#include "supervisor/cli/changes.h"
#include "supervisor/cli/cli.h"

int cmd_apply(struct cli *c) { return changes_settle(c, "apply_changes", "applied"); }
