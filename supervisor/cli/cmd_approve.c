#include "supervisor/cli/answer.h"
#include "supervisor/cli/cli.h"

int cmd_approve(struct cli *c)
{
	static const struct answer_options o = { OPT_approve_NOTE, OPT_approve_ALWAYS, OPT_approve_SESSION,
						 OPT_approve_DECISION, OPT_approve_JSON };

	return answer_actions(c, "allow", &o);
}
