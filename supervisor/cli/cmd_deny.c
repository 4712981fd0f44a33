#include "supervisor/cli/approval_verbs.h"
#include "supervisor/cli/cli.h"

int cmd_deny(struct cli *c)
{
	static const struct approval_options o = { OPT_deny_NOTE, OPT_deny_ALWAYS, OPT_deny_SESSION, OPT_deny_DECISION,
						   OPT_deny_JSON };

	return approval_answer(c, "deny", &o);
}
