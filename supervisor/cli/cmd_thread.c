#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/cli/noun_verbs.h"
#include "supervisor/client/remote.h"

#include <string.h>

static int thread_list(struct cli *c)
{
	static const struct noun_verb_column columns[] = {
		{ "THREAD", "threadId", COLUMN_ID },         { "STATUS", "status", COLUMN_STATUS },
		{ "ACTIVE", "activeTurnId", COLUMN_ID },     { "QUEUED", "queuedTurns", COLUMN_COUNT },
		{ "ASKS", "pendingRequests", COLUMN_COUNT }, { "TURNS", "turns", COLUMN_COUNT },
	};
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT;
	struct err e = ERR_INIT;
	char id[ID_LOOKUP_MAX];

	if (id_lookup_session(c, c->opts.args[1], id) < 0)
		return EXIT_FAILED;
	struct jw w = jw_on(&params);
	jw_obj(&w);
	jw_kstr(&w, "sessionId", id);
	jw_obj_end(&w);
	if (cli_call(c, "get_session", &params, &a, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "%s", id);
	return noun_verb_table(jval_get(a.result, "threads"), columns, countof(columns), noun_verb_as_json(c));
}

static int thread_show(struct cli *c)
{
	static const struct noun_verb_member members[] = {
		{ OPT_thread_LIMIT, "limit", MEMBER_UINT },
		{ OPT_thread_BEFORE, "before", MEMBER_STRING },
	};
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	int status;

	jw_obj(&w);
	jw_kstr(&w, "threadId", c->opts.args[1]);
	if (opts_has(&c->opts, OPT_thread_LIMIT) || opts_has(&c->opts, OPT_thread_BEFORE)) {
		jw_kobj(&w, "window");
		if ((status = noun_verb_members(c, members, countof(members), &w)))
			return status;
		jw_obj_end(&w);
	}
	jw_obj_end(&w);
	return noun_verb_call(c, "get_thread_read", &params, NULL, noun_verb_as_json(c));
}

static const struct noun_verb_member compact_members[] = {
	{ OPT_thread_TRIGGER, "trigger", MEMBER_STRING },
	{ OPT_thread_TURN, "affectedTurns", MEMBER_WORDS },
	{ OPT_thread_SUMMARY, "summary", MEMBER_STRING },
	{ OPT_thread_FAILURE, "failure", MEMBER_STRING },
	{ OPT_thread_TOKENS_BEFORE, "tokensBefore", MEMBER_UINT },
	{ OPT_thread_TOKENS_AFTER, "tokensAfter", MEMBER_UINT },
};
static const struct noun_verb_member rollback_members[] = { { OPT_thread_REASON, "reason", MEMBER_STRING } };

int cmd_thread(struct cli *c)
{
	static const struct noun_verb subverbs[] = {
		{ "list", 1, 1, false, thread_list },
		{ "show", 1, 1, false, thread_show },
		{ "resume", 1, 1, false, NULL, { "resume_thread", "status", { "threadId" } } },
		NOUN_REQUEST("compact", 1, 1, "compact_context", "status", "threadId", NULL, NULL, false,
			     compact_members),
		NOUN_REQUEST("rollback", 2, 2, "rollback_thread", NULL, "threadId", "toTurnId", NULL, false,
			     rollback_members),
	};

	return noun_verb_run(c, subverbs, countof(subverbs));
}
