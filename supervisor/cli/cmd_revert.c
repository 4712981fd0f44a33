#include "supervisor/cli/changes.h"
#include "supervisor/cli/cli.h"

int cmd_revert(struct cli *c) { return changes_settle(c, "revert_autorun", "reverted"); }
