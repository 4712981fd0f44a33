#include "runtime/base/buf.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/cli/noun_verbs.h"

int cmd_pending(struct cli *c)
{
	static const struct noun_verb_column columns[] = {
		{ "ACTION", "actionId", COLUMN_ID },
		{ "TYPE", "actionType", COLUMN_WORD },
		{ "ASKED", "createdAt", COLUMN_AGO },
		{ "LEFT", "expiresAt", COLUMN_LEFT },
		{ "HARM", "policy.destructive", COLUMN_IF, "destructive" },
		{ "PROMPT", "prompt", COLUMN_TEXT },
	};
	const char *given = opts_get(&c->opts, OPT_pending_SESSION);
	buf_auto struct buf filter = BUF_INIT;
	char session[ID_LOOKUP_MAX];

	if (c->opts.nargs)
		return cli_usage(c, "unexpected argument");
	if (cli_connect(c, CLI_START_IF_STORE) < 0 || (given && id_lookup_session(c, given, session) < 0))
		return EXIT_FAILED;
	buf_str(&filter, "\"status\":\"pending\"");
	if (given)
		buf_printf(&filter, ",\"sessionId\":\"%s\"", session);
	return noun_verb_list(c, "list_actions", "actions", &filter, columns, sizeof(columns) / sizeof(columns[0]),
			      opts_has(&c->opts, OPT_pending_JSON));
}
