#include "runtime/base/buf.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/record.h"
#include "supervisor/cli/target.h"

int cmd_pending(struct cli *c)
{
	static const struct record_column columns[] = {
		{ "ACTION", "actionId", RECORD_ID },
		{ "TYPE", "actionType", RECORD_WORD },
		{ "ASKED", "createdAt", RECORD_AGO },
		{ "LEFT", "expiresAt", RECORD_LEFT },
		{ "HARM", "policy.destructive", RECORD_IF, "destructive" },
		{ "PROMPT", "prompt", RECORD_TEXT },
	};
	const char *given = opts_get(&c->opts, OPT_pending_SESSION);
	buf_auto struct buf filter = BUF_INIT;
	char session[TARGET_ID_MAX];

	if (c->opts.nargs)
		return cli_usage(c, "pending takes no argument");
	if (cli_connect(c, CLI_START_IF_STORE) < 0 || (given && target_session(c, given, session) < 0))
		return EXIT_FAILED;
	buf_str(&filter, "\"status\":\"pending\"");
	if (given)
		buf_printf(&filter, ",\"sessionId\":\"%s\"", session);
	return record_list(c, "list_actions", "actions", &filter, columns, sizeof(columns) / sizeof(columns[0]),
			   opts_has(&c->opts, OPT_pending_JSON));
}
