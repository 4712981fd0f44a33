#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/record.h"
#include "supervisor/cli/target.h"
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

static int list(struct cli *c)
{
	static const struct record_column columns[] = {
		{ "THREAD", "threadId", RECORD_ID },         { "STATUS", "status", RECORD_STATUS },
		{ "ACTIVE", "activeTurnId", RECORD_ID },     { "QUEUED", "queuedTurns", RECORD_COUNT },
		{ "ASKS", "pendingRequests", RECORD_COUNT }, { "TURNS", "turns", RECORD_COUNT },
	};
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT;
	struct err e = ERR_INIT;
	char id[TARGET_ID_MAX];

	if (target_session(c, c->opts.args[1], id) < 0)
		return EXIT_FAILED;
	params_of(&params, c, "sessionId", id, false);
	if (cli_call(c, "get_session", &params, &a, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "%s", id);
	return record_table(jval_get(a.result, "threads"), columns, sizeof(columns) / sizeof(columns[0]),
			    opts_has(&c->opts, OPT_thread_JSON));
}

static int show(struct cli *c)
{
	static const struct record_member members[] = {
		{ OPT_thread_LIMIT, "limit", RECORD_UINT },
		{ OPT_thread_BEFORE, "before", RECORD_STRING },
	};
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	int status;

	jw_obj(&w);
	jw_kstr(&w, "threadId", c->opts.args[1]);
	if (opts_has(&c->opts, OPT_thread_LIMIT) || opts_has(&c->opts, OPT_thread_BEFORE)) {
		jw_kobj(&w, "window");
		if ((status = record_members(c, members, sizeof(members) / sizeof(members[0]), &w)))
			return status;
		jw_obj_end(&w);
	}
	jw_obj_end(&w);
	return record_call(c, "get_thread_read", &params, NULL, opts_has(&c->opts, OPT_thread_JSON));
}

static int resume(struct cli *c)
{
	buf_auto struct buf params = BUF_INIT;

	params_of(&params, c, "threadId", c->opts.args[1], true);
	return record_call(c, "resume_thread", &params, "status", opts_has(&c->opts, OPT_thread_JSON));
}

static int compact(struct cli *c)
{
	static const struct record_member members[] = {
		{ OPT_thread_TRIGGER, "trigger", RECORD_STRING },
		{ OPT_thread_TURN, "affectedTurns", RECORD_WORDS },
		{ OPT_thread_SUMMARY, "summary", RECORD_STRING },
		{ OPT_thread_FAILURE, "failure", RECORD_STRING },
		{ OPT_thread_TOKENS_BEFORE, "tokensBefore", RECORD_UINT },
		{ OPT_thread_TOKENS_AFTER, "tokensAfter", RECORD_UINT },
	};
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	int status;

	jw_obj(&w);
	jw_kstr(&w, "threadId", c->opts.args[1]);
	if ((status = record_members(c, members, sizeof(members) / sizeof(members[0]), &w)))
		return status;
	remote_key(c->remote, &w);
	jw_obj_end(&w);
	return record_call(c, "compact_context", &params, "status", opts_has(&c->opts, OPT_thread_JSON));
}

static int rollback(struct cli *c)
{
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);

	jw_obj(&w);
	jw_kstr(&w, "threadId", c->opts.args[1]);
	jw_kstr(&w, "toTurnId", c->opts.args[2]);
	jw_kopt(&w, "reason", opts_get(&c->opts, OPT_thread_REASON));
	remote_key(c->remote, &w);
	jw_obj_end(&w);
	return record_call(c, "rollback_thread", &params, NULL, opts_has(&c->opts, OPT_thread_JSON));
}

int cmd_thread(struct cli *c)
{
	static const struct record_verb subverbs[] = {
		{ "list", 1, 1, false, list },         { "show", 1, 1, false, show },
		{ "resume", 1, 1, false, resume },     { "compact", 1, 1, false, compact },
		{ "rollback", 2, 2, false, rollback },
	};

	return record_dispatch(c, subverbs, sizeof(subverbs) / sizeof(subverbs[0]));
}
