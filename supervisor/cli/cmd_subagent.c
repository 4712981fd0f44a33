#include "runtime/base/buf.h"
#include "runtime/base/err.h"
#include "runtime/base/jw.h"
#include "runtime/base/mem.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/id_lookup.h"
#include "supervisor/cli/noun_verbs.h"
#include "supervisor/client/remote.h"

#include <limits.h>
#include <stdint.h>
#include <unistd.h>

#include <string.h>

static const struct noun_verb_listing subagents = { "list_subagents", "subagents", "subagentId" };

static int subagent_spawn(struct cli *c)
{
	static const struct noun_verb_member members[] = {
		{ OPT_subagent_THREAD, "threadId", MEMBER_STRING },
		{ OPT_subagent_TURN, "turnId", MEMBER_STRING },
		{ OPT_subagent_TASK, "taskId", MEMBER_STRING },
		{ OPT_subagent_NICKNAME, "nickname", MEMBER_STRING },
		{ OPT_subagent_INPUT, "input", MEMBER_STRING },
	};
	const char *cwd = opts_get(&c->opts, OPT_subagent_CWD), *profile = opts_get(&c->opts, OPT_subagent_PROFILE);
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	char here[PATH_MAX];
	int status;

	if (!opts_has(&c->opts, OPT_subagent_THREAD))
		return cli_usage(c, "spawn needs --thread, the parent's thread");
	jw_obj(&w);
	jw_kstr(&w, "role", c->opts.args[1]);
	if ((status = noun_verb_members(c, members, countof(members), &w)))
		return status;
	if (profile) {
		jw_kobj(&w, "isolation");
		jw_kstr(&w, "profile", profile);
		jw_obj_end(&w);
	}
	if (c->opts.nargs > 2) {
		jw_kstrv(&w, "command", c->opts.args + 2, c->opts.nargs - 2);
		jw_kopt(&w, "cwd", cwd ? cwd : getcwd(here, sizeof(here)));
	}
	remote_key(c->remote, &w);
	jw_obj_end(&w);
	return noun_verb_call(c, "spawn_subagent", &params, "subagentId", noun_verb_as_json(c));
}

static int subagent_list(struct cli *c)
{
	static const struct noun_verb_column columns[] = {
		{ "SUBAGENT", "subagentId", COLUMN_ID }, { "STATUS", "status", COLUMN_STATUS },
		{ "ROLE", "role", COLUMN_WORD },         { "NAME", "nickname", COLUMN_WORD },
		{ "THREAD", "threadId", COLUMN_ID },     { "PARENT", "parentThreadId", COLUMN_ID },
		{ "PROCESS", "processId", COLUMN_ID },   { "UPDATED", "updatedAt", COLUMN_AGO },
	};
	const char *thread = opts_get(&c->opts, OPT_subagent_THREAD),
		   *session = opts_get(&c->opts, OPT_subagent_SESSION);
	buf_auto struct buf filter = BUF_INIT;
	struct jw w = jw_on(&filter);
	char id[ID_LOOKUP_MAX];

	if (session && id_lookup_session(c, session, id) < 0)
		return EXIT_FAILED;
	if (session)
		jw_kstr(&w, "sessionId", id);
	if (thread) {
		jw_kstr(&w, "parentThreadId", thread);
		jw_kbool(&w, "descendants", opts_has(&c->opts, OPT_subagent_ALL));
	}
	return noun_verb_list(c, "list_subagents", "subagents", &filter, columns, countof(columns),
			      noun_verb_as_json(c));
}

static int subagent_show(struct cli *c) { return noun_verb_show_listed(c, &subagents); }

static const struct noun_verb_member send_members[] = { { OPT_subagent_EOF, "eof", MEMBER_FLAG } };
static const struct noun_verb_member resume_members[] = { { OPT_subagent_INPUT, "input", MEMBER_STRING } };
static const struct noun_verb_member close_members[] = { { OPT_subagent_REASON, "reason", MEMBER_STRING } };
static const struct noun_verb_member report_members[] = {
	{ OPT_subagent_MESSAGE, "message", MEMBER_STRING },
	{ OPT_subagent_CATEGORY, "category", MEMBER_STRING },
};

static int wait_ended(struct cli *c)
{
	static const struct noun_verb_member members[] = {
		{ OPT_subagent_ANY, "any", MEMBER_FLAG },
		{ OPT_subagent_TIMEOUT, "timeoutMs", MEMBER_TIME },
	};
	static const struct noun_verb_column columns[] = {
		{ "SUBAGENT", "subagentId", COLUMN_ID },
		{ "STATUS", "status", COLUMN_STATUS },
		{ "EXIT", "exitCode", COLUMN_WORD },
	};
	remote_answer_auto struct remote_answer a = REMOTE_ANSWER_INIT;
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	struct err e = ERR_INIT;
	int status;

	jw_obj(&w);
	jw_karr(&w, "subagentIds");
	for (size_t i = 1; i < c->opts.nargs; i++) {
		char id[ID_LOOKUP_MAX];

		if (noun_verb_id(c, &subagents, c->opts.args[i], id) < 0)
			return EXIT_FAILED;
		jw_str(&w, id);
	}
	jw_arr_end(&w);
	if ((status = noun_verb_members(c, members, countof(members), &w)))
		return status;
	jw_obj_end(&w);
	if (cli_call(c, "wait_subagents", &params, &a, &e) < 0)
		return cli_fail(c, EXIT_FAILED, &e, "wait");
	status = noun_verb_table(jval_get(a.result, "subagents"), columns, countof(columns), noun_verb_as_json(c));
	return status ? status : jval_bool(jval_get(a.result, "timedOut"), false) ? EXIT_TIME_LIMIT : 0;
}

int cmd_subagent(struct cli *c)
{
	static const struct noun_verb subverbs[] = {
		{ "spawn", 1, SIZE_MAX, true, subagent_spawn },
		{ "list", 0, 0, false, subagent_list },
		{ "show", 1, 1, false, subagent_show },
		NOUN_REQUEST("send", 1, 2, "send_subagent_input", "status", "subagentId", "input", &subagents, false,
			     send_members),
		{ "wait", 1, 64, false, wait_ended },
		NOUN_REQUEST("resume", 1, 1, "resume_subagent", "status", "subagentId", NULL, &subagents, false,
			     resume_members),
		NOUN_REQUEST("close", 1, 1, "close_subagent", "status", "subagentId", NULL, &subagents, false,
			     close_members),
		NOUN_REQUEST("report", 2, 2, "report_subagent", "status", "subagentId", "status", &subagents, false,
			     report_members),
	};

	if (c->opts.nargs == 2 && strcmp(c->opts.args[0], "send") == 0 && !opts_has(&c->opts, OPT_subagent_EOF))
		return cli_usage(c, "send needs a text, or --eof");
	return noun_verb_run(c, subverbs, countof(subverbs));
}
