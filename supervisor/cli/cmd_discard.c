#include "supervisor/cli/changes.h"
#include "supervisor/cli/cli.h"

int cmd_discard(struct cli *c) { return changes_settle(c, "discard_changes", "discarded"); }
