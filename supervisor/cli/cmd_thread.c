#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/cli/noun_verbs.h"
#include "supervisor/client/remote.h"

static void params_of(struct buf *params, struct cli *c, const char *member, const char *id, bool mutating)
{
	struct jw w = jw_on(params);

	jw_obj(&w);
	jw_kstr(&w, member, id);
	if (mutating)
		remote_key(c->remote, &w);
	jw_obj_end(&w);
}

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
	params_of(&params, c, "sessionId", id, false);
	if (cli_call(c, "get_session", &params, &a, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "%s", id);
	return noun_verb_table(jval_get(a.result, "threads"), columns, sizeof(columns) / sizeof(columns[0]),
			       opts_has(&c->opts, OPT_thread_JSON));
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
		if ((status = noun_verb_members(c, members, sizeof(members) / sizeof(members[0]), &w)))
			return status;
		jw_obj_end(&w);
	}
	jw_obj_end(&w);
	return noun_verb_call(c, "get_thread_read", &params, NULL, opts_has(&c->opts, OPT_thread_JSON));
}

static int thread_resume(struct cli *c)
{
	buf_auto struct buf params = BUF_INIT;

	params_of(&params, c, "threadId", c->opts.args[1], true);
	return noun_verb_call(c, "resume_thread", &params, "status", opts_has(&c->opts, OPT_thread_JSON));
}

static int thread_compact(struct cli *c)
{
	static const struct noun_verb_member members[] = {
		{ OPT_thread_TRIGGER, "trigger", MEMBER_STRING },
		{ OPT_thread_TURN, "affectedTurns", MEMBER_WORDS },
		{ OPT_thread_SUMMARY, "summary", MEMBER_STRING },
		{ OPT_thread_FAILURE, "failure", MEMBER_STRING },
		{ OPT_thread_TOKENS_BEFORE, "tokensBefore", MEMBER_UINT },
		{ OPT_thread_TOKENS_AFTER, "tokensAfter", MEMBER_UINT },
	};
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	int status;

	jw_obj(&w);
	jw_kstr(&w, "threadId", c->opts.args[1]);
	if ((status = noun_verb_members(c, members, sizeof(members) / sizeof(members[0]), &w)))
		return status;
	remote_key(c->remote, &w);
	jw_obj_end(&w);
	return noun_verb_call(c, "compact_context", &params, "status", opts_has(&c->opts, OPT_thread_JSON));
}

static int thread_rollback(struct cli *c)
{
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);

	jw_obj(&w);
	jw_kstr(&w, "threadId", c->opts.args[1]);
	jw_kstr(&w, "toTurnId", c->opts.args[2]);
	jw_kopt(&w, "reason", opts_get(&c->opts, OPT_thread_REASON));
	remote_key(c->remote, &w);
	jw_obj_end(&w);
	return noun_verb_call(c, "rollback_thread", &params, NULL, opts_has(&c->opts, OPT_thread_JSON));
}

int cmd_thread(struct cli *c)
{
	static const struct noun_verb subverbs[] = {
		{ "list", 1, 1, false, thread_list },         { "show", 1, 1, false, thread_show },
		{ "resume", 1, 1, false, thread_resume },     { "compact", 1, 1, false, thread_compact },
		{ "rollback", 2, 2, false, thread_rollback },
	};

	return noun_verb_run(c, subverbs, sizeof(subverbs) / sizeof(subverbs[0]));
}
