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
#include <string.h>
#include <unistd.h>

static void write_parts(const struct cli *c, struct jw *w)
{
	jw_karr(w, "input");
	for (size_t i = 0; i < c->opts.ngiven; i++) {
		const struct opt_given *g = &c->opts.given[i];
		bool text = g->option == OPT_turn_TEXT;

		if (!text && g->option != OPT_turn_LINE)
			continue;
		jw_obj(w);
		jw_kstr(w, "type", text ? "text" : "command");
		jw_kstr(w, text ? "text" : "commandLine", g->value);
		jw_obj_end(w);
	}
	if (c->opts.nargs > 1) {
		jw_obj(w);
		jw_kstr(w, "type", "command");
		jw_kstrv(w, "command", c->opts.args + 1, c->opts.nargs - 1);
		jw_obj_end(w);
	}
	jw_arr_end(w);
}

static int turn_submit(struct cli *c)
{
	const char *session = opts_get(&c->opts, OPT_turn_SESSION), *cwd = opts_get(&c->opts, OPT_turn_CWD);
	buf_auto struct buf params = BUF_INIT;
	struct jw w = jw_on(&params);
	char id[ID_LOOKUP_MAX], here[PATH_MAX];

	if (session && id_lookup_session(c, session, id) < 0)
		return EXIT_FAILED;
	jw_obj(&w);
	if (session)
		jw_kstr(&w, "sessionId", id);
	jw_kopt(&w, "threadId", opts_get(&c->opts, OPT_turn_THREAD));
	write_parts(c, &w);
	jw_kobj(&w, "options");
	if (!cwd && getcwd(here, sizeof(here)))
		cwd = here;
	jw_kopt(&w, "cwd", cwd);
	jw_kopt(&w, "profile", opts_get(&c->opts, OPT_turn_PROFILE));
	if (opts_has(&c->opts, OPT_turn_REJECT))
		jw_kstr(&w, "whenBusy", "reject");
	if (opts_has(&c->opts, OPT_turn_KEEP_GOING))
		jw_kbool(&w, "stopOnFailure", false);
	jw_kstr(&w, "onDisconnect", "keep"); /* this connection ends when the id is printed */
	jw_obj_end(&w);
	remote_key(c->remote, &w);
	jw_obj_end(&w);
	return noun_verb_call(c, "submit_turn", &params, "turnId", noun_verb_as_json(c));
}

/* Members that all other verbs share: a turn, and options. */
static const struct noun_verb_member turn_members[] = {
	{ OPT_turn_REASON, "reason", MEMBER_STRING },        { OPT_turn_SUMMARY, "summary", MEMBER_STRING },
	{ OPT_turn_MESSAGE, "message", MEMBER_STRING },      { OPT_turn_CATEGORY, "category", MEMBER_STRING },
	{ OPT_turn_CLEAR_QUEUE, "clearQueue", MEMBER_FLAG },
};
#define CHANGE_TURN(name, method) NOUN_REQUEST(name, 1, 1, method, "status", "turnId", NULL, NULL, false, turn_members)

int cmd_turn(struct cli *c)
{
	static const struct noun_verb subverbs[] = {
		{ "submit", 0, SIZE_MAX, true, turn_submit },
		CHANGE_TURN("complete", "complete_turn"),
		CHANGE_TURN("fail", "fail_turn"),
		CHANGE_TURN("interrupt", "interrupt_turn"),
		CHANGE_TURN("promote", "promote_queued_turn"),
		CHANGE_TURN("remove", "remove_queued_turn"),
	};
	bool parts = c->opts.nargs > 1 || opts_has(&c->opts, OPT_turn_TEXT) || opts_has(&c->opts, OPT_turn_LINE);

	if (c->opts.nargs && strcmp(c->opts.args[0], "submit") == 0 && !parts)
		return cli_usage(c, "submit needs --text, --line or a command");
	return noun_verb_run(c, subverbs, countof(subverbs));
}
