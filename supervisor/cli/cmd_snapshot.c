#include "runtime/base/buf.h"
#include "runtime/base/jw.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/cli/noun_verbs.h"

int cmd_snapshot(struct cli *c)
{
	static const struct noun_verb_member members[] = {
		{ OPT_snapshot_THREAD, "threadId", MEMBER_STRING },
		{ OPT_snapshot_TASK, "taskId", MEMBER_STRING },
		{ OPT_snapshot_TURN, "turnId", MEMBER_STRING },
	};
	const char *session = opts_get(&c->opts, OPT_snapshot_SESSION);
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	char id[ID_LOOKUP_MAX];
	int status;

	if (c->opts.nargs != 1)
		return cli_usage(c, "which kind of snapshot?");
	if (cli_connect(c, CLI_START_IF_STORE) < 0 || (session && id_lookup_session(c, session, id) < 0))
		return EXIT_FAILED;
	jw_obj(&w);
	jw_kstr(&w, "kind", c->opts.args[0]);
	if (session)
		jw_kstr(&w, "sessionId", id);
	if ((status = noun_verb_members(c, members, sizeof(members) / sizeof(members[0]), &w)))
		return status;
	jw_obj_end(&w);
	return noun_verb_call(c, "get_snapshot", &params, NULL, opts_has(&c->opts, OPT_snapshot_JSON));
}
