#include "supervisor/cli/cli.h"
#include "supervisor/cli/cow_verbs.h"

int cmd_apply(struct cli *c) { return cow_settle(c, "apply_changes", "applied"); }
