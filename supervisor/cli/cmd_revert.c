#include "supervisor/cli/cli.h"
#include "supervisor/cli/cow_verbs.h"

int cmd_revert(struct cli *c) { return cow_settle(c, "revert_autorun", "reverted"); }
