#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/record.h"
#include "supervisor/client/remote.h"

int cmd_pending(struct cli *c)
{
	static const struct record_column columns[] = {
		{ "ACTION", "actionId", RECORD_ID },   { "TYPE", "actionType", RECORD_WORD }, { "ASKED", "createdAt", RECORD_AGO },
		{ "UNTIL", "expiresAt", RECORD_WORD }, { "TURN", "turnId", RECORD_ID },       { "PROMPT", "prompt", RECORD_TEXT },
	};
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT;
	struct err e = ERR_INIT;

	if (c->opts.nargs)
		return cli_usage(c, "pending takes no argument");
	if (cli_connect(c, CLI_START_IF_STORE) < 0)
		return EXIT_FAILED;
	buf_str(&params, "{\"status\":\"pending\",\"limit\":1000}");
	if (cli_call(c, "list_actions", &params, &a, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "list actions");
	return record_table(jval_get(a.result, "actions"), columns, sizeof(columns) / sizeof(columns[0]), opts_has(&c->opts, OPT_pending_JSON));
}
