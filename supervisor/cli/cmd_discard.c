#include "supervisor/cli/cli.h"
#include "supervisor/cli/cow_verbs.h"

int cmd_discard(struct cli *c) { return cow_settle(c, "discard_changes", "discarded"); }
