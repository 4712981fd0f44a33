#include "supervisor/cli/approval_verbs.h"
#include "supervisor/cli/cli.h"

int cmd_approve(struct cli *c)
{
	static const struct approval_options o = { OPT_approve_NOTE, OPT_approve_ALWAYS, OPT_approve_SESSION,
						   OPT_approve_DECISION, OPT_approve_JSON };

	return approval_answer(c, "allow", &o);
}
